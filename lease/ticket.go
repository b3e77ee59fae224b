package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
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

// maxAnnounced bounds the writes of unknown outcome that a ticket carries.
const maxAnnounced = 64

// TicketError says that a call with a ticket had an unknown outcome. The field Ticket replaces the
// ticket that the caller passed. The new ticket is valid whether the write was applied or not.
type TicketError struct {
	Ticket Ticket
	Err    error
}

func (e *TicketError) Error() string { return e.Err.Error() }

func (e *TicketError) Unwrap() error { return e.Err }

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
	return g.h.detach(ctx, g.b.Grant())
}

// detach makes the ticket of a grant that was halted for it.
func (h *Handle) detach(ctx context.Context, g *belief.Grant) (Ticket, error) {
	g.Finish(ctx)
	set, clock := h.c.space.Set, h.c.space.Clock
	ctx, cancel := context.WithTimeout(cell.WithoutEnd(ctx), set.ReleaseTimeout/2)
	defer cancel()
	left, done := g.Detach(ctx)
	defer done()
	t := Ticket{Name: h.k.Name, Token: g.Token(), Grant: g.ID(), TTL: left.Base.Rec.TTL}
	moveTicket(&t, clock, left.Base, left.Sent)
	open := left.Open
	for _, s := range open[max(0, len(open)-maxAnnounced):] { // the last ones
		announceWrite(&t, clock, s.Rec.Nonce, s.At)
	}
	if !left.Idle || left.Settled && left.Base.Rec.Presence == "" {
		return t, nil
	}
	u := ticketUse{c: h.c, h: h, t: t, base: left.Base, next: func(r *Record) { r.Presence = "" }}
	if err := u.write(ctx); errors.Is(err, ErrLost) || errors.Is(err, ErrReleased) {
		return Ticket{}, err
	}
	return u.t, nil
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
//   - A [*TicketError]: it contains the ticket for the next attempt.
//
// After any other error the same ticket is still valid. If the TTL of the lease has passed and
// the record is in the state that the ticket describes, Attach frees the lock before it
// returns the error.
func (c *Client) Attach(ctx context.Context, t Ticket) (*Guard, error) {
	ctx, cancel := c.space.Bind(ctx)
	defer cancel(nil)
	// What the ticket says of time is another machine's word. So the lease counts
	// from a write of this process's own, with a nonce that no ticket has announced:
	// of two that attach with one ticket, only one writes over the version it names.
	u, err := c.use(ctx, t, func(r *Record) { c.k.Sign(ctx, r) })
	if err != nil {
		return nil, err
	}
	before := u.base
	if err := u.write(ctx); err != nil {
		return nil, u.failed(ctx, err)
	}
	g, guard, open := u.h.k.Resume(ctx, before, u.base, u.at, u.firm)
	if guard == nil {
		g.Abandon(ctx)
		return nil, u.failed(ctx, u.lost(ErrExpired))
	}
	if !open {
		g.Halt(ErrDetached)
		t, err := u.h.detach(ctx, g)
		if err != nil {
			return nil, errors.Join(ErrClosed, err)
		}
		return nil, &TicketError{t, fmt.Errorf("lock %q: %w", t.Name, ErrClosed)}
	}
	c.space.Emit(event.Event{Kind: EventRenewed, Name: t.Name, Token: g.Token(), Deadline: g.Deadline()})
	g.Acknowledge(u.base.Rec)
	return u.h.guard(guard, nil)
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
	ctx, cancel := c.space.Bind(ctx)
	defer cancel(nil)
	u, err := c.use(ctx, t, func(r *Record) {
		r.Holder, r.Process, r.Presence = c.space.Set.Holder, cell.ProcessID(), ""
	})
	if err != nil {
		return Ticket{}, err
	}
	u.announce = announce
	if err := u.write(ctx); err != nil {
		return Ticket{}, u.failed(ctx, err)
	}
	if c.space.Clock.SinceStart() >= u.at+c.space.Set.Trust() {
		return Ticket{}, u.failed(ctx, u.lost(ErrExpired))
	}
	c.space.Emit(event.Event{Kind: EventRenewed, Name: t.Name, Token: t.Token, Deadline: c.space.Clock.Wall().Add(c.space.Set.Trust() - ticketAge(&u.t, c.space.Clock))})
	return u.t, nil
}

// ReleaseTicket releases the lease of a ticket, in two requests. A nil error means that the lock
// was freed in time. If the TTL of the lease has passed, or the lease was broken, the error is a
// [*LostError]. Then ReleaseTicket also frees the lock, if the ticket names the last write of the
// lock. The other errors are the same as for [Client.Attach]. After any other error than [ErrLost]
// and [ErrReleased], call ReleaseTicket again with the same ticket.
func (c *Client) ReleaseTicket(ctx context.Context, t Ticket) error {
	ctx, cancel := c.space.Bind(ctx)
	defer cancel(nil)
	u, err := c.use(ctx, t, nil)
	if err != nil {
		return err
	}
	if err := u.free(ctx); err != nil {
		return err
	}
	c.space.Emit(event.Event{Kind: EventReleased, Name: t.Name, Token: t.Token})
	return nil
}

// ticketUse is one use of a ticket: one write over the version that it names.
type ticketUse struct {
	c        *Client
	h        *Handle
	t        Ticket             // the ticket to continue with
	base     *cell.Seen         // where it is
	next     func(*Record)      // makes the record to write
	announce func(Ticket) error // gets the ticket before a write is sent; may be nil
	at       time.Duration      // when the write that is the base now was sent
	firm     bool               // that write survives a power cut
}

// use reads the record and checks that the ticket is good for it. If the ticket is
// too late, it frees the lock, unless it was to be released.
func (c *Client) use(ctx context.Context, t Ticket, next func(*Record)) (*ticketUse, error) {
	h, err := c.Handle(t.Name, nil)
	if err != nil {
		return nil, err
	}
	if c.space.Life.Err() != nil {
		return nil, fmt.Errorf("lock %q: %w", t.Name, ErrClosed)
	}
	if err := c.checkTicket(&t); err != nil {
		return nil, err
	}
	now, err := h.k.Cell.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	t.PendingWrites = slices.Clone(t.PendingWrites)
	u := &ticketUse{c: c, h: h, t: t, next: next}
	if err := u.found(now); err != nil {
		return nil, err
	}
	if next != nil && u.left() <= 0 {
		return nil, u.failed(ctx, u.lost(ErrExpired))
	}
	return u, nil
}

// checkTicket checks what can be checked of a ticket alone.
func (c *Client) checkTicket(t *Ticket) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: lock %q: %s", ErrInvalidTicket, t.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case t.Grant == "" || t.Token == 0 || t.Version == "" || t.Nonce == "":
		return bad("the ticket is empty")
	case len(t.PendingWrites) > maxAnnounced:
		return bad("the ticket announces %d writes, at most %d are allowed", len(t.PendingWrites), maxAnnounced)
	case t.TTL != c.space.Set.TTL:
		return fmt.Errorf("%w: the ticket has a TTL of %v, but the client has a TTL of %v", store.ErrInvalid, t.TTL, c.space.Set.TTL)
	case slices.ContainsFunc(t.PendingWrites, func(a PendingWrite) bool { return a.Nonce == "" }):
		return bad("the ticket announces a write without a nonce")
	}
	return nil
}

