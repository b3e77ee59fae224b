package waiting

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// batchPolls are listings that show the goroutines of a client, which wait for locks or watch them,
// which records have not changed since they read them. They serve stores that do not report changes.
// One listing replaces a read of each record.
//
// A waiter still decides by what it has read itself, and every write names the version that it
// replaces. So a wrong listing can only make a waiter read later than it should. After each batch
// poll, the record that was not read for longest is the sample: it is read, too. If such a read
// shows a change that the listings miss, the client uses no more listings.
//
// A key's tag changes with each write. So a record is unchanged since a read under three
// conditions: one batch poll was answered before the read began; another one began after the read
// was answered; and the tag was the same in both and in all between. Events are counted to order
// them, since a clock can show the same time twice.
type batchPolls struct {
	lister        store.TagLister
	keys          int           // that a page of a listing has at most
	minWaitQueues int           // that have to use a batch poll for each of its pages
	pause         time.Duration // of a wait queue that uses batch polls, at least

	// The mutex of the queues guards the rest.
	events uint64 // counts the beginnings and the answers of reads and batch polls
	users  int    // wait queues that use batch polls
	flight *batchPoll
	last   *batchPoll           // the last that was answered
	tags   map[string]tagRun    // that it has shown, of the records in reads
	reads  map[string]*lastRead // of the records that goroutines wait for or watch
	sample string               // the one of these that is to be read after the last batch poll; empty: none
	stale  map[string]string    // tags that the next batch poll must not show: reads have shown that these records were changed
	retry  time.Time            // monotonic: no batch poll begins before
	wrong  bool                 // the listings do not show what was written, and are not used any more
}

// batchPoll is one listing.
type batchPoll struct {
	began uint64
	at    time.Time // monotonic: when it began
	done  chan struct{}
	ok    bool // set before done is closed
}

// tagRun is a tag that a key had without a break in several batch polls, the last one included.
type tagRun struct {
	tag   string
	since uint64 // when the first of them was answered
}

// lastRead is when the last read of a record began and was answered, and what it has shown.
type lastRead struct {
	began, answered uint64
	at              time.Time // monotonic: when it began
	version         store.Version
	queues          int // that wait for the record or watch it
}

const (
	// batchPollGain is how many times the cost of a batch poll the reads that it saves must cost.
	// The waiters of a client make about one batch poll in a pause.
	batchPollGain = 2

	// batchPollRetry is how long a client makes no batch poll after a failed one.
	batchPollRetry = time.Minute

	// sampleAge times Options.MaxPoll is how old the last read of a record is when a batch poll
	// makes it the sample.
	sampleAge = 10

	// maxTag is the longest tag that is remembered, in bytes.
	maxTag = 256
)

// newBatchPolls returns nil for a store that reports changes, and for one that lists no tags.
func newBatchPolls(space *cell.Space) *batchPolls {
	lister, ok := store.As[store.TagLister](space.Given)
	if !ok || space.Watches() {
		return nil
	}
	cost := lister.ListCost()
	return &batchPolls{lister: lister, keys: max(cost.Keys, 1), minWaitQueues: batchPollGain * max(cost.Gets, 1), pause: earlyPause(space.Set), reads: map[string]*lastRead{}, stale: map[string]string{}}
}

// SetBatchPolls makes queues use batch polls when there are that many for each page of a listing, and
// their pauses have grown to that. It is for tests.
func (q *Queues) SetBatchPolls(queues int, pause time.Duration) {
	if q.batchPolls != nil {
		q.batchPolls.minWaitQueues, q.batchPolls.pause = queues, pause
	}
}

// event returns the number of an event that happens now. The caller holds the mutex of the queues.
func (s *batchPolls) event() uint64 {
	s.events++
	return s.events
}

// noteBatchPolls notes whether a wait queue that pauses for a held lock uses batch polls: it does
// when its pauses have grown. The first ones are short, and most waits end in them.
func (l *Queue) noteBatchPolls() {
	q := l.of
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batchPolls.counts(l, l.polls.next >= q.batchPolls.pause)
}

// opens notes that there is a queue for the record with that key. The caller holds the mutex of the
// queues.
func (s *batchPolls) opens(key string) {
	if s.reads[key] == nil {
		s.reads[key] = &lastRead{}
	}
	s.reads[key].queues++
}

// closes notes that there is a queue less. The caller holds the mutex of the queues.
func (s *batchPolls) closes(l *Queue) {
	s.counts(l, false)
	if s.reads[l.key].queues--; s.reads[l.key].queues == 0 {
		delete(s.reads, l.key)
	}
}

// counts notes whether a wait queue uses batch polls. The caller holds the mutex of the queues.
func (s *batchPolls) counts(l *Queue, uses bool) {
	switch {
	case l.usesBatchPolls == uses:
		return
	case uses:
		s.users++
	default:
		if s.users--; s.users == 0 {
			s.tags = nil
		}
	}
	l.usesBatchPolls = uses
}

// ReadBegins returns the number of the event that a read begins.
func (q *Queues) ReadBegins() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.batchPolls.event()
}

// ReadAnswered notes what a read has shown, for those who wait for the lock or watch it.
func (q *Queues) ReadAnswered(key string, began uint64, at time.Time, v store.Version) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := q.batchPolls.reads[key]
	if last == nil || began < last.began {
		return // a later read has been answered: this one may show an older state
	}
	if run, listed := q.batchPolls.tags[key]; listed && last.version != v && run.since < last.began {
		q.batchPolls.stale[key] = run.tag
	}
	*last = lastRead{began: began, answered: q.batchPolls.event(), at: at, version: v, queues: last.queues}
}

