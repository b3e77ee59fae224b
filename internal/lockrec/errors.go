package lockrec

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// The errors of the rules. Package lease exports them under the same names, and describes them there.
var (
	ErrNotHeld       = store.NewError("lock is not held", store.NotApplied)
	ErrTokenMismatch = store.NewError("the token is not the token of the lock", store.NotApplied)
	ErrNewerFormat   = errors.New("the record has a newer format than this program knows")
	ErrFull          = store.NewError("no room for another holder", store.NotApplied, store.ErrPermanent)
	ErrWrongKind     = store.NewError("the lock has another kind", store.NotApplied, store.ErrPermanent)
	ErrSlotCount     = store.NewError("the semaphore has another number of slots", store.NotApplied, store.ErrPermanent)
	ErrTokenInFuture = store.NewError("the token is above the Unix time in microseconds", store.NotApplied)
	ErrInvalidTicket = store.NewError("invalid ticket", store.NotApplied, store.ErrPermanent)
)

// The reasons for which a grant is over; see [Loss] and [UseTicket].
var (
	ErrTakenOver  = errors.New("taken over by another client")
	ErrBroken     = errors.New("broken by another client")
	ErrRemoved    = errors.New("record removed from the store")
	ErrRevoked    = errors.New("session revoked by another client")
	ErrReleased   = errors.New("lease released")
	ErrTicketUsed = errors.New("the ticket was used before")
)

// SlotCountError says that a semaphore has another number of slots than the caller passed. It matches
// [ErrSlotCount].
type SlotCountError struct {
	Name string
	Want int // number that the caller passed
	Have int // number in the record
}

func (e *SlotCountError) Error() string {
	return fmt.Sprintf("semaphore %q has %d slots, but the caller gives %d; give the same number, or resize the semaphore", e.Name, e.Have, e.Want)
}

// Unwrap returns ErrSlotCount.
func (e *SlotCountError) Unwrap() error { return ErrSlotCount }
