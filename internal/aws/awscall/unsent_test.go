package awscall_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/store"
)

// The time limit of a request can end before the SDK sends it. That says nothing about the configuration, so the caller
// tries again.
func TestCancelledBeforeItWasSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lost := fmt.Errorf("operation error S3: GetObject, %w", context.Canceled)
	err := awscall.New(ctx, "s3://bucket").Classify(lost)
	if !errors.Is(err, store.ErrUnavailable) || store.Permanent(err) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v, permanent: %v", err, store.Permanent(err))
	}
	cancel()
	err = awscall.New(ctx, "s3://bucket").Classify(lost)
	if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("after the end of the caller's context: got %v", err)
	}
}
