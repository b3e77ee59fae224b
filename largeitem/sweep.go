package largeitem

import (
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
	// Attributes restricts the sweep to the objects of these attributes; nil means all.
	Attributes []string

	// Scan reads the whole table before the sweep lists the bucket. It keeps every object to
	// which any item refers, also an item with a copied reference. [PynamoDBMateLayout] is always
	// swept with Scan. Such a sweep cannot be continued.
	Scan bool

	// Dir is the directory for the temporary files of a sweep with Scan: 32 bytes for each
	// reference, and about 400 for each object that it will remove. Empty means [os.TempDir]. The
	// sweep removes the files at the end.
	Dir string

	// Exclusive says that no program with pynamodb_mate writes to the table during the sweep or
	// has a write in flight. Then the sweep can remove objects that only their content names;
	// only [PynamoDBMateLayout] reads such objects.
	//
	// Without Exclusive, the sweep removes such objects only if the bucket keeps every version
	// ([object.VersionRemover]). It removes the listed version, so a new upload of the same
	// content stays. One risk remains. The other program can find the object just before the
	// removal, skip its upload, and write its item after the sweep has read that item. Then the
	// item refers to an object that does not exist.
	Exclusive bool

	// Uploads also removes the parts of incomplete uploads below the same prefix that are older
	// than the orphan age; see [object.SweepUploads].
	Uploads bool

	// Parallel is the number of requests at the same time, 1 to [MaxParallel]; 0 means
	// [DefaultSweepParallel].
	Parallel int

	// Rate is the largest number of requests per second: pages of the listing, look-ups of up to
	// 100 items, deletes, and Stats of single objects. 0 sets no limit.
	Rate int

	// Limit is the largest number of objects that the sweep removes; 0 sets no limit. If a sweep
	// reaches the limit, it ends without an error, and its report is not Complete.
	Limit int64

	// DryRun only reports what the sweep would remove.
	DryRun bool

	// After continues a sweep at the cursor of an earlier one ([SweepStats].Cursor or
	// Checkpoint). The other options should be the same.
	After string

	// Checkpoint is called with the cursor after each page of 1,000 objects. If the sweep is
	// killed, another sweep can continue from there. An empty cursor says that the bucket does
	// not list in the order of the keys. Then earlier cursors are not valid: a sweep that
	// continues at an earlier cursor does not remove all orphans. An error of Checkpoint ends the
	// sweep.
	Checkpoint func(cursor string) error

	// Progress is called with the counts after each page and after each removed object. Report is
	// called with each object that the sweep has removed, or would remove in a dry run. It is
	// also called with each object that could not be removed, with the error. One goroutine at a
	// time calls them, and never after Sweep has returned. They must not block.
	Progress func(SweepStats)
	Report   func(o Orphan, err error)
}

// Orphan is an object to which no item refers.
type Orphan struct {
	Object   string // key in the bucket
	Version  object.Version
	Size     int64     // in bytes
	Modified time.Time // time of the write, by the bucket's clock
	Owner    Owner     // owner of the object, as its name shows
}

// Failure is an object that could not be judged or removed, with the reason.
type Failure struct {
	Object string
	Err    error
}

// SweepStats is the report of [Store.Sweep]. The counts from Foreign to Failed add up to Seen.
type SweepStats struct {
	Seen  int64 // objects below the prefix that were judged
	Bytes int64 // sum of their sizes

	Foreign          int64 // kept: their names or metadata do not show that they belong to an item of this table
	TooYoung         int64 // kept: younger than the orphan age
	Undated          int64 // kept: the bucket does not return their age
	Referenced       int64 // kept: they are older than the orphan age, and an item refers to them
	Unreadable       int64 // kept: the attribute of their item is no reference to this bucket
	Shared           int64 // kept: named by their content alone, and not safe to remove; see [SweepOptions].Exclusive
	NotReached       int64 // kept: the sweep ended before it judged them
	ChangedMeanwhile int64 // another program has removed or replaced them during the sweep
	Deleted          int64 // removed; in a dry run, those that would be removed
	Failed           int64 // could not be judged or removed

	DeletedBytes int64     // sum of the sizes of the objects in Deleted
	Failures     []Failure // the first 100 failures

	// Complete says that the sweep reached the end of the listing.
	Complete bool

	// Cursor is where another sweep can continue. If an object could not be judged or removed,
	// Cursor stays before that object. Cursor is empty before the first page, with Scan, and if
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

// Sweep removes the objects of this table's large attributes to which no item refers. Failed
// writes leave such objects, and so do writes and deletes that supersede a reference. Sweep may
// run at any time, while programs read and write. Several sweeps may run at the same time.
//
// Sweep removes an object only if all of these conditions hold. In doubt it keeps the object.
//
//   - The name shows that the object belongs to this attribute of an item of this table. If the
//     name has only a hash of the key, the metadata shows it. The marker of the table must exist,
//     and the layout must be that of the store.
//   - The object is older than the orphan age. The age is Now - Modified of one answer of the
//     bucket. The clock of this machine does not count, unless the bucket is on this machine
//     ([object.Traits].Local). If listings do not have the time, the sweep sends a Stat for each
//     object.
//   - Two consistent reads of the item find no reference to the object. If the attribute has
//     another value that is no reference, the sweep keeps all objects of the attribute. If
//     [Options].Attributes is nil, a bool, a number, and a text that cannot be a damaged
//     reference do not count as such a value. A text with the ID of an object keeps that object,
//     because it can be a reference that another program has altered.
//
// No write refers to such an object again: names are unique to a write, and a write refers only
// to its own recent uploads, or to objects that the item already has. So the time between the
// second read and the removal does not matter. The delete is conditional on the listed version if
// the bucket can do that. An unconditional delete is as safe for the same reason. An object that
// only its content names is different; see [PynamoDBMateLayout] and [SweepOptions].Exclusive.
//
// If a reference was copied to another item, only a sweep with [SweepOptions].Scan keeps the
// object. A table that is restored from a backup can refer to objects that a sweep has removed
// since.
//
// # Cost
//
// For each 1,000 objects a sweep sends one listing and up to ten look-ups of up to 100 items.
// Each removed object costs a hundredth of a look-up and a delete. Each object whose name has
// only a hash of its key costs one more request. The sweep begins with one Get. It holds 1,000
// objects and their items' references in memory.
//
// A sweep with Scan requests the time, reads the table once, and lists the bucket once. It then
// looks up only the items of orphans, once. It holds up to 16 MiB more.
//
// # Errors
//
// A failed look-up or listing ends the sweep. A request to an unavailable store is sent three
// times. An item that cannot be read also ends the sweep, because it may refer to any object.
// After a failed delete, the sweep continues, and returns an error at the end. The report says
// what was done. A sweep with Scan removes nothing unless the scan and the listing were complete.
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
	setDefault(&o.Parallel, DefaultSweepParallel)
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
		return bad("After is set with Scan; a sweep that scans the table cannot be continued")
	case o.Attributes != nil && len(o.Attributes) == 0:
		return bad("Attributes is empty; nil means all")
	case slices.Contains(o.Attributes, ""):
		return bad("Attributes has an empty name")
	}
	return o, nil
}
