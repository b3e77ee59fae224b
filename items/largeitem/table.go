package largeitem

import (
	"context"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/store"
)

// MaxItem is the largest size of an item in a table, in bytes. The size includes the names and
// values of all attributes. For a large attribute, only the size of its reference counts. MaxItem
// is the limit of DynamoDB. A table may have a lower limit ([Schema].MaxItem).
const MaxItem = 400 << 10

// A Table stores items, each under a [Key]. All options may be nil.
//
// # The contract
//
//   - Each call on one item takes effect at one instant between its start and its return, as a
//     whole or not at all. The table checks the condition and makes the change in one atomic step.
//     A read sees every write that returned before the read began.
//   - A write has one of the three outcomes of package store. Pass its error to [store.OutcomeOf]
//     to get the outcome. A Table sends a write once, and does not let a driver or SDK repeat it.
//   - If the condition of a write does not hold, the error is a [ConditionFailedError], which
//     matches [store.ErrConflict].
//   - An update does not change attributes that it does not name, whatever their type.
//   - Other errors match the errors of package store: ErrNotFound, ErrDenied, ErrMisconfigured,
//     ErrUnavailable, ErrTooLarge, and ErrInvalid for arguments.
//   - Any number of goroutines may call all methods. The context bounds the call. The caller owns
//     its arguments and the results.
//
// Package itemtest checks the contract.
type Table interface {
	// Schema describes the table. It may send one request, and remembers the answer.
	Schema(ctx context.Context) (Schema, error)

	// Get reads an item consistently, or only the attributes that the options name. If there is no
	// item, the error matches store.ErrNotFound. If the item has none of the named attributes, the
	// result is empty, without an error.
	Get(ctx context.Context, key Key, opts *GetOptions) (Attributes, error)

	// Put replaces a whole item. It returns the attributes of the replaced item, or nil if there
	// was no item.
	Put(ctx context.Context, key Key, item Attributes, cond *Condition) (old Attributes, err error)

	// Update changes an item and returns its attributes after the change. If there is no item,
	// Update creates one, unless the condition forbids it.
	Update(ctx context.Context, key Key, change Change, cond *Condition) (item Attributes, err error)

	// Delete removes an item and returns its attributes. If there is no item, a delete without a
	// condition succeeds and returns nil.
	Delete(ctx context.Context, key Key, cond *Condition) (old Attributes, err error)

	// Scan yields every item that exists during the whole scan, in a state that the item has had
	// during the scan.
	//
	// An error ends the scan, with one exception. If a table finds one damaged item, it can yield
	// an error that matches store.ErrCorrupt, with a Row that has only a Position. The other
	// items follow. An error with an empty Row always ends the scan.
	Scan(ctx context.Context, opts *ScanOptions) iter.Seq2[Row, error]
}

// Schema describes a table.
type Schema struct {
	// Name is the name of the table for people, usually a URL without secrets. Table is the short
	// name, which is a part of the names of objects.
	Name, Table string

	// ID identifies the table among all tables, for programs. It contains no secret. If a table is
	// removed and created again, it has another ID, unless the database cannot show the difference.
	// A table can have a mark: a random text that is copied with the table. The ID of such a table
	// is the mark, an @, and the place of the table. So a copy of the table has another ID.
	ID string

	Partition KeyAttribute
	Sort      KeyAttribute // the zero value if the table has no sort key

	// MaxItem is the largest item in bytes; 0 means [MaxItem].
	MaxItem int
}

// KeyAttribute is an attribute of the key of a table.
type KeyAttribute struct {
	Name   string
	Number bool // true: the values are numbers; false: they are texts
}

// CheckKey returns an error if the key cannot name an item of the table. The error matches
// [ErrKey].
func (s Schema) CheckKey(key Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	for _, part := range []struct {
		what string
		a    KeyAttribute
		v    KeyValue
	}{{"partition", s.Partition, key.Partition}, {"sort", s.Sort, key.Sort}} {
		switch {
		case part.a.Name == "" && part.v != (KeyValue{}):
			return fmt.Errorf("%w: the table %s has no %s key; remove this part from the given key", ErrKey, s.Name, part.what)
		case part.a.Name != "" && part.v == (KeyValue{}):
			return fmt.Errorf("%w: the table %s has a %s key, %q, which is missing in the given key", ErrKey, s.Name, part.what, part.a.Name)
		case part.a.Number != part.v.Number:
			return fmt.Errorf("%w: the %s key %q of the table %s must be a %s", ErrKey, part.what, part.a.Name, s.Name, part.a.kind())
		}
	}
	return nil
}

