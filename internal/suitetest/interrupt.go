package suitetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// answers say what a store found or refused.
var answers = []error{
	store.ErrNotFound, store.ErrConflict, store.ErrInvalid, store.ErrKey, store.ErrVersion, store.ErrTooLarge, store.ErrUnsafe,
	store.ErrMisconfigured, store.ErrDenied, store.ErrCorrupt, store.ErrClosed, errors.ErrUnsupported,
}

// errOther is the error of another call, as an errgroup has it for the cause of its context.
var errOther = fmt.Errorf("another call failed: %w", errors.Join(append(answers, &store.ConflictError{Key: "another"})...))

// Moments is the number of moments at which [Interrupt] can end a context.
const Moments = 8

// Interrupt calls f with a context that ends because another call has failed: before the call at the moment 0,
// and later after a fraction to a multiple of the usual time. It returns an error if the error of f looks like
// an answer of the store, or if f did not notice that its context had ended before the call.
func Interrupt(ctx context.Context, moment int, usual time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if moment == 0 {
		cancel(errOther)
	} else {
		defer time.AfterFunc(usual/8<<(moment-1), func() { cancel(errOther) }).Stop()
	}
	err := f(ctx)
	for _, answer := range answers {
		if errors.Is(err, answer) {
			return fmt.Errorf("the cause of the context matches all errors of stores; the error of the call matches %q, too: %w", answer, err)
		}
	}
	if moment == 0 && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the context had ended before the call, which returned the error %w", err)
	}
	return nil
}