// found judges a state of the record that was read. It returns nil if the ticket is
// good for it, and then is there.
func (u *ticketUse) found(now *cell.Seen) error {
	t := &u.t
	write, err := lockrec.UseTicket(now.Rec, t, now.Version == t.Version, u.next == nil)
	switch lost := u.lost(err); {
	case err == ErrTakenOver, err == ErrTicketUsed:
		lost.NewHolder = now.Rec.Holder
		return lost
	case errors.Is(err, ErrReleased), errors.Is(err, ErrInvalidTicket):
		return err
	case err != nil:
		return lost
	case now.Rec.State == Broken:
		u.base = now // no process believes in what was broken: it is freed for others
		return nil
	case write >= 0 && u.c.space.Set.Traits.Delayed():
		return fmt.Errorf("lock %q: %w: this store cannot resolve a write of unknown outcome; the lease ends when its TTL has passed", t.Name, ErrUnresolved)
	case write >= 0:
		a := t.PendingWrites[write]
		t.Nonce, t.Sent, t.Epoch, t.SentBoot = a.Nonce, a.Sent, a.Epoch, a.SentBoot
	}
	if now.Version != t.Version {
		t.Version, t.PendingWrites = now.Version, nil
	}
	u.base = now
	return u.plausible()
}

// plausible checks the times of the ticket. A ticket of a machine whose clock is ahead
// by more than a TTL cannot be known from one that was altered.
func (u *ticketUse) plausible() error {
	t, c := &u.t, u.c
	boot, known := sysclock.Boottime()
	if t.Sent.Sub(c.space.Clock.Wall()) <= c.space.Set.TTL && !(known && t.Epoch != "" && t.Epoch == sysclock.Epoch() && t.SentBoot > boot) {
		return nil
	}
	return fmt.Errorf("%w: lock %q: the ticket is from the future; a program has changed the ticket, or the clocks of two machines differ", ErrInvalidTicket, t.Name)
}

