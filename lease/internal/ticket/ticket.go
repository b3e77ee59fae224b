// Package ticket is about leases that move from one process to another. Their tickets are input: the
// record decides.
package ticket

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
	"github.com/holdfast-go/holdfast/lease/internal/holding"
	"github.com/holdfast-go/holdfast/store"
)

// Ticket is lease.Ticket.
type Ticket = lockrec.Ticket

// maxAnnounced bounds the writes of unknown outcome that a ticket carries.
const maxAnnounced = 64

// Detach makes the ticket of a grant of h that was halted for it.
func Detach(ctx context.Context, h *holding.Holder, g *belief.Grant) (Ticket, error) {
	g.Finish(ctx)
	set, clock := h.Cell.Space.Set, h.Cell.Space.Clock
	ctx, cancel := context.WithTimeout(cell.WithoutEnd(ctx), set.ReleaseTimeout/2)
	defer cancel()
	left, done := g.Detach(ctx)
	defer done()
	t := Ticket{Name: h.Name(), Token: g.Token(), Grant: g.ID(), TTL: left.Base.Rec.TTL}
	moveTicket(&t, left.Base.Version, sentWrite(clock, lockrec.HolderNonce(left.Base.Rec), left.Sent))
	open := left.Open
	for _, s := range open[max(0, len(open)-maxAnnounced):] { // the last ones
		t.PendingWrites = append(t.PendingWrites, sentWrite(clock, s.Rec.Nonce, s.At))
	}
	if !left.Idle || left.Settled && left.Base.Rec.Presence == "" {
		return t, nil
	}
	u := use{cell: &h.Cell, t: t, base: left.Base, next: func(r *lockrec.Record) { r.Presence = "" }}
	if err := u.write(ctx); u.over != nil {
		return Ticket{}, err
	}
	return u.t, nil
}

// Attach continues the lease of a ticket with h, a holder of the client c.
func Attach(ctx context.Context, c *holding.Client, h *holding.Holder, t Ticket) (*belief.Guard, error) {
	space := h.Cell.Space
	ctx, cancel := space.Bind(ctx)
	defer cancel(nil)
	// What the ticket says of time is another machine's word. So the lease counts
	// from a write of this process's own, with a nonce that no ticket has announced:
	// of two that attach with one ticket, only one writes over the version it names.
	u, err := begin(ctx, &h.Cell, t, func(r *lockrec.Record) { c.Sign(ctx, r) })
	if err != nil {
		return nil, err
	}
	before := u.base
	if err := u.write(ctx); err != nil {
		return nil, u.failed(ctx, err)
	}
	g, guard, open := h.Resume(ctx, before, u.base, u.at, u.firm)
	if guard == nil {
		g.Abandon(ctx)
		return nil, u.failed(ctx, u.lost(belief.ErrExpired))
	}
	if !open {
		g.Halt(belief.ErrDetached)
		t, err := Detach(ctx, h, g)
		if err != nil {
			return nil, errors.Join(cell.ErrClosed, err)
		}
		return nil, &lockrec.TicketError{Ticket: t, Err: fmt.Errorf("lock %q: %w", t.Name, cell.ErrClosed)}
	}
	space.Emit(event.Event{Kind: event.Renewed, Name: t.Name, Token: g.Token(), Deadline: g.Deadline(), Took: space.Clock.SinceStart() - u.at})
	g.Acknowledge(u.base.Rec)
	return guard, nil
}

// Renew renews the lease of a ticket; see lease.Client.RenewTicket.
func Renew(ctx context.Context, of *cell.Cell, t Ticket, announce func(Ticket) error) (Ticket, error) {
	space := of.Space
	ctx, cancel := space.Bind(ctx)
	defer cancel(nil)
	u, err := begin(ctx, of, t, func(r *lockrec.Record) {
		r.Holder, r.Process, r.Presence = space.Set.Holder, cell.ProcessID(), ""
	})
	if err != nil {
		return Ticket{}, err
	}
	u.announce = announce
	if err := u.write(ctx); err != nil {
		return Ticket{}, u.failed(ctx, err)
	}
	if space.Clock.SinceStart() >= u.at+space.Set.Trust() {
		return Ticket{}, u.failed(ctx, u.lost(belief.ErrExpired))
	}
	space.Emit(event.Event{Kind: event.Renewed, Name: t.Name, Token: t.Token, Deadline: space.Clock.Wall().Add(space.Set.Trust() - age(&u.t, space.Clock)), Took: space.Clock.SinceStart() - u.at})
	return u.t, nil
}

