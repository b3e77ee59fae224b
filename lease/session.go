package lease

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/holding"
)

// Session holds any number of locks, and renews all of them with one request. The client renews
// only the record of the session. The records of its locks name the session, and the locks are held
// while the session lives.
//
// A lock under a session has the same [Guard], events and errors as a plain lock, and both kinds
// exclude each other. But the lock has no lease of its own: [Guard.Remaining], [Guard.Deadline] and
// [Guard.Renew] refer to the session. If the session is lost, all its locks are lost for the same
// reason. A session has one goroutine and one timer; its locks have none.
//
// Any number of goroutines may use a session. Close every session, even after its loss.
type Session struct {
	c *Client
	k *holding.Session
}

// OpenSession opens a session with the options of the client, in one request. After a temporary
// error of the store, it tries again until the context ends, within Options.StoreTimeout. Each
// attempt has a new id, so the session never depends on an attempt with an unknown outcome. The
// context bounds only the call. The session lasts until [Session.Close], [Client.Close], or its
// loss.
//
// With Options.ManualRenewal only [Session.Renew] renews the session.
func (c *Client) OpenSession(ctx context.Context) (*Session, error) {
	s, err := c.k.OpenSession(ctx)
	if err != nil {
		return nil, err
	}
	return &Session{c: c, k: s}, nil
}

// ID returns the random id of the session. The records of its locks contain this id.
func (s *Session) ID() string { return s.k.ID() }

// Context returns a context that ends with the session. Its cause is [ErrClosed] or a
// [*LostError]. The method Err of the context also checks whether the session is over by this
// machine's clocks.
func (s *Session) Context() context.Context { return s.k.Context() }

// While the session is trusted, Err returns nil. Later it returns the cause of the session's
// context. Err checks the clocks and sends no request.
func (s *Session) Err() error { return s.k.Err() }

// Deadline returns the time at which the trust ends if no further renewal succeeds. The time is
// by this machine's present wall clock, for display.
func (s *Session) Deadline() time.Time { return s.k.Grant().Deadline() }

// Remaining returns how long the session is still trusted if no further renewal succeeds. It is
// zero when the session is over.
func (s *Session) Remaining() time.Duration { return s.k.Grant().Check() }

// Renew renews the session now, in one request. Without Options.ManualRenewal the client also
// renews the session automatically. See [Guard.Renew] for the errors.
func (s *Session) Renew(ctx context.Context) error { return s.k.Renew(ctx) }

// Handle returns a handle on the lock with the given name under the session. Two handles of one
// session exclude each other. See [Client.Handle].
func (s *Session) Handle(name string, o *LockOptions) (*Handle, error) {
	return s.c.handle(name, s, o, methodHandle)
}

// Acquire takes the lock with the given name under the session. It waits until the lock is free, or
// until the context or the session ends. It does the same as [Handle.Acquire] on a new handle.
func (s *Session) Acquire(ctx context.Context, name string, o *LockOptions) (*Guard, error) {
	h, err := s.c.handle(name, s, o, methodAcquire)
	if err != nil {
		return nil, err
	}
	return h.Acquire(ctx)
}

// TryAcquire takes the lock with the given name under the session if the lock is free now. It does
// the same as [Handle.TryAcquire] on a new handle.
func (s *Session) TryAcquire(ctx context.Context, name string, o *LockOptions) (*Guard, error) {
	h, err := s.c.handle(name, s, o, methodAcquire)
	if err != nil {
		return nil, err
	}
	return h.TryAcquire(ctx)
}

// Do acquires the lock with the given name under the session, runs f while the session holds the
// lock, and releases the lock. See [Client.Do].
func (s *Session) Do(ctx context.Context, name string, f func(ctx context.Context, g *Guard) error, o *LockOptions) error {
	return s.c.do(ctx, name, s, f, o)
}

// Close ends the session. First the contexts of all its guards end, with the cause [ErrClosed].
// Then Close writes into the session's record that the session is closed. This write frees all
// locks of the session. Then Close frees the records of the locks, 16 at a time, for at most
// Options.ReleaseTimeout. If a lock is left after that time, other clients read the session's
// record before they take the lock. Close sends one request for the session, and one request for
// each lock that the session still holds. [Client.Sweep] removes the record of the session later.
//
// A nil error means that all locks are free. A [*LostError] says that the session was lost before.
// After any other error the locks may still be held in the store, and other clients wait until the
// session expires. Like [Guard.Release], Close also works after the end of its context. A second
// call returns the same error.
func (s *Session) Close(ctx context.Context) error { return s.k.Close(ctx) }
