package filestore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/internal/localfs"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// A log that is larger than sealBytes and has at least sealEntries entries is sealed,
	// and continues in a new file. Below largeSeals times sealBytes, it needs manyEntries: a new
	// file takes four syncs.
	sealBytes   = 32 << 10
	sealEntries = 4
	largeSeals  = 8
	manyEntries = 32

	// nameTrust is how long the store assumes that a cached log still has its name. The
	// protocol does not need the check: it is for directories that a person moved away.
	nameTrust = time.Second
)

// Options are the options of [Open]. Most programs need none.
type Options struct {
	// AllowNetwork allows a file system that is not known to be local and to append
	// atomically. If that file system does not append atomically, the store is not safe.
	// The command "holdfast doctor" tests this with processes that append at the same
	// time.
	AllowNetwork bool

	// Unsafe lists the risks that the caller accepts. Open refuses a directory that untrusted
	// users could change or exchange. The trusted users are root, the owner of the directory, and
	// the members of its group if the group may write. The error matches [store.ErrUnsafe] and
	// names the risk:
	//
	//   - "link": the path of the directory is a symbolic link.
	//   - "owner": the directory belongs to another user, and this user is root or in no group
	//     that shares it. If root accepts this risk, new files belong to that user, and existing
	//     files keep their owner and mode.
	//   - "writable": every user may write to the directory.
	Unsafe []string

	// ReadOnly opens the store for a program that only shows its content. Every write fails with
	// an error that matches [store.ErrInvalid]. Open then accepts the directory of another user
	// if this user may read it and may not write to it. The other user controls the content of
	// the directory, for example whether a lock is held. If this user is root, Open still
	// refuses the directory of another user.
	ReadOnly bool

	limits limits
}

// limits are values that only tests change.
type limits struct {
	maxOpen           int // how many logs remain open between calls, one descriptor each
	sealBytes         int64
	sealEntries       int
	noDirSync         bool // for the power-cut tests: names are not made durable
	poll              bool // as if the system reported no changes
	incompleteTimeout time.Duration
	sealer            time.Duration // see sealerTime
	floor             time.Duration
	page              int // how many names a listing holds at a time
	running           int // see maxRunning
}

// Store is a store in a directory. Any number of goroutines may use it, and any number of stores
// and processes may use one directory.
type Store struct {
	dir     string // absolute
	root    *os.Root
	info    os.FileInfo // of root
	id      string      // identifies root, for programs
	modes   modes
	limits  limits
	network bool
	reading bool // Options.ReadOnly
	logs    cache
	watch   notify
	own     presence
	busy    recent // registers that several processes change frequently

	abandoned abandon.Calls
	running   slot // see maxRunning

	mu        sync.Mutex
	calls     int           // running
	closing   chan struct{} // closed by Close
	idle      chan struct{} // closed when the last call returned after Close
	topSynced bool          // the names that lead to the directory are durable
	swept     time.Time     // when the temporaries were last swept
	wakes     []string      // the files that are kept; see wakeDir
}

// Open opens the store in a directory. If the directory does not exist, Open creates it and its
// parents, durably.
//
// If the group may write to an existing directory, the store shares it with the group: new files
// get the directory's mode and group. Otherwise the store creates files and directories that only
// this user can use.
//
// The error matches [store.ErrUnsafe] in two cases. The first case: the file system is not known
// to append atomically (NFS, SMB, FUSE, ...), and Options.AllowNetwork is not set. The second
// case: untrusted users could change the directory; see Options.Unsafe.
func Open(dir string, opts *Options) (*Store, error) {
	s, err := open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open file store %s: %w", dir, explain(err))
	}
	return s, nil
}

