package migratelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// SchemePrefix is what [Driver.Open] removes from the beginning of a URL.
const SchemePrefix = "holdfast+"

// UnusedTimeout is the time after which a driver frees a lock that was never used; see [Driver.Lock].
const UnusedTimeout = 10 * time.Second

var errClosed = errors.New("migratelock: the driver is closed")

// Options are the options of [New]. The zero value of each field means its default.
type Options struct {
	// LockTimeout is how long Lock waits for the lock. It should be shorter than the field LockTimeout of
	// migrate.Migrate: then Lock ends first, and its error names the holder. If a holder dies, the others
	// wait for the TTL of its lease, so LockTimeout should be longer than the TTL. Default: nine tenths of
	// migrate.DefaultLockTimeout.
	LockTimeout time.Duration
}

// Driver is a driver of migrate whose lock is a lease. All other methods are those of the driver that was
// passed to New. Like other drivers, a Driver belongs to one migrate.Migrate.
type Driver struct {
	database.Driver

	client  *lease.Client
	name    string
	timeout time.Duration

	mu     sync.Mutex
	closed bool
	cancel context.CancelFunc // of the Lock that waits, or nil
	guard  *lease.Guard       // of the last Lock, until Unlock
	used   bool               // whether a call has used guard
	freed  bool               // whether freeUnused releases guard
}

// New returns a driver that does the same as inner, but takes its lock with the client under this name. All
// processes that migrate a database must use the same name and the same store. New sends no request. If
// the name or an option is not valid, the error matches store.ErrInvalid.
func New(inner database.Driver, client *lease.Client, name string, opts *Options) (*Driver, error) {
	d := &Driver{Driver: inner, client: client, name: name, timeout: migrate.DefaultLockTimeout * 9 / 10}
	if opts != nil && opts.LockTimeout != 0 {
		d.timeout = opts.LockTimeout
	}
	if d.timeout < 0 {
		return nil, fmt.Errorf("migratelock: LockTimeout is %v: %w", d.timeout, store.ErrInvalid)
	}
	if _, err := client.Handle(name, nil); err != nil {
		return nil, fmt.Errorf("migratelock: %w", err)
	}
	return d, nil
}

// Open opens the URL with the inner driver, and returns a driver with the same client, name and options. It
// removes SchemePrefix from the URL. So a program that opens databases by URLs can register a Driver:
//
//	driver, err := migratelock.New(&pgx.Postgres{}, client, "migrations/shop", nil)
//	database.Register(migratelock.SchemePrefix+"pgx5", driver)
//	m, err := migrate.New("file://migrations", "holdfast+pgx5://db.example/shop")
func (d *Driver) Open(url string) (database.Driver, error) {
	inner, err := d.Driver.Open(strings.TrimPrefix(url, SchemePrefix))
	if err != nil {
		return nil, err
	}
	return New(inner, d.client, d.name, &Options{LockTimeout: d.timeout})
}

// Lock takes the lock. It waits for at most Options.LockTimeout. If another process then holds the lock,
// the error matches database.ErrLocked, migrate.ErrLockTimeout and lease.ErrHeld, and names the holder. If
// the store did not answer, the error matches migrate.ErrLockTimeout and not database.ErrLocked. If this
// driver has the lock already, the error is database.ErrLocked.
//
// If migrate.Migrate.LockTimeout is shorter than the wait, migrate gives up, and calls no Unlock for a lock
// that this call takes later. So if no Run, SetVersion or Drop follows within UnusedTimeout, the driver frees the
// lock. Version does not count: programs call it without the lock, too.
func (d *Driver) Lock() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), d.timeout, migrate.ErrLockTimeout)
	defer cancel()
	if err := d.begin(cancel); err != nil {
		return err
	}
	guard, err := d.client.Acquire(ctx, d.name, nil)
	kept := d.end(guard)
	switch {
	case errors.Is(err, lease.ErrHeld):
		return fmt.Errorf("%w: %w", database.ErrLocked, err)
	case err != nil:
		return fmt.Errorf("lock %q: %w", d.name, err)
	case !kept:
		_ = guard.Release(ctx)
		return errClosed
	}
	return nil
}

