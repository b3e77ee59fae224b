package largeitem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// delays says how long the calls of one process take. It may be used by several goroutines.
type delays struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (d *delays) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// wait takes seconds, often minutes, and now and then up to most.
func (d *delays) wait(most time.Duration) {
	switch n := d.n(100); {
	case n < 60:
		time.Sleep(time.Duration(d.n(1000)) * time.Millisecond)
	case n < 95:
		time.Sleep(time.Duration(d.n(180)) * time.Second)
	default:
		time.Sleep(time.Duration(d.n(int(most/time.Second))) * time.Second)
	}
}

const (
	historyGrace = largeitem.MinOrphanAge

	// longestWrite is how late a write of an item takes effect at most: what package
	// largeitem assumes.
	longestWrite = historyGrace/2 - time.Second
)

// slowTable is a table whose calls take long. Some writes are lost, before they take effect,
// after it, or for a while.
type slowTable struct {
	largeitem.Table
	d    *delays
	late *sync.WaitGroup
}

var errLost = fmt.Errorf("%w: the reply was lost", store.ErrUnavailable)

func (s *slowTable) write(ctx context.Context, key largeitem.Key, call func(context.Context) (largeitem.Attributes, error)) (largeitem.Attributes, error) {
	lost := &store.OpError{Op: store.OpPut, Key: key.String(), Err: errLost}
	switch s.d.n(12) {
	case 0:
		return nil, lost
	case 1:
		wait := time.Duration(s.d.n(int(longestWrite)))
		s.late.Go(func() {
			time.Sleep(wait)
			_, _ = call(context.WithoutCancel(ctx))
		})
		return nil, lost
	}
	began := time.Now()
	s.d.wait(longestWrite - time.Second)
	if took := time.Since(began); took > longestWrite {
		panic("the test writes too late")
	}
	item, err := call(ctx)
	s.d.wait(2 * historyGrace)
	if s.d.n(12) == 0 {
		return nil, lost
	}
	return item, err
}

func (s *slowTable) Get(ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error) {
	s.d.wait(historyGrace)
	item, err := s.Table.Get(ctx, key, opts)
	s.d.wait(historyGrace)
	return item, err
}

func (s *slowTable) GetMany(ctx context.Context, keys []largeitem.Key, opts *largeitem.GetOptions) ([]largeitem.Attributes, error) {
	s.d.wait(historyGrace)
	items, err := largeitem.GetMany(ctx, s.Table, keys, opts)
	s.d.wait(3 * historyGrace)
	return items, err
}

func (s *slowTable) Put(ctx context.Context, key largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (largeitem.Attributes, error) {
	item = item.Clone()
	return s.write(ctx, key, func(ctx context.Context) (largeitem.Attributes, error) { return s.Table.Put(ctx, key, item, cond) })
}

func (s *slowTable) Update(ctx context.Context, key largeitem.Key, change largeitem.Change, cond *largeitem.Condition) (largeitem.Attributes, error) {
	return s.write(ctx, key, func(ctx context.Context) (largeitem.Attributes, error) { return s.Table.Update(ctx, key, change, cond) })
}

func (s *slowTable) Delete(ctx context.Context, key largeitem.Key, cond *largeitem.Condition) (largeitem.Attributes, error) {
	return s.write(ctx, key, func(ctx context.Context) (largeitem.Attributes, error) { return s.Table.Delete(ctx, key, cond) })
}

func (s *slowTable) Scan(ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
	return func(yield func(largeitem.Row, error) bool) {
		for row, err := range s.Table.Scan(ctx, opts) {
			s.d.wait(2 * historyGrace)
			if !yield(row, err) {
				return
			}
		}
	}
}

// slowBucket is a bucket whose calls take long; a put or a delete may take effect hours late.
type slowBucket struct {
	object.Bucket
	d *delays
}

func (s *slowBucket) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	s.d.wait(historyGrace)
	return s.Bucket.Get(ctx, key, opts)
}

