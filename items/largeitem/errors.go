package largeitem

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The errors of this package, for [errors.Is]. Calls also return errors of package store.
var (
	// ErrInvalid: the arguments contradict each other or break a rule. Nothing was changed.
	ErrInvalid = store.NewError("invalid argument", store.NotApplied, store.ErrInvalid)

	// ErrKey: the key cannot name an item of this table. Nothing was changed.
	ErrKey = store.NewError("invalid key", store.NotApplied, store.ErrKey, ErrInvalid, store.ErrInvalid)

	// ErrForeign: an attribute has a reference that belongs to another attribute or another item,
	// or that names another bucket. See [ReferenceError].
	ErrForeign = store.NewError("foreign reference", store.NotApplied, store.ErrPermanent)

	// ErrCommitted: [PreparedWrite.Abort] was called for a write that was applied. Nothing was
	// removed.
	ErrCommitted = errors.New("the prepared write was already applied")

	// ErrMissing: an item refers to an object that does not exist.
	ErrMissing = errors.New("the object is missing")
)

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// OtherTableError says that the objects below the prefix do not belong to the store's table, but to
// another table. Use another [Options].Prefix. If the other table no longer exists, and its objects
// may be removed, set [Options].AdoptPrefix. The error matches [store.ErrMisconfigured]. Nothing
// was changed.
type OtherTableError struct {
	Object         string // the marker, which names the table
	Table, ID      string // [Schema].Name and ID of the table that the marker names
	Store, StoreID string // Name and ID of the store's table
}

func (e *OtherTableError) Error() string {
	help := "Use another prefix. If the other table does not exist any more and its objects may be removed, you can adopt this prefix"
	if e.Copied() {
		help = "One table is a copy of the other table, or the table was moved. For a copy, use another prefix. After a move, adopt this prefix if no program uses the table in its old place"
	}
	return fmt.Sprintf("the object %q says that the objects under this prefix belong to the table %q (%s), but the table of this store is %q (%s). %s",
		e.Object, e.Table, e.ID, e.Store, e.StoreID, help)
}

// Copied reports whether both tables have the same mark: a random text that is copied with a table.
// If Copied is true, one table is a copy of the other table, or the table was moved.
func (e *OtherTableError) Copied() bool {
	mark, _, marked := strings.Cut(e.ID, "@")
	own, _, _ := strings.Cut(e.StoreID, "@")
	return marked && mark == own
}

// Is makes an OtherTableError match store.ErrMisconfigured.
func (e *OtherTableError) Is(target error) bool { return target == store.ErrMisconfigured }

// Outcome returns NotApplied.
func (e *OtherTableError) Outcome() store.Outcome { return store.NotApplied }

// OrphanAgeError says that the orphan age of a program does not fit the orphan age of the table. If
// the orphan age of a sweep were too short, the sweep would remove objects that a slow writer still
// needs. If the orphan age of a writer were too long, sweeps could remove the objects of that
// writer. To use the orphan age of the table, set [Options].OrphanAge to zero. To change the orphan
// age of the table, call [Store.ChangeOrphanAge]. The error matches [store.ErrMisconfigured].
// Nothing was changed, unless the error ends a sweep in progress.
type OrphanAgeError struct {
	Object string        // the marker with the orphan age of the table
	Table  time.Duration // for a writer: the longest orphan age that the table allows; for a sweep: the shortest
	Given  time.Duration
	Sweep  bool

	// Until is the time, by the bucket's clock, up to which an earlier and longer orphan age still
	// applies to sweeps. If there was no such orphan age, Until is zero.
	Until time.Time
}

func (e *OrphanAgeError) Error() string {
	limit, change, why := "at most", "longer", "a slow write could refer to an object that a sweep has removed"
	if e.Sweep {
		limit, change, why = "at least", "shorter", "the sweep could remove an object that a slow writer still needs"
	}
	until := ""
	if !e.Until.IsZero() {
		until = fmt.Sprintf(" until %s, because a program made the orphan age shorter", e.Until.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the given orphan age is %v, but the object %q says that the orphan age of the table is %v%s; %s. Use an orphan age of %s %[3]v, use 0 for the orphan age of the table, or make the orphan age of the table %[7]s with Store.ChangeOrphanAge",
		e.Given, e.Object, e.Table, until, why, limit, change)
}

// Is makes an OrphanAgeError match store.ErrMisconfigured.
func (e *OrphanAgeError) Is(target error) bool { return target == store.ErrMisconfigured }

// Outcome returns NotApplied.
func (e *OrphanAgeError) Outcome() store.Outcome { return store.NotApplied }
