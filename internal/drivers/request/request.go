// Package request has what drivers of stores share to send requests to a server.
package request

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// MaxPrefix is the largest size of the prefix of a store, in bytes.
const MaxPrefix = 256

// CheckOptions checks the options of a store of a package. It returns what all keys of the store begin with.
func CheckOptions(name string, timeout time.Duration, prefix string) (below string, err error) {
	switch {
	case timeout < 100*time.Millisecond:
		return "", fmt.Errorf("%s: %w: Options.Timeout is %v; it must be at least 100ms", name, store.ErrInvalid, timeout)
	case len(prefix) > MaxPrefix:
		return "", fmt.Errorf("%s: %w: Options.Prefix has %d bytes; at most %d are allowed", name, store.ErrKey, len(prefix), MaxPrefix)
	}
	if below, err = store.Below(prefix); err != nil {
		err = fmt.Errorf("%s: Options.Prefix: %w", name, err)
	}
	return below, err
}

// Send sends one request within a time limit. The function explain makes an error of the client match the errors of
// package store.
func Send[T any](ctx context.Context, limit time.Duration, explain func(error) error, request func(context.Context) (T, error)) (T, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := request(within)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return answer, fmt.Errorf("%w: %w", store.ErrUnavailable, store.Cause(ctx))
	case within.Err() != nil:
		return answer, fmt.Errorf("%w: no answer within %v", store.ErrUnavailable, limit.Round(time.Millisecond))
	}
	return answer, explain(err)
}

// Repeat calls f until it succeeds, fails with an error that is not to be repeated, or has been called as often as
// allowed. f must send a request that may be sent again. After a call with an unknown outcome, the outcome of the whole
// remains unknown unless a later call succeeds.
func Repeat(ctx context.Context, tries int, again func(error) bool, f func() error) error {
	lost := false
	for try := 1; ; try++ {
		err := f()
		if err != nil && lost {
			err = store.MarkUnknown(err)
		}
		if !again(err) || try >= tries || backoff.Wait(ctx, try, 100*time.Millisecond, 5*time.Second) != nil {
			return err
		}
		lost = store.OutcomeOf(err) == store.Unknown
	}
}

// Fail returns an error of a kind, with the text of the server, and an advice for people, which can be empty.
func Fail(kind error, text, advice string) error {
	if advice != "" {
		advice = "; " + advice
	}
	return fmt.Errorf("%w: %s%s", kind, text, advice)
}

// Now returns the time of the server when it answered, from the headers of its answer. It is zero if the answer has
// no valid time, or if a cache has sent the answer.
func Now(header func(name string) string) time.Time {
	if header("Age") != "" {
		return time.Time{}
	}
	t, _ := http.ParseTime(header("Date"))
	return t
}