// unchanged reports whether a batch poll shows, after a pause until that time, that the record still
// has the version that was seen. If not, the waiter has to read: also where its pause ended early, and
// where it is time to evaluate whether the holder is dead.
func (l *Queue) unchanged(ctx context.Context, seen store.Version, until time.Time) bool {
	q := l.of
	l.lag = 0
	now := time.Now()
	if l.polls.next < q.batchPolls.pause || !l.waits || now.Before(until) || !now.Before(l.due) {
		return false
	}
	ctx, cancel := context.WithDeadline(ctx, l.due)
	defer cancel()
	if !q.joinBatchPoll(ctx, l.polls.next/2) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.batchPolls.sample == l.key || !q.batchPolls.confirms(l.key, seen) {
		return false
	}
	// The pause that follows counts from the beginning of the batch poll. So a later change is seen
	// no later than by a read in place of the batch poll.
	l.lag = min(q.space.Clock.Monotonic().Sub(q.batchPolls.last.at), l.polls.next/2)
	return true
}

// confirms reports whether the record still has the version that was seen. The caller holds the
// client's mutex.
func (s *batchPolls) confirms(key string, seen store.Version) bool {
	run, listed := s.tags[key]
	look := s.reads[key]
	return listed && look != nil && look.version == seen && look.answered < s.last.began && run.since < look.began && !s.wrong
}

// joinBatchPoll waits for a batch poll that is under way, or makes one, unless the last one began
// less than age ago. It reports whether one was answered. It makes none that is not worth its cost.
func (q *Queues) joinBatchPoll(ctx context.Context, age time.Duration) bool {
	q.mu.Lock()
	s, now := q.batchPolls, q.space.Clock.Monotonic()
	v, pages := s.flight, s.users/s.minWaitQueues
	switch {
	case v != nil:
	case s.last != nil && now.Sub(s.last.at) < age:
		q.mu.Unlock()
		return true
	case s.wrong || pages == 0 || now.Before(s.retry) || q.space.Life.Err() != nil:
		q.mu.Unlock()
		return false
	default:
		v = &batchPoll{began: s.event(), at: now, done: make(chan struct{})}
		waited := make(map[string]bool, len(s.reads))
		for key := range s.reads {
			waited[key] = true
		}
		stale := s.stale
		for key := range stale {
			waited[key] = true
		}
		s.flight, s.stale = v, map[string]string{}
		go q.batchPoll(v, waited, stale, pages)
	}
	q.mu.Unlock()
	select {
	case <-v.done:
		return v.ok
	case <-ctx.Done():
		return false
	}
}

// batchPoll lists the tags of the locks, at most that many pages. It has its own goroutine, so that
// the end of one waiter does not end it for the others. It ends with the client, and when it takes
// longer than a waiter's longest pause.
func (q *Queues) batchPoll(v *batchPoll, waited map[string]bool, stale map[string]string, pages int) {
	tags, err := q.listTags(waited, pages)
	q.mu.Lock()
	defer q.mu.Unlock()
	defer close(v.done)
	s := q.batchPolls
	s.flight = nil
	if err != nil {
		s.retry = q.space.Clock.Monotonic().Add(batchPollRetry)
		return
	}
	runs, answered := make(map[string]tagRun, len(tags)), s.event()
	for key, tag := range tags {
		s.wrong = s.wrong || stale[key] == tag
		runs[key] = tagRun{tag, answered}
		if before, ok := s.tags[key]; ok && before.tag == tag {
			runs[key] = before
		}
	}
	s.tags, s.last, s.sample, v.ok = runs, v, "", true
	oldest := q.space.Clock.Monotonic().Add(-sampleAge * q.space.Set.MaxPoll)
	for key := range runs {
		if r := s.reads[key]; r != nil && r.at.Before(oldest) {
			s.sample, oldest = key, r.at
		}
	}
}

var (
	errLongListing = errors.New("batch poll: the key prefix has so many records that a listing costs more than it saves")
	errNoTags      = errors.New("batch poll: the listing shows none of the locks that clients wait for")
)

// listTags returns the tags of the records in waited.
func (q *Queues) listTags(waited map[string]bool, pages int) (map[string]string, error) {
	tags := make(map[string]string, len(waited))
	err := q.space.Run(context.Background(), min(q.space.Set.MaxPoll, q.space.Set.CallTimeout()), func(ctx context.Context) error {
		n := 0
		for t, err := range q.batchPolls.lister.ListTags(ctx, q.space.Set.KeyPrefix) {
			if err != nil {
				return err
			}
			if n++; n > pages*q.batchPolls.keys {
				return errLongListing
			}
			if waited[t.Key] && t.Tag != "" && len(t.Tag) <= maxTag {
				tags[t.Key] = t.Tag
			}
		}
		if len(tags) == 0 {
			return errNoTags
		}
		return store.CheckContext(ctx) // a store may end a listing without an error
	})
	return tags, err
}

// Close waits for a batch poll that is under way when the client is closed.
func (q *Queues) Close() {
	if q.batchPolls == nil {
		return
	}
	q.mu.Lock()
	v := q.batchPolls.flight
	q.mu.Unlock()
	if v != nil {
		<-v.done
	}
}
