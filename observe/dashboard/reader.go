package dashboard

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

const (
	inParallel  = 8                // reads at the same time
	readTimeout = 5 * time.Second  // of one read
	retryEvery  = 10 * time.Second // between two reads of a key that cannot be read
	listTimeout = 2 * time.Minute
	wholeEvery  = 10 * time.Minute       // between two listings of all keys, if most listings have tags
	soon        = 100 * time.Millisecond // between two rounds, at least
	lingering   = 20 * time.Second       // for which the reader reads after the last page was closed
	detailEvery = 5 * time.Second        // between two reads of a history, of a session or of a log
	panelEvery  = 10 * time.Second
	mostEntries = 200_000 // of a table; further names are counted only
	mostDetails = 50      // locks whose history is read
)

// entry is one key of a table. Its value is what the reader has read last.
type entry[T any] struct {
	value   T
	tag     uint64 // hash of the tag in the last listing; 0 if the store has no tags
	read    int64  // when the value was read, Unix milliseconds; 0: never
	listing uint32 // the last listing that had the key
	due     bool   // the key has changed since the read
	problem string // why the last read failed
	tried   int64  // when that was
	absent  bool   // a listing names the key, but it has no register
}

// table is what the reader knows of the keys below a prefix.
type table[T any] struct {
	prefix  string // of the keys
	below   string // only the key with this name, and those below it
	entries map[string]*entry[T]
	read    func(ctx context.Context, name string, e entry[T]) (T, error)

	listing  uint32
	listed   time.Time     // when the last complete listing began
	took     time.Duration // how long it took
	whole    time.Time     // when the last complete listing of the keys with and without tags began
	next     time.Time     // of the next listing
	every    time.Duration // until the listing after that
	tags     bool          // listings show which keys have changed
	problem  string        // why the last listing failed
	bad      int           // keys without a name that can be shown
	tooMany  int           // keys above the bound
	complete bool          // all keys were listed once
}

// session is what the record of a session says.
type session struct {
	holder                      string
	renewed, ttl, changed, read int64
	liveness                    store.Liveness
	ended                       bool
	nonce                       string
}

// history is the time line of one lock that a page shows.
type history struct {
	entries []lease.HistoryEntry
	problem string
	read    time.Time
}

// reader reads the store for all pages.
type reader struct {
	p           *Page
	locksOf     *lease.Client
	checkpoints *checkpoint.RegisterStore
	ctx         context.Context
	cancel      context.CancelFunc
	done        chan struct{}
	working     sync.WaitGroup // the examination of the store
	budget      *budget
	seed        maphash.Seed

	mu        sync.Mutex
	published time.Time
	changed   chan struct{} // closed by the next change of what follows
	wake      chan struct{} // a page shows something new
	wanted    map[string]time.Time
	watched   map[string]map[string]int // names that pages show, by kind
	locks     table[lock]
	marks     table[mark]
	sessions  map[string]*session
	histories map[string]*history
	logs      []logState
	panels    []panelState
	health    health
	doctor    doctorState
}

// health is what the reader knows of the store itself.
type health struct {
	answered time.Time // the last answer
	latency  time.Duration
	failed   time.Time
	problem  string
}

type doctorState struct {
	running bool
	at      time.Time
	text    string
	problem string
}

