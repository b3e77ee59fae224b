package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

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
	gr.mu.Lock()
	gr.detached = true
	gr.mu.Unlock()
	if !gr.halt(ErrDetached) {
		return Ticket{}, gr.cause()
	}
	gr.finish.Do(func() {
		defer close(gr.finished)
		defer gr.c.remove(gr)
		gr.drain(ctx)
	})
	select {
	case gr.write <- struct{}{}:
		defer func() { <-gr.write }()
	case <-ctx.Done():
		return Ticket{}, context.Cause(ctx)
	}
	t := Ticket{Name: g.Name(), Token: gr.token, Grant: gr.id, Version: gr.version, TTL: gr.c.set.TTL, Epoch: epoch()}
	now := gr.c.clock.look()
	gr.mu.Lock()
	ago := now - gr.sent
	gr.mu.Unlock()
	t.Sent = gr.c.clock.wall().Add(-ago)
	if boot, ok := systemBoottime(); ok {
		t.SentBoot = boot - ago
	}
	return t, nil
}

// Attach takes up a lease that another process, or an earlier life of this one,
// detached. It reads the record, and fails with a [*LostError] if the lease is
// over, be it that its time has passed by any of the clocks of this machine, or
// that somebody else holds the lock. The client must have the TTL of the ticket.
// The guard counts from the last renewal, and with Options.Manual makes none of
// its own: call [Guard.Renew].
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
	// The record may be newer than the ticket (a renewal whose ticket was not
	// stored): then the lease lasts longer than is known here, which is harmless.
	g := newGrant(ctx, h, now, now, c.clock.look()-t.age(c.clock))
	if g.check() == 0 {
		g.renewals.Wait()
		lost.Reason = ErrExpired
		return nil, errors.Join(lost, g.freeExpired(ctx))
	}
	if !c.add(g) {
		g.halt(ErrClosed)
		g.renewals.Wait()
		return nil, ErrClosed
	}
	h.mu.Lock()
	h.grant = g
	h.mu.Unlock()
	h.saw(now)
	return g.guard(ctx), nil
}

// age is how long ago the ticket's lease was last renewed, by the clock that says
// most.
func (t *Ticket) age(c *clock) time.Duration {
	age := c.wall().Sub(t.Sent)
	if boot, ok := systemBoottime(); ok && t.Epoch != "" && t.Epoch == epoch() {
		age = max(age, boot-t.SentBoot)
	}
	return max(age, 0)
}

// freeExpired frees a lease that is over and that nobody took. The write names the
// version that was read, so that it hurts nobody.
func (g *grant) freeExpired(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.c.set.ReleaseTimeout)
	defer cancel()
	rec := *g.rec
	rec.State, rec.Presence, rec.Nonce = Free, "", rand.Text()
	value, err := rec.encode()
	if err != nil {
		return err
	}
	if _, err = g.c.put(ctx, g.h.key, g.version, value); err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("lock %q was not freed: %w", g.h.name, err)
	}
	return nil
}
