package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint/internal/group"
	"github.com/holdfast-go/holdfast/store"
)

// maxGather is the longest that a batch waits for more callers.
const maxGather = 10 * time.Millisecond

// state is a record with its version in the store.
type state struct {
	rec     record
	version store.Version

	// known is false in the zero value: nothing was ever read. certain says that no
	// write of this keeper with an unknown outcome came after it, so that it can be
	// written against, or shown, without a read.
	known, certain bool

	// durable says that it survives a power cut for certain. What was read may be
	// somebody's write that is still on its way to the disk.
	durable bool

	// back says that the store went back to it: it is older than one known before.
	back bool
}

// older reports whether s, if it was read after t was known, proves that the store
// went back: restored from a backup, emptied by hand, failed over to a copy.
func (s *state) older(t *state) bool {
	return t.known && (s.rec.n < t.rec.n || s.rec.n == t.rec.n && s.rec.nonce != t.rec.nonce)
}

// line is what the keeper knows of one key, and where the calls on that key line
// up. Calls that change the checkpoint join the queue; while there are any, one
// goroutine, a flight, takes them off in batches and writes. A caller waits for its
// answer or for the end of its own context, whichever is first, so that nobody's
// cancellation tears what is on disk from what is in memory: the flight goes on for
// the others, and is ended when nobody is left who waits for it.
type line struct {
	k        *StoreKeeper
	key      string
	register string

	mu     sync.Mutex // never held during I/O
	queue  group.Queue[*call]
	flying bool
	want   int           // callers that the next batch waits for, for a moment
	full   chan struct{} // closed when they are there; nil while nobody waits
	last   state         // the newest state seen
	epoch  uint64        // the epoch that the user of the keeper knows of; 0: none yet
}

// call is a change on its way. Its fields are guarded by the line's mutex.
type call struct {
	Change
	*group.Ticket
	answer answer
}

// answer is what became of a change.
type answer struct {
	status  Status
	current Checkpoint
}

// flight carries one batch of calls.
type flight struct {
	cancel  context.CancelFunc // without a cause: that might claim an outcome
	waiting int                // callers that are still there
}

// leave notes that a caller has left. The last one ends the flight.
func (f *flight) leave() {
	f.waiting--
	if f.waiting == 0 {
		f.cancel()
	}
}

// memory returns the newest state seen.
func (l *line) memory() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// show notes that the state s, read after before was known, is shown to the user:
// from then on the user's work belongs to its epoch. A state that proves that the
// store went back is accepted by that.
func (l *line) show(before, s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.known || s.rec.n >= l.last.rec.n || s.older(&before) {
		l.last = s
		l.epoch = s.rec.epoch
	}
}

// read reads the register; the result is certain. An absent one reads as the first
// record.
func (l *line) read(ctx context.Context) (state, error) {
	value, version, err := l.k.st.Get(ctx, l.register)
	return l.parsed(value, version, err)
}

// peek reads what is good enough to write against, and is not certain.
func (l *line) peek(ctx context.Context) (state, error) {
	value, version, err := store.Peek(ctx, l.k.st, l.register)
	s, err := l.parsed(value, version, err)
	s.certain = false
	return s, err
}

func (l *line) parsed(value []byte, version store.Version, err error) (state, error) {
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return state{}, store.MarkNotApplied(err)
	}
	if err != nil {
		value, version = nil, ""
	}
	return l.parse(value, version)
}

// parse makes a state of a value and its version; a zero version means absent.
func (l *line) parse(value []byte, version store.Version) (state, error) {
	s := state{rec: firstRecord(), version: version, known: true, certain: true, durable: true}
	if version == "" {
		return s, nil
	}
	if l.k.volatile {
		m := l.memory()
		s.durable = m.durable && m.version == version
	}
	var err error
	s.rec, err = decode(l.key, value)
	if err != nil {
		return state{}, store.MarkNotApplied(&store.OpError{Op: "get", Key: l.register, Err: err})
	}
	return s, nil
}

// do queues a change and waits for what becomes of it.
func (l *line) do(ctx context.Context, c Change) (answer, error) {
	call := &call{Change: c, Ticket: group.NewTicket()}
	l.mu.Lock()
	if call.Epoch == 0 {
		call.Epoch = l.epoch
	}
	l.queue.Add(call)
	if l.full != nil && l.queue.Len() >= l.want {
		close(l.full)
		l.full = nil
	}
	if !l.flying {
		if !l.k.takeOff() {
			l.queue.Take(nil)
			l.mu.Unlock()
			return answer{}, ErrClosed
		}
		l.flying = true
		// The flight may go on for others after this call has ended, with what its
		// context carries, but not with its end.
		go l.fly(context.WithoutCancel(ctx))
	}
	l.mu.Unlock()
	answered, err := l.queue.Wait(ctx, call)
	if !answered {
		return answer{}, err
	}
	return call.answer, err
}

// fly writes until the queue is empty.
func (l *line) fly(values context.Context) {
	defer l.k.land()
	var took time.Duration
	for {
		l.gather(min(took/8, maxGather))
		ctx, cancel := context.WithCancel(values)
		stop := context.AfterFunc(l.k.end, cancel)
		batch := l.board(&flight{cancel: cancel})
		if len(batch) > 0 {
			began := time.Now()
			l.carry(ctx, batch)
			took = time.Since(began)
		}
		stop()
		cancel()
		if len(batch) == 0 {
			return
		}
	}
}

// gather waits a moment for callers that have just been answered and are likely to
// come back at once: without that, those who work together would split into two
// halves, of which each waits for the write of the other.
func (l *line) gather(patience time.Duration) {
	l.mu.Lock()
	full := make(chan struct{})
	if l.want < 2 || l.queue.Len() >= l.want || patience <= 0 {
		l.mu.Unlock()
		return
	}
	l.full = full
	l.mu.Unlock()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-full:
	case <-t.C:
		l.mu.Lock()
		l.full = nil
		l.mu.Unlock()
	}
}

// board takes the calls off the queue that can share a write, in the order in which
// they are judged. If there are none the line is at rest.
func (l *line) board(f *flight) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := l.queue.Take(func(first, c *call) bool { return first.shared() && c.shared() })
	for _, c := range batch {
		c.Left = f.leave
	}
	// They all wait at the same time, so that any order is right; in this one fences
	// come first, and nobody is behind who could advance.
	slices.SortStableFunc(batch, func(a, b *call) int {
		if a.Verb != b.Verb {
			return cmp.Compare(b.Verb, a.Verb) // "fence" before "advance"
		}
		return cmp.Compare(a.Position.Sequence, b.Position.Sequence)
	})
	f.waiting = len(batch)
	l.flying = len(batch) > 0
	l.want = 0
	return batch
}

// conclude answers the call.
func (c *call) conclude(a answer, err error) {
	c.answer = a
	c.Conclude(err)
}
