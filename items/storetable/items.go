package storetable

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/objectname"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// maxName is the longest name of an item's register, in bytes. It leaves half of a key to
// the prefix of the store, and is a part of the format.
const maxName = 256

// validTable reports whether name is a name of at most 100 letters, digits, hyphens,
// underscores and dots, and does not begin with a hyphen or a dot.
func validTable(name string) bool {
	return name != "" && len(name) <= 100 && !strings.ContainsRune(".-", rune(name[0])) &&
		strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}

func (t *Table) schemaKey() string { return t.o.Table + "/schema" }

// register returns the key of the register of an item.
func (t *Table) register(key largeitem.Key) string { return t.o.Table + "/" + t.name(key) }

// name returns what follows the name of the table.
func (t *Table) name(key largeitem.Key) string {
	name := "pk=" + escape(key.Partition.Text)
	if key.HasSort() {
		name += "/sk=" + escape(key.Sort.Text)
	}
	if len(t.o.Table)+1+len(name) <= maxName {
		return name
	}
	text, _ := key.MarshalText() // the key was checked
	return fmt.Sprintf("key=%x", sha256.Sum256(text))
}

// escape does not depend on what is a letter: each version of Unicode, and so of Go, has more of them.
func escape(text string) string { return objectname.Escape(text, objectname.Plain("-_.")) }

func encode(key largeitem.Key, item largeitem.Attributes) ([]byte, error) {
	name, err := key.MarshalText()
	if err != nil {
		return nil, err
	}
	typed, err := largeitem.MarshalTyped(item)
	if err != nil {
		return nil, err
	}
	value := fmt.Appendf(nil, `{"v":%d,"key":%s,"item":%s}`, format, name, typed)
	if len(value) > store.MaxValue {
		return nil, fmt.Errorf("%w: the item %.200v has %d bytes as JSON, but a register can have at most %d; store large attributes in the bucket",
			store.ErrTooLarge, key, len(value), store.MaxValue)
	}
	return value, nil
}

// decode reads what encode wrote. A register holds the item of its own name.
func (t *Table) decode(register string, value []byte) (largeitem.Key, largeitem.Attributes, error) {
	var r struct {
		Format int             `json:"v"`
		Key    json.RawMessage `json:"key"`
		Item   json.RawMessage `json:"item"`
	}
	var key largeitem.Key
	err := json.Unmarshal(value, &r)
	if err == nil && r.Format != format {
		err = fmt.Errorf("the format is %d, but this version of Holdfast reads format %d", r.Format, format)
	}
	if err == nil {
		err = key.UnmarshalText(r.Key)
	}
	if err == nil && t.register(key) != register {
		err = fmt.Errorf("it contains the item %v", key)
	}
	var item largeitem.Attributes
	if err == nil {
		item, err = largeitem.UnmarshalTyped(r.Item)
	}
	if err != nil {
		return largeitem.Key{}, nil, fmt.Errorf("%w: the register %.200s does not contain the item that its name says: %v", store.ErrCorrupt, register, err)
	}
	return key, item, nil
}

// Scan implements [largeitem.Table], in the order of the names of the registers. It reads each item
// by one request. If the name of a register does not belong to the item in it, Scan yields an error
// that matches [store.ErrCorrupt], with the position of that register. Then Scan continues. It
// holds the names of at most 50,000 items in memory. If there are more items, Scan lists the names
// again. The store must be a [store.Lister].
func (t *Table) Scan(ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
	return func(yield func(largeitem.Row, error) bool) {
		o := *cmp.Or(opts, &largeitem.ScanOptions{})
		failed := func(position string, err error) bool {
			return yield(largeitem.Row{Position: position}, &store.OpError{Op: "scan", Key: t.o.Table, Store: t.fullName, Err: err})
		}
		if err := t.scan(ctx, o, yield, failed); err != nil {
			failed("", err)
		}
	}
}

// namesAtOnce is how many names of items are held at once.
const namesAtOnce = 50_000

// scan returns an error that is still to be yielded. failed yields the error of one item.
func (t *Table) scan(ctx context.Context, o largeitem.ScanOptions, yield func(largeitem.Row, error) bool, failed func(string, error) bool) error {
	if _, err := t.Schema(ctx); err != nil {
		return err
	}
	if o.After != "" && !isItem(o.After) {
		return fmt.Errorf("%w: ScanOptions.After is %.60q, which is not a position of a storetable", largeitem.ErrInvalid, o.After)
	}
	for after := o.After; ; {
		names, more, err := t.names(ctx, after, t.page)
		if err != nil {
			return err
		}
		for _, name := range names {
			row, err := t.row(ctx, name, o.Attributes)
			switch {
			case errors.Is(err, store.ErrCorrupt):
				if !failed(name, err) {
					return nil
				}
			case err != nil:
				return err
			case row != nil && !yield(*row, nil):
				return nil
			}
			after = name
		}
		if !more {
			return nil
		}
	}
}

// row returns nil if the item was deleted meanwhile.
func (t *Table) row(ctx context.Context, name string, attributes []string) (*largeitem.Row, error) {
	register := t.o.Table + "/" + name
	value, _, err := t.st.Get(ctx, register)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key, item, err := t.decode(register, value)
	if err != nil {
		return nil, err
	}
	return &largeitem.Row{Key: key, Attributes: item.Select(attributes), Position: name}, nil
}

// names returns the n first names of items after one, in order, and whether there are more.
func (t *Table) names(ctx context.Context, after string, n int) (names []string, more bool, err error) {
	keep := func() {
		slices.Sort(names)
		if len(names) > n {
			names, more = names[:n], true
		}
	}
	for register, err := range store.List(ctx, t.st, t.o.Table) {
		if err != nil {
			return nil, false, err
		}
		name := strings.TrimPrefix(register, t.o.Table+"/")
		if name <= after || !isItem(name) {
			continue
		}
		if names = append(names, name); len(names) >= 2*n {
			keep()
		}
	}
	keep()
	return names, more, nil
}

func isItem(name string) bool {
	return strings.HasPrefix(name, "pk=") || strings.HasPrefix(name, "key=")
}
