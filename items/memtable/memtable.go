// Package memtable stores items in the memory of one process. Use it in tests, and as an example of
// a table. It has the size limits of DynamoDB.
//
// It obeys the whole contract of [largeitem.Table]. Every call takes effect under one mutex, and no
// call waits while it holds the mutex. So a table works inside a bubble of testing/synctest. A
// table starts no goroutine and needs no Close.
//
// The expressions of conditions and changes are [largeitem.ConditionFunc] and
// [largeitem.ChangeFunc]. The table calls them under the mutex, so they must not call the table.
package memtable

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/items/internal/rewrite"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// Options are the options of [New].
type Options struct {
	// Table is the short name of the table. The default is "items".
	Table string

	// Partition and Sort are the attributes of the key. The default is a partition key "pk" that is
	// a text, and no sort key.
	Partition, Sort largeitem.KeyAttribute
}

// Table is a table in memory. Any number of goroutines may use it.
type Table struct {
	writes
	schema largeitem.Schema

	mu    sync.Mutex
	items map[largeitem.Key]largeitem.Attributes // what is in it is never changed
}

// writes has the methods Put, Update and Delete.
type writes = rewrite.Writes

var _ largeitem.Table = (*Table)(nil)

// New returns an empty table. If the options are not valid, the error matches
// [largeitem.ErrInvalid].
func New(opts *Options) (*Table, error) {
	o := *cmp.Or(opts, &Options{})
	o.Table = cmp.Or(o.Table, "items")
	o.Partition = cmp.Or(o.Partition, largeitem.KeyAttribute{Name: "pk"})
	t := &Table{
		schema: largeitem.Schema{
			Name: "memory:" + o.Table, Table: o.Table, ID: "memory:" + rand.Text(),
			Partition: o.Partition, Sort: o.Sort, MaxItem: largeitem.MaxItem,
		},
		items: make(map[largeitem.Key]largeitem.Attributes),
	}
	t.writes = t.write
	if err := t.schema.Check(); err != nil {
		return nil, fmt.Errorf("memtable: %w", err)
	}
	return t, nil
}

// Schema implements [largeitem.Table].
func (t *Table) Schema(context.Context) (largeitem.Schema, error) { return t.schema, nil }

// Get implements [largeitem.Table].
func (t *Table) Get(ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error) {
	item, err := t.get(ctx, key)
	if err == nil && item == nil {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, t.failed(store.OpGet, key, err)
	}
	if opts != nil {
		item = item.Select(opts.Attributes)
	}
	return item.Clone(), nil
}

func (t *Table) get(ctx context.Context, key largeitem.Key) (largeitem.Attributes, error) {
	if err := t.schema.CheckKey(key); err != nil {
		return nil, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.items[key], nil
}

// write returns copies of the item before and after.
func (t *Table) write(ctx context.Context, w rewrite.Write) (old, next largeitem.Attributes, err error) {
	if err = w.Check(t.schema); err == nil {
		err = store.CheckContext(ctx)
	}
	if err == nil {
		old, next, err = t.apply(w)
	}
	if err != nil {
		return nil, nil, t.failed(w.Op, w.Key, err)
	}
	return old.Clone(), next.Clone(), nil
}

func (t *Table) apply(w rewrite.Write) (old, next largeitem.Attributes, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old = t.items[w.Key]
	next, err = w.Next(t.schema, old)
	switch {
	case err != nil:
	case next == nil:
		delete(t.items, w.Key)
	default:
		t.items[w.Key] = next
	}
	return old, next, err
}

func (t *Table) failed(op store.Kind, key largeitem.Key, err error) error {
	return &store.OpError{Op: op, Key: key.String(), Store: t.schema.Name, Err: err}
}

// Scan implements [largeitem.Table]. It yields only items whose keys exist when the scan begins.
func (t *Table) Scan(ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
	o := *cmp.Or(opts, &largeitem.ScanOptions{})
	return func(yield func(largeitem.Row, error) bool) {
		if o.After != "" && new(largeitem.Key).UnmarshalText([]byte(o.After)) != nil {
			yield(largeitem.Row{}, fmt.Errorf("%w: ScanOptions.After is %.60q, which is not a position of a memtable", largeitem.ErrInvalid, o.After))
			return
		}
		t.mu.Lock()
		rows := make([]largeitem.Row, 0, len(t.items))
		for _, key := range slices.Collect(maps.Keys(t.items)) {
			position, _ := key.MarshalText() // what is in the table is a key
			if string(position) > o.After {
				rows = append(rows, largeitem.Row{Key: key, Position: string(position)})
			}
		}
		t.mu.Unlock()
		slices.SortFunc(rows, func(a, b largeitem.Row) int { return strings.Compare(a.Position, b.Position) })
		for _, row := range rows {
			item, err := t.get(ctx, row.Key)
			if err != nil {
				yield(largeitem.Row{}, t.failed("scan", row.Key, err))
				return
			}
			if item == nil {
				continue // deleted meanwhile
			}
			row.Attributes = item.Select(o.Attributes).Clone()
			if !yield(row, nil) {
				return
			}
		}
	}
}