// Release releases the lease of a ticket.
func Release(ctx context.Context, of *cell.Cell, t Ticket) error {
	space := of.Space
	ctx, cancel := space.Bind(ctx)
	defer cancel(nil)
	u, err := begin(ctx, of, t, nil)
	if err == nil {
		err = u.free(ctx)
	}
	if err == nil {
		space.Emit(event.Event{Kind: event.Released, Name: t.Name, Token: t.Token})
	}
	return err
}

// use is one use of a ticket: one write over the version that it names.
type use struct {
	cell     *cell.Cell            // of the lock
	t        Ticket                // the ticket to continue with
	base     *cell.Seen            // where it is
	next     func(*lockrec.Record) // makes the record to write
	announce func(Ticket) error    // gets the ticket before a write is sent; may be nil
	at       time.Duration         // when the write that is the base now was sent
	firm     bool                  // that write survives a power cut
	over     error                 // why the lease is over, as the use itself has found; nil while it is not known to be
}

// begin reads the record and checks that the ticket is good for it. If the ticket is
// too late, it frees the lock, unless it was to be released.
func begin(ctx context.Context, of *cell.Cell, t Ticket, next func(*lockrec.Record)) (*use, error) {
	if of.Space.Life.Err() != nil {
		return nil, fmt.Errorf("lock %q: %w", t.Name, cell.ErrClosed)
	}
	if err := check(&t, of.Space.Set); err != nil {
		return nil, err
	}
	now, err := of.Fetch(ctx)
	if err != nil {
		return nil, undecided{err}
	}
	t.PendingWrites = slices.Clone(t.PendingWrites)
	u := &use{cell: of, t: t, next: next}
	err = u.found(now)
	if err == nil && next != nil && u.left() <= 0 {
		err = u.failed(ctx, u.lost(belief.ErrExpired))
	}
	return u, err
}

// check checks what can be checked of a ticket alone.
func check(t *Ticket, set *cell.Settings) error {
	switch {
	case t.Grant == "" || t.Token == 0 || t.Version == "" || t.Nonce == "":
		return fmt.Errorf("%w: lock %q: the ticket is empty", lockrec.ErrInvalidTicket, t.Name)
	case len(t.PendingWrites) > maxAnnounced:
		return fmt.Errorf("%w: lock %q: the ticket announces %d writes, at most %d are allowed", lockrec.ErrInvalidTicket, t.Name, len(t.PendingWrites), maxAnnounced)
	case t.TTL != set.TTL:
		return fmt.Errorf("%w: the ticket has a TTL of %v, but the client has a TTL of %v", store.ErrInvalid, t.TTL, set.TTL)
	case slices.ContainsFunc(t.PendingWrites, func(a lockrec.PendingWrite) bool { return a.Nonce == "" }):
		return fmt.Errorf("%w: lock %q: the ticket announces a write without a nonce", lockrec.ErrInvalidTicket, t.Name)
	}
	return nil
}

// found judges a state of the record that was read. It returns nil if the ticket is
// good for it, and then is there.
func (u *use) found(now *cell.Seen) error {
	t := &u.t
	write, err := lockrec.UseTicket(now.Rec, t, now.Version == t.Version, u.next == nil)
	switch lost := u.lost(err); {
	case err == lockrec.ErrTakenOver, err == lockrec.ErrTicketUsed:
		lost.NewHolder = now.Rec.Holder
		return lost
	case errors.Is(err, lockrec.ErrInvalidTicket):
		u.over = nil
		return err
	case errors.Is(err, belief.ErrReleased):
		return err
	case err != nil:
		return lost
	case now.Rec.State == lockrec.Broken:
		u.base = now // no process believes in what was broken: it is freed for others
		return nil
	case write >= 0 && u.cell.Space.Set.Traits.Delayed():
		return fmt.Errorf("lock %q: %w: this store cannot resolve a write of unknown outcome; the lease ends when its TTL has passed", t.Name, cell.ErrUnresolved)
	case write >= 0:
		moveTicket(t, now.Version, t.PendingWrites[write])
	}
	if now.Version != t.Version {
		t.Version, t.PendingWrites = now.Version, nil
	}
	u.base = now
	return u.plausible()
}

