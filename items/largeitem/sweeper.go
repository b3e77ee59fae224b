package largeitem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// sweeper is one run of a sweep. One goroutine runs it; jobs of workers change only what
// mu guards, or what is theirs alone.
type sweeper struct {
	s       *Store
	o       SweepOptions
	schema  Schema
	below   string           // what the keys of this table's objects begin with
	age     time.Duration    // of objects that are removed, at least
	marked  sysclock.Reading // of the last read of the marker
	workers workers

	// scanned is the time by the bucket's clock before a scan of the table began.
	scanned time.Time

	begun int64 // deletes

	// versions removes objects that are named by their content alone; nil where they are
	// kept, or are removed like all others. It is not known before asked is true.
	versions object.VersionRemover
	asked    bool

	mu            sync.Mutex
	swept         SweepStats
	unconditional bool // the bucket does not delete conditionally
}

func (s *Store) newSweep(ctx context.Context, opts *SweepOptions) (*sweeper, error) {
	o, err := s.checkSweep(opts)
	if err != nil {
		return nil, err
	}
	w := &sweeper{s: s, o: o, age: s.o.OrphanAge, workers: newWorkers(o.Parallel, o.Rate)}
	if w.schema, err = s.table.Schema(ctx); err != nil {
		return nil, err
	}
	w.below = strings.TrimSuffix(w.s.markerKey(w.schema), markerName)
	if o.After != "" && !strings.HasPrefix(o.After, w.below) {
		return nil, fmt.Errorf("%w: SweepOptions.After is %.300q, which is not a cursor of this table; a cursor begins with %q", ErrInvalid, o.After, w.below)
	}
	w.swept.Cursor = o.After
	return w, nil
}

func (w *sweeper) run(ctx context.Context) error {
	err := w.checkMarker(ctx)
	if errors.Is(err, store.ErrMisconfigured) {
		if w.empty(ctx) {
			w.swept.Complete = true
			return nil // nothing was ever written
		}
		err = w.checkMarker(ctx) // the first write may have come in between
	}
	if err != nil {
		return err
	}
	if w.o.Scan {
		err = w.byScan(ctx)
	} else {
		err = w.byLookups(ctx)
	}
	if err == nil && w.o.Uploads {
		err = w.uploads(ctx)
	}
	if w.swept.Failed > 0 {
		first := w.swept.Failures[0]
		failures := fmt.Errorf("%d of %d objects could not be checked or removed; the first is %q: %w", w.swept.Failed, w.swept.Seen, first.Object, first.Err)
		err = errors.Join(err, failures)
	}
	return err
}

// checkMarker makes sure that the prefix is the table's, and the orphan age long enough.
func (w *sweeper) checkMarker(ctx context.Context) error {
	asked := sysclock.Read()
	m, err := again(ctx, w.s, func() (marker, error) { return w.s.checkMarker(ctx, w.schema) })
	if err != nil {
		return err
	}
	w.age = cmp.Or(w.age, m.least())
	if least := m.least(); w.age < least {
		e := &OrphanAgeError{Object: w.s.markerKey(w.schema), Table: least, Given: w.age, Sweep: true}
		if least > m.grace() && !m.modified.IsZero() {
			e.Until = m.modified.Add(least / 2 * 3)
		}
		return e
	}
	w.marked = asked
	return nil
}

// recheckMarker reads the marker again, after ages were judged, if half of the orphan age has
// passed since the last read. A writer with a longer orphan age reads the marker before its
// first upload. So none of its objects can have been older than the sweep's orphan age.
func (w *sweeper) recheckMarker(ctx context.Context) error {
	if w.marked.Elapsed() < w.age/2 {
		return nil
	}
	err := w.checkMarker(ctx)
	if errors.As(err, new(*OrphanAgeError)) {
		err = fmt.Errorf("the orphan age of the table was changed during the sweep; start the sweep again: %w", err)
	}
	return err
}

// empty reports whether there is certainly no object below the table's prefix.
func (w *sweeper) empty(ctx context.Context) bool {
	for range w.s.bucket.List(ctx, w.below, nil) {
		return false // or an error
	}
	return true
}

// byLookups judges each page of the listing by look-ups of its items.
func (w *sweeper) byLookups(ctx context.Context) error {
	for page, err := range w.pages(ctx) {
		if err != nil {
			return err
		}
		orphans, err := w.classify(ctx, page)
		if err == nil {
			err = w.recheckMarker(ctx)
		}
		for look := 1; err == nil && look <= 2; look++ {
			orphans, err = w.lookUp(ctx, orphans)
		}
		if err == nil {
			err = w.remove(ctx, orphans)
		}
		if err != nil {
			return err
		}
		if w.full() {
			return nil
		}
		if err := w.pageDone(page); err != nil {
			return err
		}
	}
	w.swept.Complete = true
	return nil
}

