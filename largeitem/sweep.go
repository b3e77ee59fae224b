package largeitem

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/object"
)

const (
	// DefaultSweepParallel is how many requests a sweep or a verification has in flight by
	// default; [MaxParallel] is the most.
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
	// Attributes restricts the sweep to the objects of these attributes; nil means all.
	Attributes []string

	// OrphanAge is how old an object must be, by the bucket's clock, before it can be removed.
	// 0 means [Options].OrphanAge, and where that is 0 the orphan age of the table. Less than either
	// is refused; see [OrphanAgeError].
	OrphanAge time.Duration

	// Scan reads the whole table before the bucket is listed, and keeps every object that
	// any item refers to, also an item to which the reference was copied. [PynamoDBMateLayout] is
	// always swept so. Such a sweep cannot be continued.
	Scan bool

	// Dir is where a sweep that scans keeps its temporary files: 32 bytes for each
	// reference, and about 400 for each object that it will remove. Empty means
	// [os.TempDir]. The sweep removes them in the end.
	Dir string

	// Exclusive says that no program that uses pynamodb_mate writes to the table while the
	// sweep runs, nor has a write in flight. It lets the sweep remove objects that are named by
	// their content alone, which only [PynamoDBMateLayout] reads.
	//
	// Without it the sweep removes such objects only where the bucket keeps every version
	// ([object.VersionRemover]), by the id of the version that it has listed. Then an upload
	// of the same content meanwhile stays. One risk remains: the other program finds the
	// object just before the removal, skips its upload, and writes its item after the sweep
	// has read that item. Then the item refers to nothing.
	Exclusive bool

	// Uploads also removes the parts of uploads that were never completed, below the same
	// prefix and older than OrphanAge; see [object.SweepUploads].
	Uploads bool

	// Parallel is how many requests are in flight at a time, 1 to [MaxParallel]; 0
	// means [DefaultSweepParallel].
	Parallel int

	// Rate is how many requests the sweep sends per second at most: pages of the listing,
	// look-ups of up to 100 items, deletes, and Stats of single objects. 0 sets no limit.
	Rate int

	// Limit is how many objects are removed at most; 0 sets no limit. A sweep that reaches
	// it ends without an error, and its report is not Complete.
	Limit int64

	// DryRun reports what would be removed, and removes nothing.
	DryRun bool

	// After continues a sweep at the cursor of an earlier one ([SweepStats].Cursor or
	// Checkpoint). The other options should be the same.
	After string

	// The sweep calls Checkpoint with the cursor after each page of 1,000 objects, so that
	// another sweep can continue from there if this one is killed. An empty cursor says that
	// the bucket does not list in the order of the keys, so that earlier cursors are void. A
	// sweep that continues at one would leave orphans to the next sweep, and do no other harm.
	// An error of Checkpoint ends the sweep.
	Checkpoint func(cursor string) error

	// The sweep calls Progress with its counts after each page, and after each object that it
	// has removed. It calls Report with each object that it has removed, or would remove in a
	// dry run, and with each that it could not remove, with the error. One goroutine at a time
	// calls them, and never after Sweep has returned. They must not block.
	Progress func(SweepStats)
	Report   func(o Orphan, err error)
}

// Orphan is an object to which no item refers.
type Orphan struct {
	Object   string // its key in the bucket
	Version  object.Version
	Size     int64     // in bytes
	Modified time.Time // by the bucket's clock
	Owner    Owner     // of the item that it was written for
}

// Failure is an object that could not be judged or removed, with the reason.
type Failure struct {
	Object string
	Err    error
}

// SweepStats is the report of [Store.Sweep]. The counts from Foreign to Failed add up to Seen.
type SweepStats struct {
	Seen  int64 // objects below the prefix that were judged
	Bytes int64 // their sizes together

	Foreign          int64 // kept: their names or metadata do not show that they belong to an item of this table
	TooYoung         int64 // kept: younger than the orphan age
	Undated          int64 // kept: the bucket does not return their age
	Referenced       int64 // kept: they are older than the orphan age, and an item refers to them
	Unreadable       int64 // kept: the attribute of their item is no reference to this bucket
	Shared           int64 // kept: named by their content alone, and not safe to remove; see [SweepOptions].Exclusive
	NotReached       int64 // kept: the sweep ended before; counted at its end
	ChangedMeanwhile int64 // another program has removed or replaced them meanwhile
	Deleted          int64 // removed, or in a dry run those that would be
	Failed           int64 // could not be judged or removed

	DeletedBytes int64     // the sizes of those that Deleted counts
	Failures     []Failure // the first 100 of those that Failed counts

	// Complete says that the sweep reached the end of the listing.
	Complete bool

	// Cursor is where another sweep can continue. It does not pass an object that failed.
	// It is empty at the beginning, where the sweep scans, and where Unordered says that
	// the bucket did not list in the order of the keys.
	Cursor    string
	Unordered bool

	Items   int64             // that a scan has read
	Uploads object.SweepStats // with [SweepOptions].Uploads
	Elapsed time.Duration
}

