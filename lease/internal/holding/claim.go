package holding

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/store"
)

// claim writes a new grant over the state base and resolves the write. It returns one of three: the
// grant; the state that replaced base, so that the claim can never be applied; or an error. An
// error that matches [cell.ErrUnresolved] means that the claim may still be applied. After any other
// error it never is.
//
// Another client may write between any two steps, so that every write names the version of base. A
// reply may be lost, and the write may be applied at any later time. So all nonces are remembered
// until one of them is seen or base has been replaced.
func (h *Holder) claim(ctx context.Context, base *cell.Seen, reason string) (*belief.Guard, *cell.Seen, error) {
	c := h.c
	if s := h.Under; s != nil {
		if err := s.beginClaim(h.Name()); err != nil {
			return nil, nil, fmt.Errorf("lock %q: %w", h.Name(), err)
		}
		defer s.endClaim(h.Name())
	}
	at := c.Space.Clock.SinceStart() // before the token is chosen, which may depend on the time
	rec, err := h.newRecord(ctx, base)
	if err != nil {
		return nil, nil, err
	}
	t := h.Cell.OverGrant(base)
	t.Cause = &lockrec.Cause{Reason: reason}
	f := t.Write(ctx, rec, at, func() {
		rec.Granted = c.Space.Clock.Wall()
		rec.Renewed = rec.Granted
		if c.Space.Set.MinInterval > 0 && h.own == nil {
			rec.NotBefore = rec.Granted.Add(c.Space.Set.MinInterval)
		}
	})
	switch {
	case f.Resolution == store.ResolutionApplied:
		return h.begin(ctx, base, f, lockrec.Member{Grant: rec.Grant, Token: f.Now.Rec.Token}, reason)
	case f.Resolution == store.ResolutionPending:
		return nil, nil, errors.Join(f.Err, h.giveUp(ctx, t, rec))
	case f.Now != nil: // base was replaced: no earlier write can still be applied
		if f.Now.Rec != nil && f.Now.Rec.State == lockrec.Broken && f.Now.Rec.Grant == rec.Grant {
			h.abandon(rec.Grant) // broken before it was handed out: no waiter has to wait for it
		}
		return nil, f.Now, nil
	case f.Resolution == store.ResolutionNotApplied, errors.Is(f.Err, store.ErrCorrupt): // an unreadable record has replaced base
		return nil, nil, f.Err
	case t.NoReadBack && h.Under != nil: // otherwise it would hold the lock for as long as the session lives
		return nil, nil, errors.Join(f.Err, h.giveUp(ctx, h.Cell.Over(base), rec))
	case t.NoReadBack:
		return nil, nil, fmt.Errorf("%w; the lock may stay held for %v: %w", f.Err, c.Space.Set.Expiry(rec.TTL), cell.ErrUnresolved)
	}
	return nil, nil, errors.Join(f.Err, h.giveUp(ctx, t, rec))
}

// newRecord makes the record of a new grant that follows base.
func (h *Holder) newRecord(ctx context.Context, base *cell.Seen) (*lockrec.Record, error) {
	c := h.c
	rec := &lockrec.Record{Kind: h.Cell.Kind(), Name: h.Name(), State: lockrec.Held, TTL: c.Space.Set.TTL, Linger: h.Opts.Linger}
	switch {
	case h.own != nil: // a session is used once, and no token of it is compared
		rec.Grant, rec.Token = h.Name(), 1
		c.Sign(ctx, rec)
		return rec, nil
	case h.Under != nil:
		rec.Session, rec.Grant = h.Under.ID(), h.Under.nextGrant()
	default:
		rec.Grant = rand.Text()
	}
	if base.Rec != nil {
		if err := lockrec.Succeed(rec, base.Rec); err != nil {
			return nil, err
		}
	}
	if h.Job != nil {
		h.Job.Begin(rec)
	}
	if err := h.raiseToken(ctx, base, rec); err != nil {
		return nil, err
	}
	c.Sign(ctx, rec)
	return rec, h.addCampaign(rec)
}

// dress completes rec, in which this client gave the lock to itself, as newRecord would.
func (h *Holder) dress(ctx context.Context, rec *lockrec.Record) error {
	rec.Granted, rec.Linger = rec.Renewed, h.Opts.Linger
	if h.c.Space.Set.MinInterval > 0 {
		rec.NotBefore = rec.Granted.Add(h.c.Space.Set.MinInterval)
	}
	h.c.Sign(ctx, rec)
	return h.addCampaign(rec)
}

