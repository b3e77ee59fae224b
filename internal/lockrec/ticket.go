package lockrec

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Loss returns why a holder no longer has its grant by the record r that it has read. If r still has the
// grant in force, Loss returns nil. A holder whose grant is over must stop its work. This holds for a
// grant that has the lock alone, and for the grant of a session.
func Loss(r *Record, grant string) error {
	switch {
	case r == nil:
		return ErrRemoved
	case r.State == Revoked:
		return ErrRevoked
	case r.Kind == KindSession && r.Grant != grant:
		return ErrRemoved // and a waiter has made another record; see [NewStandIn]
	case r.State == Broken:
		return ErrBroken
	case r.State != Held || r.Grant != grant:
		return ErrTakenOver
	}
	return nil
}

// Ticket carries a lease from one process to another; see lease.Ticket.
type Ticket struct {
	Name    string        `json:"name"`
	Token   uint64        `json:"token"`
	Grant   string        `json:"grant"`
	Version store.Version `json:"version"`
	Nonce   string        `json:"nonce"` // nonce of the last write of the lease's holder in Version
	TTL     time.Duration `json:"ttl_ns"`

	// Sent is when the holder sent the write with this Nonce, by the wall clock. Epoch and SentBoot
	// are the same time by the boot-time clock.
	Sent     time.Time     `json:"sent"`
	Epoch    string        `json:"epoch,omitempty"`
	SentBoot time.Duration `json:"sent_boottime_ns,omitempty"`

	// PendingWrites are writes over Version whose outcome is unknown. At most one of them can be
	// applied.
	PendingWrites []PendingWrite `json:"announced,omitempty"`
}

// PendingWrite is a write of unknown outcome: its nonce, and the time at which the holder sent it.
type PendingWrite struct {
	Nonce    string        `json:"nonce"`
	Sent     time.Time     `json:"sent"`
	Epoch    string        `json:"epoch,omitempty"`
	SentBoot time.Duration `json:"sent_boottime_ns,omitempty"`
}

// TicketError is lease.TicketError.
type TicketError struct {
	Ticket Ticket
	Err    error
}

func (e *TicketError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *TicketError) Unwrap() error { return e.Err }

// UseTicket decides whether a process may use a ticket in the state r of the record. The parameter named
// says that r has the version that the ticket names.
//
// A ticket is good for the state that it names, and for a state that one of its pending writes made. Each
// use replaces the state. So only one process can use a ticket, even if there are copies of it. All that
// a ticket says is input: the record decides.
//
// If a pending write of the ticket made the state, UseTicket returns the index of this write in
// PendingWrites, otherwise -1. Then the store never applies the other pending writes, because they name
// the state before.
//
// If other clients have written over the state of the ticket, for example to request the holder to yield,
// the ticket is good for their state. The parameter release says that the process uses the ticket to free
// the lock. Then the ticket is also good for a broken record, if the break ended a write of the ticket.
//
// If the ticket is not good, the error matches the reason: a reason of [Loss], [ErrReleased],
// [ErrTicketUsed] or [ErrInvalidTicket].
func UseTicket(r *Record, t *Ticket, named, release bool) (write int, err error) {
	pending := func(nonce string) int {
		return slices.IndexFunc(t.PendingWrites, func(w PendingWrite) bool { return w.Nonce == nonce })
	}
	loss := Loss(r, t.Grant)
	switch {
	case loss == ErrBroken && release && r.Grant == t.Grant && (r.BrokenNonce == t.Nonce || pending(r.BrokenNonce) >= 0):
		return -1, nil
	case loss == ErrTakenOver && r.State == Free && r.Grant == t.Grant:
		return -1, fmt.Errorf("lock %q: %w", r.Name, ErrReleased)
	case loss != nil:
		return -1, loss
	case r.Session != "":
		return -1, fmt.Errorf("%w: lock %q: the grant belongs to a session, and a ticket cannot contain a session", ErrInvalidTicket, r.Name)
	case r.Token != t.Token || r.TTL != t.TTL:
		return -1, fmt.Errorf("%w: lock %q: the ticket has token %d and TTL %v, but the record has token %d and TTL %v", ErrInvalidTicket, r.Name, t.Token, t.TTL, r.Token, r.TTL)
	case named && HolderNonce(r) != t.Nonce:
		return -1, fmt.Errorf("%w: lock %q: the ticket has nonce %q, but the record has %q", ErrInvalidTicket, r.Name, t.Nonce, HolderNonce(r))
	case named, r.HolderNonce == t.Nonce:
		return -1, nil
	}
	if write = pending(HolderNonce(r)); write < 0 {
		return -1, ErrTicketUsed
	}
	return write, nil
}
