package largeitem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/items/itemtest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// oldBucket says of each object that it is as old as the beginning of its upload, as S3 does
// of objects that are uploaded in parts.
type oldBucket struct {
	object.Bucket
	mu   sync.Mutex
	born map[string]time.Time
}

func (b *oldBucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	b.mu.Lock()
	if _, ok := b.born[key]; !ok {
		b.born[key] = time.Now()
	}
	b.mu.Unlock()
	return b.Bucket.Put(ctx, key, body, opts)
}

func (b *oldBucket) date(info object.Info) object.Info {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.born[info.Key]; ok {
		info.Modified = at
	}
	return info
}

func (b *oldBucket) Stat(ctx context.Context, key string) (object.Info, error) {
	info, err := b.Bucket.Stat(ctx, key)
	return b.date(info), err
}

func (b *oldBucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		for info, err := range b.Bucket.List(ctx, prefix, opts) {
			if !yield(b.date(info), err) {
				return
			}
		}
	}
}

func (b *oldBucket) Traits() object.Traits { return object.TraitsOf(b.Bucket) }

// loggedTable counts how often each write was made, by the attribute "n" of the item.
type loggedTable struct {
	largeitem.Table
	mu   sync.Mutex
	made map[string]int
}

func (l *loggedTable) log(item largeitem.Attributes, err error) {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.made[fmt.Sprint(item["n"])]++
	}
}

func (l *loggedTable) Put(ctx context.Context, k largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (largeitem.Attributes, error) {
	old, err := l.Table.Put(ctx, k, item, cond)
	l.log(item, err)
	return old, err
}

func (l *loggedTable) Update(ctx context.Context, k largeitem.Key, change largeitem.Change, cond *largeitem.Condition) (largeitem.Attributes, error) {
	item, err := l.Table.Update(ctx, k, change, cond)
	l.log(item, err)
	return item, err
}

// writers are a few programs that write the same items while a sweep runs.
type writers struct {
	*world
	table  *loggedTable
	bucket *oldBucket
	layout largeitem.Layout
	end    time.Time

	mu       sync.Mutex
	outcomes map[string]store.Outcome
}

// process returns a store whose calls are slow and fail. What comes late comes within a
// third of the orphan age.
func (h *writers) process(rng *rand.Rand, faulty bool) (*largeitem.Store, largeitem.Table) {
	var mu sync.Mutex
	var faults *objecttest.Faults
	faults = objecttest.NewFaults(func(c objecttest.Call) objecttest.Fault {
		mu.Lock()
		n, pause := rng.IntN(100), time.Duration(rng.Int64N(int64(50*time.Millisecond)))
		switch rng.IntN(60) {
		case 0:
			pause = upTo(rng, 5*time.Hour)
		case 1, 2, 3:
			pause = upTo(rng, 10*time.Minute)
		}
		mu.Unlock()
		time.Sleep(pause)
		switch {
		case !faulty || n >= 25:
			return objecttest.Pass
		case n < 8:
			return objecttest.Lose
		case n < 14:
			return objecttest.Fail
		case n < 18:
			return objecttest.Repeat
		}
		time.AfterFunc(time.Duration(n)*20*time.Minute, faults.Deliver)
		return objecttest.Late
	})
	table := itemtest.NewFaulty(h.table, faults)
	return h.open(table, faults.Bucket(h.bucket), h.options()), table
}

func (h *writers) options() *largeitem.Options {
	return &largeitem.Options{RemoveSuperseded: true, RemoveYoung: true, Layout: h.layout, BaseURI: "s3://b", Parallel: 2}
}

func (h *writers) writer(ctx context.Context, rng *rand.Rand, id int) {
	for n := 0; time.Now().Before(h.end); n++ {
		s, table := h.process(rng, true)
		name := fmt.Sprintf("%d-%d", id, n)
		k := key([]string{"a", "b/c"}[rng.IntN(2)])
		set := attrs{"n": name}
		content := texts("body", "body of "+name, "image", "image of "+name)
		if rng.IntN(4) == 0 {
			content["body"] = stream("body of " + name)
		}
		var err error
		written := true
		op := rng.IntN(8)
		switch op {
		case 0, 1:
			_, err = s.Create(ctx, k, set, content, nil)
		case 2:
			_, err = s.Upsert(ctx, k, largeitem.Change{Set: set}, content, nil)
		case 3:
			_, err = s.Replace(ctx, k, set, content, nil)
		case 4:
			_, err = s.Delete(ctx, k, nil)
			written = false
		case 5:
			err = h.twoSteps(ctx, rng, s, table, k, set, content)
		default:
			_, err = s.Update(ctx, k, largeitem.Change{Set: set}, content, nil)
		}
		if errors.Is(err, store.ErrCorrupt) || errors.Is(err, largeitem.ErrMissing) || errors.Is(err, largeitem.ErrForeign) {
			h.t.Errorf("%s: %v", name, err)
		}
		if written {
			h.mu.Lock()
			h.outcomes[name] = store.OutcomeOf(err)
			h.mu.Unlock()
		}
		time.Sleep(upTo(rng, time.Hour))
	}
}

// twoSteps keeps to the rules of [largeitem.Store.Prepare]. It returns the outcome of its
// own write.
func (h *writers) twoSteps(ctx context.Context, rng *rand.Rand, s *largeitem.Store, table largeitem.Table, k largeitem.Key, set attrs, content large) error {
	p, err := s.Prepare(ctx, k, content, nil)
	if err != nil {
		return err
	}
	time.Sleep(upTo(rng, time.Until(p.Deadline())))
	change, cond := p.Change(), p.Condition()
	for name, value := range set {
		change.Set[name] = value
	}
	if _, err = table.Update(ctx, k, change, &cond); store.OutcomeOf(err) == store.NotApplied {
		if abortErr := p.Abort(ctx); errors.Is(abortErr, largeitem.ErrCommitted) {
			return nil
		}
		return store.MarkUnknown(err) // the first copy of a repeated request can have been made, and superseded
	}
	if _, commitErr := p.Commit(ctx); commitErr == nil {
		return nil
	}
	return err
}

func (h *writers) reader(ctx context.Context, rng *rand.Rand) {
	for time.Now().Before(h.end) {
		s, _ := h.process(rng, false)
		h.look(ctx, s)
		time.Sleep(upTo(rng, 2*time.Hour))
	}
}

// look reads the items. Each is as one write has made it.
func (h *writers) look(ctx context.Context, s *largeitem.Store) {
	for _, k := range []largeitem.Key{key("a"), key("b/c")} {
		item, err := s.Get(ctx, k, nil)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			h.t.Errorf("reading %v: %v", k, err)
			continue
		}
		for _, attr := range []string{"body", "image"} {
			want := fmt.Sprint(attr, " of ", item.Attributes["n"])
			if text, err := io.ReadAll(item.Body(attr)); err != nil || string(text) != want {
				h.t.Errorf("%s: got %s, %v, want %s", attr, text, err, want)
			}
		}
		item.Close()
	}
}