// begin registers a Lock, which Close can cancel.
func (d *Driver) begin(cancel context.CancelFunc) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return errClosed
	case d.cancel != nil, d.guard != nil && (d.used || d.guard.Err() == nil):
		return database.ErrLocked
	}
	d.cancel = cancel
	return nil
}

// end is the counterpart of begin. It reports whether the driver keeps the guard, which may be nil.
func (d *Driver) end(guard *lease.Guard) (kept bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancel = nil
	if guard == nil || d.closed {
		return false
	}
	d.guard, d.used, d.freed = guard, false, false
	time.AfterFunc(UnusedTimeout, func() { d.freeUnused(guard) })
	return true
}

// freeUnused frees the lock of the guard if no call has used it.
func (d *Driver) freeUnused(guard *lease.Guard) {
	d.mu.Lock()
	unused := d.guard == guard && !d.used
	if unused {
		d.freed = true
	}
	d.mu.Unlock()
	if unused {
		_ = guard.Release(context.Background())
	}
}

// use returns the guard of the present lock, or why it is lost. The guard is nil if the caller has not called Lock.
func (d *Driver) use() (*lease.Guard, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.guard == nil:
		return nil, nil
	case d.freed: // the release may not have begun yet
		return d.guard, lease.ErrReleased
	}
	d.used = true
	return d.guard, d.guard.Err()
}

// Unlock frees the lock. If the driver has no lock, the error is database.ErrNotLocked. Otherwise the error is
// nil, also if the lease was lost or the store does not answer: migrate would never use a driver again
// whose Unlock has failed, and the lease ends after its TTL in any case. The events of the client
// report such a release.
func (d *Driver) Unlock() error {
	guard := d.takeGuard()
	if guard == nil {
		return database.ErrNotLocked
	}
	_ = guard.Release(context.Background())
	return nil
}

func (d *Driver) takeGuard() *lease.Guard {
	d.mu.Lock()
	defer d.mu.Unlock()
	guard := d.guard
	d.guard = nil
	return guard
}

// Close closes the inner driver. Then it ends a waiting Lock, and frees the lock. It does not close the
// client.
func (d *Driver) Close() error {
	err := d.Driver.Close()
	d.mu.Lock()
	d.closed = true
	if d.cancel != nil {
		d.cancel()
	}
	d.mu.Unlock()
	if guard := d.takeGuard(); guard != nil {
		_ = guard.Release(context.Background())
	}
	return err
}

// Run runs a migration; see the package comment for a lost lease.
func (d *Driver) Run(migration io.Reader) error {
	return d.guarded("run of a migration", func() error { return d.Driver.Run(migration) })
}

// SetVersion stores the version; see the package comment for a lost lease.
func (d *Driver) SetVersion(version int, dirty bool) error {
	return d.guarded(fmt.Sprintf("version %d, dirty %t", version, dirty), func() error { return d.Driver.SetVersion(version, dirty) })
}

// Drop drops everything; see the package comment for a lost lease, and for the tables of the store.
func (d *Driver) Drop() error {
	return d.guarded("drop", d.Driver.Drop)
}

// guarded makes a call only while the lease is trusted. It also returns an error if the lease was lost
// during the call: then migrate stops, and does not make the next change. Calls without a Lock are not
// the matter of the lock.
func (d *Driver) guarded(what string, call func() error) error {
	guard, err := d.use()
	if err != nil {
		return fmt.Errorf("%s: refused, because the lock is lost: %w", what, err)
	}
	if guard == nil {
		return call()
	}
	err = call()
	if lost := guard.Err(); lost != nil {
		err = errors.Join(err, fmt.Errorf("%s: the lock was lost meanwhile: %w", what, lost))
	}
	return err
}
