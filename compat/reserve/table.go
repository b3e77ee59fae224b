package reserve

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Row is one reservation in a [Table]. Two rows that are equal except for Tag are the same reservation.
type Row struct {
	Key     string
	Version object.Version // the reserved state; empty means that there is no object

	// Generation increases with every write of the row.
	Generation uint64

	// Timeout is the longest time of the holder's operation, in whole milliseconds. Zero means that
	// the holder has released the row.
	Timeout time.Duration

	// TTL is the Unix time, in seconds, from which the table may remove the row.
	TTL int64

	// Nonce identifies the operation that wrote the row. It is empty in rows of object_store.
	Nonce string

	// Tag is what the table needs to recognise the row, for example the state of a register.
	Tag string
}

// WriteResult is the result of the write of a row.
type WriteResult struct {
	Tag string    // tag of the new row
	Now time.Time // time by the table's clock; zero if the table does not return it
}

// Table stores reservations. Each call sends one atomic request, or a few requests, of which only
// one writes. An error has an outcome ([store.OutcomeOf]). A call whose outcome is unknown may have
// written the row, or may still write it.
type Table interface {
	// Insert adds a row if the table has no row with the same key and version. Otherwise the error
	// is a [*ConflictError] with the existing row. If the table stores the rows of a key together,
	// and none is for this version, that row can be for another version.
	Insert(ctx context.Context, row Row) (WriteResult, error)

	// Replace puts a new row in the place of the row that the caller passes as seen. If the table
	// no longer has exactly that row, the error is a [*ConflictError]. If seen is for another version,
	// it stays in the table while its holder may be at work, and the error is also a [*ConflictError]
	// if any row of the key has changed.
	Replace(ctx context.Context, seen, row Row) (WriteResult, error)
}

// Lister is a table whose rows can be listed.
type Lister interface {
	// Rows yields the rows of the table, in no particular order. An error that matches
	// store.ErrCorrupt is about one row, and the listing continues. Any other error ends the
	// listing.
	Rows(ctx context.Context) iter.Seq2[Row, error]
}

// ConflictError says that the table did not have the row, or the absent row, that the write
// expected. It matches [store.ErrConflict], and its outcome is NotApplied.
type ConflictError struct {
	HasRow bool // false if there is no row
	Row    Row
}

func (e *ConflictError) Error() string {
	if !e.HasRow {
		return "the expected reservation does not exist any more"
	}
	return fmt.Sprintf("another writer has the reservation of %q (generation %d)", e.Row.Key, e.Row.Generation)
}

// Is makes a ConflictError match store.ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == store.ErrConflict }

// Outcome returns NotApplied.
func (e *ConflictError) Outcome() store.Outcome { return store.NotApplied }
