// Package rewrite is the common code of items/memtable and items/storetable. Both tables check the
// condition of a write in this process. Then they replace the whole item.
package rewrite

import (
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

// Put, Update and Delete return the [Write] for the method of [largeitem.Table] with the same name.
func Put(key largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) Write {
	return Write{Op: store.OpPut, Key: key, Cond: cond, Item: item}
}

func Update(key largeitem.Key, change largeitem.Change, cond *largeitem.Condition) Write {
	return Write{Op: "update", Key: key, Cond: cond, Change: change}
}

func Delete(key largeitem.Key, cond *largeitem.Condition) Write {
	return Write{Op: store.OpDelete, Key: key, Cond: cond}
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