func open(dir string, opts *Options) (*Store, error) {
	opts = cmp.Or(opts, &Options{})
	if dir == "" {
		return nil, errors.New("the name of the directory is empty")
	}
	if err := safefile.CheckNames(opts.Unsafe); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, reading: opts.ReadOnly, limits: opts.limits, closing: make(chan struct{}), idle: make(chan struct{})}
	s.own.slot, s.running = make(slot, 1), make(slot, cmp.Or(opts.limits.running, maxRunning))
	s.logs.max = cmp.Or(opts.limits.maxOpen, 256)
	s.limits.sealBytes = cmp.Or(s.limits.sealBytes, sealBytes)
	s.limits.sealEntries = cmp.Or(s.limits.sealEntries, sealEntries)
	s.limits.page = cmp.Or(s.limits.page, pageSize)
	s.limits.sealer = cmp.Or(s.limits.sealer, sealerTime)
	s.limits.incompleteTimeout = cmp.Or(s.limits.incompleteTimeout, incompleteTimeout)
	s.limits.floor = cmp.Or(s.limits.floor, floorLockTimeout)
	if err := safefile.MakeDirs(dir, s.limits.syncOutside); err != nil {
		return nil, err
	}
	if s.root, s.info, err = safefile.OpenDir(dir, opts.ReadOnly, opts.Unsafe); err != nil {
		return nil, err
	}
	if err := s.prepare(opts); err != nil {
		s.root.Close()
		return nil, err
	}
	return s, nil
}

// prepare examines the directory that was opened: its identity, file system and modes.
func (s *Store) prepare(opts *Options) error {
	var err error
	if s.id, err = localfs.Identify(s.dir, s.info); err != nil {
		return err
	}
	kind, local, err := localfs.Check(s.dir)
	if err != nil {
		return err
	}
	s.network = !local
	if s.network && !opts.AllowNetwork {
		return fmt.Errorf("%w: the file system %s may not append atomically; use a directory on a local disk, or test this directory with holdfast doctor and then accept the risk (network=allow)", store.ErrUnsafe, kind)
	}
	s.modes = modesOf(s.info)
	s.watch.poll = s.limits.poll || s.network
	return nil
}

// Close ends the running watches, waits for the other calls, and closes the open files. If this
// process has announced itself, Close ends the announcement: other processes then do not know
// whether this process is alive. Later calls fail with [store.ErrClosed], and a second Close does
// nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	select {
	case <-s.closing:
	default:
		close(s.closing)
		if s.calls == 0 {
			close(s.idle)
		}
	}
	s.mu.Unlock()
	<-s.idle
	s.watch.close()
	s.logs.close()
	s.endWakes()
	return errors.Join(s.own.end(s), s.root.Close())
}

// begin counts a call; each begin that returned nil is followed by an end.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		return store.ErrClosed
	default:
	}
	s.calls++
	return nil
}

// beginWrite is begin for a call that changes the store.
func (s *Store) beginWrite() error {
	if s.reading {
		return store.MarkNotApplied(fmt.Errorf("%w: the store was opened with Options.ReadOnly, so it refuses writes", store.ErrInvalid))
	}
	return s.begin()
}

func (s *Store) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	if s.calls > 0 {
		return
	}
	select {
	case <-s.closing:
		close(s.idle)
	default:
	}
}

// Traits implements [store.Describer].
func (s *Store) Traits() store.Traits {
	return store.Traits{
		Name:                 s.name(),
		ID:                   s.id,
		Local:                !s.network,
		ConflictCarriesState: true,
		ReadsUnsynced:        true,
		Trusted:              !s.network,
	}
}

// name is that of the store for people.
func (s *Store) name() string { return "file:" + s.dir }

func (s *Store) opError(op store.Kind, key string, err error) error {
	return &store.OpError{Op: op, Key: key, Store: s.name(), Err: err}
}

// Get implements [store.Store]. The user needs only the right to read.
func (s *Store) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	e, err := bound(ctx, s, key, func() (store.Entry, error) { return s.get(ctx, key, nil) })
	if err == nil && e.Version == "" {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, "", s.opError("get", key, err)
	}
	return append([]byte{}, e.Value...), e.Version, nil
}

// get reads a register. The caller does not change the value. An absent key is no error. If first is
// not nil, get does not wait for a log that is not complete: it notes in first what it saw, and returns
// errIncomplete until that has not changed for long.
func (s *Store) get(ctx context.Context, key string, first *incompleteScan) (e store.Entry, err error) {
	err = s.withLog(ctx, key, func(l *log) error {
		l.first = first
		defer func() { l.first = nil }()
		if err := s.current(ctx, l, true); err != nil {
			return explain(err)
		}
		if e.Key, e.Version = key, l.version(); e.Version != "" {
			e.Value = l.seg.state.Value
		}
		return nil
	})
	return e, err
}

