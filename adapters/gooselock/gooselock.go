package gooselock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// DefaultLockTimeout is the default of Options.LockTimeout. The lockers of goose have the same.
const DefaultLockTimeout = 5 * time.Minute

// ErrLockTimeout: the lock was not free within Options.LockTimeout. If another process held it, the error also
// matches lease.ErrHeld, and names the holder.
var ErrLockTimeout = errors.New("timeout: can't acquire the lock of the migrations")

// ErrNotLocked: the call needs the lock, and the locker does not have it.
var ErrNotLocked = errors.New("the lock of the migrations is not held")

// Options are the options of [New]. The zero value of each field means its default.
type Options struct {
	// LockTimeout is how long Lock waits for the lock. If a holder dies, the others wait for the TTL of its
	// lease, so LockTimeout should be longer than the TTL. Default: DefaultLockTimeout.
	LockTimeout time.Duration

	// Fence is the dialect of the migrated database. If it is set, Lock announces the fencing token in this
	// database, and the store of [Locker.Store] checks it in each transaction; see sqlstore.Fence. The
	// database needs the tables of sqlstore.CreateTables. Default: no fence.
	Fence sqlstore.Dialect
}

// Locker is a lock.Locker and a lock.SessionLocker of goose. Any number of goroutines and providers may use
// it; they take turns.
type Locker struct {
	client  *lease.Client
	name    string
	timeout time.Duration
	fence   sqlstore.Dialect

	turn  chan struct{} // has an element from Lock to Unlock
	guard atomic.Pointer[lease.Guard]
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.SessionLocker = (*Locker)(nil)
)

// New returns a locker that takes the lock with the client under this name. All processes that migrate a
// database must use the same name and the same store. New sends no request. If the name or an option
// is not valid, the error matches store.ErrInvalid.
func New(client *lease.Client, name string, opts *Options) (*Locker, error) {
	o := cmp.Or(opts, &Options{})
	l := &Locker{client: client, name: name, timeout: cmp.Or(o.LockTimeout, DefaultLockTimeout), fence: o.Fence, turn: make(chan struct{}, 1)}
	switch l.fence {
	case "", sqlstore.PostgreSQL, sqlstore.SQLite, sqlstore.MySQL:
	default:
		return nil, fmt.Errorf("gooselock: there is no dialect %q: %w", l.fence, store.ErrInvalid)
	}
	if l.timeout < 0 {
		return nil, fmt.Errorf("gooselock: LockTimeout is %v: %w", l.timeout, store.ErrInvalid)
	}
	if _, err := client.Handle(name, nil); err != nil {
		return nil, fmt.Errorf("gooselock: %w", err)
	}
	return l, nil
}

// Lock takes the lock, for goose.WithLocker. It waits until the context ends, or for at most
// Options.LockTimeout. The context bounds the wait only. With Options.Fence, Lock uses one connection of
// the database while goose has another, so the pool must have two. If the lease is lost while Lock announces the
// token there, the error matches lease.ErrLost.
func (l *Locker) Lock(ctx context.Context, db *sql.DB) error {
	if l.fence != "" && db.Stats().MaxOpenConnections == 1 {
		return fmt.Errorf("gooselock: goose and the fence need two connections, and the pool of the database has one: %w", store.ErrMisconfigured)
	}
	return l.lock(ctx, db)
}

// SessionLock does the same as Lock, for goose.WithSessionLocker. It uses the connection for the fence only.
func (l *Locker) SessionLock(ctx context.Context, conn *sql.Conn) error { return l.lock(ctx, conn) }

type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

func (l *Locker) lock(ctx context.Context, db beginner) error {
	wait, cancel := context.WithTimeoutCause(ctx, l.timeout, ErrLockTimeout)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
	case <-wait.Done():
		return fmt.Errorf("lock %q: this process holds it: %w", l.name, context.Cause(wait))
	}
	guard, err := l.client.Acquire(wait, l.name, nil)
	if err != nil {
		<-l.turn
		return fmt.Errorf("lock %q: %w", l.name, err)
	}
	stop := context.AfterFunc(guard.Context(), cancel)
	defer stop()
	if err := cmp.Or(l.announce(wait, db, guard), guard.Err()); err != nil {
		err = errors.Join(err, guard.Release(ctx))
		<-l.turn
		return err
	}
	if end, ok := ctx.Value(contextKey{l}).(context.CancelCauseFunc); ok {
		context.AfterFunc(guard.Context(), func() {
			if err := guard.Err(); !errors.Is(err, lease.ErrReleased) {
				end(err)
			}
		})
	}
	l.guard.Store(guard)
	return nil
}

// announce writes the token into the database, so that the transactions of former holders cannot commit. It
// waits for those that have passed the fence.
func (l *Locker) announce(ctx context.Context, db beginner, guard *lease.Guard) error {
	if l.fence == "" {
		return nil
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("lock %q: begin a transaction for the fence: %w", l.name, err)
	}
	if err := l.fence.Fence(ctx, tx, l.name, guard.Token()); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("lock %q: commit the fence: %w", l.name, err)
	}
	return nil
}

// Unlock frees the lock. It also works after the end of its context. If the lease was lost, the error matches
// lease.ErrLost. After any other error the lock may stay held until its lease ends. If the locker has
// no lock, the error matches ErrNotLocked.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error { return l.unlock(ctx) }

// SessionUnlock does the same as Unlock.
func (l *Locker) SessionUnlock(ctx context.Context, _ *sql.Conn) error { return l.unlock(ctx) }

func (l *Locker) unlock(ctx context.Context) error {
	guard := l.guard.Swap(nil)
	if guard == nil {
		return fmt.Errorf("unlock %q: %w", l.name, ErrNotLocked)
	}
	defer func() { <-l.turn }()
	if err := guard.Release(ctx); err != nil {
		return fmt.Errorf("unlock %q: %w", l.name, err)
	}
	return nil
}

type contextKey struct{ *Locker }

// Context returns a context for the calls of a provider that uses this locker. If a call of the provider has
// taken the lock, and the lease is lost, the context ends with the reason as its cause. Then goose stops.
// Call cancel when the work is done.
func (l *Locker) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	return context.WithValue(ctx, contextKey{l}, end), func() { end(nil) }
}