func newReader(p *Page, locks *lease.Client, checkpoints *checkpoint.RegisterStore) *reader {
	r := &reader{
		p: p, locksOf: locks, checkpoints: checkpoints, done: make(chan struct{}), budget: &budget{each: time.Minute / time.Duration(p.o.RequestsPerMinute)}, seed: maphash.MakeSeed(),
		changed: make(chan struct{}), wake: make(chan struct{}, 1), wanted: map[string]time.Time{}, watched: map[string]map[string]int{},
		sessions: map[string]*session{}, histories: map[string]*history{}, logs: make([]logState, len(p.o.Logs)), panels: make([]panelState, len(p.o.Panels)),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.locks = table[lock]{prefix: p.o.KeyPrefix, below: p.o.Prefix, entries: map[string]*entry[lock]{}, read: r.readLock}
	r.marks = table[mark]{prefix: p.o.CheckpointPrefix, below: p.o.Prefix, entries: map[string]*entry[mark]{}, read: r.readMark}
	return r
}

// want says that a page shows a kind of things. The reader reads it for a while.
func (r *reader) want(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.isWanted(kind)
	r.wanted[kind] = time.Now()
	if first {
		r.hurry()
	}
}

// hurry begins the next round soon.
func (r *reader) hurry() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// isWanted reports whether a page shows a kind. The reader is locked.
func (r *reader) isWanted(kind string) bool {
	return time.Since(r.wanted[kind]) < lingering
}

// watch adds n to the number of pages that show these names.
func (r *reader) watch(kind string, names []string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.watched[kind]
	if counts == nil {
		counts = map[string]int{}
		r.watched[kind] = counts
	}
	for _, name := range names {
		if counts[name] == 0 {
			r.hurry()
		}
		if counts[name] += n; counts[name] <= 0 {
			delete(counts, name)
			if kind == kindLock {
				delete(r.histories, name)
				if e := r.locks.entries[name]; e != nil && e.tag == 0 && (e.absent || e.read == 0) {
					delete(r.locks.entries, name) // a page has asked for a lock that does not exist
				}
			}
		}
	}
}

// rewatch replaces the names that a page shows, and returns the new ones.
func (r *reader) rewatch(kind string, old, names []string) []string {
	if slices.Equal(old, names) {
		return old
	}
	r.watch(kind, names, 1)
	r.watch(kind, old, -1)
	return names
}

// nextChange returns a channel that the next change closes.
func (r *reader) nextChange() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// publish makes the pages show what the reader knows now. The reader is locked.
func (r *reader) publish() {
	r.published = time.Now()
	close(r.changed)
	r.changed = make(chan struct{})
}

// publishSome is publish during a round that takes long. The reader is locked.
func (r *reader) publishSome() {
	if time.Since(r.published) >= r.p.o.Interval {
		r.publish()
	}
}

func (r *reader) run() {
	defer close(r.done)
	defer r.working.Wait()
	for {
		begun := time.Now()
		if !r.readAll() {
			select { // no page is open
			case <-r.ctx.Done():
				return
			case <-r.wake:
			}
			continue
		}
		r.mu.Lock()
		r.publish()
		r.mu.Unlock()
		if backoff.Sleep(r.ctx, min(soon, r.p.o.Interval)) != nil || backoff.SleepOrWake(r.ctx, time.Until(begun.Add(r.p.o.Interval)), r.wake) != nil {
			return
		}
	}
}

// readAll reads what the pages show, in one round. It returns false if no page wants anything.
func (r *reader) readAll() bool {
	r.mu.Lock()
	wanted := map[string]bool{}
	for _, kind := range kinds {
		if r.isWanted(kind) {
			wanted[kind] = true
		}
	}
	r.mu.Unlock()
	until := time.Now().Add(r.p.o.Interval)
	if wanted[kindLocks] {
		list(r, &r.locks)
		readTable(r, &r.locks, kindLocks, until)
	}
	if wanted[kindLock] {
		r.readDetails()
	}
	if wanted[kindLocks] || wanted[kindLock] {
		r.readSessions()
	}
	if wanted[kindCheckpoints] {
		list(r, &r.marks)
		readTable(r, &r.marks, kindCheckpoints, until)
	}
	if wanted[kindLogs] {
		r.readLogs()
	}
	if wanted[kindPanels] {
		r.readPanels()
	}
	if wanted[kindStore] {
		r.probe()
		r.examine()
	}
	return len(wanted) > 0
}

// answered notes what a request says of the store itself.
func (r *reader) answered(begun time.Time, err error) {
	if r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrKey) {
		r.health.answered, r.health.latency = time.Now(), time.Since(begun)
		return
	}
	r.health.failed, r.health.problem = time.Now(), problemOf(err)
}

// problemOf returns an error as a text for the page.
func problemOf(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	switch {
	case errors.Is(err, store.ErrDenied), errors.Is(err, store.ErrCorrupt):
	case errors.Is(err, context.DeadlineExceeded):
		text = "the store does not answer in time"
	case errors.Is(err, store.ErrUnavailable):
		text = "the store does not answer: " + text
	}
	return visible(text)
}

// selects reports whether a table has the key with a name.
func (t *table[T]) selects(name string) bool {
	return t.below == "" || name == t.below || strings.HasPrefix(name, t.below+"/")
}

