package tusdlock

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// After an attempt that failed for another reason than a holder that was asked to yield, the pause is
// minPause, and twice as long after each further failure.
const minPause, maxPause = 20 * time.Millisecond, time.Second

// Locker locks uploads for tusd. Any number of goroutines may use it. A program needs one Locker for
// all its uploads.
type Locker struct {
	client  *lease.Client
	turn    chan struct{} // has room for one: the goroutine that uses the session
	session *lease.Session
}

var _ handler.Locker = (*Locker)(nil)

// New returns a locker. It sends no request. The caller closes the client after the last upload:
// the close interrupts the uploads that still run, and frees their locks.
func New(client *lease.Client) *Locker {
	return &Locker{client: client, turn: make(chan struct{}, 1)}
}

// UseIn makes the handlers of the composer use this locker.
func (l *Locker) UseIn(composer *handler.StoreComposer) { composer.UseLocker(l) }

// Handler wraps the handler of tusd. When the lock of a request is lost, no further byte of its body
// reaches the data store, also if the process was stopped until then. Without Handler, bytes that
// wait in the connection can still reach the data store.
func (l *Locker) Handler(tusd http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &body{ReadCloser: r.Body}
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, b))
		r.Body = b
		tusd.ServeHTTP(w, r)
	})
}

// bodyKey is the key of the body in the context of a request.
type bodyKey struct{}

// body is the body of a request. It ends with the lease of the request's lock.
type body struct {
	io.ReadCloser
	guard atomic.Pointer[lease.Guard] // nil until the request has the lock
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if guard := b.guard.Load(); guard != nil {
		select {
		case <-guard.YieldRequested(): // tusd ignores a request that comes before it reads the body
			return 0, handler.ErrUploadInterrupted
		default:
		}
		if guard.Err() != nil {
			return 0, handler.ErrUploadInterrupted
		}
	}
	return n, err
}

// NewLock returns a lock on the upload with this id. It sends no request, accepts every id, and
// returns no error. Different ids have different locks.
//
// Lock waits until the upload is free, or its context ends. It asks each holder that it finds to
// yield, also a holder in the same process. It returns these errors:
//
//   - [handler.ErrLockTimeout]: the context ended. The store may have been unavailable.
//   - [handler.ErrServerShutdown]: the client of the locker was closed.
//   - Any other error is permanent: for example, the program may not write to the store.
//
// After an error the caller does not have the lock. Lock can return up to Options.ReleaseTimeout plus
// one second after the end of its context.
//
// Lock starts a goroutine, which ends with Unlock. When another caller wants the lock, or when the
// lease is lost, this goroutine calls requestUnlock, at most once. If that happens during Unlock, the
// call can begin just after Unlock has returned. requestUnlock may call Unlock.
//
// Unlock frees the lock. It takes at most Options.ReleaseTimeout plus one second. Its error matches
// [lease.ErrLost] if the lease was lost before. After any other error, the session frees the lock
// when the store answers again, or other hosts wait until the session expires.
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	return &uploadLock{locker: l, name: l.name(id)}, nil
}

// name returns the name of the lock of an upload. All hosts must agree on it, so later versions of
// this package cannot change it.
func (l *Locker) name(id string) string {
	name := "tusd/id/" + id
	if _, err := l.client.Handle(name, nil); err != nil { // not a valid key
		return fmt.Sprintf("tusd/sha256/%x", sha256.Sum256([]byte(id)))
	}
	return name
}

// acquire takes the lock. Between any two steps the lock may get another holder, so each round asks
// the present holder.
func (l *Locker) acquire(ctx context.Context, name string) (*lease.Guard, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		guard, err := l.try(ctx, name)
		if errors.Is(err, lease.ErrHeld) {
			_, err = l.client.RequestYield(ctx, name, &lease.YieldOptions{Reason: "another request for this upload waits", Wait: true})
			if err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			return guard, nil
		case ctx.Err() != nil:
			return nil, handler.ErrLockTimeout
		case errors.Is(err, lease.ErrClosed):
			return nil, handler.ErrServerShutdown
		case store.Permanent(err):
			return nil, err
		}
		_ = backoff.Sleep(ctx, pause)
	}
}

// try takes the lock if it is free.
func (l *Locker) try(ctx context.Context, name string) (*lease.Guard, error) {
	session, err := l.current(ctx)
	if err != nil {
		return nil, err
	}
	return session.TryAcquire(ctx, name, nil)
}

// current returns the session of the locker. It opens one if the last one is over.
func (l *Locker) current(ctx context.Context) (*lease.Session, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l.session != nil && l.session.Err() == nil {
		return l.session, nil
	}
	session, err := l.client.OpenSession(valueless{ctx})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(session.Context(), func() { _ = session.Close(context.Background()) })
	l.session = session
	return session, nil
}

// valueless hides the values of a context, because a session outlives the request that opens it.
type valueless struct{ context.Context }

func (valueless) Value(any) any { return nil }

type uploadLock struct {
	locker *Locker
	name   string
	guard  *lease.Guard
}

func (l *uploadLock) Lock(ctx context.Context, requestUnlock func()) error {
	guard, err := l.locker.acquire(ctx, l.name)
	if err != nil {
		return err
	}
	l.guard = guard
	if b, ok := ctx.Value(bodyKey{}).(*body); ok {
		b.guard.Store(guard)
	}
	go func() {
		select {
		case <-guard.YieldRequested():
		case <-guard.Context().Done():
		}
		if !errors.Is(guard.Err(), lease.ErrReleased) {
			requestUnlock()
		}
	}()
	return nil
}

func (l *uploadLock) Unlock() error {
	if l.guard == nil {
		return fmt.Errorf("lock %q: %w", l.name, lease.ErrNotHeld)
	}
	return l.guard.Release(context.Background())
}