// classified is how many of the objects seen were kept for a reason, or removed.
func (s *SweepStats) classified() int64 {
	return s.Foreign + s.TooYoung + s.Undated + s.Referenced + s.Unreadable + s.Shared + s.ChangedMeanwhile + s.Deleted + s.Failed
}

// Sweep removes the objects of this table's large attributes to which no item refers. Failed
// writes leave such objects, and so do writes and deletes that supersede a reference. It may
// run at any time, while programs read and write, and several sweeps may run at once.
//
// Sweep removes an object only if all of this holds. Otherwise, and in doubt, it keeps the
// object:
//
//   - Its name says that it belongs to this attribute of an item of this table. If the name has
//     only a hash of the key, the metadata says so. The marker of the table must exist, and
//     the layout must be that of the store.
//   - It is older than the orphan age: Now less Modified of one answer of the bucket, whatever
//     the clock of this machine. If the bucket does not return the time in its listings, the
//     sweep sends a Stat for each object. Only for a bucket on this machine
//     ([object.Traits].Local), which has no other clock, this machine's clock counts.
//   - Two consistent reads of the item, one after the other, find no reference to it. If the
//     attribute of the item is something else than a reference, that keeps all objects of the
//     attribute. (Where [Options].Attributes is nil, a bool, a number, or a text that cannot
//     be a damaged reference does not.) A text there that contains the ID of an object keeps
//     that object: it can be a reference that another program has altered.
//
// No write makes a reference to such an object again: names are unique to a write, and a
// write refers only to what it has uploaded less than half the orphan age before. So it does
// not matter how long after the second read the object is removed. The delete is conditional
// on the listed version where the bucket can do that. Elsewhere it is unconditional, which is
// as safe for the same reason. For an object that is named by its content alone this does not
// hold; see [PynamoDBMateLayout] and [SweepOptions].Exclusive.
//
// A reference that was copied to another item protects the object only in a sweep with
// [SweepOptions].Scan. A table that is restored from a backup can refer to objects that a
// sweep has removed since.
//
// # Cost
//
// For each 1,000 objects: one listing and up to ten look-ups of up to 100 items; for each
// object that is removed a hundredth of a look-up and a delete; one request more for each
// object whose name has only a hash of its key, and a Get at the beginning. A sweep that
// scans asks for the time at its beginning, reads the table once, lists the bucket once, and
// looks at the items of orphans alone, once. A sweep holds 1,000 objects and what their items
// refer to in memory; one that scans holds up to 16 MiB more.
//
// # Errors
//
// A look-up or a listing that fails ends the sweep; a request that is unavailable is sent three
// times. So does an item that cannot be read, since it may refer to any object. After a delete
// that fails, the sweep continues, and returns an error in the end. The report says in both
// cases what was done, and the outcome of the delete does not matter. A sweep that scans
// removes nothing unless the scan and the listing were complete.
func (s *Store) Sweep(ctx context.Context, opts *SweepOptions) (SweepStats, error) {
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
	var o SweepOptions
	if opts != nil {
		o = *opts
	}
	setDefault(&o.OrphanAge, s.o.OrphanAge)
	setDefault(&o.Parallel, DefaultSweepParallel)
	if _, mate := s.layout.(pynamoDBMateLayout); mate {
		o.Scan = true
	}
	bad := func(format string, args ...any) (SweepOptions, error) {
		return o, fmt.Errorf("%w: SweepOptions."+format, append([]any{ErrInvalid}, args...)...)
	}
	switch {
	case o.OrphanAge < s.o.OrphanAge:
		return bad("OrphanAge is %v; it must not be less than Options.OrphanAge, %v", o.OrphanAge, s.o.OrphanAge)
	case o.OrphanAge != 0 && !validOrphanAge(o.OrphanAge):
		return bad("OrphanAge is %v; %v to %v are allowed", o.OrphanAge, MinOrphanAge, MaxOrphanAge)
	case o.Parallel < 1 || o.Parallel > MaxParallel:
		return bad("Parallel is %d, 1 to %d are allowed", o.Parallel, MaxParallel)
	case o.Rate < 0:
		return bad("Rate is negative")
	case o.Limit < 0:
		return bad("Limit is negative")
	case o.Scan && o.After != "":
		return bad("After is set with Scan; a sweep that scans the table cannot be continued")
	case o.Attributes != nil && len(o.Attributes) == 0:
		return bad("Attributes is empty; nil means all")
	case slices.Contains(o.Attributes, ""):
		return bad("Attributes has an empty name")
	}
	return o, nil
}