// list lists the keys of a table, if a listing is due.
func list[T any](r *reader, t *table[T]) {
	if time.Now().Before(t.next) || !r.budget.take(r.ctx, 1) {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, listTimeout)
	defer cancel()
	begun := time.Now()
	keys := 0
	r.mu.Lock()
	t.listing++
	t.tooMany = 0
	over := false
	patience := max(readTimeout, 2*t.took)
	silent := time.AfterFunc(patience, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !over {
			t.problem = problemOf(context.DeadlineExceeded)
			r.health.failed, r.health.problem = time.Now(), t.problem
			r.publish()
		}
	})
	r.mu.Unlock()
	note := func(name, tag string) {
		keys++
		r.mu.Lock()
		defer r.mu.Unlock()
		noteKey(r, t, name, tag)
		silent.Reset(patience)
		r.publishSome()
	}
	bad, requests := 0, 0
	perRequest, weight, share := 1000, 1, 5
	if !r.p.traits.Local {
		perRequest = 100 // the store does not tell the size of its pages
	}
	below, failed := store.Prefix(r.p.st, t.prefix)
	tags, tagged := store.As[store.TagLister](below)
	if failed == nil && tagged {
		cost := tags.ListCost()
		perRequest, weight, share = max(1, cost.Keys), max(1, cost.Gets), 2
		for key, err := range tags.ListTags(ctx, t.below) {
			if failed = err; err != nil {
				break
			}
			note(key.Key, key.Tag)
		}
		requests, keys = keys/perRequest+1, 0
	}
	whole := failed == nil && (!tagged || begun.Sub(t.whole) >= wholeEvery) // a listing with tags may leave out long keys
	if whole {
		r.mu.Lock()
		t.tooMany = 0 // this listing counts them again
		r.mu.Unlock()
		for name, err := range store.List(ctx, below, t.below) {
			if errors.Is(err, store.ErrCorrupt) {
				bad++
				continue
			}
			if failed = err; err != nil {
				break
			}
			note(name, "")
		}
		requests += keys/perRequest + 1
	}
	cost := requests * weight
	r.budget.spend(cost - 1)
	if failed == nil && t.below != "" {
		noteSelf(r, t)
	}
	r.answered(begun, failed)
	took := time.Since(begun)
	r.mu.Lock()
	defer r.mu.Unlock()
	over = true
	silent.Stop()
	// Listings take at most half of the requests, or a fifth if they do not show what has changed, and a
	// tenth of the time.
	t.every = max(r.p.o.Interval, r.budget.timeFor(share*cost), 10*took)
	t.next = begun.Add(t.every)
	t.tags, t.problem = tagged, ""
	if whole {
		t.bad = bad
	}
	if failed != nil {
		if r.ctx.Err() == nil {
			t.problem = problemOf(failed)
		}
		t.next = time.Now().Add(max(r.p.o.Interval, min(took, 30*time.Second)))
		return
	}
	t.complete, t.listed, t.took = true, begun, took
	if whole {
		t.whole = begun
	}
	for name, e := range t.entries {
		if e.listing != t.listing && (whole || e.tag != 0) && r.watched[kindLock][name] == 0 {
			delete(t.entries, name)
		}
	}
}

// noteKey notes a key of a listing. The reader is locked.
func noteKey[T any](r *reader, t *table[T], name, tag string) {
	if !t.selects(name) {
		return
	}
	e := t.entries[name]
	if e == nil {
		if len(t.entries) >= mostEntries {
			t.tooMany++
			return
		}
		e = &entry[T]{due: true}
		t.entries[strings.Clone(name)] = e
	}
	e.listing = t.listing
	if tag == "" {
		return
	}
	if h := maphash.String(r.seed, tag); h != e.tag {
		e.tag, e.due = h, true
	}
}

// noteSelf reads the key with the name of the prefix itself, which a listing leaves out.
func noteSelf[T any](r *reader, t *table[T]) {
	r.mu.Lock()
	e := t.entries[t.below]
	if e != nil {
		e.listing = t.listing
	}
	r.mu.Unlock()
	if e != nil || !r.budget.take(r.ctx, 1) {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, readTimeout)
	defer cancel()
	begun := time.Now()
	value, err := t.read(ctx, t.below, entry[T]{})
	if err == nil {
		r.mu.Lock()
		t.entries[t.below] = &entry[T]{value: value, read: begun.UnixMilli(), listing: t.listing}
		r.mu.Unlock()
	}
}

