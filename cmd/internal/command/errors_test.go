package command

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// TestErrors is the table of what an error of each package means: whether a write was
// applied, whether it is worth another try, and the exit status. Each entry holds as it
// is and in the wrappings that the packages use.
func TestErrors(t *testing.T) {
	const (
		nothing = store.NotApplied
		unclear = store.Unknown
	)
	for _, c := range []struct {
		name      string
		err       error
		outcome   store.Outcome
		permanent bool
		status    int
	}{
		{"store.ErrConflict", store.ErrConflict, nothing, false, 73},
		{"store.ConflictError", &store.ConflictError{Key: "k"}, nothing, false, 73},
		{"store.ErrInvalid", store.ErrInvalid, nothing, true, 64},
		{"store.ErrKey", store.ErrKey, nothing, true, 64},
		{"store.ErrVersion", store.ErrVersion, nothing, true, 64},
		{"store.ErrTooLarge", store.ErrTooLarge, nothing, true, 64},
		{"store.ErrUnsafe", store.ErrUnsafe, nothing, true, 78},
		{"store.ErrMisconfigured", store.ErrMisconfigured, nothing, true, 78},
		{"store.ErrDenied", store.ErrDenied, nothing, true, 77},
		{"store.ErrClosed", store.ErrClosed, nothing, true, 1},
		{"store.ErrNotFound", store.ErrNotFound, unclear, false, 66},
		{"store.ErrCorrupt", store.ErrCorrupt, unclear, true, 78},
		{"store.ErrUnavailable", store.ErrUnavailable, unclear, false, 69},
		{"a deadline", context.DeadlineExceeded, unclear, false, 69},
		{"unsupported", errors.ErrUnsupported, unclear, true, 78},

		{"object.ErrInvalid", object.ErrInvalid, nothing, true, 64},
		{"object.ErrBusy", object.ErrBusy, nothing, false, 1},

		{"lease.ErrHeld", lease.ErrHeld, nothing, false, 75},
		{"lease.HeldError", &lease.HeldError{Name: "k"}, nothing, false, 75},
		{"lease.ErrNotHeld", lease.ErrNotHeld, nothing, false, 73},
		{"lease.ErrNoYieldRequest", lease.ErrNoYieldRequest, nothing, false, 73},
		{"lease.ErrTokenMismatch", lease.ErrTokenMismatch, nothing, false, 73},
		{"lease.ErrTokenInFuture", lease.ErrTokenInFuture, nothing, false, 1},
		{"lease.AlreadyRanError", &lease.AlreadyRanError{Name: "k"}, nothing, true, 1},
		{"lease.ErrRunInFuture", &lease.AlreadyRanError{Name: "k", Ahead: 1}, nothing, true, 78},
		{"lease.ErrInvalidTicket", lease.ErrInvalidTicket, nothing, true, 78},
		{"store.ErrInvalid", store.ErrInvalid, nothing, true, 64},
		{"lease.ErrUnresolved", lease.ErrUnresolved, unclear, false, 74},
		// Causes of contexts: a write that they interrupt may be applied.
		{"lease.ErrLost", lease.ErrLost, unclear, false, 76},
		{"lease.LostError", &lease.LostError{Reason: lease.ErrExpired, Cause: store.MarkUnknown(store.ErrUnavailable)}, unclear, false, 76},
		{"lease.ErrReleased", lease.ErrReleased, unclear, false, 76},

		{"checkpoint.ErrFenced", checkpoint.ErrFenced, nothing, true, 76},
		{"checkpoint.ErrMismatch", checkpoint.ErrMismatch, nothing, true, 73},
		{"checkpoint.ErrRolledBack", checkpoint.ErrRolledBack, nothing, true, 73},
		{"checkpoint.ErrUnexpectedSequence", checkpoint.ErrUnexpectedSequence, nothing, false, 73},
		{"checkpoint.ErrHeld", checkpoint.ErrHeld, nothing, false, 75},
		{"store.ErrInvalid", store.ErrInvalid, nothing, true, 64},
		{"checkpoint.ErrClosed", checkpoint.ErrClosed, nothing, true, 1},
		{"checkpoint.ErrNewerFormat", checkpoint.ErrFormat, nothing, true, 1},
		{"avisofile.ErrReadable", avisofile.ErrReadable, nothing, false, 73},
		{"avisofile.LoadError", &avisofile.LoadError{Err: avisofile.ErrMalformed}, nothing, true, 78},

		{"a write without a reply", &store.OpError{Op: store.OpPut, Key: "k", Err: store.ErrUnavailable}, unclear, false, 74},
		{"a write that names its version", &store.InDoubtError{Version: "v", Err: store.ErrUnavailable}, unclear, false, 74},
		{"a write that a wrong set-up left unclear", store.MarkUnknown(store.ErrMisconfigured), unclear, true, 74},
		{"a checkpoint without a reply", fmt.Errorf("checkpoint advance: %w", &store.OpError{Op: store.OpPut, Key: "k", Err: context.DeadlineExceeded}), unclear, false, 74},
		{"a checkpoint in a file without a reply", &store.OpError{Op: "checkpoint advance", Key: "k", Err: store.MarkUnknown(errors.New("it may not survive a power cut"))}, unclear, false, 74},
		{"a checkpoint that was not sent", &store.OpError{Op: "checkpoint advance", Key: "k", Err: store.MarkNotApplied(context.DeadlineExceeded)}, nothing, false, 69},
		{"a write without a reply, and then no rights to read", errors.Join(&store.OpError{Op: store.OpPut, Key: "k", Err: store.ErrUnavailable}, store.ErrDenied), unclear, true, 74},
		{"a write without a reply, beside who holds the lock", errors.Join(&store.OpError{Op: store.OpPut, Key: "k", Err: store.ErrUnavailable}, &lease.HeldError{Name: "k"}), unclear, false, 74},
		{"a read that failed", &store.OpError{Op: store.OpGet, Key: "k", Err: store.MarkUnknown(store.ErrUnavailable)}, unclear, false, 69},
		{"a read that failed, and who held the lock before", errors.Join(&store.OpError{Op: store.OpGet, Key: "k", Err: store.ErrUnavailable}, &lease.HeldError{Name: "k"}), nothing, false, 75},
	} {
		for how, err := range map[string]error{"": c.err, ", wrapped": fmt.Errorf("lock %q: %w", "k", c.err), ", joined": errors.Join(c.err)} {
			if got := store.OutcomeOf(err); got != c.outcome {
				t.Errorf("%s%s: outcome: got %v, want %v", c.name, how, got, c.outcome)
			}
			if got := store.Permanent(err); got != c.permanent {
				t.Errorf("%s%s: permanent: got %v, want %v", c.name, how, got, c.permanent)
			}
			if got := exit.Status(err); got != c.status {
				t.Errorf("%s%s: status: got %d, want %d", c.name, how, got, c.status)
			}
			if got, want := store.InDoubt(err), c.status == exit.Unknown; got != want && c.status != exit.Lost {
				t.Errorf("%s%s: in doubt: got %v, want %v", c.name, how, got, want)
			}
		}
	}
}
