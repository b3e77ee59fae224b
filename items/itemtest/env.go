package itemtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

type (
	attributes = largeitem.Attributes
	condition  = largeitem.Condition
	change     = largeitem.Change
)

// env is what a case works with: a fresh table, a second handle on it, and verbs that
// expect success. A verb that fails ends the case; it must therefore be called on the
// goroutine of the case only. Racers use the tables themselves, and Errorf.
type env struct {
	*suitetest.Recorder
	Options
	ctx    context.Context
	cancel context.CancelFunc
	schema largeitem.Schema
	t      largeitem.Table // what is written through
	other  largeitem.Table // what is read through: t itself, or another handle
}

// handle returns the table that the i-th racer uses.
func (e *env) handle(i int) largeitem.Table {
	return [...]largeitem.Table{e.t, e.other}[i%2]
}

// key returns the i-th key of this table, whatever its schema.
func (e *env) key(i int) largeitem.Key {
	if e.schema.Sort.Name == "" {
		return e.keyOf(value(e.schema.Partition, i), nil)
	}
	return e.keyOf(value(e.schema.Partition, i%3), value(e.schema.Sort, i))
}

func value(a largeitem.KeyAttribute, i int) any {
	if a.Number {
		return i
	}
	return fmt.Sprintf("k%d", i)
}

// keyOf returns the key of these values, without the second where there is no sort key.
func (e *env) keyOf(partition, sort any) largeitem.Key {
	var key largeitem.Key
	var err error
	if e.schema.Sort.Name == "" {
		key, err = largeitem.NewKey(partition)
	} else {
		key, err = largeitem.NewKey(partition, sort)
	}
	e.Must("key", err)
	return key
}

func (e *env) put(key largeitem.Key, item attributes) {
	e.Must(fmt.Sprintf("put %v", key), suitetest.ErrOf(e.t.Put(e.ctx, key, item, nil)))
}

// update changes the item, and checks that what is returned is the item afterwards.
func (e *env) update(key largeitem.Key, c change, want attributes) {
	got, err := e.t.Update(e.ctx, key, c, nil)
	e.Must(fmt.Sprintf("update %v", key), err)
	e.same(fmt.Sprintf("update %v returns", key), got, want)
	e.expect(key, want)
}

// expect checks that the item has exactly these attributes.
func (e *env) expect(key largeitem.Key, want attributes) {
	got, err := e.other.Get(e.ctx, key, nil)
	e.Must(fmt.Sprintf("get %v", key), err)
	e.same(fmt.Sprintf("get %v", key), got, want)
}

func (e *env) same(what string, got, want attributes) {
	if (got == nil) != (want == nil) || !largeitem.Equal(map[string]any(got), map[string]any(want)) {
		e.Errorf("%s: got %s, want %s", what, show(got), show(want))
	}
}

func (e *env) expectAbsent(key largeitem.Key) {
	if got, err := e.other.Get(e.ctx, key, nil); !errors.Is(err, store.ErrNotFound) || got != nil {
		e.Errorf("get %v: got %s and %v, want ErrNotFound", key, show(got), err)
	}
}

// write is a write of one of the three kinds, on one item.
type write struct {
	name string
	do   func(t largeitem.Table, key largeitem.Key, cond *condition) error
}

// writes returns one write of each kind.
func (e *env) writes() []write {
	return []write{
		{"put", func(t largeitem.Table, key largeitem.Key, cond *condition) error {
			_, err := t.Put(e.ctx, key, attributes{"written": "by put"}, cond)
			return err
		}},
		{"update", func(t largeitem.Table, key largeitem.Key, cond *condition) error {
			_, err := t.Update(e.ctx, key, change{Set: attributes{"written": "by update"}}, cond)
			return err
		}},
		{"delete", func(t largeitem.Table, key largeitem.Key, cond *condition) error {
			_, err := t.Delete(e.ctx, key, cond)
			return err
		}},
	}
}

// refused checks the error of a write whose condition did not hold for current.
func (e *env) refused(what string, err error, current attributes) {
	var refused *largeitem.ConditionFailedError
	switch {
	case err == nil:
		e.Errorf("%s succeeded", what)
	case !errors.Is(err, store.ErrConflict):
		e.Errorf("%s: the error does not match ErrConflict: %v", what, err)
	case store.OutcomeOf(err) != store.NotApplied:
		e.Errorf("%s: a refused write was not applied, the error says %q: %v", what, store.OutcomeOf(err), err)
	case !errors.As(err, &refused):
		e.Errorf("%s: the error is no ConditionFailedError: %v", what, err)
	case refused.HasCurrent:
		e.same(what+": the item that was in the way", refused.Current, current)
	}
}

// scan returns the items of a scan by their keys.
func (e *env) scan(opts *largeitem.ScanOptions) map[largeitem.Key]attributes {
	items := make(map[largeitem.Key]attributes)
	for row, err := range e.other.Scan(e.ctx, opts) {
		e.Must("scan", err)
		if _, twice := items[row.Key]; twice {
			e.Errorf("the scan yields %v twice", row.Key)
		}
		items[row.Key] = row.Attributes
	}
	return items
}

// race runs f in all racers at once.
func (e *env) race(f func(i int)) { suitetest.Race(e.Racers, f) }

// show returns an item for people, shortened.
func show(item attributes) string {
	if item == nil {
		return "no item"
	}
	text := "{"
	for _, name := range slices.Sorted(maps.Keys(item)) {
		text += fmt.Sprintf(" %.20q: %.60v", name, fmt.Sprintf("%#v", item[name]))
	}
	return text + " }"
}
