package wakeup

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// reads is a store whose reads have one result.
type reads struct{ err error }

func (r reads) GetIfChanged(context.Context, string, store.Version) ([]byte, store.Version, bool, error) {
	return nil, "", true, r.err
}

// TestErrorOfRead: a waiter for an absent key also returns if the key cannot be read, so that the caller's own read
// shows the error.
func TestErrorOfRead(t *testing.T) {
	for err, want := range map[error]error{store.ErrUnavailable: nil, store.ErrDenied: nil, store.ErrCorrupt: nil, store.ErrNotFound: context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			h := New(func(ctx context.Context, _ func(), _ func(string)) error {
				<-ctx.Done()
				return ctx.Err()
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if got := h.Watch(ctx, reads{err}, "k", "k", ""); got != want {
				t.Errorf("a read with the error %q: %v, want %v", err, got, want)
			}
			synctest.Wait()
		})
	}
}
