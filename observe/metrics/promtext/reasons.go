package promtext

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

var losses = []struct {
	err   error
	label string
}{
	{lease.ErrTakenOver, "taken_over"}, {lease.ErrExpired, "expired"}, {lease.ErrBroken, "broken"}, {lease.ErrRemoved, "removed"},
	{lease.ErrRevoked, "revoked"}, {lease.ErrTicketUsed, "ticket_used"}, {nil, "other"},
}

var failures = []string{"unresponsive", "closed", "unresolved", "timeout", "cancelled", "refused", "store"}

// Reasons returns the values of the label reason of [Lost] or [Failed].
func Reasons(name string) (all []string) {
	if name == Failed {
		return slices.Clone(failures)
	}
	for _, r := range losses {
		all = append(all, r.label)
	}
	return all
}

// LossReason returns the label of the loss of a lease.
func LossReason(err error) string {
	var lost *lease.LostError
	if errors.As(err, &lost) {
		err = lost.Reason // without the cause, which may be of another lease
	}
	for _, r := range losses {
		if errors.Is(err, r.err) {
			return r.label
		}
	}
	return "other"
}

// FailureReason returns the label of an error other than that the lock is busy or the job ran.
func FailureReason(err error) string {
	switch {
	case errors.Is(err, lease.ErrUnresponsive):
		return "unresponsive"
	case errors.Is(err, lease.ErrClosed), errors.Is(err, lease.ErrLost):
		return "closed" // the client or the session
	case errors.Is(err, lease.ErrUnresolved), store.InDoubt(err):
		return "unresolved"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case store.Permanent(err):
		return "refused"
	}
	return "store"
}
