package largeitem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// TestWritesMeet: two updates of one item both succeed, whatever large attributes they
// change, and the later one keeps what the earlier one did.
func TestWritesMeet(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{"body", "body", "item body=second image=pic title=\"t\""},
		{"image", "body", "item body=second image=first title=\"t\""},
		{"extra", "body", "item body=second extra=first image=pic title=\"t\""},
		{"extra", "extra", "item body=old extra=second image=pic title=\"t\""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, removing())
			setupOld(w)
			faults := 0
			s := w.process(onFirst("update", func() {
				faults++
				if _, err := w.store.Update(t.Context(), k1, largeitem.Change{}, texts(c.first, "first"), nil); err != nil {
					t.Error(err)
				}
			}), removing())
			r, err := s.Update(t.Context(), k1, largeitem.Change{}, texts(c.second, "second"), nil)
			if err != nil || faults != 1 || !r.Puts[0].Uploaded {
				t.Errorf("%s, then %s: %+v, %v", c.first, c.second, r, err)
			}
			expectText(t, c.first+", then "+c.second, w.contents(k1), c.want)
			if left := w.orphans(); len(left) > 0 {
				t.Errorf("%s, then %s: %q is left", c.first, c.second, left)
			}
		})
	}
}

// TestItemDeletedMeanwhile: an update does not revive an item. What it has uploaded is
// removed at once if the condition cannot come true any more.
func TestItemDeletedMeanwhile(t *testing.T) {
	for attr, left := range map[string]int{"body": 0, "extra": 1} {
		w := newWorld(t, removing())
		setupOld(w)
		s := w.process(onFirst("update", func() {
			if _, err := w.store.Delete(t.Context(), k1, nil); err != nil {
				t.Error(err)
			}
		}), nil)
		_, err := s.Update(t.Context(), k1, largeitem.Change{}, texts(attr, "new"), nil)
		if !errors.Is(err, store.ErrNotFound) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: %v (%v)", attr, err, store.OutcomeOf(err))
		}
		expectText(t, attr, w.contents(k1), "")
		if n := len(w.objects()); n != left {
			t.Errorf("%s: %d objects are left, want %d", attr, n, left)
		}
	}
}

// TestLostReplyIsFound: a write whose reply was lost is known to be made.
func TestLostReplyIsFound(t *testing.T) {
	for _, c := range scenarios {
		if c.name == "delete of what was read" || c.name == "update without large attributes" {
			continue // they leave no trace of their own
		}
		w := newWorld(t, nil)
		if c.setup != nil {
			c.setup(w)
		}
		faults := objecttest.NewFaults(func(call objecttest.Call) objecttest.Fault {
			if call.Write() && call.Key == k1.String() {
				return objecttest.Lose
			}
			return objecttest.Pass
		})
		table := w.faultyTable(faults)
		if err := c.run(t.Context(), w.open(table, faults.Bucket(w.bucket), nil), table); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		expectText(t, c.name, w.contents(k1), c.after)
	}
}

// TestRefusedLeavesUploads: what a refused create has uploaded stays for the sweep, since a
// second copy of the request could still be made; with RemoveFailed it goes at once.
func TestRefusedLeavesUploads(t *testing.T) {
	for remove, want := range map[bool]int{false: 1, true: 0} {
		w := newWorld(t, nil)
		w.create(k1, nil, nil)
		s := w.open(w.table, w.bucket, &largeitem.Options{RemoveFailed: remove})
		_, err := s.Create(t.Context(), k1, nil, texts("body", "x"), nil)
		var refused *largeitem.ConditionFailedError
		if !errors.As(err, &refused) || !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), "the item exists already") {
			t.Errorf("got %v", err)
		}
		if n := len(w.objects()); n != want {
			t.Errorf("RemoveFailed %v: %d objects are left", remove, n)
		}
		// A condition that wants a reference that the item has lost cannot hold any more.
		w.update(w.store, "v1")
		item, err := w.store.GetMeta(t.Context(), k1)
		if err != nil {
			t.Fatal(err)
		}
		w.update(w.store, "v2")
		before := len(w.objects())
		if _, err := s.Update(t.Context(), k1, largeitem.Change{}, texts("body", "x"), &largeitem.WriteOptions{Base: item}); !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "Base") {
			t.Errorf("got %v", err)
		}
		if n := len(w.objects()); n != before {
			t.Errorf("RemoveFailed %v: %d objects, were %d", remove, n, before)
		}
	}
}

