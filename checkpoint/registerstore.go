package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// defaultKeyPrefix is the default of [Options].KeyPrefix.
	defaultKeyPrefix = "checkpoint"

	// listBatch is how many checkpoints a listing reads at a time.
	listBatch = 16
)

// Options are the options of a [RegisterStore]. The zero value of each field means its default.
type Options struct {
	// KeyPrefix is the prefix of the registers: a checkpoint is in the register KeyPrefix/key. It
	// is a valid key. Default: checkpoint.
	KeyPrefix string

	// HeldBy, if not nil, returns the holder of the lease that guards a key. If there is no holder,
	// held is false. Reset and Delete call HeldBy after they have read the checkpoint and before
	// they write. If the lease has a holder with another token than the caller, or with the token 0, or
	// if HeldBy returns an error, Reset and Delete fail. Default: Reset and Delete do not check leases.
	HeldBy func(ctx context.Context, key string) (h Holder, held bool, err error)

	// History keeps a history of each checkpoint that this keeper changes; see [RegisterStore.History]. A
	// keeper without this option adds entries only to a history that exists. The entries are part of the
	// write that changes the checkpoint.
	History bool

	// PollInterval is the time between two reads of Watch if the store is not a
	// [store.Watcher]. Default: [store.DefaultPollInterval].
	PollInterval time.Duration

	// resolveTimeout bounds the time in which the keeper tries to resolve an in-doubt write
	// by reading it back; the call's context bounds it as well. Tests set it.
	resolveTimeout time.Duration
}

func (o *Options) checked() (Options, error) {
	c := *cmp.Or(o, &Options{})
	c.KeyPrefix = cmp.Or(c.KeyPrefix, defaultKeyPrefix)
	if err := store.CheckKey(c.KeyPrefix); err != nil {
		return c, fmt.Errorf("%w: Options.KeyPrefix: %w", store.ErrInvalid, err)
	}
	c.resolveTimeout = cmp.Or(c.resolveTimeout, 10*time.Second)
	if c.PollInterval < 0 {
		return c, fmt.Errorf("%w: Options.PollInterval is %v; it must not be negative", store.ErrInvalid, c.PollInterval)
	}
	return c, nil
}

// RegisterStore stores each checkpoint in one register of a store. [Store] describes the methods,
// and the package comment describes the promises.
//
// A RegisterStore remembers the last state of each used key in memory. While it writes keys, it
// runs one goroutine for each of these keys.
type RegisterStore struct {
	st       store.Store
	opts     Options
	unsynced bool // the store can return states that are not durable yet
	delayed  bool // the store delays its writes: see store.UncommittedReader

	mu          sync.Mutex
	queues      map[string]*keyQueue
	writers     int           // queues whose writer runs now
	closed      bool          // no further writer starts
	writersDone chan struct{} // closed when closed is true and writers is 0

	end    context.Context // ends the writers at Close
	cancel context.CancelFunc
}

var _ Store = (*RegisterStore)(nil)

// New returns a keeper of the checkpoints in a store. Any number of keepers, in any number of
// processes, may use one store. If an option is not valid, the error matches [store.ErrInvalid].
func New(st store.Store, opts *Options) (*RegisterStore, error) {
	o, err := opts.checked()
	if err != nil {
		return nil, err
	}
	k := &RegisterStore{st: st, opts: o, queues: make(map[string]*keyQueue), writersDone: make(chan struct{})}
	// A store with unsynced writes shows a write before it is durable.
	_, k.unsynced = store.As[store.UnsyncedPutter](st)
	k.delayed = store.TraitsOf(st).Delayed()
	k.end, k.cancel = context.WithCancel(context.Background())
	return k, nil
}

// Close implements [Store].
func (k *RegisterStore) Close(ctx context.Context) error {
	k.mu.Lock()
	if !k.closed && k.writers == 0 {
		close(k.writersDone)
	}
	k.closed = true
	idle := k.writers == 0
	k.mu.Unlock()
	defer k.cancel()
	select {
	case <-k.writersDone:
		return nil
	case <-ctx.Done():
		if idle {
			return nil
		}
		return store.Cause(ctx)
	}
}

// queue returns the queue of key, which it makes at the first use.
func (k *RegisterStore) queue(key string) (*keyQueue, error) {
	register := k.opts.KeyPrefix + "/" + key
	if err := cmp.Or(store.CheckKey(key), store.CheckKey(register)); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, ErrClosed
	}
	l := k.queues[key]
	if l == nil {
		l = &keyQueue{k: k, key: key, register: register}
		l.queue.Mu = &l.mu
		k.queues[key] = l
	}
	return l, nil
}