// getLong is get for the directory of a log whose name was cut. It returns no value, and no key if there is no such
// directory.
func (s *Store) getLong(ctx context.Context, name string, first *incompleteScan) (e store.Entry, err error) {
	l := &log{name: name, first: first}
	err = s.counting(ctx, func() error {
		defer l.drop()
		err := s.current(ctx, l, true)
		e.Key, e.Version = l.key, l.version()
		return explain(err)
	})
	return e, err
}

// maxRunning is how many calls of one store read and write registers, sync them, and create the files of
// waiters at the same time. On a disk that hangs, each of them keeps a thread, and Go ends a program that
// needs 10,000 threads.
const maxRunning = 1024

// counting calls f when fewer than maxRunning such calls run. Its own errors prove that f was not called.
func (s *Store) counting(ctx context.Context, f func() error) error {
	if err := s.running.lock(ctx); err != nil {
		return err
	}
	defer s.running.unlock()
	return f()
}

// rest is pause for a function that counting calls. It is not counted during the pause.
func (s *Store) rest(ctx context.Context, d time.Duration) error {
	s.running.unlock()
	defer func() { s.running <- struct{}{} }()
	return pause(ctx, d)
}

// bound returns the result of f, at the latest [abandon.After] the end of ctx: a system call on a
// disk that hangs ends in no time. See [Store.AbandonedCalls].
func bound[T any](ctx context.Context, s *Store, key string, f func() (T, error)) (T, error) {
	return abandon.Do(ctx, &s.abandoned, key, f)
}

// counted is bound for a call that Close waits for. The function begin is s.begin or s.beginWrite.
func counted[T any](ctx context.Context, s *Store, key string, begin func() error, f func() (T, error)) (T, error) {
	return bound(ctx, s, key, func() (none T, err error) {
		if err := begin(); err != nil {
			return none, err
		}
		defer s.end()
		return f()
	})
}

// AbandonedCalls returns the number of abandoned calls. If a system call hangs, the store abandons
// its own call 0.2 s after the end of the context: the call returns, but one goroutine waits until
// the system call ends. An abandoned write may still be applied. After 16 abandoned calls for one
// key, further calls for that key fail at once.
//
// At most 1,024 reads and writes of a store use the disk at the same time. So on a disk that hangs they
// keep at most 1,024 threads. Further calls wait, reads too. A write that has not begun when its context
// ends is not applied.
func (s *Store) AbandonedCalls() int { return s.abandoned.Abandoned() }

// Put implements [store.Store]. After a nil error, the value survives a loss of power, if
// the disk honours flushes.
func (s *Store) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	return s.put(ctx, store.OpPut, change{key: key, prev: prev, value: value, durable: true})
}

// PutUnsynced implements [store.UnsyncedPutter]. The first write of a key, and a write
// that fills a log file, are still durable.
func (s *Store) PutUnsynced(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	return s.put(ctx, store.OpPutUnsynced, change{key: key, prev: prev, value: value})
}

// Delete implements [store.Store]. The key's directory stays, with a tombstone, until
// [Store.SweepDeleted] removes it.
func (s *Store) Delete(ctx context.Context, key string, prev store.Version) error {
	if err := store.CheckDelete(key, prev); err != nil {
		return err
	}
	_, err := s.put(ctx, store.OpDelete, change{key: key, prev: prev, deleted: true, durable: true})
	return err
}

func (s *Store) put(ctx context.Context, op store.Kind, c change) (v store.Version, err error) {
	if err := store.CheckPut(c.key, c.value); err != nil {
		return "", err
	}
	if !c.deleted {
		c.value = append([]byte{}, c.value...) // the caller may change its own when this call is abandoned
	}
	v, err = bound(ctx, s, c.key, func() (store.Version, error) { return s.write(ctx, c) })
	if store.OutcomeOf(err) == store.Unknown {
		err = &store.InDoubtError{Version: v, Err: err}
	}
	if err != nil {
		return "", s.opError(op, c.key, err)
	}
	return v, nil
}

// withLog calls f with the log of a key. No other goroutine of this process reads or
// extends that log meanwhile. A call that waits for the log is not counted; see counting. The errors of
// withLog itself prove that nothing was written.
func (s *Store) withLog(ctx context.Context, key string, f func(*log) error) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	l := s.logs.pin(key)
	defer s.logs.unpin(l)
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	return s.counting(ctx, func() error { return f(l) })
}

// random returns a unique name: 130 random bits.
func random() string { return rand.Text() }
