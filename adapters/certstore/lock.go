package certstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// lock is a lock that a goroutine of this process holds or takes. Unlock gets the name of a lock, and not its holder: so
// each name has one lock at a time.
type lock struct {
	guard *lease.Guard  // nil while Lock or Unlock runs
	done  chan struct{} // closed when no goroutine has the lock
	site  string        // the certificate that certmagic issues under the lock, as in its keys; empty if there is none
}

// Lock takes the lock with the given name. It waits until the lock is free or the context ends. If the store does not
// answer for Options.StoreTimeout, the error matches lease.ErrUnresponsive. The Storage renews the lease until Unlock.
// The lock is not re-entrant: other goroutines of the process wait until Unlock, even if the lease was lost before.
func (s *Storage) Lock(ctx context.Context, name string) error {
	_, err := s.take(ctx, name, true)
	return err
}

// TryLock takes the lock with the given name if it is free now. If another holder has it, TryLock returns false and no
// error.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	return s.take(ctx, name, false)
}

func (s *Storage) take(ctx context.Context, name string, wait bool) (bool, error) {
	lockName, err := lockOf(name)
	if err != nil {
		return false, err
	}
	mine := &lock{done: make(chan struct{})}
	if subject, ok := strings.CutPrefix(name, "issue_cert_"); ok {
		mine.site = certmagic.StorageKeys.Safe(subject)
	}
	for other := s.enter(name, mine); other != nil; other = s.enter(name, mine) {
		if !wait {
			return false, store.Cause(ctx)
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return false, store.Cause(ctx)
		}
	}
	acquire := s.client.TryAcquire
	if wait {
		acquire = s.client.Acquire
	}
	guard, err := acquire(ctx, lockName, nil)
	if err != nil {
		s.leave(name, mine)
		if !wait && errors.Is(err, lease.ErrHeld) {
			err = nil
		}
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	mine.guard = guard
	return true, nil
}

func lockOf(name string) (string, error) {
	lockName, err := nameOf(cleaned(name))
	if err != nil {
		return "", &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return dir + "/" + lockName, nil
}

// enter gives a lock to the caller. If another goroutine has it, enter returns the lock of that goroutine.
func (s *Storage) enter(name string, mine *lock) (other *lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other = s.locks[name]; other == nil {
		s.locks[name] = mine
	}
	return other
}

func (s *Storage) leave(name string, mine *lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.locks, name)
	close(mine.done)
}

// Unlock frees the lock with the given name. It also works after the end of its context, and takes at most
// Options.ReleaseTimeout plus one second. In all cases the lock is over for this process.
//
// A *lease.LostError says that the lease was lost before. After any other error, the lock may stay held in the store
// until its lease expires. If the process does not hold the lock, the error matches lease.ErrNotHeld.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	l := s.locks[name]
	if l == nil || l.guard == nil {
		s.mu.Unlock()
		return notHeld("unlock", name)
	}
	guard := l.guard
	l.guard = nil
	s.mu.Unlock()
	defer s.leave(name, l)
	return guard.Release(ctx)
}

// RenewLockLease renews the lease of a lock now. certmagic calls it before each try to get a certificate. The Storage
// also renews leases automatically, as long as the process runs: so it ignores the duration.
//
// If the lease was lost, RenewLockLease takes the lock again. If another holder has the lock, the error matches
// lease.ErrHeld, and the next call tries again. If this process did not take the lock, the error matches
// lease.ErrNotHeld. After any other error the lock is still held until its lease expires. A failed request is repeated
// for up to ten seconds.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	l := s.locks[name]
	var guard *lease.Guard
	if l != nil {
		guard = l.guard
	}
	s.mu.Unlock()
	if guard == nil {
		return notHeld("renew", name)
	}
	if err := retry(ctx, shortTimeout, guard.Renew); !errors.Is(err, lease.ErrLost) {
		return err
	}
	again, err := s.client.TryAcquire(ctx, guard.Name(), nil)
	if err != nil {
		return err
	}
	s.mu.Lock()
	current := l.guard == guard
	if current {
		l.guard = again
	}
	s.mu.Unlock()
	if !current { // Unlock was faster
		return errors.Join(notHeld("renew", name), again.Release(ctx))
	}
	_ = guard.Release(ctx) // it is lost: this ends its goroutines
	return nil
}

func notHeld(op, name string) error { return fmt.Errorf("%s %q: %w", op, name, lease.ErrNotHeld) }

// lockOfKey returns the lock under which certmagic issues the certificate that a key belongs to, and its token, if this
// process has this lock. The error says that the lease was lost.
func (s *Storage) lockOfKey(key string) (name string, token uint64, err error) {
	if !strings.HasPrefix(key, "certificates/") {
		return "", 0, nil
	}
	site := path.Base(path.Dir(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.locks {
		if l.guard != nil && l.site == site {
			return name, l.guard.Token(), l.guard.Err()
		}
	}
	return "", 0, nil
}