// startWriter counts a writer, unless the keeper was closed.
func (k *RegisterStore) startWriter() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.writers++
	return true
}

func (k *RegisterStore) endWriter() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writers--
	if k.closed && k.writers == 0 {
		close(k.writersDone)
	}
}

// wrap adds the operation and the key to an error, unless the error names them.
func wrap(op store.Kind, key string, err error) error {
	var named *store.OpError
	if err == nil {
		return nil
	}
	if errors.As(err, &named) {
		return fmt.Errorf("checkpoint %s: %w", op, err)
	}
	return &store.OpError{Op: "checkpoint " + op, Key: key, Err: err}
}

// Advance implements [Store]. Calls for one key that arrive during a write share the next write.
// The shared write moves the checkpoint to the highest position of these calls. If the position of
// a call is between the old and the new position, the call also gets the status Advanced. Otherwise
// the status of the call describes the state after the write.
//
// If the outcome of a write is unknown, the keeper reads the register to find it. The outcome of
// the error ([store.OutcomeOf]) is Unknown in three cases: the read failed, the store cannot
// recognise its own writes, or the context ended. The caller can then repeat the same call.
func (k *RegisterStore) Advance(ctx context.Context, key string, p Position, opts *AdvanceOptions) (Result, error) {
	opts = cmp.Or(opts, &AdvanceOptions{})
	r, err := k.change(ctx, key, Change{
		Verb: VerbAdvance, Position: p, Token: opts.Token, Epoch: opts.Epoch, Force: opts.Force,
	})
	if err == nil {
		err = r.Err(opts.Token)
	}
	return r, wrap("advance", key, err)
}

// Fence implements [Store].
func (k *RegisterStore) Fence(ctx context.Context, key string, token uint64) (Checkpoint, error) {
	if token == 0 {
		return Checkpoint{}, wrap("fence", key, fmt.Errorf("%w: the fencing token is 0; use the token of a lease", store.ErrInvalid))
	}
	r, err := k.change(ctx, key, Change{Verb: VerbFence, Token: token})
	return r.Current, wrap("fence", key, err)
}

// Reset implements [Store]. Reset always reads the register before it writes, and does not share
// its write with other calls.
func (k *RegisterStore) Reset(ctx context.Context, key string, p Position, opts *ChangeOptions) (Checkpoint, error) {
	opts = cmp.Or(opts, &ChangeOptions{})
	r, err := k.change(ctx, key, Change{
		Verb: VerbReset, Position: p, Token: opts.Token, Force: opts.Force, ExpectedSequence: opts.ExpectedSequence,
	})
	return r.Current, wrap("reset", key, err)
}

// Delete implements [Store]. The register remains, with its token and epoch. So an earlier holder
// of the lease, or a late Advance, cannot restore the checkpoint.
func (k *RegisterStore) Delete(ctx context.Context, key string, opts *ChangeOptions) (Checkpoint, error) {
	opts = cmp.Or(opts, &ChangeOptions{})
	r, err := k.change(ctx, key, Change{
		Verb: VerbDelete, Token: opts.Token, Force: opts.Force, ExpectedSequence: opts.ExpectedSequence,
	})
	return r.Current, wrap("delete", key, err)
}

// Copy makes the checkpoint of a key at least as far as a checkpoint of another store, with its epoch and
// its token. The status is the result for the position:
//
//   - Advanced: it was saved. Unchanged: it was saved before.
//   - Behind: this store has a higher sequence, or the other store has no position. This store keeps its
//     position.
//   - Mismatch: this store has the same sequence with another event or other data, and keeps it.
//   - RolledBack: in this store the checkpoint was moved back or deleted in a later epoch. This store keeps
//     its state.
//
// The error is nil for all of these. The token of the checkpoint becomes the higher one of both. Copy does
// not check leases. If a Copy fails, the caller can repeat it.
func (k *RegisterStore) Copy(ctx context.Context, c Checkpoint) (Result, error) {
	r, err := k.change(ctx, c.Key, Change{Verb: VerbCopy, Position: c.Position, Source: &c, Force: true})
	return r, wrap("copy", c.Key, err)
}