// plausible checks the times of the ticket. A ticket of a machine whose clock is ahead
// by more than a TTL cannot be known from one that was altered.
func (u *use) plausible() error {
	t, c := &u.t, u.cell.Space
	boot, known := sysclock.Boottime()
	if t.Sent.Sub(c.Clock.Wall()) <= c.Set.TTL && !(known && t.Epoch != "" && t.Epoch == sysclock.Epoch() && t.SentBoot > boot) {
		return nil
	}
	return fmt.Errorf("%w: lock %q: the ticket is from the future; a program has changed the ticket, or the clocks of two machines differ", lockrec.ErrInvalidTicket, t.Name)
}

// age is how long ago the ticket's lease was last renewed, by the clock that says
// most.
func age(t *Ticket, c *sysclock.Clock) time.Duration {
	age := c.Wall().Sub(t.Sent)
	if boot, ok := sysclock.Boottime(); ok && t.Epoch != "" && t.Epoch == sysclock.Epoch() {
		// No lease is as long, and the difference of any two numbers may not fit.
		age = max(age, boot-max(t.SentBoot, boot-2*lockrec.MaxTTL))
	}
	return max(age, 0)
}

// left is the trust that is left in the ticket's lease, by the ticket and by the
// record.
func (u *use) left() time.Duration {
	most := max(age(&u.t, u.cell.Space.Clock), u.cell.Space.Clock.Wall().Sub(u.base.Rec.Renewed))
	return u.cell.Space.Set.Trust() - most
}

// moveTicket makes t the ticket of the version that a write has made.
func moveTicket(t *Ticket, v store.Version, w lockrec.PendingWrite) {
	t.Version, t.Nonce, t.Sent, t.Epoch, t.SentBoot, t.PendingWrites = v, w.Nonce, w.Sent, w.Epoch, w.SentBoot, nil
}

// retractWrite takes a write back that is certainly not applied.
func retractWrite(t *Ticket, nonce string) {
	t.PendingWrites = slices.DeleteFunc(t.PendingWrites, func(a lockrec.PendingWrite) bool { return a.Nonce == nonce })
}

// sentWrite describes a write of this client for other processes.
func sentWrite(c *sysclock.Clock, nonce string, at time.Duration) lockrec.PendingWrite {
	// In this order: a process that is stopped in between makes the time earlier.
	wall := c.Wall()
	boot, ok := sysclock.Boottime()
	ago := c.SinceStart() - at
	w := lockrec.PendingWrite{Nonce: nonce, Sent: wall.Add(-ago)}
	if ok {
		w.Epoch, w.SentBoot = sysclock.Epoch(), boot-ago
	}
	return w
}

// lost notes whether and why the lease is over.
func (u *use) lost(reason error) *belief.LostError {
	u.over = reason
	return &belief.LostError{Name: u.t.Name, Token: u.t.Token, Reason: reason}
}

// write renews the lease of the ticket and finds out its outcome. On success
// base is the state that it made, at is when that was sent, and the ticket names
// it. Otherwise the ticket announces every write that may yet be applied.
//
// Between any two steps another copy of the ticket may be used: then the version is
// replaced, and found has it.
func (u *use) write(ctx context.Context) error {
	c := u.cell.Space
	ctx, cancel := context.WithTimeout(ctx, cell.MaxDuration)
	defer cancel()
	t := u.cell.OverGrant(u.base)
	var rec lockrec.Record
	for pause := c.ResolveBackoff(); ; {
		left, again := u.left(), false
		at := c.Clock.SinceStart()
		switch {
		case left <= 0:
			return u.lost(belief.ErrExpired)
		case len(u.t.PendingWrites) < maxAnnounced:
			rec = lockrec.Renewed(u.base.Rec, c.Clock.Wall())
			rec.Nonce, rec.Linger = rand.Text(), 0 // the handle that kept it has left it
			u.next(&rec)
			at = c.Clock.SinceStart()
			u.t.PendingWrites = append(u.t.PendingWrites, sentWrite(c.Clock, rec.Nonce, at))
			if u.announce != nil {
				t := u.t
				t.PendingWrites = slices.Clone(t.PendingWrites)
				if err := u.announce(t); err != nil {
					retractWrite(&u.t, rec.Nonce)
					return err
				}
			}
		case len(t.Sent) == 0:
			return fmt.Errorf("lock %q: %w: %d writes with this ticket have no known outcome", u.t.Name, cell.ErrUnresolved, maxAnnounced)
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
				moveTicket(&u.t, f.Now.Version, sentWrite(c.Clock, lockrec.HolderNonce(f.Now.Rec), u.at))
				return nil
			}
			t = u.cell.OverGrant(u.base) // a write that an earlier use of the ticket announced came first
			continue
		}
		if err := u.pause(ctx, pause, f); err != nil {
			return err
		}
	}
}

