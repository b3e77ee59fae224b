package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// maxTermPause is the longest pause after a term that saved nothing.
const maxTermPause = 5 * time.Second

// Event is one item of a stream, with its position. If a worker must handle several items together,
// use a batch of items as T, with the position of the last item.
type Event[T any] struct {
	Position
	Value T
}

// A Source is a function that gets a checkpoint and yields the later events, in the order of their
// Sequence. If no position is saved (Exists is false), it yields all events. A source can wait for
// further events until its context ends. When a source returns, Run assumes that there are no more
// events. If a source yields an error, Run ends.
type Source[T any] func(ctx context.Context, from Checkpoint) iter.Seq2[Event[T], error]

// Guard has the methods of a lease that [Run] needs. A *lease.Guard has these methods.
type Guard interface {
	// Context returns a context that ends when the lease ends.
	Context() context.Context

	// Token returns the fencing token of the grant. It is 0 if the lease has no tokens. Then the keeper cannot
	// refuse late writes of an earlier holder.
	Token() uint64

	// Release ends the lease.
	Release(ctx context.Context) error
}

const (
	// flushTimeout bounds the last save after the context has ended or the lease was lost,
	// and again the release of the lease.
	flushTimeout = 5 * time.Second

	// retryTimeout is how long Run retries to read or save the checkpoint while the store
	// fails.
	retryTimeout = time.Minute
)

// RunOptions are the options of [Run]. The zero value of each field means its
// default.
type RunOptions struct {
	// Acquire, if not nil, waits for the lease of the worker. With Acquire, only one of several
	// workers works at a time. If this worker stops or dies, another worker continues from the
	// checkpoint. The keeper then refuses late writes of the first worker, because they have a
	// lower fencing token; see [Guard.Token]. Default: no lease and no token.
	Acquire func(ctx context.Context) (Guard, error)

	// Run saves the checkpoint at the latest after SaveEvery handled events, before it handles the
	// next event. After a crash, at most this number of events are handled again. At least 1.
	// Default: 100.
	SaveEvery int

	// Run saves the position of an event at the latest SaveInterval after handle has returned for
	// the event, if the store answers. At least 1 ms. Default: 1 s.
	SaveInterval time.Duration

	// Logger receives a message at the start and the end of each term, and for each
	// repeated save. Default: no log.
	Logger *slog.Logger
}

func (o *RunOptions) checked() (RunOptions, error) {
	c := *cmp.Or(o, &RunOptions{})
	c.SaveEvery = cmp.Or(c.SaveEvery, 100)
	c.SaveInterval = cmp.Or(c.SaveInterval, time.Second)
	if c.SaveInterval < time.Millisecond {
		return c, fmt.Errorf("%w: RunOptions.SaveInterval is %v; it must be at least 1ms", store.ErrInvalid, c.SaveInterval)
	}
	if c.SaveEvery < 1 {
		return c, fmt.Errorf("%w: RunOptions.SaveEvery is %d; it must be at least 1", store.ErrInvalid, c.SaveEvery)
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}

// Run follows a stream. It reads the checkpoint of a key, and gets the later events from the
// source. It passes one event at a time to the function handle. It saves the position of an event
// only after handle has returned nil for the event. Run handles each event at least once. After a
// crash or a lost lease, at most [RunOptions].SaveEvery events are handled again.
//
// The work of Run consists of terms. If there is a lease, a term begins when Run has acquired the
// lease. Run first writes the token of the lease to the checkpoint, and then reads the checkpoint.
// So an earlier holder that has not noticed the loss of its lease cannot save its position. A term
// ends when the lease is lost, when another worker has written a higher token, or when the
// checkpoint was moved back. The next term begins from the saved state. Run passes a context to
// source and handle, which ends with the term. The function handle can pass this context to
// [Token], and fence its own writes with the token.
//
// Run returns nil when the source has no more events. When its own context ends, Run returns the
// cause. If handle, source or RunOptions.Acquire returns an error, Run returns this error. If the
// store fails for longer than a minute, Run returns the error of the store. Before Run returns, it
// saves the position of the last handled event, and then releases the lease. Each of these two
// steps takes at most five seconds. If Acquire is not set, or the lease has no tokens, Run can
// return [ErrFenced]: a worker without a token must not write if other workers have tokens.
func Run[T any](ctx context.Context, k Store, key string, source Source[T], handle func(ctx context.Context, e Event[T]) error, opts *RunOptions) error {
	o, err := opts.checked()
	if err != nil {
		return err
	}
	w := &worker{k: k, key: key, opts: o}
	for try := 1; ; try++ {
		progress, err := runTerm(ctx, w, source, handle)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			return err
		case w.isOver(err) && (w.token != 0 || !errors.Is(err, ErrFenced)):
			o.Logger.Info("checkpoint: the term of this worker has ended", "key", key, "cause", err)
		default:
			return err
		}
		if progress {
			try = 1
		}
		if err := backoff.Sleep(ctx, backoff.Pause(try, minPause, maxTermPause)); err != nil {
			return err
		}
	}
}

