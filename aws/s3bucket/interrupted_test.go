package s3bucket_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/object"
)

// TestInterruptedTest: a context that ends with the conflict of another call, during any request of the test of an
// ability, changes nothing about the later result of the test.
func TestInterruptedTest(t *testing.T) {
	for _, broken := range []awstest.S3Broken{{}, {IgnoreIfMatchGone: true}} {
		for n := range 4 {
			synctest.Test(t, func(t *testing.T) {
				f := awstest.NewS3("bucket")
				f.Broken = broken
				b := newBucket(t, f, nil)
				put := func(ctx context.Context) error {
					_, err := b.Put(ctx, "absent", strings.NewReader("x"), &object.PutOptions{IfMatch: `"old"`})
					return err
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				f.Add("PutObject", n, 1, awstest.Fault{After: time.Second})
				time.AfterFunc(time.Millisecond, func() { cancel(&object.ConflictError{Key: "another"}) })
				if err := put(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("%+v, interrupted at request %d: got %v, want no result", broken, n, err)
				}
				if err := put(t.Context()); err == nil || errors.Is(err, errors.ErrUnsupported) != broken.IgnoreIfMatchGone {
					t.Errorf("%+v, after an interruption of request %d: got %v", broken, n, err)
				}
			})
		}
	}
}
