package largeitem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// VerifyOptions are the options of [Store.Verify].
type VerifyOptions struct {
	// Attributes are the names of the large attributes to verify; nil means all.
	Attributes []string

	// With Quick, Verify does not read the objects. It only asks the bucket whether each object
	// exists and has the size in its reference.
	Quick bool

	// Parallel is the number of objects that are read at the same time, 1 to [MaxParallel]; 0
	// means [DefaultSweepParallel].
	Parallel int

	// Rate is the largest number of objects that are read per second; 0 sets no limit.
	Rate int

	// After is the position of an earlier verification ([VerifyStats].Position or Checkpoint).
	// Verify continues there.
	After string

	// Checkpoint is called from time to time with the position up to which all items were verified
	// without a problem. After the first problem, Verify does not call it again. If Checkpoint
	// returns an error, the verification ends.
	Checkpoint func(position string) error

	// Verify calls Report for each problem, and Progress with the current counts. Only one
	// goroutine at a time calls the two functions. After Verify has returned, it calls neither of
	// them. They must not block.
	Report   func(Problem)
	Progress func(VerifyStats)
}

// ProblemKind says what is wrong with a reference.
type ProblemKind string

const (
	Missing    ProblemKind = "missing"    // the object does not exist
	Damaged    ProblemKind = "damaged"    // the object has another size or hash
	Foreign    ProblemKind = "foreign"    // the reference names another item's object, or another bucket
	Unreadable ProblemKind = "unreadable" // the attribute is not a reference, or Verify cannot read the object or the item
)

// Problem is a reference that is wrong, or an item that cannot be read.
type Problem struct {
	Kind ProblemKind

	// Key and Attr are zero if the item itself cannot be read. Then Err names the item.
	Key  Key
	Attr string

	URI string // text of the reference in the item; empty if the value is not a text
	Err error  // matches ErrMissing, store.ErrCorrupt or ErrForeign, or is the error of the read
}

// VerifyStats is the report of [Store.Verify].
type VerifyStats struct {
	Items      int64
	References int64 // verified references, including those with problems; an item that cannot be read counts as one reference
	Bytes      int64 // sizes of the objects without a problem
	Moved      int64 // references that a writer replaced or removed during the call; Verify then checks the new reference

	Missing    int64
	Damaged    int64
	Foreign    int64
	Unreadable int64
	Problems   []Problem // the first 100 problems

	// Complete says that the scan of the table reached its end.
	Complete bool

	// Another verification can continue at Position, because all items up to this position were
	// verified without a problem. It is empty if the table has no positions.
	Position string
	Elapsed  time.Duration
}

// Verify reads the table and the object of every reference. It checks the size and the hash of
// each object. It changes nothing, and may run at any time.
//
// Before Verify reports a problem with a reference, it reads the item again, consistently, and then
// reads the object again. If a writer has changed the item meanwhile, Verify checks the new
// reference instead.
//
// A problem does not end the verification. If the scan of the table can continue after a damaged
// item ([Table.Scan]), a damaged item does not end the verification either. The error is nil if the
// table was read to its end and there was no problem. Otherwise the error matches the error of the
// first problem: [ErrMissing], [ErrForeign], or [store.ErrCorrupt] for a damaged object or item.
//
// Verify costs the scan of the table and one request for each reference. It reads
// [VerifyOptions].Parallel objects at the same time. It uses 64 KiB of memory for each of these
// objects, and memory for one page of the scan.
func (s *Store) Verify(ctx context.Context, opts *VerifyOptions) (VerifyStats, error) {
	return traced(ctx, s, opVerify, s.prefix, func(ctx context.Context) (VerifyStats, error) { return s.verify(ctx, opts) })
}

