package certstore_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/adapters/certstore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// silent is a store that does not answer reads.
type silent struct{ *memstore.Store }

func (s silent) Get(ctx context.Context, _ string) ([]byte, store.Version, error) {
	<-ctx.Done()
	return nil, "", store.Cause(ctx)
}

// TestErrorsOfOtherCalls: if the error of another call ends a call, its error does not say that the value is absent,
// or that another holder has the lock.
func TestErrorsOfOtherCalls(t *testing.T) {
	for _, cause := range []error{fs.ErrNotExist, lease.ErrHeld} {
		synctest.Test(t, func(t *testing.T) {
			s, err := certstore.New(silent{memstore.New()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			if _, err := s.Load(ctx, "a.crt"); errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
				t.Errorf("ended by %q: Load returned %v", cause, err)
			}
			if _, err := s.TryLock(ctx, "l"); errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
				t.Errorf("ended by %q: TryLock returned %v", cause, err)
			}
		})
	}
}
