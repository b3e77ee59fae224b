package waiting

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// batchPolls are listings that show the waiters of a client which records have not changed since
// the waiters read them. They serve stores that do not report changes. One listing replaces a read
// of each record.
//
// A waiter still decides by what it has read itself, and every write names the version that it
// replaces. So a wrong listing can only make a waiter read later than it should.
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
	last   *batchPoll        // the last that was answered
	tags   map[string]tagRun // that it has shown, of the locks that were waited for
	retry  time.Time         // monotonic: no batch poll begins before
	wrong  bool              // the listings do not show what was written, and are not used any more
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

// readTimes is when a read began and was answered, and what it has shown.
type readTimes struct {
	began, answered uint64
	at              time.Time // monotonic: when it began
	version         store.Version
	other           uint64 // when the last read began that showed another version
}

const (
	// batchPollGain is how many times the cost of a batch poll the reads that it saves must cost.
	// The waiters of a client make about one batch poll in a pause.
	batchPollGain = 2

	// batchPollRetry is how long a client makes no batch poll after a failed one.
	batchPollRetry = time.Minute

	// maxBatchPolls times Options.MaxPoll is the longest time in which a waiter relies on batch
	// polls and does not read: a listing may be wrong.
	maxBatchPolls = 24

	// maxTag is the longest tag that is remembered, in bytes.
	maxTag = 256
)

// newBatchPolls returns nil for a store that reports changes, and for one that lists no tags.
func newBatchPolls(space *cell.Space) *batchPolls {
	if _, watches := store.As[store.Watcher](space.Given); watches {
		return nil
	}
	lister, ok := store.As[store.TagLister](space.Given)
	if !ok {
		return nil
	}
	cost := lister.ListCost()
	return &batchPolls{lister: lister, keys: max(cost.Keys, 1), minWaitQueues: batchPollGain * max(cost.Gets, 1), pause: space.Set.MaxPoll / 2}
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
func (l *Queue) noteBatchPolls(key string) {
	q := l.of
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byKey[key] == l { // not that of one who only observes
		q.batchPolls.counts(l, l.polls.next >= q.batchPolls.pause)
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

// ReadAnswered notes what a read has shown, for the waiters for the lock.
func (q *Queues) ReadAnswered(key string, began uint64, at time.Time, v store.Version) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.byKey[key]
	if l == nil {
		return
	}
	now := readTimes{began: began, answered: q.batchPolls.event(), at: at, version: v, other: l.lastRead.other}
	if l.lastRead.version != v {
		now.other = l.lastRead.began
	}
	l.lastRead = now
}

// unchanged returns the state that c knows if a batch poll shows that it is unchanged, after a pause
// until that time. It returns nil if the waiter has to read: also where its pause ended early, and
// where it is time to evaluate whether the holder is dead.
func (l *Queue) unchanged(ctx context.Context, c *cell.Cell, until time.Time) *cell.Seen {
	q, last := l.of, c.Known()
	l.lag = 0
	now := time.Now()
	if l.polls.next < q.batchPolls.pause || !l.waits || now.Before(until) || !now.Before(l.due) || last == nil || last.Rec == nil {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, l.due)
	defer cancel()
	if !q.joinBatchPoll(ctx, l.polls.next/2) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.space.Clock.Monotonic()
	most := time.Duration((1 - q.space.Random()/3) * float64(maxBatchPolls*q.space.Set.MaxPoll)) // not all wait queues at once
	if at.Sub(l.lastRead.at) >= most || !q.batchPolls.confirms(c.Key, last.Version, &l.lastRead) {
		return nil
	}
	// The pause that follows counts from the beginning of the batch poll. So a later change is seen
	// no later than by a read in place of the batch poll.
	l.lag = min(at.Sub(q.batchPolls.last.at), l.polls.next/2)
	return last
}

// confirms reports whether the record still has the version that was seen. The caller holds the
// client's mutex.
func (s *batchPolls) confirms(key string, seen store.Version, look *readTimes) bool {
	run, listed := s.tags[key]
	if !listed || look.version != seen || look.answered >= s.last.began || run.since >= look.began {
		return false
	}
	// Two reads have shown that the record was changed, but its tag is the same.
	if run.since < look.other {
		s.wrong = true
	}
	return !s.wrong
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
		waited := make(map[string]bool, len(q.byKey))
		for key := range q.byKey {
			waited[key] = true
		}
		s.flight = v
		go q.batchPoll(v, waited, pages)
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
func (q *Queues) batchPoll(v *batchPoll, waited map[string]bool, pages int) {
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
		runs[key] = tagRun{tag, answered}
		if before, ok := s.tags[key]; ok && before.tag == tag {
			runs[key] = before
		}
	}
	s.tags, s.last, v.ok = runs, v, true
}

var (
	errLongListing = errors.New("batch poll: the key prefix has so many records that a listing costs more than it saves")
	errNoTags      = errors.New("batch poll: the listing shows none of the locks that clients wait for")
)

// listTags returns the tags of the locks that are waited for.
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
