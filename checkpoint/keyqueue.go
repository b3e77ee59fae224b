package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/group"
	"github.com/holdfast-go/holdfast/store"
)

// maxGather is the longest that a batch waits for more callers.
const maxGather = 10 * time.Millisecond

// state is a record with its version in the store.
type state struct {
	rec     record
	version store.Version

	// wasRead is false in the zero value: nothing was read yet. certain says that this keeper
	// has sent no write of unknown outcome after this state. So the keeper can write
	// against it, or show it, without a read.
	wasRead, certain bool

	// durable says that the state certainly survives a power cut. A state that was read
	// may come from a write that is not on the disk yet.
	durable bool

	// wentBack says that the store went back to this state: the keeper has seen a later
	// one.
	wentBack bool
}

// older reports whether s, if it was read after t was known, proves that the store
// went back: restored from a backup, emptied by hand, failed over to a copy.
func (s *state) older(t *state) bool {
	return t.wasRead && (s.rec.n < t.rec.n || s.rec.n == t.rec.n && s.rec.nonce != t.rec.nonce)
}

// keyQueue holds the last known state of one key, and the queue of calls that change it.
// While there are calls, one goroutine, the writer, takes them off in batches and writes. A
// caller waits for its answer or for the end of its own context, whichever is first. So the
// end of one caller's context does not separate the memory from the disk: the writer
// continues for the other callers, and its context ends when the last of them has left.
type keyQueue struct {
	k        *RegisterStore
	key      string
	register string

	mu         sync.Mutex // never held during I/O
	queue      group.Queue[*call]
	writerRuns bool
	want       int           // number of callers that the next batch briefly waits for
	full       chan struct{} // closed when they are in the queue; nil while no batch waits
	last       state         // the newest state seen
	epoch      uint64        // the epoch that the user of the keeper knows of; 0: none yet
}

// call is a change in progress. The mutex of the keyQueue guards its fields.
type call struct {
	Change
	*group.Waiter
	answer Result
}

// cached returns the newest state seen.
func (l *keyQueue) cached() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// show records that the user sees the state s, which was read after before was known. From
// then on the user's work belongs to the epoch of s. So the user accepts a state to which
// the store went back.
func (l *keyQueue) show(before, s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.wasRead || s.rec.n >= l.last.rec.n || s.older(&before) {
		l.last = s
		l.epoch = s.rec.epoch
	}
}

// read reads the register; the result is certain. An absent register gives the first
// record.
func (l *keyQueue) read(ctx context.Context) (state, error) {
	value, version, err := l.k.st.Get(ctx, l.register)
	return l.parsed(value, version, err)
}

// readUncommitted reads a state that is good enough to write against, and not certain.
func (l *keyQueue) readUncommitted(ctx context.Context) (state, error) {
	value, version, err := store.GetUncommitted(ctx, l.k.st, l.register)
	s, err := l.parsed(value, version, err)
	s.certain = false
	return s, err
}

func (l *keyQueue) parsed(value []byte, version store.Version, err error) (state, error) {
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return state{}, store.MarkNotApplied(err)
	}
	if err != nil {
		value, version = nil, ""
	}
	return l.parse(value, version)
}

// parse makes a state of a value and its version; a zero version means absent.
func (l *keyQueue) parse(value []byte, version store.Version) (state, error) {
	s := state{rec: firstRecord(), version: version, wasRead: true, certain: true, durable: true}
	if version == "" {
		return s, nil
	}
	if l.k.unsynced {
		m := l.cached()
		s.durable = m.durable && m.version == version
	}
	var err error
	s.rec, err = decode(l.key, value)
	if err != nil {
		return state{}, store.MarkNotApplied(&store.OpError{Op: "get", Key: l.register, Err: err})
	}
	return s, nil
}

// do queues a change and waits for its answer.
func (l *keyQueue) do(ctx context.Context, c Change) (Result, error) {
	call := &call{Change: c, Waiter: group.NewWaiter()}
	l.mu.Lock()
	call.Epoch = cmp.Or(call.Epoch, l.epoch)
	l.queue.Add(call)
	if l.full != nil && l.queue.Len() >= l.want {
		close(l.full)
		l.full = nil
	}
	if !l.writerRuns {
		if !l.k.startWriter() {
			l.queue.Take(nil)
			l.mu.Unlock()
			return Result{}, ErrClosed
		}
		l.writerRuns = true
		// The writer may continue for others after this call has ended: it keeps the
		// values of the call's context, but not its end.
		go l.writeAll(context.WithoutCancel(ctx))
	}
	l.mu.Unlock()
	answered, err := l.queue.Wait(ctx, call)
	if !answered {
		return Result{}, err
	}
	return call.answer, err
}

// writeAll writes batches until the queue is empty. If the store or HeldBy ends its goroutine, another one
// continues.
func (l *keyQueue) writeAll(values context.Context) {
	var batch []*call
	defer func() {
		if len(batch) == 0 {
			l.k.endWriter()
			return
		}
		l.fail(batch, errors.New("the store or HeldBy ended the goroutine of the call (runtime.Goexit)"))
		go l.writeAll(values)
	}()
	all, end := context.WithCancel(values)
	defer end()
	defer context.AfterFunc(l.k.end, end)()
	for took := time.Duration(0); ; {
		l.waitForBatch(min(took/8, maxGather))
		ctx, cancel := context.WithCancel(all)
		if batch = l.nextBatch(cancel); len(batch) == 0 {
			return
		}
		began := time.Now()
		l.runBatch(ctx, batch)
		took = time.Since(began)
		cancel()
	}
}

// waitForBatch waits briefly for callers that were just answered and are likely to call again
// at once. Otherwise the callers would split into two halves, each waiting for the write
// of the other.
func (l *keyQueue) waitForBatch(patience time.Duration) {
	l.mu.Lock()
	full := make(chan struct{})
	if l.want < 2 || l.queue.Len() >= l.want || patience <= 0 {
		l.mu.Unlock()
		return
	}
	l.full = full
	l.mu.Unlock()
	select {
	case <-full:
	case <-time.After(patience):
		l.mu.Lock()
		l.full = nil
		l.mu.Unlock()
	}
}

// nextBatch takes the calls off the queue that can share a write, in the order in which
// they are judged. If there are none, the writer must end. If all their callers leave, nextBatch
// calls cancel, which has no cause: a cause might state an outcome.
func (l *keyQueue) nextBatch(cancel context.CancelFunc) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := l.queue.Take(func(first, c *call) bool { return first.shared() && c.shared() })
	waiting := len(batch)
	for _, c := range batch {
		c.OnAbandon = func() {
			if waiting--; waiting == 0 {
				cancel()
			}
		}
	}
	// The calls wait at the same time, so any order is right. In this order fences come
	// first and the positions rise, so each call that can advance does so.
	slices.SortStableFunc(batch, func(a, b *call) int {
		if a.Verb != b.Verb {
			return cmp.Compare(b.Verb, a.Verb) // "fence" before "advance"
		}
		return cmp.Compare(a.Position.Sequence, b.Position.Sequence)
	})
	l.writerRuns = len(batch) > 0
	l.want = 0
	return batch
}