// addCampaign puts the value of a candidate into the record of its claim.
func (h *Holder) addCampaign(rec *lockrec.Record) error {
	if value := h.campaigns(); value != nil {
		return lockrec.SetData(rec, *value)
	}
	return nil
}

// raiseToken raises the token of rec, which follows base, above all tokens that others may have
// seen.
func (h *Holder) raiseToken(ctx context.Context, base *cell.Seen, rec *lockrec.Record) error {
	c := h.c
	if base.Rec == nil || h.IsAbandoned(base.Rec.Grant) {
		// Not 1: after a store was emptied by hand, new tokens must be above those that holders
		// still have. The same is true for a record that a claim of this handle made where there
		// was none, if that claim took too long.
		rec.Token = max(rec.Token, lockrec.FirstToken(c.Space.Clock.Wall()))
		if c.Space.Set.CheckTokenFloor {
			floor, err := c.Space.Floor(ctx)
			if err == nil {
				err = lockrec.Raise(rec, floor)
			}
			if err != nil {
				return fmt.Errorf("lock %q: reading the token floor: %w", h.Name(), err)
			}
		}
	}
	h.mu.Lock()
	g := h.grant
	h.mu.Unlock()
	if g != nil {
		if err := lockrec.Raise(rec, g.Token()); err != nil {
			return err
		}
	}
	// A claim that lost, or whose reply was lost, may have shown its token to others.
	mark, err := h.Cell.HighestToken(ctx)
	if err != nil {
		return fmt.Errorf("lock %q: %w", h.Name(), err)
	}
	return lockrec.Raise(rec, mark)
}

// Sign makes rec name this process as the holder from now on, and removes what named the holder
// before. Other clients evaluate by it whether the holder lives.
func (c *Client) Sign(ctx context.Context, rec *lockrec.Record) {
	rec.Holder, rec.Process, rec.Presence = c.Space.Set.Holder, cell.ProcessID(), ""
	if c.Space.Presence != nil {
		// Without an announcement others wait for the TTL of a dead holder. That is the only loss.
		rec.Presence, _ = c.Space.Presence.Announce(ctx)
	}
}

// begin makes the grant that was written, and its first guard.
func (h *Holder) begin(ctx context.Context, base *cell.Seen, f cell.Finding, m lockrec.Member, reason string) (*belief.Guard, *cell.Seen, error) {
	c, now, sent := h.c, f.Now, f.Try.At
	// late handles a reply so slow that no trust is left, or a session that has ended meanwhile. No
	// guard of this grant was handed out, so that the next grant may follow at once.
	late := func(now *cell.Seen) (*belief.Guard, *cell.Seen, error) {
		h.abandon(m.Grant)
		switch {
		case h.Under != nil:
			return nil, nil, errors.Join(fmt.Errorf("lock %q: %w", h.Name(), h.Under.Err()), h.withdraw(ctx, h.leftover(now, m.Grant)))
		case h.own != nil: // the session is never handed out
			return nil, nil, errors.Join(errLate, h.giveUp(ctx, h.Cell.Over(now), now.Rec))
		}
		return nil, now, nil
	}
	if h.Under == nil && c.Space.Clock.SinceStart() >= sent+c.Space.Set.Trust() || h.Under != nil && h.Under.Err() != nil {
		return late(now)
	}
	g := h.believe(ctx, base, now, m, sent, f.Durable, reason)
	guard := g.Join(ctx)
	if guard == nil { // the process was stopped here until the trust was over
		return late(g.Abandon(ctx))
	}
	if h.own != nil {
		h.own.guard = guard
	}
	if !c.add(h, g) {
		if h.Under != nil {
			g.Check() // ends the grant with the session
			return late(g.Abandon(ctx))
		}
		return nil, nil, errors.Join(cell.ErrClosed, g.Discard(ctx, cell.ErrClosed))
	}
	h.mu.Lock()
	h.passed = h.grant != nil && base.Rec != nil && base.Rec.Process != cell.ProcessID()
	h.grant = g
	h.abandoned = nil
	h.mu.Unlock()
	h.Cell.Note(now)
	c.Waiting.Granted(&h.Cell)
	if reason != "" {
		e := h.event(event.TakenOver)
		e.Token, e.Reason = g.Token(), reason
		if base.Rec != nil {
			e.Holder = base.Rec.Holder
		}
		c.Space.Emit(e)
	}
	g.Emit(event.Acquired, h.took(ctx), nil)
	g.Acknowledge(now.Rec)
	return guard, nil, nil
}

