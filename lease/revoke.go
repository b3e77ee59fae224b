package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/store"
)

// holderSession is a session that holds locks for which goroutines of this client wait. It keeps
// what the client knows of the session's record, for all of them.
type holderSession struct {
	c        *Client
	cell     *cell.Cell
	turn     chan struct{} // taken by the goroutine that reads the record, or revokes the session
	lastRead time.Time     // when the record was read last
	final    *cell.Seen    // the state that ended the session, once the store has resolved it
}

// holderSession returns what the client knows of a session.
func (c *Client) holderSession(id string) (*holderSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.holderSessions.Get(id)
	if !ok {
		var err error
		if r, err = c.newHolderSession(id); err != nil {
			return nil, err
		}
		c.holderSessions.Put(id, r)
	}
	return r, nil
}

// newHolderSession returns a holderSession of which nothing is known, and that the client does not
// remember.
func (c *Client) newHolderSession(id string) (*holderSession, error) {
	of, err := c.space.Session(id)
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
	r, known := c.holderSessions.Get(rec.Session)
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
		return r.final.Rec.State == Revoked
	}
	now := r.cell.Known()
	return now != nil && now.Rec != nil && now.Rec.State == Held && r.cell.Judge(ctx, now).Open
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
		return verdict{wait: c.space.Set.Expiry(ttl)} // no read is needed
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
		switch step, v := lockrec.JudgeSession(now.Rec, r.cell.Facts(ctx, now, lockrec.Facts{})); step {
		case lockrec.StandIn:
			// The session may also have been closed since the lock was read, after the lock was freed.
			next, err := h.cell.Reread(ctx)
			if err != nil {
				return failed(err)
			}
			if next.Rec == nil || !lockrec.NamesSession(next.Rec, id) {
				return verdict{next: next}
			}
			standIn := lockrec.NewStandIn(id, rand.Text(), ttl, c.space.Clock.Wall())
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
			if now.Rec.State == Revoked {
				return verdict{open: true, reason: "its session was revoked"}
			}
			return verdict{open: true} // the session was closed, and has released the lock
		}
	}
	return verdict{wait: c.space.Set.MinPoll}
}

// awaitSession is [Client.awaitSession] for a handle, which may have read the session not long ago.
func (h *Handle) awaitSession(ctx context.Context, r *Record) bool {
	return !h.c.trusts(r.Session) && backoff.Sleep(ctx, h.readDueIn(r.Grant)) == nil && h.c.awaitSession(ctx, r)
}

// awaitSession returns true when the session that holds the lock may be over, and false when ctx
// ends or the session is this client's and trusted. It writes nothing. All waiters for locks of one
// session share the reads.
func (c *Client) awaitSession(ctx context.Context, holder *Record) bool {
	ttl := holder.TTL
	if c.trusts(holder.Session) {
		return false
	}
	r, err := c.holderSession(holder.Session)
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
		wait, over := c.space.Set.RereadDelay(ttl), false
		if err == nil {
			step, v := lockrec.JudgeSession(now.Rec, r.cell.Facts(ctx, now, lockrec.Facts{}))
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
	return own != nil && own.grant().Check() > 0
}

// session returns the session of this client that has that id, or nil.
func (c *Client) session(id string) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

// readRecord returns the state of the session's record, as it was not long ago.
func (r *holderSession) readRecord(ctx context.Context, ttl time.Duration) (*cell.Seen, error) {
	if r.final != nil {
		return r.final, nil
	}
	set, clock := r.cell.Space.Set, r.cell.Space.Clock
	now := r.cell.Known()
	if now != nil && now.Rec != nil && !r.lastRead.IsZero() && clock.Monotonic().Sub(r.lastRead) < set.RereadDelay(ttl) {
		return now, nil
	}
	now, err := r.cell.Read(ctx)
	if err == nil {
		r.lastRead = clock.Monotonic()
	}
	return now, err
}

// confirmEnded reports whether the session has ended for certain. A state that was read without
// resolving writes may never take effect.
func (r *holderSession) confirmEnded(ctx context.Context, now *cell.Seen) (bool, error) {
	if _, peeks := store.As[store.UncommittedGetter](r.cell.Space.Store); peeks && r.final == nil {
		final, err := r.cell.Reread(ctx)
		if err != nil || final.Version != now.Version {
			return false, err
		}
	}
	r.final = now
	return true, nil
}

// revoke ends the session over the state now, and reports whether this is what ended it.
func (r *holderSession) revoke(ctx context.Context, now *cell.Seen, reason string) (bool, error) {
	rec := lockrec.Revoke(now.Rec)
	applied, err := r.write(ctx, now, &rec)
	if applied {
		r.final = r.cell.Known()
		r.c.space.Emit(event.Event{Kind: EventRevoked, Session: r.cell.Name, Holder: rec.Holder, Reason: reason})
	}
	return applied, err
}

// write writes the session's record over the state base, and resolves the write. After an error the
// lock is not taken: the write may be applied, and the next read shows that.
func (r *holderSession) write(ctx context.Context, base *cell.Seen, rec *Record) (applied bool, _ error) {
	c := r.c
	ctx, cancel := context.WithTimeout(ctx, c.space.Set.ResolveTimeout())
	defer cancel()
	t := r.cell.Over(base.Version, base.Rec)
	t.NoReadBack = c.space.Set.Traits.CannotReadOwnWrites
	f := t.Write(ctx, rec, c.space.Clock.SinceStart(), nil)
	switch {
	case f.Resolution == store.ResolutionPending:
		return false, fmt.Errorf("revoking the session of the holder: %w: %w", ErrUnresolved, errors.Join(f.Err, context.Cause(ctx)))
	case f.Now == nil:
		return false, fmt.Errorf("revoking the session of the holder: %w", f.Err)
	}
	r.cell.Note(f.Now)
	r.lastRead = c.space.Clock.Monotonic()
	return f.Resolution == store.ResolutionApplied && f.Now.Rec != nil && f.Now.Rec.State == rec.State, nil
}
