package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

func TestOutcomeOf(t *testing.T) {
	plain := errors.New("connection reset")
	conflict := &store.ConflictError{Key: "job"}
	for _, c := range []struct {
		name string
		err  error
		want store.Outcome
	}{
		{"nil", nil, store.Applied},
		{"anything", plain, store.Unknown},
		{"a context's error", context.DeadlineExceeded, store.Unknown},
		{"ErrConflict", store.ErrConflict, store.NotApplied},
		{"ErrKey", store.ErrKey, store.NotApplied},
		{"ErrVersion", store.ErrVersion, store.NotApplied},
		{"ErrTooLarge", store.ErrTooLarge, store.NotApplied},
		{"ErrUnsafe", store.ErrUnsafe, store.NotApplied},
		{"ErrDenied", store.ErrDenied, store.NotApplied},
		{"ErrCredentials", store.ErrCredentials, store.NotApplied},
		{"ErrMisconfigured", store.ErrMisconfigured, store.NotApplied},
		{"ErrClosed", store.ErrClosed, store.NotApplied},
		{"ErrNotFound", store.ErrNotFound, store.Unknown},
		{"ErrCorrupt", store.ErrCorrupt, store.Unknown},
		{"ErrUnavailable", store.ErrUnavailable, store.Unknown},
		{"a conflict", conflict, store.NotApplied},
		{"a conflict in an OpError", &store.OpError{Op: "put", Key: "job", Err: conflict}, store.NotApplied},
		{"a conflict wrapped twice", fmt.Errorf("lease: %w", &store.OpError{Op: "put", Key: "job", Err: conflict}), store.NotApplied},
		{"marked as not applied", store.MarkNotApplied(plain), store.NotApplied},
		{"marked and wrapped", fmt.Errorf("put: %w", store.MarkNotApplied(plain)), store.NotApplied},
		{"a conflict marked as unknown", store.MarkUnknown(conflict), store.Unknown},
		{"the outermost mark counts", store.MarkNotApplied(fmt.Errorf("put: %w", store.MarkUnknown(plain))), store.NotApplied},
		{"also the other way", store.MarkUnknown(fmt.Errorf("put: %w", store.MarkNotApplied(plain))), store.Unknown},
	} {
		if got := store.OutcomeOf(c.err); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestMarksKeepTheError(t *testing.T) {
	plain := errors.New("connection reset")
	for _, err := range []error{store.MarkNotApplied(plain), store.MarkUnknown(plain)} {
		if !errors.Is(err, plain) || err.Error() != plain.Error() {
			t.Errorf("got %v, want it to be, and to read like, %v", err, plain)
		}
	}
	if store.MarkNotApplied(nil) != nil || store.MarkUnknown(nil) != nil {
		t.Error("a nil error does not stay nil")
	}
}

func TestConflictError(t *testing.T) {
	for _, c := range []struct {
		err  *store.ConflictError
		want string
	}{
		{&store.ConflictError{Key: "job"}, `another writer changed "job"`},
		{&store.ConflictError{Key: "job", HasCurrent: true}, `"job" does not exist`},
		{&store.ConflictError{Key: "job", HasCurrent: true, Version: "7"}, `"job" does not have the version that the write requires`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if !errors.Is(c.err, store.ErrConflict) || errors.Is(c.err, store.ErrNotFound) {
			t.Errorf("%v matches the wrong sentinels", c.err)
		}
	}
}

func TestOpError(t *testing.T) {
	below := &store.OpError{Op: "get", Key: "lock/job", Store: "file:/a", Err: store.ErrNotFound}
	for _, c := range []struct {
		err        *store.OpError
		text, name string
	}{
		{&store.OpError{Op: "get", Key: "job", Err: store.ErrNotFound}, "get job: not found", ""},
		{below, "get lock/job in file:/a: not found", "file:/a"},
		{&store.OpError{Op: "advance", Key: "job", Err: fmt.Errorf("read: %w", below)}, "advance job: read: get lock/job in file:/a: not found", "file:/a"},
		{&store.OpError{Op: "put", Key: "job", Store: "file:/a", Err: store.MarkUnknown(below)}, "put job: get lock/job in file:/a: not found", "file:/a"},
	} {
		if got := c.err.Error(); got != c.text {
			t.Errorf("got %q, want %q", got, c.text)
		}
		if got := c.err.StoreName(); got != c.name {
			t.Errorf("%s: got the name %q, want %q", c.text, got, c.name)
		}
		if !errors.Is(c.err, store.ErrNotFound) {
			t.Error("it hides its cause")
		}
	}
}

func TestCheckContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := store.CheckContext(ctx); err != nil {
		t.Errorf("a living context: %v", err)
	}
	cause := errors.New("the operator said so")
	cancel(cause)
	if err := store.CheckContext(ctx); !errors.Is(err, cause) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v, want the cause, not applied", err)
	}
}

// TestCause: an error of another call that ends a context does not look like an answer to this call.
func TestCause(t *testing.T) {
	lost := errors.New("the lease is lost")
	for _, c := range []struct {
		cause  error
		answer error // that the error must not match
	}{
		{cause: lost}, {cause: fmt.Errorf("%w: %w", lost, store.ErrUnavailable)},
		{lost, store.ErrConflict},
		{fmt.Errorf("%w: %w", lost, store.ErrNotFound), store.ErrNotFound},
		{fmt.Errorf("%w: %w", lost, &store.ConflictError{Key: "k"}), store.ErrConflict},
		{errors.Join(lost, store.ErrTooLarge), store.ErrInvalid},
		{errors.Join(lost, store.ErrCorrupt), store.ErrCorrupt},
		{errors.Join(lost, errors.ErrUnsupported), errors.ErrUnsupported},
		{errors.Join(lost, store.MarkNotApplied(context.Canceled)), nil},
		{errors.Join(lost, &store.OpError{Op: store.OpGet, Err: store.MarkNotApplied(context.Canceled)}), nil},
		{errors.Join(lost, &store.InDoubtError{Version: "1", Err: lost}), nil},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := store.Cause(ctx); err != nil {
			t.Errorf("of a living context: %v", err)
		}
		cancel(c.cause)
		err := store.Cause(ctx)
		switch {
		case err.Error() != c.cause.Error() || !errors.Is(err, lost):
			t.Errorf("%v became %v", c.cause, err)
		case c.answer != nil && errors.Is(err, c.answer) || errors.As(err, new(*store.ConflictError)) || errors.As(err, new(*store.InDoubtError)) || store.OutcomeOf(err) != store.Unknown:
			t.Errorf("%v looks like an answer", err)
		case err != c.cause && !errors.Is(err, context.Canceled):
			t.Errorf("%v does not match the error of the context", err)
		}
	}
}

// endsBetween is a context that ends after the first look at its error.
type endsBetween struct {
	context.Context
	end func()
}

func (c endsBetween) Err() error {
	err := c.Context.Err()
	c.end()
	return err
}

// TestCauseAtTheEnd: a context may end while Cause looks at it.
func TestCauseAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	c := endsBetween{ctx, func() { cancel(errors.New("the lease is lost")) }}
	for _, want := range []error{nil, context.Canceled} {
		if err := store.Cause(c); !errors.Is(err, want) || err != nil && err.Error() != "the lease is lost" {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

func TestStrings(t *testing.T) {
	for got, want := range map[string]string{
		store.Unknown.String(): "outcome unknown", store.Applied.String(): "applied", store.NotApplied.String(): "not applied",
		store.LivenessUnknown.String(): "unknown", store.Alive.String(): "alive", store.Dead.String(): "dead",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var zero store.Outcome
	if zero != store.Unknown {
		t.Error("the zero outcome is not unknown")
	}
	var nothing store.Liveness
	if nothing != store.LivenessUnknown {
		t.Error("the zero liveness is not unknown")
	}
}

// A failed read leaves no write in doubt, whatever its error says. A failed write without
// an outcome does, whatever is joined to its error.
func TestInDoubt(t *testing.T) {
	put := &store.OpError{Op: store.OpPut, Key: "job", Err: store.ErrUnavailable}
	read := &store.OpError{Op: store.OpGet, Key: "job", Err: store.MarkUnknown(store.ErrUnavailable)}
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"no error", nil, false},
		{"any error", errors.New("connection reset"), false},
		{"a write", put, true},
		{"an unsynced write", &store.OpError{Op: store.OpPutUnsynced, Key: "job", Err: store.ErrUnavailable}, true},
		{"a write that was refused", &store.OpError{Op: store.OpPut, Key: "job", Err: store.ErrDenied}, false},
		{"a read", read, false},
		{"a read, and then a write", errors.Join(read, put), true},
		{"a write, and then a read that was refused", errors.Join(put, store.ErrDenied), true},
		{"a write in the call of a layer above", &store.OpError{Op: "advance", Key: "orders", Err: put}, true},
		{"a read in the call of a layer above", &store.OpError{Op: "advance", Key: "orders", Err: read}, false},
	} {
		if got := store.InDoubt(c.err); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if got := store.OutcomeOf(errors.Join(put, store.ErrDenied)); got != store.Unknown {
		t.Errorf("a write, and then a read that was refused: the outcome is %v", got)
	}
}
