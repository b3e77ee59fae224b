package avisofile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/group"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// Options are the options of a [Store]. The zero value of each field means its default.
type Options struct {
	// AllowNetwork allows a file system that is not known to be local. On such a file system the
	// lock may not exclude programs on other machines, so checkpoints can be lost or can move
	// back. Default: Open refuses such a file system, with an error that matches
	// [store.ErrUnsafe].
	AllowNetwork bool

	// Unsafe lists the risks of the state file's directory that the caller accepts. If untrusted
	// users could change or replace the directory, Open returns an error that matches
	// [store.ErrUnsafe] and names the risk:
	//
	//   - "owner": the directory belongs to another user, and this user is root or in no group
	//     that shares it.
	//   - "writable": every user may write to the directory.
	//   - "link": the path leads through a symbolic link that belongs to another user.
	Unsafe []string

	// HeldBy, if not nil, returns the holder of the lease that guards a key. If there is no holder,
	// held is false. Reset and Delete call HeldBy before they take the lock of the file. If the
	// lease has a holder with another token than the caller, or with the token 0, or if HeldBy
	// returns an error, Reset and Delete fail. Default: Reset and Delete do not check leases.
	HeldBy func(ctx context.Context, key string) (h checkpoint.Holder, held bool, err error)

	// Logger receives two warnings, each at most once for a Store. First: another user has replaced
	// the file, and this program cannot keep that owner. Second: fencing tokens or epochs are lower
	// than before, because a program has replaced a link by a file, or because the fence file was
	// removed or replaced. Default: no log.
	Logger *slog.Logger

	// onCommit is for tests: it is called after each release of the lock.
	onCommit func(commitStats)
}

// Store stores checkpoints in a state file. [checkpoint.Store] describes the methods, and the
// package comment describes the promises. Any number of goroutines may call all methods. Close the
// store after use, because it has two open files.
//
// While calls wait for a write, a Store runs one goroutine. While the Store waits for the lock in
// the kernel, it runs a second goroutine. The second goroutine can outlive the calls and the Store:
// it waits until it gets the lock, and then releases the lock immediately. In one process, at most
// 64 goroutines wait in the kernel, each with its own thread. Further waiters poll the lock.
type Store struct {
	opts Options

	loading chan struct{} // one slot: one call reads the files at a time
	fences  fences        // those that were read last; for the call that reads the files

	// Only the goroutine that commits uses these.
	lock  locker
	next  time.Time // the lock is not taken again before this time
	swept bool      // no temporary files of this package are left in the directory

	// doubt says that a sync has failed: the files may not survive a power cut, even if
	// another sync succeeds. The next commit rewrites them.
	doubt atomic.Bool

	mu       sync.Mutex // never held during I/O
	lastView *view      // the last view of the files; nil: none
	changed  chan struct{}
	queue    group.Queue[*op]
	running  bool
	idle     chan struct{} // closed when running ends
	closed   bool
	killed   bool                             // the context of Close has ended
	disposed bool                             // the files of the last view are closed, or being closed
	shown    map[digest]checkpoint.Checkpoint // the state last shown to the user
}

var _ checkpoint.Store = (*Store)(nil)

// Open opens a state file and reads it. If the file does not exist, the store is empty, and the
// first write creates the file. The directory must exist. If the file cannot be read, the error is
// a [*LoadError], and Open does not change the file.
func Open(path string, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	l, err := newLocker(path, o.AllowNetwork, o.Unsafe, o.Logger)
	if err != nil {
		return nil, err
	}
	s := &Store{
		opts:    o,
		lock:    l,
		loading: make(chan struct{}, 1),
		changed: make(chan struct{}),
		shown:   make(map[digest]checkpoint.Checkpoint),
	}
	s.queue.Mu = &s.mu
	p, err := resolve(l.path)
	if err != nil {
		return nil, denied(err)
	}
	if err := p.check(o.AllowNetwork, o.Unsafe); err != nil {
		return nil, err
	}
	if _, _, err := s.fresh(nil); err != nil {
		return nil, denied(err)
	}
	return s, nil
}

// newLocker checks the path and the options of a state file.
func newLocker(path string, network bool, unsafe []string, log *slog.Logger) (locker, error) {
	if err := safefile.CheckNames(unsafe); err != nil {
		return locker{}, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	if path == "" {
		return locker{}, fmt.Errorf("%w: the path of the state file is empty", store.ErrInvalid)
	}
	path, err := absolute(path)
	return locker{path: path, network: network, unsafe: unsafe, warn: newWarner(log)}, err
}

// absolute is filepath.Abs without its cleaning: only the system knows what ".." means
// after a link.
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return dir + string(filepath.Separator) + path, nil
}

