package largeitem

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The errors that package store does not have. Match them with [errors.Is].
var (
	// ErrInvalid: the arguments contradict each other or break a rule. Nothing was changed.
	ErrInvalid = store.NewError("invalid argument", store.NotApplied, store.ErrInvalid)

	// ErrKey: the key cannot name an item of this table. Nothing was changed.
	ErrKey = store.NewError("invalid key", store.NotApplied, store.ErrKey, ErrInvalid, store.ErrInvalid)

	// ErrForeign: a reference does not belong to this attribute of this item, or names another
	// bucket. See [ReferenceError].
	ErrForeign = store.NewError("foreign reference", store.NotApplied, store.ErrPermanent)

	// ErrCommitted: the write that should be aborted was applied. Nothing was removed.
	ErrCommitted = errors.New("the item was written")

	// ErrMissing: an item refers to an object that does not exist.
	ErrMissing = errors.New("the object is missing")
)

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// OtherTableError says that the objects below the prefix belong to another table than that of the
// store. Use another [Options].Prefix. If the other table does not exist any more, and its
// objects may be removed, set [Options].AdoptPrefix. The error matches [store.ErrMisconfigured].
// Nothing was changed.
type OtherTableError struct {
	Object         string // the marker, which names the table
	Table, ID      string // [Schema].Name and ID of the table that the marker names
	Store, StoreID string // Name and ID of the store's table
}

func (e *OtherTableError) Error() string {
	help := "use another prefix; or adopt this prefix, if that table does not exist any more and its objects may be removed"
	if e.Copied() {
		help = "one table is a copy of the other, or the table was moved: for a copy use another prefix; after a move adopt this prefix, if no program uses the table in its old place"
	}
	return fmt.Sprintf("the object %q says that the objects under this prefix belong to the table %q (%s), not to %q (%s): %s",
		e.Object, e.Table, e.ID, e.Store, e.StoreID, help)
}

// Copied reports whether both tables have the same mark. Then the store's table is a copy of the
// other table, or the other table in a new place.
func (e *OtherTableError) Copied() bool {
	mark, _, marked := strings.Cut(e.ID, "@")
	own, _, _ := strings.Cut(e.StoreID, "@")
	return marked && mark == own
}

// Is makes an OtherTableError match store.ErrMisconfigured.
func (e *OtherTableError) Is(target error) bool { return target == store.ErrMisconfigured }

// Outcome is NotApplied.
func (e *OtherTableError) Outcome() store.Outcome { return store.NotApplied }

// OrphanAgeError says that the orphan age of a program does not fit that of the table. A sweep
// with a shorter orphan age would remove objects to which a slow writer is about to refer. A
// writer with a longer orphan age could lose its objects in the same way. Set [Options].OrphanAge
// to zero, which means the orphan age of the table, or change that by [Store.ChangeOrphanAge].
// The error matches [store.ErrMisconfigured]. Nothing was changed, unless the error ends a sweep
// in progress.
type OrphanAgeError struct {
	Object string        // the marker with the orphan age of the table
	Table  time.Duration // for a writer: the longest orphan age that the table allows; for a sweep: the shortest
	Given  time.Duration
	Sweep  bool

	// Until is the time by the bucket's clock until which an earlier, longer orphan age applies
	// to sweeps. It is zero if there was none.
	Until time.Time
}

func (e *OrphanAgeError) Error() string {
	limit, change, why := "at most", "longer", "a slow write could refer to an object that a sweep has removed"
	if e.Sweep {
		limit, change, why = "at least", "shorter", "the sweep could remove an object to which a slow writer is about to refer"
	}
	until := ""
	if !e.Until.IsZero() {
		until = fmt.Sprintf(" until %s, because it was made shorter", e.Until.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the given orphan age is %v, but the object %q says that the orphan age of the table is %v%s: %s; use %s %[3]v, or 0 for the orphan age of the table, or make the orphan age of the table %[7]s (Store.ChangeOrphanAge)",
		e.Given, e.Object, e.Table, until, why, limit, change)
}

// Is makes an OrphanAgeError match store.ErrMisconfigured.
func (e *OrphanAgeError) Is(target error) bool { return target == store.ErrMisconfigured }

// Outcome is NotApplied.
func (e *OrphanAgeError) Outcome() store.Outcome { return store.NotApplied }