// termOver ends a term of a worker: its lease is lost, or the store has refused the worker's own call. The
// error is the reason. An error of handle is no termOver of this worker: it may be about another checkpoint.
type termOver struct {
	w *worker
	error
}

func (e termOver) Unwrap() error { return e.error }

func (w *worker) isOver(err error) bool {
	var over termOver
	return errors.As(err, &over) && over.w == w
}

type tokenKey struct{}

// Token returns the fencing token of the lease of [Run], or 0 if there is no lease. The source and
// the function handle pass it the context that they got from Run.
func Token(ctx context.Context) uint64 {
	token, _ := ctx.Value(tokenKey{}).(uint64)
	return token
}

// worker is the state that the terms of one run share.
type worker struct {
	k    Store
	key  string
	opts RunOptions

	token uint64 // of the last term; 0 means none
}

// term is the time of a worker under one lease; without a lease, from one read of the
// checkpoint to the next.
type term struct {
	*worker
	epoch uint64

	slot chan struct{} // full while a goroutine saves

	mu       sync.Mutex
	pos      Position // of the last event handled
	unsaved  int      // events handled since the last save
	progress bool     // something was saved
}

// runTerm runs one term. Its error says why it ended; nil is the end of the stream.
func runTerm[T any](ctx context.Context, w *worker, source Source[T], handle func(context.Context, Event[T]) error) (progress bool, err error) {
	tctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &term{worker: w, slot: make(chan struct{}, 1)}
	if w.opts.Acquire != nil {
		guard, err := w.opts.Acquire(ctx)
		if err != nil {
			return false, fmt.Errorf("checkpoint %q: cannot get the lease: %w", w.key, err)
		}
		defer w.release(ctx, guard)
		t.token = guard.Token()
		held := guard.Context()
		defer context.AfterFunc(held, func() { end(termOver{w, context.Cause(held)}) })()
		tctx = context.WithValue(tctx, tokenKey{}, t.token)
	}
	from, err := t.begin(tctx)
	if err != nil {
		return false, cause(tctx, err)
	}
	w.opts.Logger.Info("checkpoint: a term of this worker begins", "key", w.key, "exists", from.Exists, "sequence", from.Sequence, "token", t.token)

	var saver sync.WaitGroup
	saver.Go(func() { t.saveRegularly(tctx, end) })
	err = follow(tctx, t, from, source, handle)
	err = cause(tctx, err)
	end(nil)
	saver.Wait()
	err = t.flush(ctx, err)
	return t.progress, err
}