// wrap names the operation and the key in an error.
func wrap(op store.Kind, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.OpError{Op: "checkpoint " + op, Key: key, Err: err}
}

// checkPosition reports why p cannot be saved.
func checkPosition(p checkpoint.Position) error {
	switch {
	case p.Data != nil:
		return store.MarkNotApplied(fmt.Errorf("an aviso state file cannot store the data of a position; save the position without data: %w", errors.ErrUnsupported))
	case !utf8.ValidString(p.EventID):
		return fmt.Errorf("%w: the event id %.80q is not valid UTF-8", store.ErrInvalid, p.EventID)
	case len(p.EventID) > checkpoint.MaxPayload:
		return fmt.Errorf("%w: the event id has %d bytes; at most %d are allowed", store.ErrTooLarge, len(p.EventID), checkpoint.MaxPayload)
	}
	return nil
}

// change carries out a call that needs the lock.
func (s *Store) change(ctx context.Context, key string, c change) (answer, error) {
	var err error
	if c.key, err = parseDigest(key); err != nil {
		return answer{}, err
	}
	if err := checkPosition(c.Position); err != nil {
		return answer{}, err
	}
	if c.ExpectedSequence != nil {
		expect := *c.ExpectedSequence
		c.ExpectedSequence = &expect
	}
	for {
		a, err := s.do(ctx, c)
		if !errors.Is(err, errHolderUnchecked) {
			return a, err
		}
		h, held, err := s.opts.HeldBy(ctx, c.key.String())
		if err != nil {
			return a, store.MarkNotApplied(err)
		}
		if held && (h.Token == 0 || h.Token != c.Token) {
			return a, &checkpoint.HeldError{Key: c.key.String(), Holder: h}
		}
		c.tokenAtCheck = &a.current.Token
	}
}

// Advance implements [checkpoint.Store]. Calls that arrive during a write share the next write, for
// all keys. The store processes them in the order of arrival, and each call gets its own status.
//
// An Advance also gets RolledBack if the file now has a lower sequence than this store has returned
// before, but no new epoch has begun. Then another program, or a restored backup, has moved the
// checkpoint back.
//
// The outcome of an error is unknown if a sync failed after the file was replaced, or if the
// context ended during the write. The caller can then repeat the same call.
func (s *Store) Advance(ctx context.Context, key string, p checkpoint.Position, opts *checkpoint.AdvanceOptions) (checkpoint.Result, error) {
	opts = cmp.Or(opts, &checkpoint.AdvanceOptions{})
	a, err := s.change(ctx, key, change{Change: checkpoint.Change{
		Verb: checkpoint.VerbAdvance, Position: p, Token: opts.Token, Epoch: opts.Epoch, Force: opts.Force,
	}})
	result := checkpoint.Result{Status: a.status, Current: a.current}
	if err == nil {
		err = result.Err(opts.Token)
	}
	return result, wrap("advance", key, err)
}

// Fence implements [checkpoint.Store]. It writes the token to the fence file, which other programs
// do not read.
func (s *Store) Fence(ctx context.Context, key string, token uint64) (checkpoint.Checkpoint, error) {
	if token == 0 {
		return checkpoint.Checkpoint{}, wrap("fence", key, fmt.Errorf("%w: the fencing token is 0; use the token of a lease", store.ErrInvalid))
	}
	a, err := s.change(ctx, key, change{Change: checkpoint.Change{Verb: checkpoint.VerbFence, Token: token}})
	return a.current, wrap("fence", key, err)
}

// Reset implements [checkpoint.Store]. Only this package respects a Reset: another program that
// runs at the same time can write the old sequence back from its memory.
func (s *Store) Reset(ctx context.Context, key string, p checkpoint.Position, opts *checkpoint.ChangeOptions) (checkpoint.Checkpoint, error) {
	return s.back(ctx, key, checkpoint.VerbReset, p, opts)
}

// Delete implements [checkpoint.Store]. Another program that runs at the same time can write the
// deleted key back. If the file has a higher sequence than this store has last returned, Delete
// removes nothing, and the error matches [checkpoint.ErrUnexpectedSequence].
func (s *Store) Delete(ctx context.Context, key string, opts *checkpoint.ChangeOptions) (checkpoint.Checkpoint, error) {
	return s.back(ctx, key, checkpoint.VerbDelete, checkpoint.Position{}, opts)
}

func (s *Store) back(ctx context.Context, key string, v checkpoint.Verb, p checkpoint.Position, opts *checkpoint.ChangeOptions) (checkpoint.Checkpoint, error) {
	opts = cmp.Or(opts, &checkpoint.ChangeOptions{})
	a, err := s.change(ctx, key, change{
		Change:      checkpoint.Change{Verb: v, Position: p, Token: opts.Token, Force: opts.Force, ExpectedSequence: opts.ExpectedSequence},
		needsHolder: s.opts.HeldBy != nil && !opts.Force,
	})
	return a.current, wrap(store.Kind(v), key, err)
}