func (h *writers) sweeper(ctx context.Context, rng *rand.Rand) {
	for time.Now().Before(h.end) {
		time.Sleep(upTo(rng, 12*time.Hour))
		s, _ := h.process(rng, false)
		if _, err := s.Sweep(ctx, nil); err != nil {
			h.t.Errorf("sweep: %v", err)
		}
	}
}

// TestHistories: programs with slow and failing calls write the same items for a week, while
// sweeps run. Readers always find what one write has made; each write is made once, or not
// at all, as its caller knows; and in the end nothing is left over.
func TestHistories(t *testing.T) {
	seeds, programs := uint64(12), 4
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		seeds = 2000
	}
	made := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			h := &writers{world: newWorld(t, nil), outcomes: map[string]store.Outcome{}, layout: []largeitem.Layout{largeitem.DefaultLayout(), largeitem.PynamoDBMateLayout()}[seed%2]}
			h.table = &loggedTable{Table: h.world.table, made: map[string]int{}}
			h.bucket = &oldBucket{Bucket: h.world.bucket, born: map[string]time.Time{}}
			h.store = h.open(h.table, h.bucket, h.options())
			if err := h.store.ClaimPrefix(t.Context()); err != nil {
				t.Fatal(err)
			}
			h.end = time.Now().Add(7 * 24 * time.Hour)
			var wg sync.WaitGroup
			random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
			for id := range programs {
				wg.Go(func() { h.writer(t.Context(), random(uint64(id)), id) })
			}
			wg.Go(func() { h.reader(t.Context(), random(100)) })
			wg.Go(func() { h.sweeper(t.Context(), random(101)) })
			wg.Wait()
			time.Sleep(2 * largeitem.DefaultOrphanAge) // what is late has come, and is old
			h.look(t.Context(), h.store)
			if _, err := h.store.Sweep(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if left := h.orphans(); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
			h.look(t.Context(), h.store)
			h.table.mu.Lock()
			defer h.table.mu.Unlock()
			for name, outcome := range h.outcomes {
				n := h.table.made[name]
				made += n
				if n > 1 || outcome == store.Applied && n == 0 || outcome == store.NotApplied && n > 0 {
					t.Errorf("the write %s was made %d times, and its outcome is %v", name, n, outcome)
				}
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d writes were made", made)
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
