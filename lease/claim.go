package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// maxCall bounds one request however long the lease is: a connection that hangs is
// noticed in time.
const maxCall = 30 * time.Second

// callTimeout bounds one request, so that several fit into a lease, but no shorter than
// the store has a write wait.
func (s *settings) callTimeout() time.Duration {
	return max(min(s.TTL/2, maxCall), s.writeTime())
}

// claim writes a new grant over the state base and finds out what became of it. It
// returns one of three: the grant; the state that stands in its place, so that the claim
// can never be applied; or an error. An error that matches [ErrUnresolved] says that the
// claim may yet be applied, and any other that it never is.
//
// Another client may write between any two steps, so that every write names the version
// of base. A reply may be lost, and the write may be applied at any later time. So all
// nonces are remembered until one of them is seen or base has been replaced.
func (h *Handle) claim(ctx context.Context, base *seen, reason string) (*Guard, *seen, error) {
	c := h.c
	at := c.clock.look() // before the token is chosen, which may rest on the time
	rec, err := h.newRecord(ctx, base)
	if err != nil {
		return nil, nil, err
	}
	settled, cancel := context.WithTimeout(ctx, max(min(c.set.TTL, 4*maxCall), c.set.callTimeout()))
	defer cancel()
	t := h.over(base.version)
	t.noReadBack = c.set.traits.NoReadBack
	for pause := c.settling(); ; {
		rec.Nonce, rec.Granted = rand.Text(), c.clock.wall()
		rec.Renewed = rec.Granted
		if c.set.AtLeast > 0 {
			rec.NotBefore = rec.Granted.Add(c.set.AtLeast)
		}
		f := t.send(settled, rec, at)
		switch {
		case f.fate == store.FateApplied:
			return h.begin(ctx, base, f, reason)
		case f.fate == store.FateNotYet: // the same again, on the same predecessor
			if pause.wait(settled) != nil {
				return nil, nil, errors.Join(f.err, h.giveUp(ctx, t, rec))
			}
			at = c.clock.look()
		case f.now != nil: // base was replaced: nothing that was sent can still be applied
			if f.now.rec != nil && f.now.rec.State == Broken && f.now.rec.Grant == rec.Grant {
				h.abandon(rec.Grant) // broken before it was handed out: no waiter has to wait for it
			}
			return nil, f.now, nil
		case f.fate == store.FateNever, errors.Is(f.err, store.ErrCorrupt): // so it is here
			return nil, nil, f.err
		case t.noReadBack:
			return nil, nil, fmt.Errorf("%w; the lock may be taken for %v: %w", f.err, c.set.expiry(rec.TTL), ErrUnresolved)
		default:
			return nil, nil, errors.Join(f.err, h.giveUp(ctx, t, rec))
		}
	}
}