// pause waits before the next try, unless that is of no use.
func (u *use) pause(ctx context.Context, pause *cell.RetryPause, f cell.Finding) error {
	err := f.Err
	if f.Resolution != store.ResolutionNotApplied {
		err = fmt.Errorf("%w: %w", cell.ErrUnresolved, err)
	}
	if store.Permanent(err) {
		return undecided{err}
	}
	if ended := pause.Wait(ctx); ended != nil {
		return undecided{fmt.Errorf("%w: %w", err, ended)}
	}
	return nil
}

// failed turns the error of a use into the one for the caller: a lease whose time has
// passed is freed first, and a ticket that changed is handed on. The error does not decide: an error of announce
// can be the loss of another lease.
func (u *use) failed(ctx context.Context, err error) error {
	switch {
	case u.over == belief.ErrExpired:
		freeErr := u.free(cell.WithoutEnd(ctx))
		if freeErr != nil && !errors.Is(freeErr, belief.ErrLost) && !errors.Is(freeErr, belief.ErrReleased) {
			return errors.Join(err, fmt.Errorf("the lock was not released: %w", freeErr))
		}
		return err
	case u.over != nil, len(u.t.PendingWrites) == 0:
		return err
	}
	return &lockrec.TicketError{Ticket: u.t, Err: err}
}

// undecided is the error of a call to the store that has not shown whether the lease is over. It can contain the cause
// of the caller's context, such as the end of another lease: undecided does not match that.
type undecided struct{ error }

func (e undecided) Is(target error) bool {
	var lost *belief.LostError
	return target != belief.ErrReleased && !(errors.As(e.error, &lost) && errors.Is(lost, target)) && errors.Is(e.error, target)
}

func (e undecided) As(target any) bool {
	_, lost := target.(**belief.LostError)
	return !lost && errors.As(e.error, target)
}

// free frees the lock in the state that the ticket names, and in no other.
func (u *use) free(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, u.cell.Space.Set.ReleaseTimeout)
	defer cancel()
	late := u.left() <= 0
	t := u.cell.OverGrant(u.base)
	for pause := u.cell.Space.ResolveBackoff(); ; {
		base, err := u.cell.WithHighestMark(ctx, u.base.Rec)
		if err != nil {
			return undecided{err}
		}
		rec := lockrec.Freed(base, u.cell.Space.Clock.Wall())
		rec.Nonce = rand.Text()
		f := t.Send(ctx, &rec, u.cell.Space.Clock.SinceStart())
		switch {
		case f.Now == nil, f.Resolution == store.ResolutionPending:
			if err := u.pause(ctx, pause, f); err != nil {
				return err
			}
			continue
		case f.Resolution == store.ResolutionApplied:
			u.cell.Note(f.Now)
		default:
			err := u.found(f.Now)
			if err == nil {
				t = u.cell.OverGrant(u.base) // on a write that the ticket announces
				continue
			}
			if f.Resolution == store.ResolutionNotApplied || late || errors.Is(err, lockrec.ErrTicketUsed) {
				return err
			}
			// Applied, and followed by another's state, for all that can be known.
		}
		switch {
		case u.base.Rec.State == lockrec.Broken:
			return u.lost(lockrec.ErrBroken)
		case late:
			return u.lost(belief.ErrExpired)
		}
		return nil
	}
}
