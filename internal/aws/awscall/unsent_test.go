package awscall_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
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

// The SDK could not connect to a service that gives credentials. The error does not blame the store. A machine without
// credentials, outside of Amazon's cloud, has the wrong configuration.
func TestNoServiceOfCredentials(t *testing.T) {
	down := &url.Error{Op: "Get", URL: "http://169.254.169.254/", Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}}
	for source, want := range map[string]error{
		"operation error STS: AssumeRole": store.ErrUnavailable,
		"failed to refresh cached credentials, no EC2 IMDS role found, operation error ec2imds: GetMetadata": store.ErrMisconfigured,
	} {
		raw := fmt.Errorf("operation error S3: GetObject, get identity: get credentials: %s, %w", source, down)
		err := awscall.New(t.Context(), "s3://bucket").Classify(raw)
		if !errors.Is(err, want) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), "credentials") {
			t.Errorf("%s: %v", source, err)
		}
	}
}