// byScan reads the references of all items first, then the listing, and then the items of the
// objects that no reference names.
func (w *sweeper) byScan(ctx context.Context) (err error) {
	marker, err := w.s.bucket.Stat(ctx, w.s.markerKey(w.schema))
	if err != nil {
		return err
	}
	w.scanned = w.s.dated(marker).Now
	if err := w.recheckMarker(ctx); err != nil {
		return err
	}
	refs := &fingerprintSet{dir: w.o.Dir, max: maxFingerprints, maxIndex: maxIndex}
	defer func() { err = errors.Join(err, refs.close()) }()
	if err := w.readTable(ctx, refs); err != nil {
		return err
	}
	orphans, err := newQueue(w.o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, orphans.file.Close()) }()
	for page, err := range w.pages(ctx) {
		if err != nil {
			return err
		}
		some, err := w.classify(ctx, page)
		if err != nil {
			return err
		}
		for _, o := range some {
			found, err := refs.has(o.Object)
			switch {
			case err != nil:
				return err
			case found:
				w.count(referenced)
			default:
				if err := orphans.add(o); err != nil {
					return err
				}
			}
		}
		w.report()
	}
	for page, err := range inPages(orphans.all) {
		if w.full() {
			return nil
		}
		if err == nil {
			page, err = w.lookUp(ctx, page)
		}
		if err == nil {
			err = w.remove(ctx, page)
		}
		if err != nil {
			return err
		}
	}
	w.swept.Complete = !w.full()
	return nil
}

// readTable adds the keys of all objects to which items refer.
func (w *sweeper) readTable(ctx context.Context, refs *fingerprintSet) error {
	for row, err := range w.s.table.Scan(ctx, nil) {
		if err != nil {
			return err
		}
		w.swept.Items++
		for _, value := range row.Attributes {
			for key := range w.objectsOf(value) {
				if err := refs.add(key); err != nil {
					return err
				}
			}
		}
		if w.swept.Items%sweepPage == 0 {
			w.report()
			if ctx.Err() != nil {
				return store.Cause(ctx)
			}
		}
	}
	return refs.seal()
}