// TestConditions: the caller's own condition decides, in addition to those of the store.
func TestConditions(t *testing.T) {
	equal := func(n string) *largeitem.WriteOptions {
		return &largeitem.WriteOptions{If: largeitem.Condition{Equal: attrs{"title": n}}}
	}
	for _, c := range []struct {
		name string
		run  func(s *largeitem.Store, k largeitem.Key, o *largeitem.WriteOptions) error
	}{
		{"update", func(s *largeitem.Store, k largeitem.Key, o *largeitem.WriteOptions) error {
			return ignore(s.Update(t.Context(), k, largeitem.Change{}, texts("body", "new"), o))
		}},
		{"upsert", func(s *largeitem.Store, k largeitem.Key, o *largeitem.WriteOptions) error {
			return ignore(s.Upsert(t.Context(), k, largeitem.Change{}, texts("body", "new"), o))
		}},
		{"replace", func(s *largeitem.Store, k largeitem.Key, o *largeitem.WriteOptions) error {
			return ignore(s.Replace(t.Context(), k, nil, texts("body", "new"), o))
		}},
		{"delete", func(s *largeitem.Store, k largeitem.Key, o *largeitem.WriteOptions) error {
			return ignore(s.Delete(t.Context(), k, &largeitem.DeleteOptions{If: o.If}))
		}},
	} {
		w := newWorld(t, nil)
		setupOld(w)
		for name, o := range map[string]*largeitem.WriteOptions{
			"another value": equal("u"), "a missing attribute": {If: largeitem.Condition{Missing: []string{"title"}}},
			"a missing large attribute": {If: largeitem.Condition{Missing: []string{"body"}}}, "another large attribute": {If: largeitem.Condition{Equal: attrs{"body": "x"}}},
			"an expression": {If: largeitem.Condition{Expr: largeitem.ConditionFunc(func(largeitem.Attributes) bool { return false })}},
		} {
			if err := c.run(w.store, k1, o); !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%s: %s: %v", c.name, name, err)
			}
		}
		if err := c.run(w.store, key("none"), equal("t")); err == nil || !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s of nothing: %v", c.name, err)
		}
		expectText(t, c.name, w.contents(k1), old)
		if err := c.run(w.store, k1, equal("t")); err != nil || w.contents(k1) == old {
			t.Errorf("%s: %v, and there is %s", c.name, err, w.contents(k1))
		}
	}
	w := newWorld(t, nil)
	if _, err := w.store.Upsert(t.Context(), k1, largeitem.Change{}, texts("body", "x"), &largeitem.WriteOptions{If: largeitem.Condition{Absent: true}}); err != nil {
		t.Error(err)
	}
	if _, err := w.store.Upsert(t.Context(), k1, largeitem.Change{}, texts("body", "y"), &largeitem.WriteOptions{If: largeitem.Condition{Absent: true}}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if _, err := w.store.Delete(t.Context(), k1, &largeitem.DeleteOptions{If: largeitem.Condition{Absent: true}}); !errors.Is(err, largeitem.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// TestDeleteOfWhatWasRead: the item is deleted only while its large attributes are those.
func TestDeleteOfWhatWasRead(t *testing.T) {
	w := newWorld(t, removing())
	setupOld(w)
	item, err := w.store.GetMeta(t.Context(), k1)
	if err != nil {
		t.Fatal(err)
	}
	w.update(w.store, "new")
	if _, err := w.store.Delete(t.Context(), k1, &largeitem.DeleteOptions{Base: item}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if _, err := w.store.Delete(t.Context(), key("b"), &largeitem.DeleteOptions{Base: item}); !errors.Is(err, largeitem.ErrInvalid) {
		t.Errorf("another item: %v", err)
	}
	if item, err = w.store.GetMeta(t.Context(), k1); err != nil {
		t.Fatal(err)
	}
	r, err := w.store.Delete(t.Context(), k1, &largeitem.DeleteOptions{Base: item})
	if err != nil || r.Removed != 2 || len(r.Superseded) != 2 || r.Item.Attributes["title"] != "t" || len(w.objects()) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := w.store.Delete(t.Context(), k1, &largeitem.DeleteOptions{Base: item}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("again: %v", err)
	}
	if r, err := w.store.Delete(t.Context(), k1, nil); err != nil || r.Item != nil {
		t.Errorf("of nothing: %+v, %v", r, err)
	}
}

// TestResult: a write returns what it made, what it uploaded, and what is no longer used.
func TestResult(t *testing.T) {
	w := newWorld(t, nil)
	setupOld(w)
	r, err := w.store.Update(t.Context(), k1, largeitem.Change{Set: attrs{"n": largeitem.Number("1")}}, texts("image", "pic", "body", "new", "extra", ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	var puts []string
	for _, p := range r.Puts {
		puts = append(puts, fmt.Sprint(p.Attr, " ", p.Uploaded, " ", p.Reference.Size))
	}
	if got := strings.Join(puts, ", "); got != "body true 3, extra true 0, image false 3" {
		t.Errorf("puts: %s", got)
	}
	if len(r.Superseded) != 1 || !strings.Contains(r.Superseded[0].Object, "attr=body/") || r.Removed != 0 {
		t.Errorf("superseded: %+v, %d removed", r.Superseded, r.Removed)
	}
	i := r.Item
	if i.Key != k1 || i.Attributes["title"] != "t" || i.Attributes["n"] != largeitem.Number("1") || len(i.Refs) != 3 || i.Refs["body"].URI != r.Puts[0].Reference.URI {
		t.Errorf("the item: %+v", i)
	}
	body, err := w.store.Open(t.Context(), i, "body")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if text, err := io.ReadAll(body); string(text) != "new" || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	if m := body.Info.Metadata; m["pk"] != `"a/b=!c"` || m["attr"] != `"body"` || m["update-at"] == "" {
		t.Errorf("metadata: %q", m)
	}
}

// TestPutArguments: content type, metadata and time of each attribute reach the bucket.
func TestPutArguments(t *testing.T) { synctest.Test(t, putArguments) }

func putArguments(t *testing.T) {
	time.Sleep(3*time.Hour + 4*time.Minute + 5*time.Second)
	for _, o := range []*largeitem.Options{nil, {Layout: largeitem.PynamoDBMateLayout(), BaseURI: "s3://b"}} {
		w := newWorld(t, o)
		_, err := w.store.Create(t.Context(), key("a"), nil, large{"body": {Body: strings.NewReader("x"), ContentType: "text/plain", Metadata: map[string]string{"by": "me"}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := w.bucket.Stat(t.Context(), w.objects()[0])
		if err != nil {
			t.Fatal(err)
		}
		m := info.Metadata
		if info.ContentType != "text/plain" || m["by"] != "me" || m["attr"] == "" || m["update-at"] != "2000-01-01T03:04:05Z" && m["update_at"] != "2000-01-01T03:04:05.000000+00:00" {
			t.Errorf("%s, %q", info.ContentType, m)
		}
	}
}

// TestParallel: as many uploads run at a time as the options say.
func TestParallel(t *testing.T) {
	for _, parallel := range []int{1, 3, 64} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			if err := w.store.ClaimPrefix(t.Context()); err != nil {
				t.Fatal(err)
			}
			var now, most atomic.Int64
			l := large{}
			for i := range 10 {
				l[fmt.Sprint("a", i)] = stream("x")
			}
			s := w.process(func(c objecttest.Call) objecttest.Fault {
				if c.Op == "put" && c.Key != k1.String() {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
				}
				return objecttest.Pass
			}, &largeitem.Options{Parallel: parallel})
			if _, err := s.Create(t.Context(), k1, nil, l, nil); err != nil {
				t.Fatal(err)
			}
			if got, want := most.Load(), int64(min(parallel, 10)); got != want {
				t.Errorf("%d at a time, want %d", got, want)
			}
		})
	}
}

// TestProgress: it never falls, and ends with the size of all.
func TestProgress(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		l     large
		total int64
	}{
		"known": {texts("a", "123", "b", "45"), 5}, "not known": {large{"a": stream("123"), "b": largeitem.Text("45")}, -1},
	} {
		var last int64
		_, err := w.store.Create(t.Context(), key(name), nil, c.l, &largeitem.WriteOptions{Progress: func(done, total int64) {
			if done < last || total != c.total {
				t.Errorf("%s: %d of %d after %d", name, done, total, last)
			}
			last = done
		}})
		if err != nil || last != 5 {
			t.Errorf("%s: %d, %v", name, last, err)
		}
	}
}

// zeros is a long body that nothing holds in memory.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(z.left, int64(len(p))))
	z.left -= int64(n)
	clear(p[:n])
	return n, nil
}

// discardBucket keeps no bodies.
type discardBucket struct{ object.Bucket }

func (discardBucket) Put(_ context.Context, key string, body io.Reader, _ *object.PutOptions) (object.Info, error) {
	n, err := io.Copy(io.Discard, struct{ io.Reader }{body})
	return object.Info{Key: key, Version: "1", Size: n}, err
}

func (discardBucket) Traits() object.Traits { return object.Traits{Name: "s3://b"} }

// TestMemory: a body is never held in memory, whatever its size, its layout and its kind.
func TestMemory(t *testing.T) {
	const size = 200 << 20
	table, err := memtable.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, layout := range []largeitem.Layout{largeitem.DefaultLayout(), largeitem.PynamoDBMateLayout()} {
		w := newWorld(t, nil)
		if err := w.open(table, w.bucket, &largeitem.Options{Layout: layout, BaseURI: "s3://b", AdoptPrefix: true}).ClaimPrefix(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := w.open(table, discardBucket{w.bucket}, &largeitem.Options{Layout: layout, SpoolDir: t.TempDir()})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.Upsert(t.Context(), k1, largeitem.Change{}, large{"body": {Body: &zeros{size}}, "image": {Body: &zeros{size / 4}, Size: size / 4}}, nil)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Error(err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("%T: %d bytes were allocated for bodies of %d bytes", layout, n, size+size/4)
		}
	}
}

// TestManyWriters: of many updates at a time none is lost and none is refused.
func TestManyWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, removing())
		setupOld(w)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				s := w.process(func(objecttest.Call) objecttest.Fault {
					time.Sleep(time.Millisecond)
					return objecttest.Pass
				}, removing())
				if _, err := s.Update(t.Context(), k1, largeitem.Change{Set: attrs{fmt.Sprint("n", i): "x"}}, texts("body", fmt.Sprint(i)), nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		item, err := w.store.GetMeta(t.Context(), k1)
		if err != nil || len(item.Attributes) != 9 {
			t.Errorf("%+v, %v", item, err)
		}
		if left := w.orphans(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
		w.contents(k1)
	})
}

// TestReaderMeetsWriter: a reader whose object is removed before it is opened begins again.
func TestReaderMeetsWriter(t *testing.T) {
	for moves := 1; moves < 7; moves++ {
		w := newWorld(t, removing())
		setupOld(w)
		gets := 0
		s := w.process(func(c objecttest.Call) objecttest.Fault {
			if c.Op == "get" && c.Key == k1.String() {
				gets++
			}
			if c.Op == "get" && strings.Contains(c.Key, "attr=body/") && gets <= moves {
				w.update(w.store, fmt.Sprint("v", gets))
			}
			return objecttest.Pass
		}, nil)
		got, err := contents(t.Context(), s, k1)
		switch {
		case moves < 5 && (err != nil || got != fmt.Sprintf("item body=v%d image=pic title=\"t\"", moves)):
			t.Errorf("%d moves: %s, %v", moves, got, err)
		case moves >= 5 && !errors.Is(err, largeitem.ErrMissing):
			t.Errorf("%d moves: %s, %v", moves, got, err)
		}
	}
	w := newWorld(t, removing())
	setupOld(w)
	s := w.process(func(c objecttest.Call) objecttest.Fault {
		if strings.Contains(c.Key, "attr=body/") {
			if _, err := w.store.Delete(t.Context(), k1, nil); err != nil {
				t.Error(err)
			}
		}
		return objecttest.Pass
	}, nil)
	if _, err := s.Get(t.Context(), k1, nil); !errors.Is(err, store.ErrNotFound) || errors.Is(err, largeitem.ErrMissing) {
		t.Errorf("a deleted item: %v", err)
	}
}

// throttledTable refuses the first writes for certain, as a table does that has no capacity.
type throttledTable struct {
	largeitem.Table
	n int
}

func (t *throttledTable) Put(ctx context.Context, k largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (largeitem.Attributes, error) {
	if t.n--; t.n >= 0 {
		return nil, store.MarkNotApplied(store.ErrUnavailable)
	}
	return t.Table.Put(ctx, k, item, cond)
}

// TestThrottled: a write that was certainly not made is sent again, for a while.
func TestThrottled(t *testing.T) {
	for n, ok := range map[int]bool{1: true, 11: true, 1000: false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			s := w.open(&throttledTable{w.table, n}, w.bucket, nil)
			_, err := s.Create(t.Context(), k1, nil, texts("body", "x"), nil)
			if ok != (err == nil) || !ok && (store.OutcomeOf(err) != store.NotApplied || len(w.objects()) > 0) {
				t.Errorf("%d times: %v, and %q is left", n, err, w.objects())
			}
		})
	}
}

// TestKeptMeanwhileRemoved: content that the item has already is not uploaded, and another
// writer removes it before the item is written.
func TestKeptMeanwhileRemoved(t *testing.T) {
	w := newWorld(t, removing())
	setupOld(w)
	s := w.process(onFirst("update", func() { w.update(w.store, "other") }), removing())
	r, err := s.Update(t.Context(), k1, largeitem.Change{Set: attrs{"title": "u"}}, texts("body", "old"), nil)
	if err != nil || !r.Puts[0].Uploaded {
		t.Errorf("got %+v, %v", r, err)
	}
	expectText(t, "the item", w.contents(k1), "item body=old image=pic title=\"u\"")
}

// TestLostAndKept: a write that changes no reference leaves no trace of itself. It is not
// sent again after a lost reply, and its outcome is unknown.
func TestLostAndKept(t *testing.T) {
	w := newWorld(t, nil)
	w.create(k1, nil, texts("body", "old"))
	calls := 0
	count := largeitem.ChangeFunc(func(item largeitem.Attributes) error {
		calls++
		item["n"] = fmt.Sprint(item["n"], "x")
		return nil
	})
	s := w.process(func(c objecttest.Call) objecttest.Fault {
		if c.Op == "update" {
			return objecttest.Lose
		}
		return objecttest.Pass
	}, nil)
	_, err := s.Update(t.Context(), k1, largeitem.Change{Expr: count}, texts("body", "old"), nil)
	if store.OutcomeOf(err) != store.Unknown || calls != 1 {
		t.Errorf("%v (%v), made %d times", err, store.OutcomeOf(err), calls)
	}
}

// TestSameMD5: an object of the same MD5 is not taken for the content.
func TestSameMD5(t *testing.T) {
	w := newWorld(t, &largeitem.Options{Layout: largeitem.PynamoDBMateLayout(), BaseURI: "s3://b"})
	w.create(k1, nil, texts("body", "old"))
	w.create(key("other"), nil, texts("body", "new"))
	other, err := w.store.GetMeta(t.Context(), key("other"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.bucket.Get(t.Context(), w.objects()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	// The object of "old" under a name with the MD5 of "new".
	name := fmt.Sprintf("pk=a/b=!c/attr=body/md5=%x.id=%032x", other.Refs["body"].MD5, 7)
	if _, err := w.bucket.Put(t.Context(), name, r, &object.PutOptions{Metadata: r.Info.Metadata}); err != nil {
		t.Fatal(err)
	}
	w.rewrite(k1, "body", func(string) string { return "s3://b/" + name })
	result, err := w.store.Update(t.Context(), k1, largeitem.Change{}, texts("body", "new"), nil)
	if err != nil || !result.Puts[0].Uploaded {
		t.Errorf("got %+v, %v", result, err)
	}
	expectText(t, "the item", w.contents(k1), "item body=new")
}

// TestDeleteIsNotSentAgain: an item that another program creates after a delete whose reply
// was lost is not deleted.
func TestDeleteIsNotSentAgain(t *testing.T) {
	w := newWorld(t, nil)
	setupOld(w)
	deleted := false
	s := w.process(func(c objecttest.Call) objecttest.Fault {
		switch {
		case c.Op == "delete" && !deleted:
			deleted = true
			return objecttest.Lose
		case c.Op == "get" && deleted && w.contents(k1) == "":
			w.create(k1, nil, texts("body", "theirs"))
		}
		return objecttest.Pass
	}, nil)
	if _, err := s.Delete(t.Context(), k1, nil); store.OutcomeOf(err) != store.Unknown {
		t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
	}
	expectText(t, "the item", w.contents(k1), "item body=theirs")
}

// TestLateBetweenTries: a first try comes late, just before the second is sent, and another
// writer supersedes it at once. The second is refused, and does not begin again: its objects
// may be removed.
func TestLateBetweenTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, removing())
		setupOld(w)
		updates := 0
		var faults *objecttest.Faults
		faults = objecttest.NewFaults(func(c objecttest.Call) objecttest.Fault {
			if c.Op == "update" {
				if updates++; updates == 1 {
					return objecttest.Late
				}
				faults.Deliver()
				w.update(w.store, "theirs")
			}
			return objecttest.Pass
		})
		s := w.open(w.faultyTable(faults), faults.Bucket(w.bucket), removing())
		_, err := s.Update(t.Context(), k1, largeitem.Change{}, texts("body", "mine"), nil)
		if store.OutcomeOf(err) != store.Unknown || errors.Is(err, store.ErrConflict) || updates != 2 {
			t.Errorf("got %v (%v), after %d tries", err, store.OutcomeOf(err), updates)
		}
		expectText(t, "the item", w.contents(k1), "item body=theirs image=pic title=\"t\"")
	})
}

// TestRefusedBeforeUpload: where what was read contradicts the caller's condition, nothing
// is uploaded.
func TestRefusedBeforeUpload(t *testing.T) {
	w := newWorld(t, nil)
	setupOld(w)
	s := w.process(func(c objecttest.Call) objecttest.Fault {
		if c.Op == "put" {
			t.Errorf("%s was put", c.Key)
		}
		return objecttest.Pass
	}, nil)
	for _, cond := range []largeitem.Condition{{Missing: []string{"body"}}, {Equal: attrs{"body": "x"}}, {Absent: true}} {
		if _, err := s.Upsert(t.Context(), k1, largeitem.Change{}, texts("body", "new"), &largeitem.WriteOptions{If: cond}); !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%+v: %v", cond, err)
		}
	}
}