// cause returns why ctx has ended: a call that fails after the end of its term fails for
// that reason. It returns err while ctx is live.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// begin raises the fence and reads the checkpoint. A worker without a token could not save its position in a
// checkpoint that has one.
func (t *term) begin(ctx context.Context) (from Checkpoint, err error) {
	err = t.retry(ctx, "read", func(ctx context.Context) (err error) {
		if t.token != 0 {
			from, err = t.k.Fence(ctx, t.key, t.token)
			return err
		}
		from, err = t.k.Get(ctx, t.key, nil)
		if from.Token != 0 {
			return fencedOff(from, 0)
		}
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	t.epoch = from.Epoch
	return from, err
}

// follow handles the events of a term.
func follow[T any](ctx context.Context, t *term, from Checkpoint, source Source[T], handle func(context.Context, Event[T]) error) error {
	last, began := from.Sequence, from.Exists
	for e, err := range source(ctx, from) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if began && e.Sequence <= last {
			return fmt.Errorf("checkpoint %q: the source yielded sequence %d after sequence %d; sequences must increase", t.key, e.Sequence, last)
		}
		last, began = e.Sequence, true
		if err := handle(ctx, e); err != nil {
			return err
		}
		if t.handled(e.Position) >= t.opts.SaveEvery {
			if err := t.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// handled records that an event was handled, and returns how many are not saved.
func (t *term) handled(p Position) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pos = p
	t.pos.Data = bytes.Clone(p.Data) // the source may use the slice again
	t.unsaved++
	return t.unsaved
}

// saveRegularly saves the position of the last handled event every SaveInterval, also while
// the source waits. An error ends the term.
func (t *term) saveRegularly(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.Tick(t.opts.SaveInterval)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			if err := t.save(ctx); err != nil {
				end(err)
				return
			}
		}
	}
}

// save saves the position of the last event handled, if it is not saved yet.
func (t *term) save(ctx context.Context) error {
	select {
	case t.slot <- struct{}{}:
		defer func() { <-t.slot }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.mu.Lock()
	p, n := t.pos, t.unsaved
	t.mu.Unlock()
	if n == 0 {
		return nil
	}
	err := t.retry(ctx, "save", func(ctx context.Context) error {
		// Behind: another worker without a lease is further ahead; nothing is lost.
		_, err := t.k.Advance(ctx, t.key, p, &AdvanceOptions{Token: t.token, Epoch: t.epoch})
		return err
	})
	if err != nil {
		return fmt.Errorf("checkpoint %q: cannot save sequence %d: %w", t.key, p.Sequence, err)
	}
	t.mu.Lock()
	t.unsaved -= n
	t.progress = true
	t.mu.Unlock()
	return nil
}

// flush saves the last position of a term, whatever ended it. After a lost lease the
// fence decides whether the save is still allowed.
func (t *term) flush(ctx context.Context, err error) error {
	if t.isOver(err) && isRefusal(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	switch failed := t.save(ctx); {
	case failed == nil:
		return err
	case err == nil:
		return failed
	default:
		// The reason for the end of the term decides what Run does next, so only that error
		// is wrapped.
		return fmt.Errorf("%w; the last save failed: %v", err, failed)
	}
}

// release releases the lease. If that fails, the next worker waits until the lease
// expires.
func (w *worker) release(ctx context.Context, guard Guard) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := guard.Release(ctx); err != nil {
		w.opts.Logger.Warn("checkpoint: cannot release the lease", "key", w.key, "error", err)
	}
}

func isRefusal(err error) bool { return errors.Is(err, ErrFenced) || errors.Is(err, ErrRolledBack) }

// retry calls f until it succeeds, fails permanently, or has failed for retryTimeout.
func (w *worker) retry(ctx context.Context, what string, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := f(limited)
		switch {
		case isRefusal(err):
			return termOver{w, err}
		case err == nil || store.Permanent(err):
			return err
		}
		if backoff.Sleep(limited, backoff.Pause(try, minPause, 4*maxPause)) != nil {
			return cause(ctx, err)
		}
		w.opts.Logger.Warn("checkpoint: cannot "+what+" the checkpoint, the worker tries again", "key", w.key, "error", err)
	}
}