// pages yields the listing below the table's prefix, without what it repeats.
func (w *sweeper) pages(ctx context.Context) iter.Seq2[[]object.Info, error] {
	marker := w.s.markerKey(w.schema)
	last := w.o.After
	listing := func(yield func(object.Info, error) bool) {
		for info, err := range w.s.bucket.List(ctx, w.below, &object.ListOptions{After: w.o.After}) {
			switch {
			case err != nil:
				yield(info, err)
				return
			case info.Key == marker || info.Key == last:
				continue
			case info.Key < last:
				w.swept.Unordered = true
			}
			last = info.Key
			if !yield(w.s.dated(info), nil) {
				return
			}
		}
	}
	return func(yield func([]object.Info, error) bool) {
		for page, err := range inPages(listing) {
			if err == nil {
				err = w.workers.pace.wait(ctx)
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

// inPages collects what a sequence yields. It yields no page before an error that is not
// full.
func inPages[T any](all iter.Seq2[T, error]) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var page []T
		for v, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			page = append(page, v)
			if len(page) == sweepPage {
				if !yield(page, nil) {
					return
				}
				page = page[:0]
			}
		}
		if len(page) > 0 {
			yield(page, nil)
		}
	}
}

// pageDone moves the cursor after a page, if nothing in it or before it failed.
func (w *sweeper) pageDone(page []object.Info) error {
	switch last := page[len(page)-1].Key; {
	case w.swept.Unordered:
		w.swept.Cursor = ""
	case w.swept.Failed > 0:
	case strings.HasPrefix(last, w.below):
		w.swept.Cursor = last
	}
	w.report()
	if w.o.Checkpoint != nil {
		return w.o.Checkpoint(w.swept.Cursor)
	}
	return nil
}

// classify returns those of a page that may be orphans, by name and age.
func (w *sweeper) classify(ctx context.Context, page []object.Info) ([]Orphan, error) {
	listed := make([]Orphan, len(page))
	verdicts := make([]func(*SweepStats), len(page)) // nil: it may be an orphan
	err := w.workers.each(ctx, len(page), func(i int) bool {
		listed[i], verdicts[i] = w.classifyName(page[i])
		return verdicts[i] == nil && (page[i].Now.IsZero() || listed[i].Owner.Key == Key{})
	}, func(ctx context.Context, i int) error {
		info, err := again(ctx, w.s, func() (object.Info, error) { return w.s.bucket.Stat(ctx, page[i].Key) })
		switch {
		case errors.Is(err, store.ErrNotFound):
			verdicts[i] = gone
			return nil
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			verdicts[i] = w.failed(listed[i], err)
			return nil
		}
		verdicts[i] = w.classifyObject(&listed[i], w.s.dated(info))
		return nil
	})
	if err != nil {
		return nil, err
	}
	var orphans []Orphan
	for i, info := range page {
		w.count(func(s *SweepStats) {
			s.Seen++
			s.Bytes += info.Size
		})
		if verdicts[i] == nil {
			orphans = append(orphans, listed[i])
		} else {
			w.count(verdicts[i])
		}
	}
	return orphans, nil
}

// The verdicts on an object.
func foreign(s *SweepStats)    { s.Foreign++ }
func young(s *SweepStats)      { s.TooYoung++ }
func undated(s *SweepStats)    { s.Undated++ }
func referenced(s *SweepStats) { s.Referenced++ }
func unreadable(s *SweepStats) { s.Unreadable++ }
func shared(s *SweepStats)     { s.Shared++ }
func gone(s *SweepStats)       { s.ChangedMeanwhile++ }

// classifyName judges an object by the listing. If that is not enough, classify sends a Stat
// for the object.
func (w *sweeper) classifyName(info object.Info) (Orphan, func(*SweepStats)) {
	o := Orphan{Object: info.Key, Version: info.Version, Size: info.Size, Modified: info.Modified}
	if !strings.HasPrefix(info.Key, w.below) {
		return o, foreign
	}
	var ok bool
	o.Owner, ok = w.s.layout.owner(w.schema, info.Key[len(w.s.prefix):])
	if !ok || w.o.Attributes != nil && !slices.Contains(w.o.Attributes, o.Owner.Attr) {
		return o, foreign
	}
	if !info.Now.IsZero() {
		return o, w.classifyAge(info)
	}
	return o, nil
}

// classifyAge compares times of one answer of the bucket.
func (w *sweeper) classifyAge(info object.Info) func(*SweepStats) {
	now := info.Now
	if w.o.Scan && w.scanned.Before(now) {
		now = w.scanned // references of later writes are not known
	}
	switch {
	case info.Modified.IsZero() || now.IsZero():
		return undated
	case now.Sub(info.Modified) <= w.age:
		return young
	}
	return nil
}

// classifyObject judges an object by an answer with its metadata.
func (w *sweeper) classifyObject(o *Orphan, info object.Info) func(*SweepStats) {
	o.Version, o.Modified = info.Version, info.Modified
	if verdict := w.classifyAge(info); verdict != nil {
		return verdict
	}
	if (o.Owner.Key == Key{}) {
		key, ok := keyIn(info.Metadata)
		if !ok || w.schema.CheckKey(key) != nil || !w.s.layout.owns(w.schema, key, o.Owner.Attr, o.Object[len(w.s.prefix):]) {
			return foreign
		}
		o.Owner.Key = key
	}
	return nil
}

// sight is what a look-up has found.
type sight struct {
	mu         sync.Mutex
	referenced map[string]bool       // keys of objects
	unclear    map[attributeRef]bool // attributes whose value is no reference
	altered    map[attributeRef]bool // by ID: those of which the item has a text with the ID
}

// attributeRef is an attribute of an item.
type attributeRef struct {
	key      Key
	attr, id string
}

// attributeRefOf is where an item refers to an object.
func attributeRefOf(o Orphan) attributeRef {
	return attributeRef{o.Owner.Key, o.Owner.Attr, o.Owner.ID}
}

// lookUp reads the items of objects that may be orphans, and returns those to which none
// refers.
func (w *sweeper) lookUp(ctx context.Context, orphans []Orphan) ([]Orphan, error) {
	names, known := map[string]bool{}, map[Key]bool{}
	seen := &sight{referenced: map[string]bool{}, unclear: map[attributeRef]bool{}, altered: map[attributeRef]bool{}}
	var keys []Key
	for _, o := range orphans {
		if isID(o.Owner.ID) {
			seen.altered[attributeRefOf(o)] = false
		}
		if names[o.Owner.Attr] = true; !known[o.Owner.Key] {
			known[o.Owner.Key] = true
			keys = append(keys, o.Owner.Key)
		}
	}
	for _, name := range w.s.o.Attributes {
		names[name] = true
	}
	read := &GetOptions{Attributes: slices.Sorted(maps.Keys(names))}
	batches := slices.Collect(slices.Chunk(keys, sweepBatch))
	err := w.workers.each(ctx, len(batches), nil, func(ctx context.Context, i int) error {
		items, err := again(ctx, w.s, func() ([]Attributes, error) { return GetMany(ctx, w.s.table, batches[i], read) })
		if err == nil && len(items) != len(batches[i]) {
			err = fmt.Errorf("%w: the table returned %d items for %d keys", store.ErrUnavailable, len(items), len(batches[i]))
		}
		if err == nil {
			w.note(seen, batches[i], items)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var left []Orphan
	for _, o := range orphans {
		switch {
		case seen.referenced[o.Object]:
			w.count(referenced)
		case seen.unclear[attributeRef{o.Owner.Key, o.Owner.Attr, ""}], seen.altered[attributeRefOf(o)]:
			w.count(unreadable)
		default:
			left = append(left, o)
		}
	}
	return left, nil
}

// note notes what items refer to.
func (w *sweeper) note(seen *sight, keys []Key, items []Attributes) {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for i, item := range items {
		for attr, value := range item {
			for key := range w.objectsOf(value) {
				seen.referenced[key] = true
			}
			if !w.s.isReference(value) && !w.s.isPlain(attr, value) {
				seen.unclear[attributeRef{keys[i], attr, ""}] = true
			}
			for text := range textsOf(value) {
				for id := range idsIn(strings.ToLower(text)) {
					at := attributeRef{keys[i], attr, id}
					if _, asked := seen.altered[at]; asked {
						seen.altered[at] = true
					}
				}
			}
		}
	}
}

// objectsOf yields the keys of all objects to which a value refers, or may have referred
// before it was damaged.
func (w *sweeper) objectsOf(value any) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text := range textsOf(value) {
			rest, ok := strings.CutPrefix(text, w.s.base+"/")
			if !ok {
				continue
			}
			// A damaged reference may name the object still, with or without what follows it.
			first, _, _ := strings.Cut(rest, "#")
			for _, key := range []string{rest, rest[:max(0, strings.LastIndexByte(rest, '#'))], first} {
				if len(key) <= object.MaxKey && !yield(key) {
					return
				}
			}
		}
	}
}

// idsIn yields everything in a text that can be a [Content].ID, in small letters. Other hexadecimal digits can be
// directly before it: those of %2F, for example.
func idsIn(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		digits := 0
		for i, c := range []byte(text) {
			if digits++; !strings.ContainsRune("0123456789abcdef", rune(c)) {
				digits = 0
			}
			if digits >= 32 && !yield(text[i-31:i+1]) {
				return
			}
		}
	}
}

// textsOf yields the texts and bytes in a value.
func textsOf(value any) iter.Seq[string] {
	return func(yield func(string) bool) { eachText(value, yield) }
}

func eachText(value any, yield func(string) bool) bool {
	switch value := value.(type) {
	case string:
		return yield(value)
	case []byte:
		return yield(string(value))
	case []any:
		for _, v := range value {
			if !eachText(v, yield) {
				return false
			}
		}
	case map[string]any:
		for _, v := range value {
			if !eachText(v, yield) {
				return false
			}
		}
	case StringSet:
		for _, v := range value {
			if !yield(v) {
				return false
			}
		}
	case BinarySet:
		for _, v := range value {
			if !yield(string(v)) {
				return false
			}
		}
	}
	return true
}

// isReference reports whether a value is a reference to this bucket.
func (s *Store) isReference(value any) bool {
	text, ok := value.(string)
	if !ok {
		return false
	}
	_, err := s.layout.parse(s.base, text)
	return err == nil
}

// isPlain reports whether the value of an attribute is certainly no reference, whole or
// damaged, nor one to another bucket.
func (s *Store) isPlain(attr string, value any) bool {
	if value == nil {
		return true
	}
	if slices.Contains(s.o.Attributes, attr) {
		return false // nothing else belongs there
	}
	text, ok := value.(string)
	return !ok || !strings.Contains(text, "://") && !strings.Contains(text, "sha256=") && !strings.HasPrefix(text, s.base)
}

// remove removes orphans.
func (w *sweeper) remove(ctx context.Context, orphans []Orphan) error {
	if err := w.learnVersions(ctx, orphans); err != nil {
		return err
	}
	return w.workers.each(ctx, len(orphans), func(i int) bool {
		if w.full() {
			return false
		}
		if w.shared(orphans[i]) && w.versions == nil {
			w.count(shared)
			return false
		}
		w.begun++
		if w.o.DryRun {
			w.removed(orphans[i], nil)
		}
		return !w.o.DryRun
	}, func(ctx context.Context, i int) error {
		err := w.delete(ctx, orphans[i])
		w.removed(orphans[i], err)
		return nil
	})
}

// shared reports whether an object is named by its content alone, so that another program
// could refer to it at any time.
func (w *sweeper) shared(o Orphan) bool { return o.Owner.ID == "" && !w.o.Exclusive }

// learnVersions finds out, when the first such object is to be removed, whether the bucket
// keeps versions.
func (w *sweeper) learnVersions(ctx context.Context, orphans []Orphan) error {
	if w.asked || !slices.ContainsFunc(orphans, w.shared) {
		return nil
	}
	w.asked = true
	v, ok := object.As[object.VersionRemover](w.s.bucket)
	if !ok {
		return nil
	}
	keeps, err := again(ctx, w.s, func() (bool, error) { return v.KeepsVersions(ctx) })
	if keeps {
		w.versions = v
	}
	if errors.Is(err, store.ErrDenied) {
		err = nil // not known, so they are kept
	}
	return err
}

// full reports whether the sweep has removed as many objects as it may.
func (w *sweeper) full() bool { return w.o.Limit > 0 && w.begun >= w.o.Limit }

// delete removes an object, in the listed version where the bucket can do that.
func (w *sweeper) delete(ctx context.Context, o Orphan) error {
	if w.shared(o) {
		_, err := again(ctx, w.s, func() (struct{}, error) {
			return struct{}{}, w.versions.RemoveVersion(ctx, object.Info{Key: o.Object, Version: o.Version, Modified: o.Modified})
		})
		return err
	}
	w.mu.Lock()
	conditional := !w.unconditional && o.Version != ""
	w.mu.Unlock()
	if conditional {
		_, err := again(ctx, w.s, func() (struct{}, error) {
			return struct{}{}, w.s.bucket.Delete(ctx, o.Object, &object.DeleteOptions{IfMatch: o.Version})
		})
		if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, store.ErrDenied) {
			return err
		}
		// A right to delete need not be one to delete on a condition.
		w.mu.Lock()
		w.unconditional = true
		w.mu.Unlock()
	}
	_, err := again(ctx, w.s, func() (struct{}, error) { return struct{}{}, w.s.bucket.Delete(ctx, o.Object, nil) })
	return err
}

