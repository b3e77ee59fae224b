package largeitem

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/object"
)

const (
	// DefaultSweepParallel is the default number of requests that a sweep or a verification sends
	// at the same time. [MaxParallel] is the largest number.
	DefaultSweepParallel = 8

	// maxFailures is how many failures a report lists. All are counted.
	maxFailures = 100

	// sweepPage is how many objects a sweep holds in memory at a time.
	sweepPage = 1000

	// sweepBatch is how many items one look-up asks for.
	sweepBatch = 100
)

// SweepOptions are the options of [Store.Sweep].
type SweepOptions struct {
	// Attributes restricts the sweep to the objects of these attributes; nil means all attributes.
	Attributes []string

	// With Scan, the sweep reads the whole table before it lists the bucket. It then keeps every
	// object to which any item refers, even if the reference was copied from another item or
	// attribute. With [PynamoDBMateLayout], every sweep uses Scan. A sweep with Scan cannot continue
	// an earlier sweep.
	Scan bool

	// Dir is the directory for the temporary files of a sweep with Scan. The files have 32 bytes
	// for each reference, and about 400 bytes for each object that the sweep will remove. Empty
	// means [os.TempDir]. The sweep removes the files at the end.
	Dir string

	// Set Exclusive only if no program with pynamodb_mate writes to the table during the sweep, and
	// no earlier write of such a program is still in progress. The sweep can then also remove
	// objects whose names depend only on their content. Only tables with a [PynamoDBMateLayout]
	// have such objects.
	//
	// Without Exclusive, the sweep removes such objects only if the bucket keeps every version
	// ([object.VersionRemover]). It removes only the listed version, so it does not remove a new
	// upload of the same content. One risk remains. Directly before the removal, a program with
	// pynamodb_mate can find the object, and so not upload the content. If that program writes its
	// item after the sweep has read the item, the item refers to an object that does not exist.
	Exclusive bool

	// With Uploads, the sweep also removes incomplete uploads below the prefix whose newest part is
	// older than the orphan age; see [object.SweepUploads].
	Uploads bool

	// Parallel is the number of requests at the same time, 1 to [MaxParallel]; 0 means
	// [DefaultSweepParallel].
	Parallel int

	// Rate is the largest number of requests per second. Requests are pages of the listing,
	// look-ups of up to 100 items, deletes, and Stats of single objects. 0 sets no limit.
	Rate int

	// Limit is the largest number of objects that the sweep removes; 0 sets no limit. If a sweep
	// reaches the limit, it ends without an error, and [SweepStats].Complete is false.
	Limit int64

	// With DryRun, the sweep removes nothing, and reports what it would remove.
	DryRun bool

	// After is the cursor of an earlier sweep ([SweepStats].Cursor or Checkpoint). The sweep
	// continues there. The other options should be the same as in the earlier sweep.
	After string

	// Checkpoint is called with the cursor after each page of 1,000 objects. If the sweep is
	// killed, another sweep can continue at the last cursor. An empty cursor means that the bucket
	// does not list in the order of the keys. Then earlier cursors are not valid: a sweep that
	// continues at an earlier cursor does not remove all orphans. If Checkpoint returns an error,
	// the sweep ends.
	Checkpoint func(cursor string) error

	// Sweep calls Progress with the counts after each page and after each removed object. It calls
	// Report for each object that it has removed, or would remove in a dry run. If it could not
	// remove an object, it calls Report with the error. Only one goroutine at a time calls the two
	// functions. After Sweep has returned, it calls neither of them. They must not block.
	Progress func(SweepStats)
	Report   func(o Orphan, err error)
}

// Orphan is an object to which no item refers.
type Orphan struct {
	Object   string // key in the bucket
	Version  object.Version
	Size     int64     // in bytes
	Modified time.Time // time of the write, by the bucket's clock
	Owner    Owner     // owner of the object, from its name
}

// Failure is an object that the sweep could not check or remove, with the reason.
type Failure struct {
	Object string
	Err    error
}

// SweepStats is the report of [Store.Sweep]. The counts from Foreign to Failed add up to Seen.
type SweepStats struct {
	Seen  int64 // objects below the prefix that the sweep has listed
	Bytes int64 // sum of the sizes of the objects in Seen

	Foreign          int64 // kept: their names or metadata do not show that they belong to an item of this table
	TooYoung         int64 // kept: younger than the orphan age
	Undated          int64 // kept: the bucket does not return their time of writing
	Referenced       int64 // kept: older than the orphan age, but an item refers to them
	Unreadable       int64 // kept: the attribute of their item has a value that is no reference to this bucket
	Shared           int64 // kept: their names depend only on the content, and a removal is not safe; see [SweepOptions].Exclusive
	NotReached       int64 // kept: the sweep ended before it checked them
	ChangedMeanwhile int64 // removed or replaced by another program during the sweep
	Deleted          int64 // removed; in a dry run, those that would be removed
	Failed           int64 // kept: the sweep could not check or remove them

	DeletedBytes int64     // sum of the sizes of the objects in Deleted
	Failures     []Failure // the first 100 failures

	// Complete says that the sweep reached the end of the listing.
	Complete bool

	// Another sweep can continue at Cursor. If the sweep could not check or remove an object,
	// Cursor is before that object. Cursor is empty before the first page, with Scan, and if
	// Unordered is set. Unordered says that the bucket did not list in the order of the keys.
	Cursor    string
	Unordered bool

	Items   int64             // items that a scan has read
	Uploads object.SweepStats // result of [SweepOptions].Uploads
	Elapsed time.Duration
}