// Get implements [checkpoint.Store]. Get locks the file only if a Reset or Delete was interrupted:
// it then finds out whether the change was made.
func (s *Store) Get(ctx context.Context, key string, opts *checkpoint.GetOptions) (checkpoint.Checkpoint, error) {
	d, err := parseDigest(key)
	if err != nil {
		return checkpoint.Checkpoint{}, wrap("get", key, err)
	}
	c, err := s.get(ctx, d, opts != nil && opts.Cached)
	if err == nil && !c.Exists {
		err = store.ErrNotFound
	}
	return c, wrap("get", key, err)
}

func (s *Store) get(ctx context.Context, key digest, cached bool) (checkpoint.Checkpoint, error) {
	v, err := s.readState(ctx, cached)
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	if v.fences.guard(key).pending {
		a, err := s.do(ctx, change{key: key})
		return a.current, err
	}
	e, ok := v.state.find(key)
	c := show(key, e, ok, v.fences.guard(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown[key] = c
	return c, nil
}

// readState returns a view of the files: the current one, made durable, or with cached the
// one in memory.
func (s *Store) readState(ctx context.Context, cached bool) (*view, error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	v, closed := s.lastView, s.closed
	s.mu.Unlock()
	if closed {
		return nil, checkpoint.ErrClosed
	}
	if cached && v != nil {
		return v, nil
	}
	for {
		v, p, err := s.fresh(ctx.Done())
		if errors.Is(err, errGivenUp) {
			err = store.MarkNotApplied(store.Cause(ctx))
		}
		if err != nil {
			return nil, store.MarkNotApplied(denied(err))
		}
		err = v.sync(p)
		if errors.Is(err, os.ErrClosed) {
			continue // the file was replaced meanwhile
		}
		if err != nil && !cannotSync(err) {
			s.doubt.Store(true)
			return nil, store.MarkNotApplied(fmt.Errorf("the content of %s may not survive a power cut: %w", p.file(), err))
		}
		return v, nil
	}
}

// List implements [checkpoint.Store]. List reads the file once, and yields the keys in sorted
// order. The keys of a state file contain no slash. So if the prefix is not empty, List yields no
// key.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		const op = "list"
		if prefix != "" {
			if err := store.CheckKey(prefix); err != nil {
				yield(checkpoint.Checkpoint{}, wrap(op, prefix, err))
			}
			return
		}
		v, err := s.readState(ctx, false)
		for err == nil && v.fences.pending() {
			if _, err = s.do(ctx, change{}); err == nil {
				v, err = s.readState(ctx, false)
			}
		}
		if err != nil {
			yield(checkpoint.Checkpoint{}, wrap(op, prefix, err))
			return
		}
		for _, e := range v.state {
			if !yield(show(e.key, e, true, v.fences.guard(e.key)), nil) {
				return
			}
		}
	}
}

// Watch implements [checkpoint.Store].
func (s *Store) Watch(ctx context.Context, key string) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		const op = "watch"
		d, err := parseDigest(key)
		if err != nil {
			yield(checkpoint.Checkpoint{Key: key}, wrap(op, key, err))
			return
		}
		var last checkpoint.Checkpoint
		for first := true; ; {
			s.mu.Lock()
			changed := s.changed
			s.mu.Unlock()
			c, err := s.get(ctx, d, false)
			switch {
			case ctx.Err() != nil:
				yield(checkpoint.Checkpoint{Key: d.String()}, wrap(op, key, store.Cause(ctx)))
				return
			case err != nil:
				if !yield(checkpoint.Checkpoint{Key: d.String()}, wrap(op, key, err)) || errors.Is(err, checkpoint.ErrClosed) {
					return
				}
				changed = nil // after an error, wait for the whole poll
			case first || !same(c, last):
				first, last = false, c
				if !yield(c, nil) {
					return
				}
			}
			_ = backoff.SleepOrWake(ctx, pollInterval/2+rand.N(pollInterval/2+1), changed)
		}
	}
}

// same reports whether a watcher that has seen a has also seen b.
func same(a, b checkpoint.Checkpoint) bool {
	return a.Exists == b.Exists && a.Epoch == b.Epoch && a.Token == b.Token &&
		a.Sequence == b.Sequence && a.EventID == b.EventID
}

// pollInterval is how often Watch reads the file at least: the pauses are random, from half of it. A change through
// this store ends a pause.
const pollInterval = 250 * time.Millisecond