// believe begins the belief in the grant m, which is in the record of the state now, in place of
// base. The reason is that of a takeover.
func (h *Holder) believe(ctx context.Context, base, now *cell.Seen, m lockrec.Member, sent time.Duration, firm bool, reason string) *belief.Grant {
	terms := belief.Terms{Grant: m.Grant, Token: m.Token, Special: belief.Special{Linger: h.Opts.Linger, Periodic: h.Job != nil, TookOver: reason}}
	if m.Mode == lockrec.ModeShared || m.Mode == lockrec.ModeSlot {
		terms.Member = &m
	}
	if h.Job != nil {
		terms.Before = h.Job.Before(m.Grant)
	}
	h.mu.Lock()
	terms.WasLastHolder = h.grant != nil && base.Rec != nil && base.Rec.Grant == h.grant.ID() && !h.grant.IsDetached()
	h.mu.Unlock()
	return belief.Begin(ctx, &h.Cell, now, sent, firm, terms)
}

// Resume begins the belief in a grant that another process has left to this one, in place of before.
// The guard is nil if the grant is over already, and open is false if the client is closed.
func (h *Holder) Resume(ctx context.Context, before, now *cell.Seen, sent time.Duration, firm bool) (g *belief.Grant, guard *belief.Guard, open bool) {
	g = h.believe(ctx, before, now, lockrec.Member{Grant: now.Rec.Grant, Token: now.Rec.Token}, sent, firm, "")
	if guard = g.Join(ctx); guard == nil {
		return g, nil, true
	}
	if !h.c.add(h, g) {
		return g, guard, false
	}
	h.mu.Lock()
	h.grant = g
	h.mu.Unlock()
	h.Cell.Note(now)
	return g, guard, true
}

// owner is a handle as its grants see it.
type owner Holder

// Session returns the grant of the session that the lock is under; nil for a plain lease.
func (o *owner) Session() *belief.Grant {
	if o.Under == nil {
		return nil
	}
	return o.Under.Grant()
}

// Ended ends the locks of the session whose grant has ended.
func (o *owner) Ended(cause error) {
	if o.own != nil {
		o.own.end(cause)
	}
}

// Renewed uses the sign that the store answers.
func (o *owner) Renewed() {
	if o.own != nil {
		o.own.tidy()
	}
}

// Named notes the locks that the record of the session names.
func (o *owner) Named(locks []string) {
	if o.own != nil {
		o.own.addNamed(locks)
	}
}

// Wanted notes that others want the lock.
func (o *owner) Wanted() {
	o.mu.Lock()
	(*Holder)(o).used().contended = true
	o.mu.Unlock()
}

// Released takes the grant from those that Close has to end.
func (o *owner) Released(g *belief.Grant) { o.c.remove((*Holder)(o), g) }

// Depart takes a grant that is one of several out of the record.
func (o *owner) Depart(ctx context.Context, base *cell.Seen, grant string) (ended *cell.Seen, _ error) {
	return (*Holder)(o).depart(ctx, base, grant)
}

// Remember makes the session try again to free the lock.
func (o *owner) Remember(t *cell.Tries, g *belief.Grant) {
	o.Under.remember(&leftover{h: (*Holder)(o), t: t, rec: g.Record(), grant: g.ID(), free: g.Freeing})
}

// errLate is why a session was not opened.
var errLate = store.NewError("the store's reply came later than the session's TTL allows; use a longer TTL or try again", store.NotApplied)

// giveUp makes sure that no write in t, each of them a claim of rec, can still be applied. It
// continues after the end of ctx, which is usually why it is called. After an error the lock may be
// taken for up to a TTL although no guard holds it. Under a session, the lock may be taken until
// the session has freed it.
func (h *Holder) giveUp(ctx context.Context, t *cell.Tries, rec *lockrec.Record) error {
	h.abandon(rec.Grant)
	ctx, cancel := h.c.Space.Ending(ctx)
	defer cancel()
	l := &leftover{h: h, t: t, rec: rec, grant: rec.Grant, free: func(r *lockrec.Record) lockrec.Record {
		unbegun := *r // the grant was never handed out
		unbegun.NotBefore = time.Time{}
		free := lockrec.Freed(&unbegun, h.c.Space.Clock.Wall())
		if h.Job != nil {
			free.Run = h.Job.Before(rec.Grant)
		}
		return free
	}}
	err := l.withdraw(ctx)
	if err != nil && h.Under != nil {
		h.Under.remember(l)
	}
	return err
}