// readTable reads the keys of a table that may have changed: first those that pages show, then those
// that were read the longest time ago, until the time of the round is over.
func readTable[T any](r *reader, t *table[T], kind string, until time.Time) {
	type candidate struct {
		name string
		read int64
		rank int // 0 if a page shows it
	}
	var names []candidate
	r.mu.Lock()
	now := time.Now()
	shownEvery := r.p.o.Interval
	if t.tags {
		shownEvery = max(detailEvery, t.every)
	}
	for name, e := range t.entries {
		_, shown := r.watched[kind][name]
		age := now.Sub(time.UnixMilli(e.read))
		switch {
		case e.problem != "" && now.Sub(time.UnixMilli(e.tried)) < retryEvery:
			continue
		case e.due, e.problem != "":
		case (e.tag == 0 || name == t.below) && age >= r.p.o.Interval:
		case shown && age >= shownEvery && t.every > detailEvery:
		default:
			continue
		}
		c := candidate{name, e.read, 1}
		if shown {
			c.rank = 0
		}
		names = append(names, c)
	}
	gone := t.problem != ""
	r.mu.Unlock()
	slices.SortFunc(names, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.read, b.read), strings.Compare(a.name, b.name))
	})
	if gone {
		names = names[:min(len(names), inParallel)] // the store seems to answer nothing
	}
	r.readEach(func(yield func(name string) bool) {
		for _, c := range names {
			if c.rank > 0 && time.Now().After(until) || !yield(c.name) {
				return
			}
		}
	}, func(ctx context.Context, name string) { readEntry(ctx, r, t, name) })
}

// readEach reads the things with these names, some at the same time, as fast as requests may be sent.
func (r *reader) readEach(names iter.Seq[string], read func(ctx context.Context, name string)) {
	pool := workerpool.New(r.ctx, inParallel, 0)
	for name := range names {
		if !pool.WaitRoom(0) || !r.budget.take(r.ctx, 1) {
			break
		}
		pool.Go(0, func(ctx context.Context) error {
			read(ctx, name)
			return nil
		})
	}
	_ = pool.Wait()
}

// readEntry reads one key.
func readEntry[T any](ctx context.Context, r *reader, t *table[T], name string) {
	r.mu.Lock()
	var before entry[T]
	if e := t.entries[name]; e != nil {
		before = *e
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	begun := time.Now()
	value, err := t.read(ctx, name, before)
	r.answered(begun, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := t.entries[name]
	if e == nil || r.ctx.Err() != nil {
		return
	}
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		e.problem, e.tried = problemOf(err), time.Now().UnixMilli()
	default:
		e.value, e.absent, e.problem, e.read = value, err != nil, "", begun.UnixMilli()
		e.due = e.tag != before.tag // it has changed again
	}
	r.publishSome()
}

// readLock reads a lock. A damaged record is a result, too.
func (r *reader) readLock(ctx context.Context, name string, before entry[lock]) (lock, error) {
	info, err := r.locksOf.Inspect(ctx, name)
	now := time.Now()
	switch {
	case errors.Is(err, store.ErrCorrupt):
		return lock{state: unreadable, holder: problemOf(err), changed: now.UnixMilli()}, nil
	case err != nil:
		return lock{}, err
	}
	l := lockOf(info, now)
	if old := before.value; before.read > 0 && old.token == l.token && old.renewed == l.renewed && old.state == l.state {
		l.changed = min(l.changed, old.changed)
	}
	return l, nil
}

// readDetails reads the locks that have a page of their own, and their histories.
func (r *reader) readDetails() {
	read := map[string]int64{} // when
	r.mu.Lock()
	for name := range r.watched[kindLock] {
		read[name] = 0
		if e := r.locks.entries[name]; e != nil {
			read[name] = e.read
		}
	}
	r.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(read), func(a, b string) int { return cmp.Compare(read[a], read[b]) })
	for _, name := range names[:min(len(names), mostDetails)] {
		r.mu.Lock()
		e := r.locks.entries[name]
		if e == nil && r.locks.selects(name) && store.CheckKey(name) == nil && len(r.locks.entries) < mostEntries {
			e = &entry[lock]{due: true, listing: r.locks.listing}
			r.locks.entries[name] = e
		}
		stale := e != nil && (e.due || time.Since(time.UnixMilli(e.read)) >= r.p.o.Interval)
		r.mu.Unlock()
		if e == nil {
			continue
		}
		if stale && r.budget.take(r.ctx, 1) {
			readEntry(r.ctx, r, &r.locks, name)
		}
		r.readHistory(name)
	}
}