// classified is how many of the objects seen were kept for a reason, or removed.
func (s *SweepStats) classified() int64 {
	return s.Foreign + s.TooYoung + s.Undated + s.Referenced + s.Unreadable + s.Shared + s.ChangedMeanwhile + s.Deleted + s.Failed
}

// Sweep removes the objects of this table's large attributes to which no item refers. Such objects
// remain after failed writes, and after writes and deletes that replace or remove a reference.
// Sweep may run at any time, even while programs read and write. Several sweeps may run at the same
// time.
//
// Sweep removes an object only if all of these conditions hold. If Sweep cannot be sure, it keeps
// the object.
//
//   - The name shows that the object belongs to a swept attribute of an item of this table. If the
//     name has only a hash of the key, the metadata shows the item. The marker of the table must
//     exist, and the name must have the form of the store's layout.
//   - The object is older than the orphan age. The age is Now minus Modified. Both times are from
//     one answer of the bucket. Sweep uses the clock of this machine only if the bucket is on this
//     machine ([object.Traits].Local). If the listing of the bucket has no times, Sweep sends a
//     Stat for each object.
//   - Two consistent reads of the attribute find no reference to the object. If the attribute has a
//     value that is not a reference, Sweep keeps all objects of the attribute. There is an
//     exception if [Options].Attributes is nil: Sweep then ignores a bool, a number, and a text
//     that cannot be a damaged reference. If a text contains the ID of an object, Sweep keeps the
//     object, because the text can be a reference that another program has altered.
//
// No write refers to such an object again, because no two writes use the same name. A write refers
// only to its own recent uploads, or to objects to which the item already refers. So the time
// between the second read and the removal does not matter. If the bucket supports conditional
// deletes, the delete is conditional on the listed version. An unconditional delete is equally
// safe, because no write refers to the object again. This paragraph is not true for an object whose
// name depends only on its content; see [PynamoDBMateLayout] and [SweepOptions].Exclusive.
//
// If a program has copied a reference to another item or attribute, only a sweep with
// [SweepOptions].Scan keeps the object. If a table is restored from a backup, its items can refer to
// objects that a sweep has removed after the backup. The same can happen if the database fails over to
// a replica that lacks the last writes.
//
// # Cost
//
// For each 1,000 objects a sweep sends one listing and up to ten look-ups of up to 100 items. Each
// removed object costs one delete, and each 100 removed objects cost one more look-up. Each object
// whose name has only a hash of its key costs one more request. Each sweep begins with one Get for
// the marker. In memory, the sweep holds the names of 1,000 objects and the references of their
// items.
//
// A sweep with Scan sends one request for the bucket's time, reads the table once, and lists the
// bucket once. It then looks up only the items of orphans, once. It uses up to 16 MiB more memory.
//
// # Errors
//
// A failed look-up or listing ends the sweep. If the table or the bucket is unavailable, Sweep
// sends the request up to three times. An item that cannot be read also ends the sweep, because it
// may refer to any object. After a failed delete, the sweep continues, and returns an error at the
// end. The SweepStats say what the sweep has done. If the scan or the listing is not complete, a
// sweep with Scan removes nothing.
func (s *Store) Sweep(ctx context.Context, opts *SweepOptions) (SweepStats, error) {
	return traced(ctx, s, opSweep, s.prefix, func(ctx context.Context) (SweepStats, error) { return s.sweep(ctx, opts) })
}

func (s *Store) sweep(ctx context.Context, opts *SweepOptions) (SweepStats, error) {
	w, err := s.newSweep(ctx, opts)
	if err != nil {
		return SweepStats{}, err
	}
	began := time.Now()
	err = w.run(ctx)
	w.swept.Elapsed = time.Since(began)
	w.swept.NotReached = w.swept.Seen - w.swept.classified()
	return w.swept, err
}

// checkSweep returns the options with their defaults.
func (s *Store) checkSweep(opts *SweepOptions) (SweepOptions, error) {
	o := *cmp.Or(opts, &SweepOptions{})
	o.Parallel = cmp.Or(o.Parallel, DefaultSweepParallel)
	if _, mate := s.layout.(pynamoDBMateLayout); mate {
		o.Scan = true
	}
	bad := func(format string, args ...any) (SweepOptions, error) {
		return o, fmt.Errorf("%w: SweepOptions."+format, append([]any{ErrInvalid}, args...)...)
	}
	switch {
	case o.Parallel < 1 || o.Parallel > MaxParallel:
		return bad("Parallel is %d, 1 to %d are allowed", o.Parallel, MaxParallel)
	case o.Rate < 0:
		return bad("Rate is negative")
	case o.Limit < 0:
		return bad("Limit is negative")
	case o.Scan && o.After != "":
		return bad("After is set with Scan; a sweep that scans the table cannot continue an earlier sweep")
	case o.Attributes != nil && len(o.Attributes) == 0:
		return bad("Attributes is empty; nil selects all attributes")
	case slices.Contains(o.Attributes, ""):
		return bad("Attributes has an empty name")
	}
	return o, nil
}