func (s *Store) verify(ctx context.Context, opts *VerifyOptions) (VerifyStats, error) {
	o := *cmp.Or(opts, &VerifyOptions{})
	o.Parallel = cmp.Or(o.Parallel, DefaultSweepParallel)
	switch {
	case o.Parallel < 1 || o.Parallel > MaxParallel:
		return VerifyStats{}, fmt.Errorf("%w: VerifyOptions.Parallel is %d; 1 to %d are allowed", ErrInvalid, o.Parallel, MaxParallel)
	case o.Rate < 0:
		return VerifyStats{}, fmt.Errorf("%w: VerifyOptions.Rate is negative", ErrInvalid)
	case o.Attributes != nil && len(o.Attributes) == 0:
		return VerifyStats{}, fmt.Errorf("%w: VerifyOptions.Attributes is empty; nil selects all large attributes", ErrInvalid)
	}
	schema, err := s.table.Schema(ctx)
	if err != nil {
		return VerifyStats{}, err
	}
	v := &verifier{s: s, o: o, schema: schema, workers: newWorkers(o.Parallel, o.Rate)}
	v.found.Position = o.After
	began := time.Now()
	err = v.run(ctx)
	v.found.Elapsed = time.Since(began)
	return v.found, err
}

// verifier is one run of a verification.
type verifier struct {
	s       *Store
	o       VerifyOptions
	schema  Schema
	workers workers

	mu    sync.Mutex
	found VerifyStats
}

// held is an attribute of an item, with its value.
type held struct {
	key   Key
	attr  string
	value any
}

