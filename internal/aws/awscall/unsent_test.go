package awscall_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

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
	for raw, want := range map[error]string{
		lost: "not sent in time",
		fmt.Errorf("operation error S3: HeadObject, %w", context.DeadlineExceeded):                                                                                   "not sent in time",
		fmt.Errorf("operation error S3: PutObject, get identity: get credentials: request canceled, %w", context.Canceled):                                           "credentials could not be fetched",
		fmt.Errorf("operation error S3: PutObject, get identity: get credentials: request canceled, %w", context.DeadlineExceeded):                                   "credentials could not be fetched",
		fmt.Errorf("operation error S3: PutObject, get identity: get credentials: operation error STS: AssumeRole, %w", &smithy.GenericAPIError{Code: "Throttling"}): "credentials could not be fetched",
	} {
		if err := awscall.New(ctx, "s3://bucket").Classify(raw); !strings.Contains(err.Error(), want) || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v became %v, want %q", raw, err, want)
		}
	}
	cancel()
	err = awscall.New(ctx, "s3://bucket").Classify(lost)
	if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("after the end of the caller's context: got %v", err)
	}
}