func (s *slowBucket) Stat(ctx context.Context, key string) (object.Info, error) {
	s.d.wait(historyGrace)
	return s.Bucket.Stat(ctx, key)
}

func (s *slowBucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	s.d.wait(3 * historyGrace)
	info, err := s.Bucket.Put(ctx, key, body, opts)
	s.d.wait(3 * historyGrace)
	if s.d.n(15) == 0 {
		return object.Info{}, &store.OpError{Op: store.OpPut, Key: key, Err: errLost}
	}
	return info, err
}

func (s *slowBucket) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	s.d.wait(5 * historyGrace)
	err := s.Bucket.Delete(ctx, key, opts)
	s.d.wait(historyGrace)
	return err
}

func (s *slowBucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		s.d.wait(historyGrace)
		for info, err := range s.Bucket.List(ctx, prefix, opts) {
			if s.d.n(10) == 0 {
				s.d.wait(3 * historyGrace)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// TestSweepDuringWrites: several writers, in one call or in two steps, whose requests are
// slow, late and lost, while sweeps run that are as slow, and readers: no item ever refers to an
// object that is not there, and a last sweep leaves no orphan. In each second history the orphan age
// of the table changes at random meanwhile.
// HOLDFAST_TORTURE=1 runs 2,000 histories.
func TestSweepDuringWrites(t *testing.T) {
	seeds := uint64(20)
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		seeds = 2000
	}
	var writes, swept, refused int64
	for seed := range seeds {
		bubble(t, func(t *testing.T) {
			h := &history{world: newWorld(t, &largeitem.Options{BaseURI: "mem://bucket", OrphanAge: historyGrace, Prefix: "p"}), seed: seed, changes: seed%2 == 1}
			h.run()
			writes, swept, refused = writes+h.writes, swept+h.swept, refused+h.refused
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d histories: %d writes succeeded and %d did not; sweeps removed %d objects", seeds, writes, refused, swept)
	if writes < 20*int64(seeds) || swept < 10*int64(seeds) {
		t.Error("the histories do not test much")
	}
}

type history struct {
	*world
	seed    uint64
	changes bool // of the table's orphan age
	late    sync.WaitGroup

	mu                     sync.Mutex
	writes, swept, refused int64
}

func (h *history) rng(n uint64) *delays { return &delays{rng: rand.New(rand.NewPCG(h.seed, n))} }

// process returns a store as a process of its own has it.
func (h *history) process(n uint64, opts largeitem.Options) (*largeitem.Store, largeitem.Table, *delays) {
	d := h.rng(n)
	opts.BaseURI, opts.Prefix = "mem://bucket", "p"
	if !h.changes {
		opts.OrphanAge = historyGrace
	}
	table := &slowTable{h.table, d, &h.late}
	return h.open(table, &slowBucket{h.bucket, d}, &opts), table, d
}

var historyKeys = []largeitem.Key{key("a"), key("b"), key(strings.Repeat("long", 100))}

func (h *history) run() {
	if err := h.store.ClaimPrefix(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	var writers, others sync.WaitGroup
	ctx, stop := context.WithCancel(h.t.Context())
	defer stop()
	for n := range uint64(4) {
		s, table, d := h.process(n, largeitem.Options{RemoveSuperseded: n == 1, RemoveFailed: n == 2, Parallel: 2})
		writers.Go(func() {
			for range 12 {
				h.write(s, table, d)
				time.Sleep(time.Duration(d.n(3600)) * time.Second)
			}
		})
	}
	for n := range uint64(2) {
		s, _, d := h.process(10+n, largeitem.Options{})
		others.Go(func() {
			for ctx.Err() == nil {
				got, err := s.Sweep(ctx, &largeitem.SweepOptions{Scan: d.n(3) == 0, Parallel: 1 + d.n(3), Dir: os.TempDir()})
				if changed := errors.As(err, new(*largeitem.OrphanAgeError)); err != nil && ctx.Err() == nil && !(changed && h.changes) {
					h.t.Errorf("sweep: %v", err)
				}
				h.mu.Lock()
				h.swept += got.Deleted
				h.mu.Unlock()
				time.Sleep(time.Duration(d.n(1800)) * time.Second)
			}
		})
	}
	if h.changes {
		s, _, d := h.process(20, largeitem.Options{})
		others.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(time.Duration(d.n(8*3600)) * time.Second)
				if err := s.ChangeOrphanAge(ctx, time.Duration(1+d.n(5))*historyGrace); err != nil && ctx.Err() == nil {
					h.t.Errorf("a change of the grace: %v", err)
				}
			}
		})
	}
	others.Go(func() {
		for ctx.Err() == nil {
			h.check()
			time.Sleep(time.Minute)
		}
	})
	writers.Wait()
	h.late.Wait()
	stop()
	others.Wait()
	h.check()
	time.Sleep(10 * historyGrace)
	last := h.open(h.table, h.bucket, &largeitem.Options{BaseURI: "mem://bucket", Prefix: "p"})
	if _, err := last.Sweep(h.t.Context(), nil); err != nil {
		h.t.Errorf("the last sweep: %v", err)
	}
	h.check()
	if left := h.orphans(); len(left) > 0 {
		h.t.Errorf("the last sweep has left %q", left)
	}
}

// check reads all items.
func (h *history) check() {
	for _, k := range historyKeys {
		if failed, text := h.t.Failed(), h.contents(k); !failed && h.t.Failed() {
			h.t.Errorf("the item %.20v is %s", k, text)
		}
	}
}

// write makes one write, of any kind.
func (h *history) write(s *largeitem.Store, table largeitem.Table, d *delays) {
	k := historyKeys[d.n(len(historyKeys))]
	content := func() string { return string(rune('a' + d.n(3))) }
	l := texts("x", content(), "y", content())
	if d.n(2) == 0 {
		delete(l, "y")
	}
	if d.n(4) == 0 {
		l["x"] = stream(content())
	}
	ctx := h.t.Context()
	if d.n(8) == 0 { // the caller gives up
		limited, cancel := context.WithTimeout(ctx, time.Duration(d.n(7200))*time.Second)
		defer cancel()
		ctx = limited
	}
	var err error
	switch d.n(9) {
	case 0, 1:
		_, err = s.Create(ctx, k, attrs{"title": "t"}, l, nil)
	case 2:
		_, err = s.Update(ctx, k, largeitem.Change{Set: attrs{"title": "u"}}, l, nil)
	case 3:
		_, err = s.Update(ctx, k, largeitem.Change{Remove: []string{"x"}}, nil, nil)
	case 4:
		_, err = s.Upsert(ctx, k, largeitem.Change{}, l, nil)
	case 5:
		_, err = s.Replace(ctx, k, attrs{"title": "r"}, l, nil)
	case 6:
		_, err = s.Delete(ctx, k, nil)
	default:
		err = h.twoSteps(ctx, s, table, d, k, l)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.refused++
		return
	}
	h.writes++
}

// twoSteps is a program that writes the item itself, and may die at any step.
func (h *history) twoSteps(ctx context.Context, s *largeitem.Store, table largeitem.Table, d *delays, k largeitem.Key, l large) error {
	p, err := s.Prepare(ctx, k, l, nil)
	if err != nil {
		return err
	}
	if d.n(6) == 0 {
		return errLost
	}
	d.wait(2 * historyGrace)
	if !time.Now().Before(p.Deadline()) {
		return p.Abort(ctx)
	}
	cond := p.Condition()
	_, err = table.Update(ctx, k, p.Change(), &cond)
	d.wait(2 * historyGrace)
	switch {
	case d.n(6) == 0:
		return errLost
	case errors.Is(err, store.ErrConflict):
		return p.Abort(ctx)
	}
	_, err = p.Commit(ctx)
	return err
}
