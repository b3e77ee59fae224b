// Package storetable stores items as registers of any [store.Store]: in a directory, on S3, in
// DynamoDB, or in memory. Use it for tables of some thousand items, if there is no database server.
//
//	st, err := filestore.Open("/var/lib/app/items", nil)
//	...
//	err = storetable.Create(ctx, st, nil) // once
//	...
//	table, err := storetable.New(st, nil)
//	...
//	items, err := largeitem.New(table, bucket, nil) // see package largeitem
//
// # What is stored
//
// A table has these registers:
//
//	TABLE/schema        attributes of the key, and random ID of the table
//	TABLE/pk=P          an item, or TABLE/pk=P/sk=S if the table has a sort key
//	TABLE/key=SHA256    an item whose name would have more than 256 bytes
//
// P and S are the values of the key. Letters and digits of ASCII, the characters -_. and almost all
// characters beyond ASCII stay as they are. Every other character is written byte by byte: each byte
// as an exclamation mark and two hexadecimal digits. The value of an item is JSON with its key and its
// attributes, each with its type: see [largeitem.MarshalTyped].
//
// [largeitem.Schema].ID contains the ID of the table and the ID of the store ([store.Traits]). So
// if a user copies or moves the registers to another store, the table there has another ID. With
// [largeitem.Options].AdoptPrefix that table claims the objects of the first table. If a user
// restores a backup into the same store, the table has the same ID.
//
// # Bounds
//
// A value of a register has at most 64 KiB. The value is the JSON of the item. In JSON, bytes
// take a third more space than in memory, and each value also has the name of its type. If an
// item does not fit, the error matches [store.ErrTooLarge].
//
// # Outcomes
//
// A write reads the register and checks the condition. It then replaces the register, on the
// condition that the register has not changed. So a write takes two requests, and it takes effect
// at most once. If another writer has changed the register, the write begins again after a random
// pause.
//
// After a lost reply the table reads the register for up to ten seconds to find the outcome. It
// repeats the write only while the register has the old state. The outcome stays unknown in two
// cases: the table cannot reach the store, or the store cannot find out which program has sent a
// write.
//
// # Expressions
//
// The expressions of conditions and changes are [largeitem.ConditionFunc] and
// [largeitem.ChangeFunc]. The table may call them several times.
package storetable

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/items/internal/rewrite"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

const (
	defaultTable = "items"

	// resolveTime bounds the search for the outcome of a write whose reply was lost.
	resolveTime = 10 * time.Second

	// maxPause is the longest pause of a write that lost against another one.
	maxPause = 250 * time.Millisecond
)

// Options are the options of [New] and [Create].
type Options struct {
	// Table is the name of the table: at most 100 letters, digits, hyphens, underscores and dots.
	// The name begins with a letter, a digit or an underscore. The default is "items".
	Table string

	// Partition and Sort are the attributes of the key, for [Create]. [New] ignores them, and reads
	// the schema from the store. The default is a partition key "pk" that is a text, and no sort
	// key.
	Partition, Sort largeitem.KeyAttribute
}

// Table is a table in a store. Any number of goroutines may use it, and it needs no Close.
type Table struct {
	writes
	st       store.Store
	o        Options
	fullName string                           // for people
	schema   atomic.Pointer[largeitem.Schema] // nil until it was read
	page     int                              // how many names a scan holds
}

// writes has the methods Put, Update and Delete.
type writes = rewrite.Writes

var _ largeitem.Table = (*Table)(nil)

// New returns a table that [Create] has created. It sends no request.
func New(st store.Store, opts *Options) (*Table, error) {
	t := &Table{st: st, page: namesAtOnce, o: *cmp.Or(opts, &Options{})}
	t.writes = t.write
	t.o.Table = cmp.Or(t.o.Table, defaultTable)
	t.o.Partition = cmp.Or(t.o.Partition, largeitem.KeyAttribute{Name: "pk"})
	switch {
	case st == nil:
		return nil, fmt.Errorf("storetable: %w: the store is nil", largeitem.ErrInvalid)
	case !validTable(t.o.Table):
		return nil, fmt.Errorf("storetable: %w: Options.Table is %.60q; use at most 100 letters, digits, hyphens, underscores and dots", largeitem.ErrInvalid, t.o.Table)
	}
	t.fullName = t.o.Table
	if name := store.TraitsOf(st).Name; name != "" {
		t.fullName = name + ", table " + t.o.Table
	}
	return t, nil
}

// description is the value of the schema's register.
type description struct {
	Format    int           `json:"holdfastItems"`
	ID        string        `json:"id"`
	Partition keyAttribute  `json:"partition"`
	Sort      *keyAttribute `json:"sort,omitempty"`
}

type keyAttribute struct {
	Name   string `json:"name"`
	Number bool   `json:"number,omitempty"`
}

// format is that of all registers of a table.
const format = 1