// newRecord makes the record of a new grant that follows base.
func (h *Handle) newRecord(ctx context.Context, base *seen) (*Record, error) {
	c := h.c
	rec := &Record{Name: h.name, State: Held, Grant: rand.Text(), TTL: c.set.TTL}
	if base.rec != nil {
		token, err := base.rec.nextToken()
		if err != nil {
			return nil, err
		}
		rec.Token, rec.Data, rec.unknown = token, base.rec.Data, base.rec.unknown
		rec.Queue, rec.Run = base.rec.Queue, base.rec.Run
		rec.Run = rec.lastRun()
	}
	if h.job != nil {
		h.job.begin(rec)
	}
	h.mu.Lock()
	abandoned := base.rec != nil && h.abandoned[base.rec.Grant]
	h.mu.Unlock()
	if base.rec == nil || abandoned {
		// Not 1: after a store was emptied by hand its tokens must not start below those
		// that holders still have. The same goes for a record that was made where there was
		// none, by a claim that took too long.
		rec.Token = max(rec.Token, firstToken(c.clock.wall()))
		if c.set.Floor {
			floor, err := c.floor(ctx)
			if err == nil {
				err = rec.raise(floor)
			}
			if err != nil {
				return nil, fmt.Errorf("lock %q: floor of tokens: %w", h.name, err)
			}
		}
	}
	h.mu.Lock()
	g := h.grant
	h.mu.Unlock()
	if g != nil {
		if err := rec.raise(g.token); err != nil {
			return nil, err
		}
	}
	// A claim that lost, or whose reply was lost, may have shown its token.
	mark, err := store.HighestMark(ctx, c.st, h.key)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", h.name, err)
	}
	if err := rec.raise(mark); err != nil {
		return nil, err
	}
	c.sign(ctx, rec)
	if value := h.campaign.Load(); value != nil {
		if err := rec.setData(*value); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// sign makes rec name who holds the lease from now on: this process, and nothing of
// who held it before. Others judge by it whether the holder lives.
func (c *Client) sign(ctx context.Context, rec *Record) {
	rec.Holder, rec.Process, rec.Presence = c.set.Holder, processID(), ""
	if c.presence != nil {
		// Without an announcement a dead holder is waited out; no more is lost.
		rec.Presence, _ = c.presence.Announce(ctx)
	}
}

// begin makes the grant that was written, and its first guard.
func (h *Handle) begin(ctx context.Context, base *seen, f finding, reason string) (*Guard, *seen, error) {
	c, now, sent := h.c, f.now, f.try.at
	if c.clock.look() >= sent+c.set.trust {
		// The reply took so long that no trust is left. No guard of this grant was handed
		// out, so that the next grant may follow at once.
		h.abandon(now.rec.Grant)
		return nil, now, nil
	}
	g := newGrant(ctx, h, base, now, sent, f.durable)
	guard := g.guard(ctx)
	if guard == nil { // stopped here until the trust was over
		h.abandon(g.id)
		g.drain()
		return nil, g.standing(), nil
	}
	if !c.add(g) {
		g.halt(ErrClosed)
		ctx, cancel := c.ending(ctx)
		defer cancel()
		g.drain()
		return nil, nil, errors.Join(ErrClosed, g.free(ctx))
	}
	h.mu.Lock()
	h.passed = h.grant != nil && base.rec != nil && base.rec.Process != processID()
	h.grant, h.began = g, c.clock.look()
	h.abandoned = nil
	h.mu.Unlock()
	h.note(now)
	c.granted(h)
	if reason != "" {
		e := Event{Kind: EventTakenOver, Name: h.name, Token: g.token, Reason: reason}
		if base.rec != nil {
			e.Holder = base.rec.Holder
		}
		c.emit(e)
	}
	c.emit(Event{Kind: EventAcquired, Name: h.name, Token: g.token, Deadline: g.deadline()})
	return guard, nil, nil
}

// giveUp makes sure that the claims of rec, of which t may yet be applied, can't be: it
// writes a free record over the same predecessor, so that the predecessor is gone.
// It does not heed the end of ctx, which is usually why it is called. After an
// error the lock may be taken for up to a TTL although no guard holds it.
func (h *Handle) giveUp(ctx context.Context, t *tries, rec *Record) error {
	c := h.c
	h.abandon(rec.Grant)
	ctx, cancel := c.ending(ctx)
	defer cancel()
	free := c.unbegun(rec)
	for pause := c.settling(); ; {
		if h.job != nil {
			free.Run = h.job.before[rec.Grant]
		}
		free.Nonce = rand.Text()
		f := t.send(ctx, &free, c.clock.look())
		switch now := f.now; {
		case f.fate == store.FateNotYet:
			// Not applied yet, neither the claim nor this.
		case now == nil && f.fate == store.FateNever:
			return nil
		case now == nil:
			return fmt.Errorf("%w; the lock may be taken for %v: %w", ErrUnresolved, c.set.expiry(rec.TTL), f.err)
		case now.rec != nil && now.rec.State != Free && now.rec.Grant == rec.Grant:
			// The claim has landed, and may have been broken: free it where it is.
			t, free = h.over(now.version), c.unbegun(now.rec)
		default:
			h.note(now)
			return nil
		}
		if pause.wait(ctx) != nil {
			return fmt.Errorf("%w; the lock may be taken for %v", ErrUnresolved, c.set.expiry(rec.TTL))
		}
	}
}

// unbegun frees the lock of a grant that was never handed out.
func (c *Client) unbegun(r *Record) Record {
	free := *r
	free.NotBefore = time.Time{}
	return free.freed(c.clock.wall())
}