// ticketAge is how long ago the ticket's lease was last renewed, by the clock that says
// most.
func ticketAge(t *Ticket, c *cell.Clock) time.Duration {
	age := c.Wall().Sub(t.Sent)
	if boot, ok := sysclock.Boottime(); ok && t.Epoch != "" && t.Epoch == sysclock.Epoch() {
		// No lease is as long, and the difference of any two numbers may not fit.
		age = max(age, boot-max(t.SentBoot, boot-2*MaxTTL))
	}
	return max(age, 0)
}

// left is the trust that is left in the ticket's lease, by the ticket and by the
// record.
func (u *ticketUse) left() time.Duration {
	age := max(ticketAge(&u.t, u.c.space.Clock), u.c.space.Clock.Wall().Sub(u.base.Rec.Renewed))
	return u.c.space.Set.Trust() - age
}

// moveTicket makes t the ticket of a state that was sent at a time.
func moveTicket(t *Ticket, c *cell.Clock, s *cell.Seen, at time.Duration) {
	t.Version, t.Nonce, t.PendingWrites = s.Version, lockrec.HolderNonce(s.Rec), nil
	t.Sent, t.Epoch, t.SentBoot = instant(c, at)
}

// announceWrite adds a write over the ticket's version.
func announceWrite(t *Ticket, c *cell.Clock, nonce string, at time.Duration) {
	a := PendingWrite{Nonce: nonce}
	a.Sent, a.Epoch, a.SentBoot = instant(c, at)
	t.PendingWrites = append(t.PendingWrites, a)
}

// retractWrite takes a write back that is certainly not applied.
func retractWrite(t *Ticket, nonce string) {
	t.PendingWrites = slices.DeleteFunc(t.PendingWrites, func(a PendingWrite) bool { return a.Nonce == nonce })
}

// instant gives a time of this client's clock for other processes.
func instant(c *cell.Clock, at time.Duration) (wall time.Time, epoch string, boottime time.Duration) {
	// In this order: a process that is stopped in between makes the time earlier.
	wall = c.Wall()
	boot, ok := sysclock.Boottime()
	ago := c.SinceStart() - at
	if ok {
		epoch, boottime = sysclock.Epoch(), boot-ago
	}
	return wall.Add(-ago), epoch, boottime
}

func (u *ticketUse) lost(reason error) *LostError {
	return &LostError{Name: u.t.Name, Token: u.t.Token, Reason: reason}
}