func (r *reader) readHistory(name string) {
	r.mu.Lock()
	h := r.histories[name]
	due := h == nil || time.Since(h.read) >= detailEvery
	r.mu.Unlock()
	if !due || !r.budget.take(r.ctx, 2) {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, readTimeout)
	defer cancel()
	begun := time.Now()
	entries, err := r.locksOf.History(ctx, name)
	r.answered(begun, err)
	h = &history{entries: entries, read: begun}
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		h.problem = problemOf(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watched[kindLock][name] > 0 {
		r.histories[name] = h
	}
}

// readSessions reads the sessions of the locks that pages show.
func (r *reader) readSessions() {
	now := time.Now()
	ids := map[string]bool{}
	r.mu.Lock()
	for _, kind := range []string{kindLocks, kindLock} {
		for name := range r.watched[kind] {
			if e := r.locks.entries[name]; e != nil {
				for _, id := range e.value.sessions() {
					ids[id] = true
				}
			}
		}
	}
	for id, s := range r.sessions {
		switch {
		case !ids[id]:
			delete(r.sessions, id)
		case s.ended || now.UnixMilli()-s.read < max(detailEvery.Milliseconds(), s.ttl/6):
			delete(ids, id)
		}
	}
	r.mu.Unlock()
	r.readEach(maps.Keys(ids), r.readSession)
}

func (r *reader) readSession(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	begun := time.Now()
	info, err := r.locksOf.InspectSession(ctx, id)
	r.answered(begun, err)
	if err != nil {
		return // the members are shown by the ids of their sessions
	}
	rec := info.Record
	s := &session{
		holder: strings.Clone(rec.Holder), renewed: milliseconds(rec.Renewed), ttl: rec.TTL.Milliseconds(), read: begun.UnixMilli(), changed: begun.UnixMilli(),
		liveness: info.Liveness, ended: rec.State != lease.Held, nonce: rec.Nonce,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.sessions[id]; old != nil && old.nonce == s.nonce {
		s.changed = old.changed
	}
	r.sessions[id] = s
}

// knownAt returns when a lock certainly had the state that was read last. The reader is locked.
func (r *reader) knownAt(e *entry[lock]) int64 {
	if e.tag == 0 || e.due {
		return e.read
	}
	return max(e.read, r.locks.listed.UnixMilli())
}

// Summary counts the locks that the page has read.
type Summary struct {
	Locks, Held, Waiting int
	Broken, Unreadable   int

	// Shortest is the time until the deadline of the lease that ends first, by the clocks of the holder and
	// of this machine. Leases that have expired do not count. It is math.MaxInt64 if there is no such lease,
	// or if a lease may have been renewed since the reader last read it.
	Shortest time.Duration

	// Listed is the time of the last complete listing; zero before the first one.
	Listed time.Time
}

// Summary returns what the page knows of the locks, for metrics. It sends no request itself, but makes the
// reader read the store for 20 seconds, as an open page does.
func (p *Page) Summary() Summary {
	p.r.want(kindLocks)
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	s := Summary{Shortest: math.MaxInt64, Listed: p.r.locks.listed}
	now, unread := time.Now(), false
	for _, e := range p.r.locks.entries {
		if e.absent {
			continue
		}
		l := &e.value
		s.Locks++
		s.Waiting += len(l.more().queue)
		switch l.state {
		case lease.Held:
			s.Held++
			if l.more().session == "" {
				known, end := p.r.knownAt(e), deadline(l.renewed, l.ttl, l.changed)
				if end > now.UnixMilli() {
					s.Shortest = min(s.Shortest, time.UnixMilli(end).Sub(now))
				} else if known < end {
					unread = true
				}
			}
		case lease.Shared:
			s.Held++
		case lease.Broken:
			s.Broken++
		case unreadable:
			s.Unreadable++
		}
	}
	if unread {
		s.Shortest = math.MaxInt64
	}
	return s
}
