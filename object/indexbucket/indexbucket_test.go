package indexbucket_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/indexbucket"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func newBucket(t *testing.T, index store.Store, bodies object.Bucket) *indexbucket.Bucket {
	t.Helper()
	b, err := indexbucket.New(index, bodies, &indexbucket.Options{Prefix: "body/"})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// plain hides every ability of a bucket.
type plain struct{ object.Bucket }

// TestBucket is the suite, with the index and the bodies in one bucket whose versions can
// return, and with an index elsewhere and a bucket that cannot copy.
func TestBucket(t *testing.T) {
	t.Run("in one bucket", func(t *testing.T) {
		open := func(t *testing.T) object.Bucket {
			b := &membucket.Bucket{Hashed: true}
			index, err := bucketstore.New(b, "index", nil)
			if err != nil {
				t.Fatal(err)
			}
			return newBucket(t, index, b)
		}
		objecttest.Run(t, open, &objecttest.Options{Rounds: 5, Keys: 100})
	})
	t.Run("apart", func(t *testing.T) {
		var index store.Store
		var bodies object.Bucket
		open := func(t *testing.T) object.Bucket {
			index, bodies = memstore.New(), plain{membucket.New()}
			return newBucket(t, index, bodies)
		}
		second := func(t *testing.T, _ object.Bucket) object.Bucket { return newBucket(t, index, bodies) }
		objecttest.Run(t, open, &objecttest.Options{Reopen: second, Rounds: 5, Keys: 100})
	})
}

// bodies returns the keys of the bodies.
func bodies(t *testing.T, b object.Bucket) (keys []string) {
	t.Helper()
	for info, err := range b.List(t.Context(), "body/", nil) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// TestNothingLeft: a body that is replaced or deleted goes, and so does one that was
// refused; new metadata makes no new body.
func TestNothingLeft(t *testing.T) {
	ctx := t.Context()
	below := &membucket.Bucket{Hashed: true}
	b := newBucket(t, memstore.New(), below)
	for range 3 {
		if _, err := b.Put(ctx, "a", strings.NewReader("body"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Copy(ctx, "a", "b", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Put(ctx, "a", strings.NewReader("body"), &object.PutOptions{IfAbsent: true}); !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
	before := bodies(t, below)
	if len(before) != 2 {
		t.Errorf("%d bodies for two objects", len(before))
	}
	info, err := b.Copy(ctx, "a", "a", &object.CopyOptions{Metadata: map[string]string{"k": "v"}})
	if err != nil || info.Metadata["k"] != "v" || info.Size != 4 || strings.Join(bodies(t, below), " ") != strings.Join(before, " ") {
		t.Errorf("new metadata: %+v, %v; bodies %q, before %q", info, err, bodies(t, below), before)
	}
	for _, key := range []string{"a", "b"} {
		if err := b.Delete(ctx, key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if left := bodies(t, below); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

// TestSweep: bodies that killed puts left go when they are older than the orphan age, by the
// store's clock; bodies that are named and other objects stay.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		below, index := membucket.New(), memstore.New()
		b := newBucket(t, index, below)
		put := func(b object.Bucket, key string) error {
			_, err := b.Put(ctx, key, strings.NewReader(key), nil)
			return err
		}
		// The second request of a put to the bodies removes what it replaced.
		killed := newBucket(t, index, objecttest.NewFaulty(below, objecttest.Nth(2, objecttest.Cut)))
		if err := errors.Join(put(b, "kept"), put(killed, "kept")); err != nil {
			t.Fatal(err)
		}
		if err := put(below, "body/precious"); err != nil {
			t.Fatal(err)
		}
		if n := len(bodies(t, below)); n != 3 {
			t.Fatalf("there are %d bodies", n)
		}
		time.Sleep(indexbucket.DefaultOrphanAge - time.Minute)
		if n, err := b.Sweep(ctx); n != 0 || err != nil {
			t.Errorf("before the grace: removed %d, %v", n, err)
		}
		if err := put(killed, "young"); err == nil {
			t.Error("a dead process puts")
		}
		time.Sleep(2 * time.Minute)
		if n, err := b.Sweep(ctx); n != 1 || err != nil {
			t.Errorf("removed %d, %v; want 1", n, err)
		}
		if body, _, err := object.ReadAll(ctx, b, "kept", 100, nil); string(body) != "kept" || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
	})
}

// crowd is a bucket with many old bodies that no register names.
type crowd struct {
	object.Bucket
	n     int
	left  int
	atEnd func()
}

func (c *crowd) List(context.Context, string, *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		for i := range c.n {
			name := strings.NewReplacer("0", "A", "1", "B", "8", "C", "9", "D").Replace(fmt.Sprintf("%026d", i))
			if !yield(object.Info{Key: "body/" + name, Modified: time.Unix(0, 0), Now: time.Now()}, nil) {
				return
			}
		}
	}
}

func (c *crowd) Delete(context.Context, string, *object.DeleteOptions) error {
	if c.left--; c.left == 0 {
		c.atEnd()
	}
	return nil
}

// TestSweepManyBodies: the memory of a sweep does not depend on the number of bodies.
func TestSweepManyBodies(t *testing.T) {
	for _, bodies := range []int{1000, 300_000} {
		below := &crowd{Bucket: membucket.New(), n: bodies, left: bodies}
		b := newBucket(t, memstore.New(), below)
		var before, peak runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		high := uint64(0)
		below.atEnd = func() {
			runtime.GC()
			runtime.ReadMemStats(&peak)
			high = peak.HeapAlloc
		}
		n, err := b.Sweep(t.Context())
		if err != nil || n != bodies {
			t.Errorf("removed %d of %d, %v", n, bodies, err)
		}
		if grown := int64(high) - int64(before.HeapAlloc); grown > 12<<20 {
			t.Errorf("%d bodies: the heap grew by %d bytes", bodies, grown)
		}
	}
}

// slow is a body that takes its time.
type slow struct {
	*strings.Reader
	d time.Duration
}

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(s.d)
	return s.Reader.Read(p)
}

// TestSlowPut: a put that takes longer than half the orphan age is refused, since its body may
// be swept before it is named.
func TestSlowPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := membucket.New()
		b := newBucket(t, memstore.New(), below)
		_, err := b.Put(t.Context(), "a", slow{strings.NewReader("x"), indexbucket.DefaultOrphanAge}, nil)
		if store.OutcomeOf(err) != store.NotApplied || len(bodies(t, below)) != 0 {
			t.Errorf("got %v (%v), bodies %q", err, store.OutcomeOf(err), bodies(t, below))
		}
	})
}