// removed counts the outcome of the removal of an orphan, and reports it.
func (w *sweeper) removed(o Orphan, err error) {
	verdict, deleted := w.failed(o, err), err == nil
	switch {
	case deleted:
		verdict = func(s *SweepStats) {
			s.Deleted++
			s.DeletedBytes += o.Size
		}
	case errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound):
		verdict, err = gone, nil
	case w.shared(o) && errors.Is(err, errors.ErrUnsupported):
		verdict, err = shared, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	verdict(&w.swept)
	if w.o.Report != nil && (err != nil || deleted) {
		w.o.Report(o, err)
	}
	if w.o.Progress != nil {
		w.o.Progress(w.swept)
	}
}

// failed is the verdict on an object after an error.
func (w *sweeper) failed(o Orphan, err error) func(*SweepStats) {
	return func(s *SweepStats) {
		s.Failed++
		if len(s.Failures) < maxFailures {
			s.Failures = append(s.Failures, Failure{o.Object, err})
		}
	}
}

func (w *sweeper) count(verdict func(*SweepStats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	verdict(&w.swept)
}

func (w *sweeper) report() {
	if w.o.Progress != nil {
		w.o.Progress(w.swept)
	}
}

// uploads removes what uploads left that were never completed.
func (w *sweeper) uploads(ctx context.Context) (err error) {
	w.swept.Uploads, err = object.SweepUploads(ctx, w.s.bucket, w.below, &object.SweepOptions{
		MinAge: max(w.age, object.MinUploadAge),
		DryRun: w.o.DryRun,
		Filter: func(u object.Upload) bool {
			_, verdict := w.classifyName(object.Info{Key: u.Key})
			return verdict == nil
		},
	})
	return err
}
