package s3store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/store"
)

// TestInterruptedProbe: a context that ends with the conflict of another call, during any request of the probe,
// changes nothing about its later result.
func TestInterruptedProbe(t *testing.T) {
	for _, broken := range []awstest.S3Broken{{}, {IgnoreIfMatchGone: true}} {
		for n := range 5 {
			synctest.Test(t, func(t *testing.T) {
				f := newServer()
				f.Broken = broken
				s := newStore(t, f, nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				f.Add("PutObject", n, 1, awstest.Fault{After: time.Second})
				time.AfterFunc(time.Millisecond, func() { cancel(&store.ConflictError{Key: "another"}) })
				if err := s.Verify(ctx); err == nil || errors.Is(err, store.ErrUnsafe) {
					t.Errorf("%+v, interrupted at request %d: got %v, want no result", broken, n, err)
				}
				if err := s.Verify(t.Context()); errors.Is(err, store.ErrUnsafe) != broken.IgnoreIfMatchGone {
					t.Errorf("%+v, after an interruption of request %d: got %v", broken, n, err)
				}
			})
		}
	}
}
