package lease

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/ticket"
	"github.com/holdfast-go/holdfast/store"
)

// Ticket carries a lease from one process to another. A program can store the ticket as JSON.
// Every process that has the ticket can renew and release the lease, so protect the ticket like
// a password.
//
// A ticket can be used once. It names the version of the lease's record, and writes of unknown
// outcome. It is valid only if the record still has that version, or if one of these writes made
// the present version. The use of a ticket changes the version. After that, a call with a copy of
// the ticket changes nothing and returns [ErrTicketUsed]. [Guard.Detach] and [Client.RenewTicket]
// return the next ticket.
//
// The client does not trust the content of a ticket: it checks every field against the record. A
// forged ticket cannot make a holder trust its lease for longer. The fields are:
//
//   - Name, Token, Grant, TTL: the name of the lock, and the token, the id and the TTL of the grant.
//   - Version: the version of the record. Nonce: the nonce of the last write of the lease's holder
//     in this version.
//   - Sent: when the holder sent the write with this Nonce, by the wall clock. Epoch and SentBoot
//     are the same time by the boot-time clock. If the two clocks disagree, the client uses the
//     clock by which more time has passed since the write.
//   - PendingWrites: writes over Version whose outcome is unknown. At most one of them can be
//     applied. No guard trusts its lease because of one of these writes.
type Ticket = lockrec.Ticket

// PendingWrite is a write of unknown outcome: its Nonce, and the time at which the holder sent it.
// The fields Sent, Epoch and SentBoot have the same meaning as in [Ticket].
type PendingWrite = lockrec.PendingWrite

// TicketError says that a call with a ticket had an unknown outcome. The field Ticket replaces the
// ticket that the caller passed. The new ticket is valid whether the write was applied or not.
type TicketError = lockrec.TicketError

// Detach ends the guard without a release of the lock, and returns a ticket. One process can
// continue the lease with the ticket; see [Client.Attach]. Until then no process renews the
// lease. The contexts of all guards of the handle end, with the cause [ErrDetached].
//
// The record of a detached lease must be durable, and must not have the announcement of this
// process. If the last write does not ensure these two properties, or its outcome is unknown,
// Detach renews the lease once more. If the store does not answer within half of
// Options.ReleaseTimeout, the ticket lists the writes of unknown outcome. In that case other
// clients may take the lock as soon as this process ends. For leases that outlive their process,
// use Options.NoPresence. Like [Guard.Release], Detach also works after the end of its context.
func (g *Guard) Detach(ctx context.Context) (Ticket, error) {
	if err := g.Err(); err != nil {
		return Ticket{}, err
	}
	if g.h.k.Under != nil {
		return Ticket{}, fmt.Errorf("%w: lock %q belongs to a session, and a ticket cannot contain a session; to pass the lease on, take the lock without a session", store.ErrInvalid, g.Name())
	}
	if gr := g.b.Grant(); !gr.Halt(ErrDetached) {
		return Ticket{}, gr.Cause()
	}
	return ticket.Detach(ctx, &g.h.k, g.b.Grant())
}

// Attach continues a lease that a process has detached. It reads the record and renews the lease,
// in two requests. The time of trust in the lease begins just before Attach sends that renewal. The
// record then names this process. With Options.ManualRenewal call [Guard.Renew] for further
// renewals. The TTL of the client must be the TTL of the lease.
//
// These errors are special:
//
//   - A [*LostError]: the lease is over. Its TTL has passed by one of the clocks of this
//     machine, another client has the lock, or the ticket was used before ([ErrTicketUsed]).
//   - [ErrReleased]: the lease was released.
//   - [ErrInvalidTicket]: the ticket contradicts the record, or has an impossible time.
//   - A [*TicketError]: it contains the ticket for the next attempt. Look for it first. If the loss of
//     another lease has ended the context, the error also matches the reason of that loss.
//
// After any other error the same ticket is still valid. If the TTL of the lease has passed and
// the record is in the state that the ticket describes, Attach frees the lock before it
// returns the error.
func (c *Client) Attach(ctx context.Context, t Ticket) (*Guard, error) {
	h, err := c.Handle(t.Name, nil)
	if err != nil {
		return nil, err
	}
	return h.take(ctx, func(ctx context.Context) (*belief.Guard, error) { return ticket.Attach(ctx, c.k, &h.k, t) })
}

// RenewTicket renews the lease of a ticket for another TTL, in two requests, and returns the
// ticket that replaces it. The lease stays detached. The record then has the Options.Holder of
// this client and the id of this process, but no announcement of this process.
//
// Before each write, RenewTicket passes a new ticket to the function announce. If the caller dies
// before RenewTicket returns, the new ticket continues the lease. So the function should store the
// new ticket durably, in the place of the old one. If the function returns an error, RenewTicket
// returns without sending the write. If announce is nil and the caller dies during the call, the
// lease is lost.
//
// RenewTicket returns the same errors as [Client.Attach].
func (c *Client) RenewTicket(ctx context.Context, t Ticket, announce func(Ticket) error) (Ticket, error) {
	of, err := c.space.Lock(t.Name)
	if err != nil {
		return Ticket{}, err
	}
	return ticket.Renew(ctx, of, t, announce)
}

// ReleaseTicket releases the lease of a ticket, in two requests. A nil error means that the lock
// was freed in time. If the TTL of the lease has passed, or the lease was broken, the error is a
// [*LostError]. Then ReleaseTicket also frees the lock, if the ticket names the last write of the
// lock. The other errors are the same as for [Client.Attach]. After any other error than [ErrLost]
// and [ErrReleased], call ReleaseTicket again with the same ticket.
func (c *Client) ReleaseTicket(ctx context.Context, t Ticket) error {
	of, err := c.space.Lock(t.Name)
	if err != nil {
		return err
	}
	return ticket.Release(ctx, of, t)
}
