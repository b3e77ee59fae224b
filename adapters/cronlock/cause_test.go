package cronlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// slowReads is a store whose reads take three seconds.
type slowReads struct{ store.Store }

func (s slowReads) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	select {
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
		return nil, "", store.Cause(ctx)
	}
	return s.Store.Get(ctx, key)
}

// TestErrorsOfAnotherJob: if the error of another job ends a tick, its error says nothing about this job: neither
// that the job has run, nor that another machine holds its lock.
func TestErrorsOfAnotherJob(t *testing.T) {
	for _, cause := range []error{lease.ErrAlreadyRan, lease.ErrHeld, store.ErrConflict, store.ErrDenied} {
		for _, waits := range []bool{false, true} { // for the store, or for the next period
			synctest.Test(t, func(t *testing.T) {
				st := store.Store(slowReads{memstore.New()})
				if waits {
					st = memstore.New()
				}
				l := newLocker(t, st, lease.Every(time.Minute), nil)
				if waits {
					if err := l.Do(t.Context(), "job", nothing); err != nil {
						t.Fatal(err)
					}
					time.Sleep(57 * time.Second)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				if err := l.Do(ctx, "job", nothing); errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
					t.Errorf("ended by %q, waiting for the next period: %v: Do returned %v", cause, waits, err)
				}
			})
		}
	}
}