// Create creates a table: it writes the schema. If a table with this name and the same key exists,
// Create does not change it. If its key is different, the error matches [store.ErrMisconfigured].
func Create(ctx context.Context, st store.Store, opts *Options) error {
	t, err := New(st, opts)
	if err != nil {
		return err
	}
	d := description{Format: format, ID: "registers:" + rand.Text(), Partition: keyAttribute(t.o.Partition)}
	if t.o.Sort != (largeitem.KeyAttribute{}) {
		d.Sort = (*keyAttribute)(&t.o.Sort)
	}
	want := t.described(d)
	if err := want.Check(); err != nil {
		return fmt.Errorf("storetable: %w", err)
	}
	value, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("storetable: %w", store.MarkNotApplied(err))
	}
	v, err := st.Put(ctx, t.schemaKey(), "", value)
	settling, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	found, err := store.ResolvePut(settling, st, t.schemaKey(), "", value, v, err)
	if err != nil || found.Resolution != store.ResolutionNotApplied {
		return err
	}
	is, err := t.Schema(ctx)
	if err != nil {
		return err
	}
	if is.Partition != want.Partition || is.Sort != want.Sort {
		return fmt.Errorf("%w: the table %s already exists, but has another key", store.ErrMisconfigured, t.fullName)
	}
	return nil
}

func (t *Table) described(d description) largeitem.Schema {
	traits := store.TraitsOf(t.st)
	s := largeitem.Schema{Name: t.fullName, Table: t.o.Table, ID: d.ID + "@" + traits.ID + "/" + traits.Prefix, Partition: largeitem.KeyAttribute(d.Partition), MaxItem: store.MaxValue}
	if d.Sort != nil {
		s.Sort = largeitem.KeyAttribute(*d.Sort)
	}
	return s
}

// Schema implements [largeitem.Table].
func (t *Table) Schema(ctx context.Context) (largeitem.Schema, error) {
	if s := t.schema.Load(); s != nil {
		return *s, nil
	}
	value, _, err := t.st.Get(ctx, t.schemaKey())
	if errors.Is(err, store.ErrNotFound) {
		return largeitem.Schema{}, fmt.Errorf("%w: there is no table %s; create the table with holdfast item init", store.ErrMisconfigured, t.fullName)
	}
	if err != nil {
		return largeitem.Schema{}, store.MarkNotApplied(err)
	}
	var d description
	if err := json.Unmarshal(value, &d); err != nil || d.Format != format || d.ID == "" || t.described(d).Check() != nil {
		return largeitem.Schema{}, store.MarkNotApplied(fmt.Errorf("%w: the schema of the table %s cannot be decoded: %.100q", store.ErrCorrupt, t.fullName, value))
	}
	s := t.described(d)
	t.schema.Store(&s)
	return s, nil
}

// Get implements [largeitem.Table].
func (t *Table) Get(ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error) {
	schema, err := t.Schema(ctx)
	if err == nil {
		err = schema.CheckKey(key)
	}
	var item largeitem.Attributes
	if err == nil {
		item, _, err = t.read(ctx, key)
	}
	if err == nil && item == nil {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, t.failed(store.OpGet, key, err)
	}
	if opts != nil {
		item = item.Select(opts.Attributes)
	}
	return item, nil
}

// read returns an item and the version of its register, both zero where there is none.
func (t *Table) read(ctx context.Context, key largeitem.Key) (largeitem.Attributes, store.Version, error) {
	value, v, err := t.st.Get(ctx, t.register(key))
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	_, item, err := t.decode(t.register(key), value)
	return item, v, err
}

// write returns the item before and after.
func (t *Table) write(ctx context.Context, w rewrite.Write) (old, next largeitem.Attributes, err error) {
	schema, err := t.Schema(ctx)
	if err == nil {
		err = w.Check(schema)
	}
	if err == nil {
		old, next, err = t.swap(ctx, schema, w)
	}
	if err != nil {
		return nil, nil, t.failed(w.Op, w.Key, err)
	}
	return old, next, nil
}

// swap reads, decides and replaces what it has read, until no other writer is faster.
func (t *Table) swap(ctx context.Context, schema largeitem.Schema, w rewrite.Write) (old, next largeitem.Attributes, err error) {
	for try := 1; ; try++ {
		var v store.Version
		if old, v, err = t.read(ctx, w.Key); err != nil {
			return nil, nil, store.MarkNotApplied(err)
		}
		if next, err = w.Next(schema, old); err != nil {
			return nil, nil, err
		}
		faster, err := t.replace(ctx, w.Key, v, next)
		if err != nil || !faster {
			return old, next, err
		}
		if backoff.Wait(ctx, try, time.Millisecond, maxPause) != nil {
			return nil, nil, store.CheckContext(ctx)
		}
	}
}

// replace replaces the state v by an item, nil to delete it. It reports whether another
// writer was faster, and nothing was written.
func (t *Table) replace(ctx context.Context, key largeitem.Key, v store.Version, next largeitem.Attributes) (faster bool, err error) {
	if next == nil && v == "" {
		return false, nil
	}
	register := t.register(key)
	var value []byte
	var made store.Version
	if next == nil {
		err = t.st.Delete(ctx, register, v)
	} else {
		if value, err = encode(key, next); err != nil {
			return false, err
		}
		made, err = t.st.Put(ctx, register, v, value)
	}
	settling, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	var found store.ResolveResult
	if next == nil {
		found, err = store.ResolveDelete(settling, t.st, register, v, err)
	} else {
		found, err = store.ResolvePut(settling, t.st, register, v, value, made, err)
	}
	if found.Resolution == store.ResolutionNotApplied && (err == nil || errors.Is(err, store.ErrConflict)) {
		return true, nil
	}
	return false, err
}

func (t *Table) failed(op store.Kind, key largeitem.Key, err error) error {
	return &store.OpError{Op: op, Key: key.String(), Store: t.fullName, Err: err}
}