func (v *verifier) run(ctx context.Context) error {
	attributes := v.o.Attributes
	if attributes == nil {
		attributes = v.s.o.Attributes
	}
	var batch []held
	position := ""
	for row, err := range v.s.table.Scan(ctx, &ScanOptions{Attributes: attributes, After: v.o.After}) {
		switch {
		case err == nil:
		case errors.Is(err, store.ErrCorrupt) && row.Position != "": // of this item alone
			v.report(Problem{Kind: Unreadable, Err: err})
		default:
			return err
		}
		v.found.Items++
		for _, attr := range slices.Sorted(maps.Keys(row.Attributes)) {
			if h := (held{row.Key, attr, row.Attributes[attr]}); v.isLarge(h) {
				batch = append(batch, h)
			}
		}
		position = row.Position
		if len(batch) >= verifyBatch || v.found.Items%sweepPage == 0 {
			if err := v.verify(ctx, batch, position); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if err := v.verify(ctx, batch, position); err != nil {
		return err
	}
	v.found.Complete = true
	if len(v.found.Problems) > 0 {
		first := v.found.Problems[0]
		where := "an item"
		if first.Attr != "" {
			where = fmt.Sprintf("attribute %q of item %v", first.Attr, first.Key)
		}
		return fmt.Errorf("%d of %d references have a problem; the first is %s: %w",
			v.found.problems(), v.found.References, where, first.Err)
	}
	return nil
}

// verifyBatch is how many references are verified between two checkpoints.
const verifyBatch = 256

func (f *VerifyStats) problems() int64 { return f.Missing + f.Damaged + f.Foreign + f.Unreadable }

// isLarge reports whether the attribute is a reference, or should be one.
func (v *verifier) isLarge(h held) bool {
	if h.value == nil || v.o.Attributes != nil && !slices.Contains(v.o.Attributes, h.attr) || !v.s.isLarge(h.attr) {
		return false
	}
	if v.s.o.Attributes != nil {
		return true
	}
	_, ok, _ := v.s.refer(v.schema, h.key, h.attr, h.value)
	text, _ := h.value.(string)
	return ok || strings.HasPrefix(text, v.s.base+"/") // a damaged one
}

// verify verifies the references of some items, of which the last is at a position.
func (v *verifier) verify(ctx context.Context, batch []held, position string) error {
	err := v.workers.each(ctx, len(batch), nil, func(ctx context.Context, i int) error { return v.one(ctx, batch[i]) })
	if err != nil {
		return err
	}
	if v.o.Progress != nil {
		v.o.Progress(v.found)
	}
	if position == "" || v.found.problems() > 0 { // the next verification must find the problem again
		return nil
	}
	v.found.Position = position
	if v.o.Checkpoint != nil {
		return v.o.Checkpoint(position)
	}
	return nil
}

// maxMoves is how many new references of one attribute are verified that writers replace
// again and again.
const maxMoves = 10

// one verifies a reference. It returns an error only if the verification must end.
func (v *verifier) one(ctx context.Context, h held) error {
	second := false // look at the same reference
	for moves := 0; ; {
		size, problem := v.check(ctx, h)
		switch {
		case ctx.Err() != nil:
			return store.Cause(ctx)
		case problem == nil:
			v.count(func(f *VerifyStats) {
				f.References++
				f.Bytes += size
			})
			return nil
		case second || moves == maxMoves:
			v.report(*problem)
			return nil
		}
		now, err := again(ctx, v.s, func() (Attributes, error) {
			return v.s.table.Get(ctx, h.key, &GetOptions{Attributes: []string{h.attr}})
		})
		if err != nil && !isNotFound(err) {
			return err
		}
		value := now[h.attr]
		second = Equal(value, h.value)
		if second {
			continue
		}
		moves++
		h.value = value
		v.count(func(f *VerifyStats) { f.Moved++ })
		if !v.isLarge(h) {
			return nil
		}
	}
}

// check verifies an attribute of an item, and returns the size of the object.
func (v *verifier) check(ctx context.Context, h held) (int64, *Problem) {
	p := &Problem{Key: h.key, Attr: h.attr}
	p.URI, _ = h.value.(string)
	problem := func(kind ProblemKind, err error) (int64, *Problem) {
		p.Kind, p.Err = kind, err
		return 0, p
	}
	r, ok, foreign := v.s.refer(v.schema, h.key, h.attr, h.value)
	switch {
	case foreign != nil:
		return problem(Foreign, foreign)
	case !ok:
		return problem(Unreadable, fmt.Errorf("%w: the value %.300q is not a reference", ErrInvalid, fmt.Sprint(h.value)))
	}
	size, err := again(ctx, v.s, func() (int64, error) { return v.checkObject(ctx, h, r) })
	switch {
	case err == nil:
		return size, nil
	case errors.Is(err, ErrMissing):
		return problem(Missing, err)
	case isNotFound(err):
		return problem(Missing, fmt.Errorf("%w: %q", ErrMissing, r.Object))
	case errors.Is(err, store.ErrCorrupt):
		return problem(Damaged, err)
	}
	return problem(Unreadable, err)
}

// checkObject reports whether the object of an attribute is what its reference says, and
// its size.
func (v *verifier) checkObject(ctx context.Context, h held, r Reference) (int64, error) {
	if v.o.Quick {
		info, err := v.s.bucket.Stat(ctx, r.Object)
		if err == nil && r.Size >= 0 && info.Size != r.Size {
			err = fmt.Errorf("%w: the object %q has %d bytes, but must have %d", store.ErrCorrupt, r.Object, info.Size, r.Size)
		}
		return info.Size, err
	}
	body, err := v.s.body(ctx, &Item{Key: h.key, Refs: map[string]Reference{h.attr: r}, schema: v.schema}, h.attr)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	return io.CopyBuffer(onlyWriter{io.Discard}, body, make([]byte, copyBuffer))
}

func (v *verifier) count(change func(*VerifyStats)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.found)
}

// report counts a problem and passes it to the caller's Report.
func (v *verifier) report(p Problem) {
	v.count(func(f *VerifyStats) {
		f.References++
		*map[ProblemKind]*int64{Missing: &f.Missing, Damaged: &f.Damaged, Foreign: &f.Foreign, Unreadable: &f.Unreadable}[p.Kind]++
		if len(f.Problems) < maxFailures {
			f.Problems = append(f.Problems, p)
		}
		if v.o.Report != nil {
			v.o.Report(p)
		}
	})
}