// TestCopiedRegister: a listing yields no object twice if another program has copied a register of the index.
func TestCopiedRegister(t *testing.T) {
	ctx := t.Context()
	index := memstore.New()
	b := newBucket(t, index, membucket.New())
	if _, err := b.Put(ctx, "a", strings.NewReader("text"), nil); err != nil {
		t.Fatal(err)
	}
	for key, err := range store.List(ctx, index, "") {
		value, _, getErr := index.Get(ctx, key)
		_, putErr := index.Put(ctx, "k/copy", "", value)
		if err := errors.Join(err, getErr, putErr); err != nil {
			t.Fatal(err)
		}
	}
	listed := ""
	for info, err := range b.List(ctx, "", nil) {
		listed += info.Key + " "
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Error(err)
		}
	}
	_, copyErr := b.Stat(ctx, "copy")
	_, sweepErr := b.Sweep(ctx)
	if listed != "a  " || !errors.Is(copyErr, store.ErrCorrupt) || !errors.Is(sweepErr, store.ErrCorrupt) {
		t.Errorf("listed %q; the copy: %v; sweep: %v", listed, copyErr, sweepErr)
	}
}

// TestDamagedBody: a body that is missing, or is not the one that was put, is an error.
func TestDamagedBody(t *testing.T) {
	ctx := t.Context()
	below := membucket.New()
	b := newBucket(t, memstore.New(), below)
	if _, err := b.Put(ctx, "a", strings.NewReader("body"), nil); err != nil {
		t.Fatal(err)
	}
	name := bodies(t, below)[0]
	for what, damage := range map[string]func() error{
		"other":   func() error { _, err := below.Put(ctx, name, strings.NewReader("longer body"), nil); return err },
		"missing": func() error { return below.Delete(ctx, name, nil) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		for _, o := range []*object.GetOptions{nil, {Offset: 2}} {
			if _, err := b.Get(ctx, "a", o); !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		if _, err := b.Copy(ctx, "a", "b", nil); !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("copy, %s: got %v", what, err)
		}
		if _, err := b.Put(ctx, "a", strings.NewReader("body"), nil); err != nil {
			t.Errorf("a put over it: %v", err)
		}
		name = bodies(t, below)[0]
	}
}

func TestOptions(t *testing.T) {
	for what, o := range map[string]*indexbucket.Options{
		"a short grace": {OrphanAge: time.Minute}, "no slash": {Prefix: "body"}, "no text": {Prefix: "\xff/"},
		"a long prefix": {Prefix: strings.Repeat("x", object.MaxKey-20) + "/"},
	} {
		if _, err := indexbucket.New(memstore.New(), membucket.New(), o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if _, err := indexbucket.New(nil, membucket.New(), nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("no index: got %v", err)
	}
	tr := newBucket(t, memstore.New(), &membucket.Bucket{Hashed: true}).Traits()
	if !tr.UniqueVersions || !tr.Trusted || !tr.Local || tr.ID == "" || tr.Name == "" {
		t.Errorf("got %+v", tr)
	}
}

// TestFenceWithEqualBodies: a fence holds also where the bodies below have versions that
// return; the control without the index does not.
func TestFenceWithEqualBodies(t *testing.T) {
	ctx := context.Background()
	old, now := object.Fence{Lock: "l", Token: 1}, object.Fence{Lock: "l", Token: 2}
	below := &membucket.Bucket{Hashed: true}
	c, err := object.New(newBucket(t, memstore.New(), below), nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := c.Put(ctx, "a", strings.NewReader("0"), &object.WriteOptions{Fence: &old})
	if err != nil {
		t.Fatal(err)
	}
	raised, err := c.RaiseFence(ctx, "a", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(ctx, "a", strings.NewReader("0"), &object.WriteOptions{Base: &raised, Fence: &now}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Put(ctx, "a", strings.NewReader("late"), &object.WriteOptions{Base: &base, Fence: &old})
	if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("the late write: %v", err)
	}

	// The control: the state has the same version again, and the late write is let through.
	info, err := below.Put(ctx, "plain", strings.NewReader("0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := below.Put(ctx, "plain", strings.NewReader("0"), &object.PutOptions{IfMatch: info.Version}); err != nil {
		t.Fatal(err)
	}
	if _, err := below.Put(ctx, "plain", strings.NewReader("late"), &object.PutOptions{IfMatch: info.Version}); err != nil {
		t.Errorf("the control: %v", err)
	}
}
