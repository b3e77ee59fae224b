package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// holderSession is a session that holds locks for which goroutines of this client wait. It keeps
// what the client knows of the session's record, for all of them.
type holderSession struct {
	c        *Client
	cell     *cell
	turn     chan struct{} // taken by the goroutine that reads the record, or revokes the session
	lastRead time.Time     // when the record was read last
	final    *seen         // the state that ended the session, once the store has resolved it
}

// holderSession returns what the client knows of a session.
func (c *Client) holderSession(id string) (*holderSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.holderSessions.get(id)
	if !ok {
		var err error
		if r, err = c.newHolderSession(id); err != nil {
			return nil, err
		}
		c.holderSessions.put(id, r)
	}
	return r, nil
}

// newHolderSession returns a holderSession of which nothing is known, and that the client does not
// remember.
func (c *Client) newHolderSession(id string) (*holderSession, error) {
	of, err := c.space.session(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return &holderSession{c: c, cell: of, turn: make(chan struct{}, 1)}, nil
}

// mayBeOver reports whether the lock may be evaluated by a state that was read earlier. It may if
// its record names no session, or a session of which the client knows that it was revoked, or may
// be revoked now. mayBeOver sends nothing. The store refuses a claim over that state if another
// client has changed the lock meanwhile. Any other session is more likely to have released the lock
// meanwhile than to have died.
func (c *Client) mayBeOver(ctx context.Context, rec *Record) bool {
	if rec == nil || rec.Session == "" {
		return true
	}
	c.mu.Lock()
	r, known := c.holderSessions.get(rec.Session)
	c.mu.Unlock()
	if !known {
		return false
	}
	select {
	case r.turn <- struct{}{}: // not while another goroutine revokes the session
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return false
	}
	if r.final != nil {
		return r.final.rec.State == Revoked
	}
	now := r.cell.known()
	return now != nil && now.rec != nil && now.rec.State == Held && r.cell.judge(ctx, now).Open
}

// sessionOver decides whether the grants of a session in the lock's record are over. They are over
// only after the session's record was read or written as revoked or closed. sessionOver revokes a
// session that has not renewed its record for its TTL, or whose process is dead.
//
// Another client may write between any two steps. The revocation names the version of the session's
// record that was evaluated, so that a renewal makes it fail. Once the revocation is applied, the
// session can renew no more. The claim that follows names the version of s.
func (h *Handle) sessionOver(ctx context.Context, id string, ttl time.Duration) verdict {
	c := h.c
	if c.trusts(id) {
		return verdict{wait: c.space.set.expiry(ttl)} // no read is needed
	}
	failed := func(err error) verdict { return verdict{err: fmt.Errorf("lock %q: %w", h.name, err)} }
	r, err := c.holderSession(id)
	if err != nil {
		return failed(err)
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return failed(context.Cause(ctx))
	}
	for range maxRounds {
		now, err := r.readRecord(ctx, ttl)
		if err != nil {
			return failed(err)
		}
		switch step, v := lockrec.JudgeSession(now.rec, r.cell.facts(ctx, now, lockrec.Facts{})); step {
		case lockrec.StandIn:
			// The session may also have been closed since the lock was read, after the lock was freed.
			next, err := h.cell.reread(ctx)
			if err != nil {
				return failed(err)
			}
			if next.rec == nil || !lockrec.NamesSession(next.rec, id) {
				return verdict{next: next}
			}
			standIn := lockrec.NewStandIn(id, rand.Text(), ttl, c.space.clock.wall())
			if _, err = r.write(ctx, now, &standIn); err != nil {
				return failed(err)
			}
		case lockrec.AwaitSession:
			return verdict{wait: v.Wait}
		case lockrec.RevokeSession:
			if _, err := r.revoke(ctx, now, v.Reason); err != nil {
				return failed(err)
			}
		case lockrec.SessionOver:
			ended, err := r.confirmEnded(ctx, now)
			if err != nil {
				return failed(err)
			}
			if !ended {
				continue
			}
			if now.rec.State == Revoked {
				return verdict{open: true, reason: "its session was revoked"}
			}
			return verdict{open: true} // the session was closed, and has released the lock
		}
	}
	return verdict{wait: c.space.set.MinPoll}
}

// awaitSession returns true when the session that holds the lock may be over, and false when ctx
// ends. It writes nothing. All waiters for locks of one session share the reads.
func (h *Handle) awaitSession(ctx context.Context, id string, ttl time.Duration) bool {
	r, err := h.c.holderSession(id)
	if err != nil {
		return false // the next attempt reports the reason
	}
	for {
		select {
		case r.turn <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		now, err := r.readRecord(ctx, ttl)
		wait, over := h.c.space.set.rereadDelay(ttl), false
		if err == nil {
			step, v := lockrec.JudgeSession(now.rec, r.cell.facts(ctx, now, lockrec.Facts{}))
			wait, over = min(wait, v.Wait), step != lockrec.AwaitSession
		}
		<-r.turn
		if over || backoff.Sleep(ctx, max(wait, time.Millisecond)) != nil {
			return over
		}
	}
}

// trusts reports whether the session is one of this client's whose lease is still trusted.
func (c *Client) trusts(id string) bool {
	own := c.session(id)
	return own != nil && own.grant().check() > 0
}

// session returns the session of this client that has that id, or nil.
func (c *Client) session(id string) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

// readRecord returns the state of the session's record, as it was not long ago.
func (r *holderSession) readRecord(ctx context.Context, ttl time.Duration) (*seen, error) {
	if r.final != nil {
		return r.final, nil
	}
	set, clock := r.cell.space.set, r.cell.space.clock
	now := r.cell.known()
	if now != nil && now.rec != nil && !r.lastRead.IsZero() && clock.monotonic().Sub(r.lastRead) < set.rereadDelay(ttl) {
		return now, nil
	}
	now, err := r.cell.readRecord(ctx)
	if err == nil {
		r.lastRead = clock.monotonic()
	}
	return now, err
}

// confirmEnded reports whether the session has ended for certain. A state that was read without
// resolving writes may never take effect.
func (r *holderSession) confirmEnded(ctx context.Context, now *seen) (bool, error) {
	if _, peeks := store.As[store.UncommittedGetter](r.cell.space.st); peeks && r.final == nil {
		final, err := r.cell.reread(ctx)
		if err != nil || final.version != now.version {
			return false, err
		}
	}
	r.final = now
	return true, nil
}

// reread reads the record, after the store has resolved writes in doubt.
func (c *cell) reread(ctx context.Context) (*seen, error) {
	now, err := c.fetch(ctx)
	if err != nil {
		return nil, err
	}
	return c.note(now), nil
}

// revoke ends the session over the state now, and reports whether this is what ended it.
func (r *holderSession) revoke(ctx context.Context, now *seen, reason string) (bool, error) {
	rec := lockrec.Revoke(now.rec)
	applied, err := r.write(ctx, now, &rec)
	if applied {
		r.final = r.cell.known()
		r.c.emit(Event{Kind: EventRevoked, Session: r.cell.name, Holder: rec.Holder, Reason: reason})
	}
	return applied, err
}

// write writes the session's record over the state base, and resolves the write. After an error the
// lock is not taken: the write may be applied, and the next read shows that.
func (r *holderSession) write(ctx context.Context, base *seen, rec *Record) (applied bool, _ error) {
	c := r.c
	ctx, cancel := context.WithTimeout(ctx, max(min(c.space.set.TTL, 4*maxCall), c.space.set.callTimeout()))
	defer cancel()
	t := r.cell.over(base.version, base.rec)
	t.noReadBack = c.space.set.traits.CannotReadOwnWrites
	for pause := c.space.resolveBackoff(); ; {
		rec.Nonce = rand.Text()
		f := t.send(ctx, rec, c.space.clock.sinceStart())
		switch {
		case f.resolution == store.ResolutionPending:
			if pause.wait(ctx) != nil {
				return false, fmt.Errorf("revoking the session of the holder: %w: %w", ErrUnresolved, errors.Join(f.err, context.Cause(ctx)))
			}
		case f.now != nil:
			r.cell.note(f.now)
			r.lastRead = c.space.clock.monotonic()
			return f.resolution == store.ResolutionApplied && f.now.rec != nil && f.now.rec.State == rec.State, nil
		default:
			return false, fmt.Errorf("revoking the session of the holder: %w", f.err)
		}
	}
}