// change adds c to the queue of key and waits for the answer.
func (k *RegisterStore) change(ctx context.Context, key string, c Change) (Result, error) {
	if err := store.CheckContext(ctx); err != nil {
		return Result{}, err
	}
	if err := checkPosition(c.Position); err != nil {
		return Result{}, err
	}
	l, err := k.queue(key)
	if err != nil {
		return Result{}, err
	}
	c.Position.Data = bytes.Clone(c.Position.Data)
	if c.Source != nil {
		c.Source.Position = c.Position
	}
	if c.ExpectedSequence != nil {
		expect := *c.ExpectedSequence
		c.ExpectedSequence = &expect
	}
	return l.do(ctx, c)
}

// Get implements [Store].
func (k *RegisterStore) Get(ctx context.Context, key string, opts *GetOptions) (Checkpoint, error) {
	c, err := k.get(ctx, key, opts != nil && opts.Cached)
	return c, wrap("get", key, err)
}

func (k *RegisterStore) get(ctx context.Context, key string, cached bool) (Checkpoint, error) {
	l, err := k.queue(key)
	if err != nil {
		return Checkpoint{}, err
	}
	before := l.cached()
	s := before
	if !cached || !s.certain {
		if s, err = l.read(ctx); err != nil {
			return Checkpoint{}, err
		}
	}
	l.show(before, s)
	c := s.rec.checkpoint(key)
	if !c.Exists {
		return c, store.ErrNotFound
	}
	return c, nil
}

// List implements [Store]. The store must be a [store.Lister]; otherwise the error matches
// [errors.ErrUnsupported]. List reads several checkpoints at the same time. When List returns, its
// goroutines have ended.
func (k *RegisterStore) List(ctx context.Context, prefix string) iter.Seq2[Checkpoint, error] {
	return func(yield func(Checkpoint, error) bool) {
		below := k.opts.KeyPrefix
		if prefix != "" {
			if err := store.CheckKey(prefix); err != nil {
				yield(Checkpoint{}, wrap("list", prefix, err))
				return
			}
			below += "/" + prefix
		}
		batch := make([]string, 0, listBatch)
		for register, err := range store.List(ctx, k.st, below) {
			if err != nil {
				// Read the keys that were listed before the error: a directory with damaged
				// files lists the readable ones.
				if k.readAll(ctx, batch, yield) {
					yield(Checkpoint{}, wrap("list", prefix, err))
				}
				return
			}
			batch = append(batch, register[len(k.opts.KeyPrefix)+1:])
			if len(batch) == listBatch {
				if !k.readAll(ctx, batch, yield) {
					return
				}
				batch = batch[:0]
			}
		}
		k.readAll(ctx, batch, yield)
	}
}

// readAll reads the checkpoints of these keys at the same time, and yields those that
// exist.
func (k *RegisterStore) readAll(ctx context.Context, keys []string, yield func(Checkpoint, error) bool) bool {
	found := make([]Checkpoint, len(keys))
	errs := workerpool.Each(len(keys), len(keys), func(i int) error {
		l := keyQueue{k: k, key: keys[i], register: k.opts.KeyPrefix + "/" + keys[i]}
		found[i].Key = l.key // also for a read that does not return
		s, err := l.read(ctx)
		found[i] = s.rec.checkpoint(keys[i])
		return err
	})
	for i, c := range found {
		if errs[i] == nil && !c.Exists {
			continue
		}
		if !yield(c, wrap("get", keys[i], errs[i])) {
			return false
		}
	}
	return true
}

// Watch implements [Store]. If the store is not a [store.Watcher], Watch reads the register about
// once in each Options.PollInterval.
func (k *RegisterStore) Watch(ctx context.Context, key string) iter.Seq2[Checkpoint, error] {
	return func(yield func(Checkpoint, error) bool) {
		l, err := k.queue(key)
		if err != nil {
			yield(Checkpoint{Key: key}, wrap("watch", key, err))
			return
		}
		before := l.cached()
		for e, err := range store.Watch(ctx, k.st, l.register, k.opts.PollInterval) {
			var s state
			if err == nil {
				s, err = l.parse(e.Value, e.Version)
			}
			if err != nil {
				if !yield(Checkpoint{Key: key}, wrap("watch", key, err)) {
					return
				}
				continue
			}
			l.show(before, s)
			before = s
			if !yield(s.rec.checkpoint(key), nil) {
				return
			}
		}
	}
}
