// Package rewrite is the common code of items/memtable, items/sqltable and items/storetable. They check the
// condition of a write in this process. Then they replace the whole item.
package rewrite

import (
	"context"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// Write is a write of an item.
type Write struct {
	Op   store.Kind // put, update or delete
	Key  largeitem.Key
	Cond *largeitem.Condition

	Item   largeitem.Attributes // the new item, for a put
	Change largeitem.Change     // for an update
}

// Writes carries out each write of a table. It has the three methods of [largeitem.Table] that write.
type Writes func(ctx context.Context, w Write) (old, next largeitem.Attributes, err error)

// Put implements [largeitem.Table].
func (f Writes) Put(ctx context.Context, key largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (largeitem.Attributes, error) {
	old, _, err := f(ctx, Write{Op: store.OpPut, Key: key, Cond: cond, Item: item})
	return old, err
}

// Update implements [largeitem.Table].
func (f Writes) Update(ctx context.Context, key largeitem.Key, change largeitem.Change, cond *largeitem.Condition) (largeitem.Attributes, error) {
	_, next, err := f(ctx, Write{Op: "update", Key: key, Cond: cond, Change: change})
	return next, err
}

// Delete implements [largeitem.Table].
func (f Writes) Delete(ctx context.Context, key largeitem.Key, cond *largeitem.Condition) (largeitem.Attributes, error) {
	old, _, err := f(ctx, Write{Op: store.OpDelete, Key: key, Cond: cond})
	return old, err
}

// Check returns an error if the arguments of the write are not valid.
func (w Write) Check(schema largeitem.Schema) error {
	if err := schema.CheckItem(w.Key, w.Item); err != nil {
		return err
	}
	if err := schema.CheckChange(w.Change); err != nil {
		return err
	}
	return schema.CheckCondition(w.Cond)
}

// Next returns the item after the write. A nil parameter means that there is no item; a nil result means
// that there is none after the write. If the condition does not hold, the error is a
// [largeitem.ConditionFailedError] with a copy of the item.
func (w Write) Next(schema largeitem.Schema, item largeitem.Attributes) (largeitem.Attributes, error) {
	holds, err := w.Cond.Holds(item)
	if err != nil {
		return nil, err
	}
	if !holds {
		return nil, &largeitem.ConditionFailedError{Key: w.Key, HasCurrent: true, Current: item.Clone()}
	}
	switch w.Op {
	case store.OpDelete:
		return nil, nil
	case store.OpPut:
		next := w.Item.Clone()
		if next == nil {
			next = largeitem.Attributes{}
		}
		return next, nil
	}
	next, err := w.Change.Apply(item)
	if err != nil {
		return nil, err
	}
	return next, schema.CheckItem(w.Key, next)
}