func (a KeyAttribute) kind() string {
	if a.Number {
		return "number"
	}
	return "text"
}

// GetOptions are the options of [Table.Get].
type GetOptions struct {
	// Attributes are the names of the attributes to read; nil means all.
	Attributes []string
}

// ScanOptions are the options of [Table.Scan].
type ScanOptions struct {
	// Attributes are the names of the attributes to read; nil means all. Scan also yields items
	// that have none of them.
	Attributes []string

	// After is the [Row].Position of a row. The scan begins after this row.
	After string
}

// Row is an item of a scan.
type Row struct {
	Key        Key
	Attributes Attributes

	// Position is the place of the row, for [ScanOptions].After. It is empty if a scan cannot
	// continue after this row.
	Position string
}

// Condition is a condition of a write. It holds if the conditions of all its fields hold.
type Condition struct {
	Absent bool // there must be no item
	Exists bool // there must be an item

	// The item must have all attributes in Equal, with the same values; the function [Equal]
	// compares the values. The item must have none of the attributes that Missing names. If there
	// is no item, a condition with Equal does not hold, and Missing has no effect.
	Equal   Attributes
	Missing []string

	// Expr is a further condition in the language of the table. The documentation of the table
	// describes the type. For other types the error matches [ErrInvalid].
	Expr any
}

// Change is a change of an item. Set, Remove and Expr together name each attribute at most once.
// They name no attribute of the key.
type Change struct {
	Set    Attributes
	Remove []string

	// Expr is a further change in the language of the table. The documentation of the table
	// describes the type. For other types the error matches [ErrInvalid].
	Expr any
}

// BatchGetter is a table that can read many items with few requests.
type BatchGetter interface {
	// GetMany has the contract of the function [GetMany].
	GetMany(ctx context.Context, keys []Key, opts *GetOptions) ([]Attributes, error)
}

// GetMany reads items consistently: each item in a state that it has had during the call. The
// results are in the order of the keys. If there is no item with a key, the result for this key is
// nil. If the table is not a [BatchGetter], GetMany reads the items one after the other.
func GetMany(ctx context.Context, t Table, keys []Key, opts *GetOptions) ([]Attributes, error) {
	if b, ok := t.(BatchGetter); ok {
		return b.GetMany(ctx, keys, opts)
	}
	items := make([]Attributes, len(keys))
	for i, key := range keys {
		item, err := t.Get(ctx, key, opts)
		switch {
		case err == nil:
			items[i] = item
		case !isNotFound(err):
			return nil, err
		}
	}
	return items, nil
}

// ExprReader is a table that can list the attributes in an expression of its language, without a
// request.
type ExprReader interface {
	// ExprAttributes returns the attributes that a [Change].Expr or a [Condition].Expr reads or
	// writes. If the table cannot use the expression, the error matches [ErrInvalid].
	ExprAttributes(expr any) ([]string, error)
}

// ConditionFailedError says that the condition of a write of an item did not hold. It matches
// [store.ErrConflict]. Its outcome is NotApplied, but only for the request that got this answer: an
// earlier request for the same write may have been applied.
type ConditionFailedError struct {
	Key Key

	// If HasCurrent is true, Current is the item that the write found, or nil if there was no item.
	// If HasCurrent is false, the present item is not known.
	HasCurrent bool
	Current    Attributes
}

func (e *ConditionFailedError) Error() string {
	switch {
	case !e.HasCurrent:
		return fmt.Sprintf("the condition on the item %v does not hold", e.Key)
	case e.Current == nil:
		return fmt.Sprintf("the condition on the item %v does not hold: there is no such item", e.Key)
	}
	return fmt.Sprintf("the condition does not hold for the present state of the item %v", e.Key)
}

// Is makes a ConditionFailedError match store.ErrConflict.
func (e *ConditionFailedError) Is(target error) bool { return target == store.ErrConflict }

// Outcome returns NotApplied.
func (e *ConditionFailedError) Outcome() store.Outcome { return store.NotApplied }