// write renews the lease of the ticket and finds out its outcome. On success
// base is the state that it made, at is when that was sent, and the ticket names
// it. Otherwise the ticket announces every write that may yet be applied.
//
// Between any two steps another copy of the ticket may be used: then the version is
// replaced, and found has it.
func (u *ticketUse) write(ctx context.Context) error {
	c := u.c
	ctx, cancel := context.WithTimeout(ctx, cell.MaxDuration)
	defer cancel()
	t := u.over()
	var rec Record
	for pause := c.space.ResolveBackoff(); ; {
		left, again := u.left(), false
		at := c.space.Clock.SinceStart()
		switch {
		case left <= 0:
			return u.lost(ErrExpired)
		case len(u.t.PendingWrites) < maxAnnounced:
			rec = lockrec.Renewed(u.base.Rec, c.space.Clock.Wall())
			rec.Nonce, rec.Linger = rand.Text(), 0 // the handle that kept it has left it
			u.next(&rec)
			at = c.space.Clock.SinceStart()
			announceWrite(&u.t, c.space.Clock, rec.Nonce, at)
			if err := u.tell(); err != nil {
				retractWrite(&u.t, rec.Nonce)
				return err
			}
		case len(t.Sent) == 0:
			return fmt.Errorf("lock %q: %w: %d writes with this ticket have no known outcome", u.t.Name, ErrUnresolved, maxAnnounced)
		default:
			again = true // the last one
		}
		bounded, done := context.WithTimeout(ctx, left)
		f := t.Send(bounded, &rec, at)
		done()
		if f.Refused && !again {
			retractWrite(&u.t, rec.Nonce)
		}
		if f.Now != nil && f.Resolution != store.ResolutionPending {
			if f.Err != nil {
				if err := u.found(f.Now); err != nil {
					return err
				}
			}
			u.base = f.Now
			if f.Resolution == store.ResolutionApplied {
				u.at, u.firm = f.Try.At, f.Durable
				moveTicket(&u.t, c.space.Clock, f.Now, u.at)
				return nil
			}
			t = u.over() // a write that an earlier use of the ticket announced came first
			continue
		}
		if err := u.pause(ctx, pause, f); err != nil {
			return err
		}
	}
}

// over returns no tries yet, over the state that the ticket names.
func (u *ticketUse) over() *cell.Tries {
	t := u.h.k.Cell.Over(u.base)
	t.NoReadBack = u.c.space.Set.Traits.Delayed()
	return t
}

// pause waits before the next try, unless that is of no use.
func (u *ticketUse) pause(ctx context.Context, pause *cell.RetryPause, f cell.Finding) error {
	err := f.Err
	if f.Resolution != store.ResolutionNotApplied {
		err = fmt.Errorf("%w: %w", ErrUnresolved, err)
	}
	if store.Permanent(err) {
		return err
	}
	if ended := pause.Wait(ctx); ended != nil {
		return fmt.Errorf("%w: %w", err, ended)
	}
	return nil
}

// tell hands the ticket on before a write is sent.
func (u *ticketUse) tell() error {
	if u.announce == nil {
		return nil
	}
	t := u.t
	t.PendingWrites = slices.Clone(t.PendingWrites)
	return u.announce(t)
}

// failed turns the error of a use into the one for the caller: a lease whose time has
// passed is freed first, and a ticket that changed is handed on.
func (u *ticketUse) failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrExpired):
		freeErr := u.free(cell.WithoutEnd(ctx))
		if freeErr != nil && !errors.Is(freeErr, ErrLost) && !errors.Is(freeErr, ErrReleased) {
			return errors.Join(err, fmt.Errorf("the lock was not released: %w", freeErr))
		}
		return err
	case errors.Is(err, ErrLost), errors.Is(err, ErrReleased), len(u.t.PendingWrites) == 0:
		return err
	}
	return &TicketError{u.t, err}
}

// free frees the lock in the state that the ticket names, and in no other.
func (u *ticketUse) free(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, u.c.space.Set.ReleaseTimeout)
	defer cancel()
	late := u.left() <= 0
	t := u.over()
	for pause := u.c.space.ResolveBackoff(); ; {
		rec := lockrec.Freed(u.base.Rec, u.c.space.Clock.Wall())
		rec.Nonce = rand.Text()
		f := t.Send(ctx, &rec, u.c.space.Clock.SinceStart())
		switch {
		case f.Now == nil, f.Resolution == store.ResolutionPending:
			if err := u.pause(ctx, pause, f); err != nil {
				return err
			}
			continue
		case f.Resolution == store.ResolutionApplied:
			u.h.k.Cell.Note(f.Now)
		default:
			err := u.found(f.Now)
			if err == nil {
				t = u.over() // on a write that the ticket announces
				continue
			}
			if f.Resolution == store.ResolutionNotApplied || late || errors.Is(err, ErrTicketUsed) {
				return err
			}
			// Applied, and followed by another's state, for all that can be known.
		}
		switch {
		case u.base.Rec.State == Broken:
			return u.lost(ErrBroken)
		case late:
			return u.lost(ErrExpired)
		}
		return nil
	}
}
