package itemtest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/itemtest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

func newTable(t *testing.T) *memtable.Table {
	t.Helper()
	table, err := memtable.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// A decorator that lets all calls pass keeps the contract.
func TestFaultyPasses(t *testing.T) {
	itemtest.Run(t, func(t *testing.T) largeitem.Table {
		return itemtest.NewFaulty(newTable(t), objecttest.NewFaults(nil))
	}, &itemtest.Options{Rounds: 5, Items: 100})
}

func newKey(t *testing.T, text string) largeitem.Key {
	t.Helper()
	key, err := largeitem.NewKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Each fault of each write has the effect that it names, and its error says no more than that.
func TestFaults(t *testing.T) {
	a, ctx := newKey(t, "a"), t.Context()
	for _, c := range []struct {
		fault          objecttest.Fault
		now, delivered bool // whether the write is applied
	}{
		{objecttest.Fail, false, false}, {objecttest.Lose, true, true}, {objecttest.Late, false, true}, {objecttest.Cut, false, false},
	} {
		below := newTable(t)
		faults := objecttest.NewFaults(objecttest.Nth(1, c.fault))
		item := largeitem.Attributes{"n": []byte("x")}
		callCtx, cancel := context.WithCancel(ctx)
		_, err := itemtest.NewFaulty(below, faults).Put(callCtx, a, item, &largeitem.Condition{Absent: true})
		cancel()
		if !errors.Is(err, objecttest.ErrFault) || store.OutcomeOf(err) != store.Unknown || !store.InDoubt(err) {
			t.Errorf("fault %d: got %v (%v)", c.fault, err, store.OutcomeOf(err))
		}
		item["n"].([]byte)[0] = '!' // the caller's own
		stands := func() bool {
			got, err := below.Get(ctx, a, nil)
			return err == nil && largeitem.Equal(got["n"], []byte("x"))
		}
		if stands() != c.now {
			t.Errorf("fault %d: the write stands: %v", c.fault, stands())
		}
		faults.Deliver()
		if stands() != c.delivered {
			t.Errorf("fault %d: at the end the write stands: %v", c.fault, stands())
		}
	}
	faults := objecttest.NewFaults(objecttest.Nth(1, objecttest.Repeat))
	_, err := itemtest.NewFaulty(newTable(t), faults).Put(ctx, a, nil, &largeitem.Condition{Absent: true})
	var refused *largeitem.ConditionFailedError
	if !errors.As(err, &refused) {
		t.Errorf("a repeated create: got %v, want its second answer", err)
	}
}

// A table and a bucket with the same faults belong to one process.
func TestFaultsOfOneProcess(t *testing.T) {
	ctx := t.Context()
	faults := objecttest.NewFaults(objecttest.Nth(2, objecttest.Cut))
	table, bucket := itemtest.NewFaulty(newTable(t), faults), faults.Bucket(membucket.New())
	if _, err := table.Update(ctx, newKey(t, "a"), largeitem.Change{}, nil); err != nil {
		t.Error(err)
	}
	_, err := bucket.Stat(ctx, "x")
	errs := []error{err}
	_, err = table.Get(ctx, newKey(t, "a"), nil)
	errs = append(errs, err)
	_, err = largeitem.GetMany(ctx, table, []largeitem.Key{newKey(t, "a")}, nil)
	errs = append(errs, err)
	for _, err := range table.Scan(ctx, nil) {
		errs = append(errs, err)
	}
	for _, err := range errs {
		if !errors.Is(err, objecttest.ErrFault) {
			t.Errorf("after the cut: %v", err)
		}
	}
	calls := faults.Calls()
	if len(calls) != 5 || calls[0].Op != "update" || !calls[0].Write() || calls[4].Op != "scan" || !calls[4].Dead {
		t.Errorf("the calls: %+v", calls)
	}
}

// broken is a table that breaks one rule.
type broken struct {
	largeitem.Table
	put    func(next largeitem.Table, ctx context.Context, key largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (largeitem.Attributes, error)
	update func(next largeitem.Table, ctx context.Context, key largeitem.Key, change largeitem.Change, cond *largeitem.Condition) (largeitem.Attributes, error)
	remove func(next largeitem.Table, ctx context.Context, key largeitem.Key, cond *largeitem.Condition) (largeitem.Attributes, error)
	get    func(next largeitem.Table, ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error)
	scan   func(next largeitem.Table, ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error]
}

func (b broken) Put(ctx context.Context, key largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (largeitem.Attributes, error) {
	if b.put == nil {
		return b.Table.Put(ctx, key, item, cond)
	}
	return b.put(b.Table, ctx, key, item, cond)
}

func (b broken) Update(ctx context.Context, key largeitem.Key, change largeitem.Change, cond *largeitem.Condition) (largeitem.Attributes, error) {
	if b.update == nil {
		return b.Table.Update(ctx, key, change, cond)
	}
	return b.update(b.Table, ctx, key, change, cond)
}

func (b broken) Delete(ctx context.Context, key largeitem.Key, cond *largeitem.Condition) (largeitem.Attributes, error) {
	if b.remove == nil {
		return b.Table.Delete(ctx, key, cond)
	}
	return b.remove(b.Table, ctx, key, cond)
}

func (b broken) Get(ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error) {
	if b.get == nil {
		return b.Table.Get(ctx, key, opts)
	}
	return b.get(b.Table, ctx, key, opts)
}

func (b broken) Scan(ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
	if b.scan == nil {
		return b.Table.Scan(ctx, opts)
	}
	return b.scan(b.Table, ctx, opts)
}

// The suite notices tables that break a rule, by the case for that rule.
func TestBrokenTables(t *testing.T) {
	// without returns the table with a changed condition in its updates.
	without := func(change func(c largeitem.Condition) largeitem.Condition) broken {
		return broken{update: func(next largeitem.Table, ctx context.Context, key largeitem.Key, c largeitem.Change, cond *largeitem.Condition) (largeitem.Attributes, error) {
			if cond != nil {
				changed := change(*cond)
				cond = &changed
			}
			return next.Update(ctx, key, c, cond)
		}}
	}
	var stale sync.Map
	for name, c := range map[string]struct {
		table broken
		cases []string
	}{
		"an update revives": {without(func(c largeitem.Condition) largeitem.Condition { c.Exists = false; return c }), []string{"Exists"}},
		"Absent is ignored": {without(func(c largeitem.Condition) largeitem.Condition { c.Absent = false; return c }), []string{"Absent"}},
		"Equal is ignored":  {without(func(c largeitem.Condition) largeitem.Condition { c.Equal = nil; return c }), []string{"Equal", "EqualAbsent"}},
		"Missing is ignored": {without(func(c largeitem.Condition) largeitem.Condition { c.Missing = nil; return c }),
			[]string{"Missing"}},
		"a condition in two steps": {broken{update: func(next largeitem.Table, ctx context.Context, key largeitem.Key, c largeitem.Change, cond *largeitem.Condition) (largeitem.Attributes, error) {
			item, _ := next.Get(ctx, key, nil)
			if holds, err := cond.Holds(item); err == nil && !holds {
				return nil, &largeitem.ConditionFailedError{Key: key, HasCurrent: true, Current: item}
			}
			time.Sleep(time.Millisecond)
			return next.Update(ctx, key, c, nil)
		}}, []string{"RaceCreate", "RaceCount", "RaceDelete"}},
		"an update writes the whole item": {broken{update: func(next largeitem.Table, ctx context.Context, key largeitem.Key, c largeitem.Change, cond *largeitem.Condition) (largeitem.Attributes, error) {
			item, _ := next.Get(ctx, key, nil)
			after, err := c.Apply(item)
			if err != nil {
				return nil, err
			}
			time.Sleep(time.Millisecond)
			_, err = next.Put(ctx, key, after, cond)
			return after, err
		}}, []string{"RaceUpdates"}},
		"put merges": {broken{put: func(next largeitem.Table, ctx context.Context, key largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (largeitem.Attributes, error) {
			old, _ := next.Get(ctx, key, nil)
			_, err := next.Update(ctx, key, largeitem.Change{Set: item}, cond)
			return old, err
		}}, []string{"Replace"}},
		"deletes nothing": {broken{remove: func(largeitem.Table, context.Context, largeitem.Key, *largeitem.Condition) (largeitem.Attributes, error) {
			return nil, nil
		}}, []string{"Delete"}},
		"refusals are unknown": {broken{put: func(next largeitem.Table, ctx context.Context, key largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (largeitem.Attributes, error) {
			old, err := next.Put(ctx, key, item, cond)
			return old, store.MarkUnknown(err)
		}}, []string{"Absent", "BadKeys", "TooLarge", "Cancelled"}},
		"eventual reads": {broken{get: func(next largeitem.Table, ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error) {
			now, err := next.Get(ctx, key, opts)
			if before, ok := stale.Swap(key, now); ok && err == nil && before != nil {
				return before.(largeitem.Attributes), nil
			}
			return now, err
		}}, []string{"Update"}},
		"half a page": {broken{scan: func(next largeitem.Table, ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
			return func(yield func(largeitem.Row, error) bool) {
				n := 0
				for row, err := range next.Scan(ctx, opts) {
					if n++; n > 20 || !yield(row, err) {
						return
					}
				}
			}
		}}, []string{"ScanMoving"}},
		"positions are ignored": {broken{scan: func(next largeitem.Table, ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
			return next.Scan(ctx, &largeitem.ScanOptions{})
		}}, []string{"ScanContinued", "ScanSelect"}},
	} {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T) largeitem.Table {
				stale.Clear()
				b := c.table
				b.Table = newTable(t)
				return b
			}
			var failed []string
			for _, f := range itemtest.Check(t, open, &itemtest.Options{Rounds: 10, Items: 60}) {
				failed = append(failed, f.Case)
			}
			for _, want := range c.cases {
				if !slices.Contains(failed, want) {
					t.Errorf("the case %s passes; those that fail: %q", want, failed)
				}
			}
		})
	}
}
