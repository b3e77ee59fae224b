package itemtest

import (
	"context"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// Faulty is a table that injects faults into its calls. Use it to test programs that use a table. Package
// objecttest describes the faults. If a table and a bucket have the same [objecttest.Faults], their calls
// are numbered together. A fault that stops the process then stops both.
//
//	faults := objecttest.NewFaults(objecttest.Nth(3, objecttest.Cut))
//	table, bucket := itemtest.NewFaulty(t, faults), faults.Bucket(b)
//
// The operations are get, put, update, delete and scan. A GetMany counts as one get of the first key. A
// scan gets its fault before it begins. Schema gets no fault.
type Faulty struct {
	*objecttest.Faults
	below largeitem.Table
}

var (
	_ largeitem.Table       = (*Faulty)(nil)
	_ largeitem.BatchGetter = (*Faulty)(nil)
)

// NewFaulty returns a table that injects the faults into the calls of t.
func NewFaulty(below largeitem.Table, faults *objecttest.Faults) *Faulty {
	return &Faulty{faults, below}
}

// Schema implements [largeitem.Table].
func (f *Faulty) Schema(ctx context.Context) (largeitem.Schema, error) { return f.below.Schema(ctx) }

// Get implements [largeitem.Table].
func (f *Faulty) Get(ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error) {
	return f.call(ctx, store.OpGet, key, func(ctx context.Context) (largeitem.Attributes, error) {
		return f.below.Get(ctx, key, opts)
	})
}

// GetMany implements [largeitem.BatchGetter].
func (f *Faulty) GetMany(ctx context.Context, keys []largeitem.Key, opts *largeitem.GetOptions) (items []largeitem.Attributes, err error) {
	if len(keys) == 0 {
		return largeitem.GetMany(ctx, f.below, keys, opts)
	}
	err = f.Call(ctx, store.OpGet, keys[0].String(), func(ctx context.Context) error {
		items, err = largeitem.GetMany(ctx, f.below, keys, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}

// Put implements [largeitem.Table].
func (f *Faulty) Put(ctx context.Context, key largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (largeitem.Attributes, error) {
	item, cond = item.Clone(), cloneCondition(cond) // a late call is made after the caller changes them
	return f.call(ctx, store.OpPut, key, func(ctx context.Context) (largeitem.Attributes, error) {
		return f.below.Put(ctx, key, item, cond)
	})
}

// Update implements [largeitem.Table].
func (f *Faulty) Update(ctx context.Context, key largeitem.Key, change largeitem.Change, cond *largeitem.Condition) (largeitem.Attributes, error) {
	change.Set, change.Remove, cond = change.Set.Clone(), slices.Clone(change.Remove), cloneCondition(cond)
	return f.call(ctx, "update", key, func(ctx context.Context) (largeitem.Attributes, error) {
		return f.below.Update(ctx, key, change, cond)
	})
}

// Delete implements [largeitem.Table].
func (f *Faulty) Delete(ctx context.Context, key largeitem.Key, cond *largeitem.Condition) (largeitem.Attributes, error) {
	cond = cloneCondition(cond)
	return f.call(ctx, store.OpDelete, key, func(ctx context.Context) (largeitem.Attributes, error) {
		return f.below.Delete(ctx, key, cond)
	})
}

func (f *Faulty) call(ctx context.Context, op store.Kind, key largeitem.Key, call func(context.Context) (largeitem.Attributes, error)) (item largeitem.Attributes, err error) {
	err = f.Call(ctx, op, key.String(), func(ctx context.Context) error {
		item, err = call(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return item, nil
}

// Scan implements [largeitem.Table].
func (f *Faulty) Scan(ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
	return func(yield func(largeitem.Row, error) bool) {
		if err := f.Call(ctx, "scan", "", func(context.Context) error { return nil }); err != nil {
			yield(largeitem.Row{}, err)
			return
		}
		f.below.Scan(ctx, opts)(yield)
	}
}

func cloneCondition(c *largeitem.Condition) *largeitem.Condition {
	if c == nil {
		return nil
	}
	d := *c
	d.Equal, d.Missing = c.Equal.Clone(), slices.Clone(c.Missing)
	return &d
}
