package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
)

// Ticket carries a lease from one process to another: it can be stored as JSON.
// Whoever has it can renew and release the lease, so keep it as one keeps a key.
type Ticket struct {
	Name    string        `json:"name"`
	Token   uint64        `json:"token"`
	Grant   string        `json:"grant"`
	Version store.Version `json:"version"`
	TTL     time.Duration `json:"ttl_ns"`

	// When the last write that is known to be applied was sent: by the wall clock,
	// and by the boot-time clock of an epoch. The later reading of the two counts.
	Sent     time.Time     `json:"sent"`
	Epoch    string        `json:"epoch,omitempty"`
	SentBoot time.Duration `json:"sent_boottime_ns,omitempty"`
}

// Detach ends the guard without releasing the lock, and returns a ticket with
// which any process can go on; see [Client.Attach]. Nobody renews the lease until
// then. The contexts of all guards of the handle end, with the cause
// [ErrDetached]. Take such leases with Options.NoPresence, or others may take the
// lock as soon as this process ends.
func (g *Guard) Detach(ctx context.Context) (Ticket, error) {
	gr := g.g
	if err := g.Err(); err != nil {
		return Ticket{}, err
	}
	if !gr.halt(ErrDetached) {
		return Ticket{}, gr.cause()
	}
	if gr.finishing.CompareAndSwap(false, true) {
		gr.drain(ctx)
		gr.c.remove(gr)
		close(gr.finished)
	}
	<-gr.finished
	now := gr.standing() // draining has cut off whoever was writing
	t := Ticket{Name: g.Name(), Token: gr.token, Grant: gr.id, Version: now.version, TTL: gr.c.set.TTL, Epoch: sysclock.Epoch()}
	// In this order: a process that is stopped in between makes the ticket older.
	wall := gr.c.clock.wall()
	boot, ok := sysclock.Boottime()
	gr.mu.Lock()
	ago := gr.c.clock.look() - gr.sent
	gr.mu.Unlock()
	t.Sent = wall.Add(-ago)
	if ok {
		t.SentBoot = boot - ago
	}
	return t, nil
}

// Attach takes up a lease that another process, or an earlier life of this one,
// detached. It reads the record and renews the lease, in two requests, and fails
// with a [*LostError] if the lease is over, be it that its time has passed by any of
// the clocks of this machine, or that somebody else holds the lock. Of two that
// attach with one ticket the later one wins, and the other's guard is lost. The
// client must have the TTL of the ticket. With Options.Manual the guard makes no
// further renewals: call [Guard.Renew].
//
// A lease whose time has passed, but which nobody took, is freed in the store
// before the error is returned.
func (c *Client) Attach(ctx context.Context, t Ticket) (*Guard, error) {
	h, err := c.Handle(t.Name)
	if err != nil {
		return nil, err
	}
	if t.TTL != c.set.TTL {
		return nil, fmt.Errorf("%w: the ticket has a TTL of %v, the client one of %v", ErrOptions, t.TTL, c.set.TTL)
	}
	if t.Grant == "" || t.Token == 0 {
		return nil, fmt.Errorf("%w: the ticket is empty", ErrOptions)
	}
	ctx, cancel := c.bind(ctx)
	defer cancel(nil)
	call, done := context.WithTimeout(ctx, c.set.callTimeout())
	now, err := c.fetch(call, h.name, h.key)
	done()
	if err != nil {
		return nil, err
	}
	lost := &LostError{Name: t.Name, Token: t.Token, Reason: ErrStolen}
	switch {
	case now.rec == nil:
		lost.Reason = ErrRemoved
		return nil, lost
	case now.rec.State == Broken:
		lost.Reason = ErrBroken
		return nil, lost
	case now.rec.State == Free && now.rec.Grant == t.Grant:
		return nil, fmt.Errorf("lock %q: %w", t.Name, ErrReleased)
	case now.rec.State == Free || now.rec.Grant != t.Grant || now.rec.Token != t.Token:
		lost.By = now.rec.Holder
		return nil, lost
	}
	if t.age(c.clock) >= c.set.trust {
		lost.Reason = ErrExpired
		return nil, errors.Join(lost, c.freeExpired(ctx, h.key, now))
	}
	// What the ticket says of time is another machine's word. So the lease counts
	// from a write of this process's own, conditional on what it has read: nobody
	// has taken the lock before it, and no other copy of the ticket goes on beside.
	g := newGrant(ctx, h, now, now, c.clock.look())
	guard := g.guard(ctx)
	if guard == nil || !c.add(g) {
		g.halt(ErrClosed)
		g.drain(ctx)
		return nil, fmt.Errorf("lock %q: %w", t.Name, ErrClosed)
	}
	h.mu.Lock()
	h.grant = g
	h.mu.Unlock()
	for pause := c.settling(); ; {
		err := guard.Renew(ctx)
		if err == nil {
			return guard, nil
		}
		if lost := guard.Err(); lost != nil || permanent(err) || pause.wait(ctx) != nil {
			// As it was: the ticket is still good, unless the lease is lost.
			_, _ = guard.Detach(ctx)
			return nil, cmp.Or(lost, err)
		}
	}
}

// age is how long ago the ticket's lease was last renewed, by the clock that says
// most.
func (t *Ticket) age(c *clock) time.Duration {
	age := c.wall().Sub(t.Sent)
	if boot, ok := sysclock.Boottime(); ok && t.Epoch != "" && t.Epoch == sysclock.Epoch() {
		age = max(age, boot-t.SentBoot)
	}
	return max(age, 0)
}

// freeExpired frees a lease that is over and that nobody took. The write names the
// version that was read, so that it hurts nobody.
func (c *Client) freeExpired(ctx context.Context, key string, now *seen) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.set.ReleaseTimeout)
	defer cancel()
	rec := *now.rec
	rec.State, rec.Presence, rec.Nonce, rec.Renewed = Free, "", rand.Text(), c.clock.wall()
	value, err := rec.encode()
	if err != nil {
		return err
	}
	if _, err = c.put(ctx, key, now.version, value); err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("lock %q was not freed: %w", rec.Name, err)
	}
	return nil
}
