// Package membership is about the sessions that hold locks.
package membership

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/store"
)

// Peers are the sessions for whose locks goroutines of a client wait. It alone decides whether a
// session is over.
type Peers struct {
	space *cell.Space
	own   func(id string) *belief.Grant // of a session of this client; nil for any other

	mu    sync.Mutex
	known cell.Recents[*peer] // by their ids
}

// NewPeers returns the peers of a client. own returns the grant of a session of that client, and nil
// for any other session.
func NewPeers(space *cell.Space, own func(id string) *belief.Grant) *Peers {
	return &Peers{space: space, own: own}
}

// Verdict says whether a lock may be taken in the state that was seen.
type Verdict struct {
	lockrec.Verdict
	Next *cell.Seen // the newer state of the lock, to be evaluated in place of the earlier one
	Err  error      // why the evaluation failed
}

// peer is one of them. It keeps what the client knows of the session's record, for all goroutines.
type peer struct {
	cell     *cell.Cell
	turn     chan struct{} // taken by the goroutine that reads the record, or revokes the session
	lastRead time.Time     // when the record was read last
	final    *cell.Seen    // the state that ended the session, once the store has resolved it
}

// newPeer returns a peer of which nothing is known.
func (p *Peers) newPeer(id string) (*peer, error) {
	of, err := p.space.Session(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return &peer{cell: of, turn: make(chan struct{}, 1)}, nil
}

// take returns what the client knows of a session, for one goroutine at a time. The caller calls
// done.
func (p *Peers) take(ctx context.Context, id string) (r *peer, done func(), err error) {
	p.mu.Lock()
	r, ok := p.known.Get(id)
	if !ok {
		if r, err = p.newPeer(id); err == nil {
			p.known.Put(id, r)
		}
	}
	p.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	select {
	case r.turn <- struct{}{}:
		return r, func() { <-r.turn }, nil
	case <-ctx.Done():
		return nil, nil, store.Cause(ctx)
	}
}

// Trusts reports whether the session is one of this client's whose lease is still trusted.
func (p *Peers) Trusts(id string) bool {
	own := p.own(id)
	return own != nil && own.Check() > 0
}

// look returns the state of the session's record, as it was not long ago, and what follows from it.
func (r *peer) look(ctx context.Context, ttl time.Duration) (now *cell.Seen, step lockrec.SessionStep, v lockrec.Verdict, err error) {
	set, clock := r.cell.Space.Set, r.cell.Space.Clock
	if now = r.final; now == nil {
		now = r.cell.Known()
		if now == nil || now.Rec == nil || r.lastRead.IsZero() || clock.Monotonic().Sub(r.lastRead) >= set.RereadDelay(ttl) {
			if now, err = r.cell.Read(ctx); err != nil {
				return nil, step, v, err
			}
			r.lastRead = clock.Monotonic()
		}
	}
	step, v = r.judge(ctx, now)
	return now, step, v, nil
}

func (r *peer) judge(ctx context.Context, now *cell.Seen) (lockrec.SessionStep, lockrec.Verdict) {
	return lockrec.JudgeSession(now.Rec, r.cell.Facts(ctx, now, lockrec.Facts{}))
}

// MayBeOver reports whether the lock may be evaluated by a state that was read earlier. It may if
// its record names no session, or a session of which the client knows that it was revoked, or may
// be revoked now. MayBeOver sends nothing. The store refuses a claim over that state if another
// client has changed the lock meanwhile. Any other session is more likely to have released the lock
// meanwhile than to have died.
func (p *Peers) MayBeOver(ctx context.Context, rec *lockrec.Record) bool {
	if rec == nil || rec.Session == "" {
		return true
	}
	p.mu.Lock()
	_, known := p.known.Get(rec.Session)
	p.mu.Unlock()
	if !known {
		return false
	}
	r, done, err := p.take(ctx, rec.Session) // not while another goroutine revokes the session
	if err != nil {
		return false
	}
	defer done()
	if r.final != nil {
		return r.final.Rec.State == lockrec.Revoked
	}
	now := r.cell.Known()
	if now == nil {
		return false
	}
	step, _ := r.judge(ctx, now)
	return step == lockrec.RevokeSession
}

// Over decides whether the grants of a session in the lock's record are over. They are over
// only after the session's record was read or written as revoked or closed. Over revokes a
// session that has not renewed its record for its TTL, or whose process is dead.
//
// Another client may write between any two steps. The revocation names the version of the session's
// record that was evaluated, so that a renewal makes it fail. Once the revocation is applied, the
// session can renew no more. The claim that follows names the version of the lock.
func (p *Peers) Over(ctx context.Context, lock *cell.Cell, id string, ttl time.Duration) Verdict {
	if p.Trusts(id) {
		return wait(p.space.Set.Expiry(ttl)) // no read is needed
	}
	failed := func(err error) Verdict { return Verdict{Err: fmt.Errorf("lock %q: %w", lock.Name(), err)} }
	r, done, err := p.take(ctx, id)
	if err != nil {
		return failed(err)
	}
	defer done()
	for range cell.MaxRounds {
		now, step, v, err := r.look(ctx, ttl)
		if err != nil {
			return failed(err)
		}
		switch step {
		case lockrec.StandIn:
			// The session may also have been closed since the lock was read, after the lock was freed.
			next, err := lock.Reread(ctx)
			if err != nil {
				return failed(err)
			}
			if next.Rec == nil || !lockrec.NamesSession(next.Rec, id) {
				return Verdict{Next: next}
			}
			standIn := lockrec.NewStandIn(id, rand.Text(), ttl, p.space.Clock.Wall())
			if _, err = r.write(ctx, now, &standIn); err != nil {
				return failed(err)
			}
		case lockrec.AwaitSession:
			return wait(v.Wait)
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
			over := Verdict{Verdict: lockrec.Verdict{Open: true}} // if it was closed, it has released the lock
			if now.Rec.State == lockrec.Revoked {
				over.Reason = "its session was revoked"
			}
			return over
		}
	}
	return wait(p.space.Set.MinPoll)
}

// OverAll evaluates the sessions of members. It returns those that are over, and how long it takes at
// most until another one is.
func (p *Peers) OverAll(ctx context.Context, lock *cell.Cell, members []lockrec.Member) (over map[string]bool, v Verdict) {
	ttls := map[string]time.Duration{}
	for _, m := range members {
		ttls[m.Session] = max(ttls[m.Session], m.TTL)
	}
	ids := slices.Collect(maps.Keys(ttls))
	var mu sync.Mutex
	over = map[string]bool{}
	workerpool.Each(len(ids), maxReads, func(i int) error {
		judged := p.Over(ctx, lock, ids[i], ttls[ids[i]])
		mu.Lock()
		defer mu.Unlock()
		switch {
		case v.Err != nil || v.Next != nil:
		case judged.Err != nil || judged.Next != nil:
			v = judged
		case judged.Open:
			over[ids[i]] = true
		default:
			v.Wait = max(v.Wait, judged.Wait)
		}
		return nil
	})
	return over, v
}

// maxReads bounds the sessions that are read at the same time.
const maxReads = 16

func wait(d time.Duration) Verdict { return Verdict{Verdict: lockrec.Verdict{Wait: d}} }

// Await returns true when the session that holds the lock in a record may be over, and false when
// ctx ends or the session is this client's and trusted. It writes nothing. All waiters for locks of
// one session share the reads.
func (p *Peers) Await(ctx context.Context, holder *lockrec.Record) bool {
	if p.Trusts(holder.Session) {
		return false
	}
	for {
		r, done, err := p.take(ctx, holder.Session)
		if err != nil {
			return false // the next attempt reports the reason
		}
		_, step, v, err := r.look(ctx, holder.TTL)
		done()
		wait, over := p.space.Set.RereadDelay(holder.TTL), false
		if err == nil {
			wait, over = min(wait, v.Wait), step != lockrec.AwaitSession
		}
		if over || backoff.Sleep(ctx, max(wait, time.Millisecond)) != nil {
			return over
		}
	}
}

// IsDead reports whether a session is known to be dead, closed or revoked, by what the client has
// seen of its record. It returns that state, too, unless the client trusts the session as its own. It
// writes nothing.
func (p *Peers) IsDead(ctx context.Context, id string, ttl time.Duration) (dead bool, now *cell.Seen, _ error) {
	if p.Trusts(id) {
		return false, &cell.Seen{}, nil
	}
	r, done, err := p.take(ctx, id)
	if err != nil {
		return false, nil, err
	}
	defer done()
	now, step, _, err := r.look(ctx, ttl)
	dead = step == lockrec.RevokeSession // a session whose record was removed is not known to be dead
	if step == lockrec.SessionOver {
		dead, err = r.confirmEnded(ctx, now)
	}
	return dead, now, err
}

// End returns the record of a session that has ended, or not been renewed, for age, and revokes the
// session if it is known to be dead. It returns no state if the session may live.
func (p *Peers) End(ctx context.Context, id string, age time.Duration) (of *cell.Cell, ended *cell.Seen, _ error) {
	r, err := p.newPeer(id)
	if err != nil {
		return nil, nil, err
	}
	now, err := r.cell.Inspect(ctx)
	if err != nil || now.Rec == nil || p.space.Clock.Wall().Sub(now.Rec.Renewed) < age || p.Trusts(id) {
		return r.cell, nil, err
	}
	now = r.cell.Note(now)
	switch step, v := r.judge(ctx, now); step {
	case lockrec.SessionOver:
		return r.cell, now, nil
	case lockrec.RevokeSession:
		applied, err := r.revoke(ctx, now, v.Reason)
		if err != nil || !applied {
			return r.cell, nil, err
		}
		return r.cell, r.final, nil
	}
	return r.cell, nil, nil
}

// confirmEnded reports whether the session has ended for certain. A state that was read without
// resolving writes may never take effect.
func (r *peer) confirmEnded(ctx context.Context, now *cell.Seen) (bool, error) {
	if r.cell.Space.Set.Traits.Delayed() && r.final == nil {
		final, err := r.cell.Reread(ctx)
		if err != nil || final.Version != now.Version {
			return false, err
		}
	}
	r.final = now
	return true, nil
}

// revoke ends the session over the state now, and reports whether this is what ended it.
func (r *peer) revoke(ctx context.Context, now *cell.Seen, reason string) (bool, error) {
	rec := lockrec.Revoke(now.Rec)
	applied, err := r.write(ctx, now, &rec)
	if applied {
		r.final = r.cell.Known()
		r.cell.Space.Emit(event.Event{Kind: event.Revoked, Session: r.cell.Name(), Holder: rec.Holder, Reason: reason})
	}
	return applied, err
}

// write writes the session's record over the state base, and resolves the write. After an error the
// lock is not taken: the write may be applied, and the next read shows that.
func (r *peer) write(ctx context.Context, base *cell.Seen, rec *lockrec.Record) (applied bool, _ error) {
	f := r.cell.OverGrant(base).Write(ctx, rec, r.cell.Space.Clock.SinceStart(), nil)
	switch {
	case f.Resolution == store.ResolutionPending:
		return false, fmt.Errorf("revoking the session of the holder: %w: %w", cell.ErrUnresolved, errors.Join(f.Err, f.Ended))
	case f.Now == nil:
		return false, fmt.Errorf("revoking the session of the holder: %w", f.Err)
	}
	r.cell.Note(f.Now)
	r.lastRead = r.cell.Space.Clock.Monotonic()
	return f.Resolution == store.ResolutionApplied && f.Now.Rec != nil && f.Now.Rec.State == rec.State, nil
}
