// Package exit has the exit statuses of all commands, and decides which status an error has.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// The exit statuses of all commands, besides those of the child of run.
const (
	OK          = 0
	Failed      = 1   // an error that has no status of its own
	Usage       = 64  // the command line, or an option, is wrong
	NotFound    = 66  // the named lock, object or checkpoint does not exist
	Unreachable = 69  // the store did not answer
	Condition   = 73  // a condition was not met
	Unknown     = 74  // the outcome of a write is not known
	Busy        = 75  // another holder has the lock
	Lost        = 76  // the lease was lost, or the fence refused
	Denied      = 77  // the store refused for lack of rights
	Unsafe      = 78  // the store is not safe, or something is misconfigured
	TimedOut    = 124 // the command ran for longer than --timeout
	NotExec     = 126
	NoCommand   = 127
)

// Kinds are the words with which --json names exit statuses.
var Kinds = map[int]string{
	Failed: "failed", Usage: "usage", NotFound: "not_found", Unreachable: "unreachable",
	Condition: "condition_not_met", Unknown: "outcome_unknown", Busy: "busy", Lost: "lost",
	Denied: "denied", Unsafe: "unsafe", TimedOut: "timed_out",
	NotExec: "command_not_executable", NoCommand: "command_not_found",
}

// Error is an error with an exit status of its own.
type Error struct {
	status int
	err    error // nil: no message is printed
}

func (e *Error) Error() string {
	if e.err == nil {
		return fmt.Sprintf("status %d", e.status)
	}
	return e.err.Error()
}

func (e *Error) Unwrap() error { return e.err }

// With gives an error a status; for a nil error no message is printed.
func With(status int, err error) error { return &Error{status, err} }

// Usagef returns an error of the command line.
func Usagef(format string, args ...any) error {
	return With(Usage, fmt.Errorf(format, args...))
}

// Status maps an error to the exit status. The first entry that matches counts.
func Status(err error) int {
	if err == nil {
		return OK
	}
	var own *Error
	if errors.As(err, &own) {
		return own.status
	}
	// A lost lease, or a released guard, says more than the write that noticed it.
	if errors.Is(err, lease.ErrLost) || errors.Is(err, lease.ErrReleased) {
		return Lost
	}
	if store.InDoubt(err) {
		return Unknown
	}
	for _, m := range []struct {
		target error
		status int
	}{
		{checkpoint.ErrFenced, Lost},
		{object.ErrFenced, Lost},
		{errors.ErrUnsupported, Unsafe},
		{object.ErrRange, Usage},
		{storeurl.ErrCredentials, Unsafe},    // before ErrWrong: the password has been written down
		{storeurl.ErrWrong, Usage},           // before ErrMisconfigured, which it matches too
		{lease.ErrUnresponsive, Unreachable}, // and perhaps ErrHeld, which was true before
		{checkpoint.ErrHeld, Busy},
		{checkpoint.ErrMismatch, Condition},
		{checkpoint.ErrRolledBack, Condition},
		{checkpoint.ErrUnexpectedSequence, Condition},
		{avisofile.ErrReadable, Condition},
		{lease.ErrHeld, Busy},
		{lease.ErrTokenMismatch, Condition},
		{lease.ErrYieldRefused, Condition},
		{lease.ErrNoYieldRequest, Condition},
		{lease.ErrSlotCount, Condition},
		{lease.ErrWrongKind, Condition},
		{lease.ErrFull, Busy},
		{lease.ErrNotHeld, Condition},
		{lease.ErrInvalidTicket, Unsafe},
		{lease.ErrRunInFuture, Unsafe},
		{largeitem.ErrForeign, Unsafe},
		{largeitem.ErrMissing, Unsafe},
		{store.ErrInvalid, Usage},
		{store.ErrConflict, Condition},
		{store.ErrNotFound, NotFound},
		{store.ErrDenied, Denied},
		{fs.ErrPermission, Denied}, // of a file that is no store: a report, what get writes
		{syscall.EROFS, Denied},
		{store.ErrUnsafe, Unsafe},
		{store.ErrCorrupt, Unsafe},
		{store.ErrMisconfigured, Unsafe},
		{store.ErrUnavailable, Unreachable},
		{context.DeadlineExceeded, Unreachable},
	} {
		if errors.Is(err, m.target) {
			return m.status
		}
	}
	return Failed
}

// Reportable reports whether a result is an error of holdfast itself, and not the status of the
// command.
func Reportable(result error) bool {
	var own *Error
	return result != nil && (!errors.As(result, &own) || own.err != nil)
}
