package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// The exit statuses of all commands, besides those of the child of run.
const (
	statusOK          = 0
	statusFailed      = 1   // an error that has no status of its own
	statusUsage       = 64  // the command line, or an option, is wrong
	statusNotFound    = 66  // the named lock, object or checkpoint does not exist
	statusUnreachable = 69  // the store did not answer
	statusCondition   = 73  // a condition was not met
	statusUnknown     = 74  // the outcome of a write is not known
	statusBusy        = 75  // another holder has the lock
	statusLost        = 76  // the lease was lost, or the fence refused
	statusDenied      = 77  // the store refused for lack of rights
	statusUnsafe      = 78  // the store is not safe, or something is misconfigured
	statusTimedOut    = 124 // the command ran for longer than --timeout
	statusNotExec     = 126
	statusNoCommand   = 127
)

// kinds are the words with which --json names exit statuses.
var kinds = map[int]string{
	statusFailed: "failed", statusUsage: "usage", statusNotFound: "not_found", statusUnreachable: "unreachable",
	statusCondition: "condition_not_met", statusUnknown: "outcome_unknown", statusBusy: "busy", statusLost: "lost",
	statusDenied: "denied", statusUnsafe: "unsafe", statusTimedOut: "timed_out",
	statusNotExec: "command_not_executable", statusNoCommand: "command_not_found",
}

// statusError is an error with an exit status of its own.
type statusError struct {
	status int
	err    error // nil: no message is printed
}

func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("status %d", e.status)
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// usagef returns an error of the command line.
func usagef(format string, args ...any) error {
	return &statusError{statusUsage, fmt.Errorf(format, args...)}
}

// statusOf maps an error to the exit status. The first entry that matches counts.
func statusOf(err error) int {
	if err == nil {
		return statusOK
	}
	var own *statusError
	if errors.As(err, &own) {
		return own.status
	}
	// A lost lease, or a released guard, says more than the write that noticed it.
	if errors.Is(err, lease.ErrLost) || errors.Is(err, lease.ErrReleased) {
		return statusLost
	}
	if store.InDoubt(err) {
		return statusUnknown
	}
	for _, m := range []struct {
		target error
		status int
	}{
		{checkpoint.ErrFenced, statusLost},
		{object.ErrFenced, statusLost},
		{errors.ErrUnsupported, statusUnsafe},
		{object.ErrRange, statusUsage},
		{lease.ErrUnresponsive, statusUnreachable}, // and perhaps ErrHeld, which was true before
		{checkpoint.ErrHeld, statusBusy},
		{checkpoint.ErrMismatch, statusCondition},
		{checkpoint.ErrRolledBack, statusCondition},
		{checkpoint.ErrUnexpectedSequence, statusCondition},
		{avisofile.ErrReadable, statusCondition},
		{lease.ErrHeld, statusBusy},
		{lease.ErrTokenMismatch, statusCondition},
		{lease.ErrYieldRefused, statusCondition},
		{lease.ErrNoYieldRequest, statusCondition},
		{lease.ErrSlotCount, statusCondition},
		{lease.ErrWrongKind, statusCondition},
		{lease.ErrFull, statusBusy},
		{lease.ErrNotHeld, statusCondition},
		{lease.ErrInvalidTicket, statusUnsafe},
		{lease.ErrRunInFuture, statusUnsafe},
		{largeitem.ErrForeign, statusUnsafe},
		{largeitem.ErrMissing, statusUnsafe},
		{store.ErrInvalid, statusUsage},
		{store.ErrConflict, statusCondition},
		{store.ErrNotFound, statusNotFound},
		{store.ErrDenied, statusDenied},
		{fs.ErrPermission, statusDenied}, // of a file that is no store: a report, what get writes
		{syscall.EROFS, statusDenied},
		{store.ErrUnsafe, statusUnsafe},
		{store.ErrCorrupt, statusUnsafe},
		{store.ErrMisconfigured, statusUnsafe},
	} {
		if errors.Is(err, m.target) {
			return m.status
		}
	}
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return statusUnreachable
	}
	return statusFailed
}
