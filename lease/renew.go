package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// renewAll renews the lease until belief ends. It survives every error.
func (g *grant) renewAll(ctx context.Context) {
	defer g.cut()
	set := g.c.set
	pause := g.c.backoff(min(set.MinPoll, set.Renew/4), min(set.Renew/2, maxCall))
	next := func() time.Duration {
		g.mu.Lock()
		due := g.sent + set.Renew
		g.mu.Unlock()
		stray := time.Duration((2*g.c.random() - 1) * renewalJitter * float64(set.Renew))
		return max(0, due+stray-g.c.clock.look())
	}
	timer := time.NewTimer(next())
	defer timer.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-timer.C:
		}
		if g.check() <= 0 {
			return
		}
		if err := g.renew(ctx, false, nil); err == nil {
			pause.next = 0
			timer.Reset(next())
		} else {
			g.fail(err)
			// The less trust is left, the more often it is tried.
			timer.Reset(max(10*time.Millisecond, min(pause.pause(), g.check()/3)))
		}
	}
}

// renew writes the record anew, with other data if change is given, and finds out
// what became of it, once. If it is not firm the write need not survive a power cut. A nil error means that the lease counts from the
// sending of this write, or of an earlier one that turned out to be applied.
func (g *grant) renew(ctx context.Context, firm bool, change func(*Record)) error {
	select {
	case g.write <- struct{}{}:
		defer func() { <-g.write }()
	case <-g.stop:
		return g.cause()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	left := g.check()
	if left <= 0 {
		return g.cause()
	}
	// A third of what is left, so that a request that hangs leaves time for more; but
	// no less than a write needs.
	limit := max(min(left/3, maxCall), min(left, 2*g.c.set.traits.WriteTime), time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(g.life, cancel)()
	rec := *g.rec
	rec.Nonce, rec.Renewed = rand.Text(), g.c.clock.wall()
	if change != nil {
		change(&rec)
	}
	value, err := rec.encode()
	if err != nil {
		return err
	}
	at := g.c.clock.look()
	// Before it is sent: a ticket that is made while the write hangs announces it.
	g.mu.Lock()
	g.pending[rec.Nonce] = at
	g.mu.Unlock()
	put := g.c.st.Put
	if volatile, ok := store.As[store.VolatilePutter](g.c.st); ok && !firm {
		put = volatile.PutVolatile
	} else {
		firm = true
	}
	version, err := put(ctx, g.h.key, g.version, value)
	if err == nil {
		return g.renewed(version, &rec, at, firm)
	}
	if certain(err) {
		g.mu.Lock()
		delete(g.pending, rec.Nonce)
		g.mu.Unlock()
		return err
	}
	return g.resolve(ctx, err)
}

// renewed notes a write that is known to be applied and was sent at the time at.
// If the lease is over nevertheless it says so: the reply can have come too late.
func (g *grant) renewed(version store.Version, rec *Record, at time.Duration, firm bool) error {
	g.mu.Lock()
	g.version, g.rec, g.firm = version, rec, firm
	clear(g.pending) // their predecessor is gone
	g.sent = max(g.sent, at)
	g.atRisk, g.problem = false, nil
	g.data = rec.Data
	g.mu.Unlock()
	if g.check() <= 0 {
		return g.cause()
	}
	g.c.emit(Event{Kind: EventRenewed, Name: g.h.name, Token: g.token, Deadline: g.deadline()})
	return nil
}

// resolve finds out what a failed write left behind. It returns nil if the lease
// was renewed after all, and else an error; if the lease is lost it has ended.
func (g *grant) resolve(ctx context.Context, err error) error {
	now, seeErr := g.see(ctx, err)
	if seeErr != nil {
		// Unreadable is neither lost nor absent: unknown, until the deadline.
		return errors.Join(err, seeErr)
	}
	switch {
	case now.version == g.version:
		return err // not applied yet: to be sent again on the same predecessor
	case now.rec == nil:
		g.lose(ErrRemoved, "", nil)
	case now.rec.State == Broken:
		if now.rec.Grant == g.id {
			g.version, g.rec = now.version, now.rec // what a release frees
		}
		g.lose(ErrBroken, "", nil)
	case now.rec.State == Held && now.rec.Grant == g.id:
		if g.c.set.traits.NoReadBack {
			return err // never adopted: unknown, until the deadline
		}
		if at, ours := g.pending[now.rec.Nonce]; ours {
			return g.renewed(now.version, now.rec, at, false)
		}
		g.lose(ErrStolen, "a copy of this lease", nil)
	default:
		g.lose(ErrStolen, now.rec.Holder, nil)
	}
	return g.cause()
}

// see is [Client.after] with a single read.
func (g *grant) see(ctx context.Context, err error) (*seen, error) {
	if conflictTells(err) {
		return g.c.after(ctx, g.h.name, g.h.key, err)
	}
	// The request may have used up its time: the read gets its own.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(min(g.check()/3, maxCall), time.Millisecond))
	defer cancel()
	return g.c.fetch(call, g.h.name, g.h.key)
}

func conflictTells(err error) bool {
	var conflict *store.ConflictError
	return errors.As(err, &conflict) && conflict.Known && store.OutcomeOf(err) == store.NotApplied
}

func (g *grant) cause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// release ends belief, then frees the lock. It is called when the last guard was
// released, and by Close with another reason; all calls return the same.
func (g *grant) release(ctx context.Context, reason error) error {
	if g.finishing.CompareAndSwap(false, true) {
		g.result = g.finish(ctx, reason)
		g.c.remove(g)
		close(g.finished)
	}
	<-g.finished
	return g.result
}

func (g *grant) finish(ctx context.Context, reason error) error {
	g.mu.Lock()
	g.releasing = true
	g.mu.Unlock()
	g.check()
	g.halt(reason)
	g.drain(ctx)
	switch cause := g.cause(); {
	case errors.Is(cause, ErrBroken):
		// The work has stopped: others need not wait for this holder's deadline. If
		// the store cannot be told, they do.
		_ = g.free(ctx)
		return cause
	case errors.Is(cause, ErrLost):
		return cause
	case errors.Is(cause, ErrDetached):
		return nil // it goes on in a ticket
	}
	err := g.free(ctx)
	g.c.emit(Event{Kind: EventReleased, Name: g.h.name, Token: g.token, Err: err})
	return err
}

// drain waits for the renewer and the write in flight, half of the time of a
// release; then it cuts the write short.
func (g *grant) drain(ctx context.Context) {
	timer := time.AfterFunc(g.c.set.ReleaseTimeout/2, g.cut)
	defer timer.Stop()
	g.renewals.Wait()
	g.cut()
}

// free writes the free record over the version that the lease ended on. Whatever
// it returns, the grant is over; an error says that the store could not be told
// and others have to wait until the lease expires there.
func (g *grant) free(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.c.set.ReleaseTimeout)
	defer cancel()
	select {
	case g.write <- struct{}{}:
		defer func() { <-g.write }()
	case <-ctx.Done():
		return fmt.Errorf("release of lock %q: %w: a write is still in flight", g.h.name, ErrUnresolved)
	}
	sent := map[string]bool{}
	unclear := false // whether one of them may have been applied
	pause := g.c.settling()
	var last error
	for {
		rec := *g.rec
		broken := rec.State == Broken
		rec.State, rec.Presence, rec.Now, rec.Broke, rec.Stood = Free, "", false, "", 0
		g.mu.Lock()
		left := g.sent + g.c.set.TTL - g.c.set.Margin - g.c.clock.look()
		g.mu.Unlock()
		if left <= 0 || ctx.Err() != nil {
			return fmt.Errorf("release of lock %q: %w: it stays taken for up to %v: %w", g.h.name, ErrUnresolved, g.c.set.expiry(rec.TTL), errors.Join(last, context.Cause(ctx)))
		}
		rec.Nonce, rec.Renewed = rand.Text(), g.c.clock.wall()
		value, err := rec.encode()
		if err != nil {
			return err
		}
		call, done := context.WithTimeout(ctx, left)
		version, err := g.c.put(call, g.h.key, g.version, value)
		done()
		if err == nil {
			g.h.saw(&seen{version: version, rec: &rec, at: g.c.clock.monotonic(), age: -1})
			if broken {
				return &LostError{Name: g.h.name, Token: g.token, Reason: ErrBroken}
			}
			return nil
		}
		last = err
		if store.OutcomeOf(err) == store.NotApplied && !errors.Is(err, store.ErrConflict) && len(sent) == 0 {
			_ = pause.wait(ctx) // the loop tells when the time is up
			continue
		}
		sent[rec.Nonce] = true
		unclear = unclear || !conflictTells(err)
		if over, err := g.freed(ctx, err, sent, unclear); over {
			return err
		}
		_ = pause.wait(ctx)
	}
}

// freed finds out what a failed release left behind, and whether that is the end.
func (g *grant) freed(ctx context.Context, err error, sent map[string]bool, unclear bool) (bool, error) {
	now, seeErr := g.c.after(ctx, g.h.name, g.h.key, err)
	switch {
	case seeErr != nil, now.version == g.version:
		return false, nil // not known, or not applied yet: again
	case now.rec != nil && now.rec.State == Held && now.rec.Grant == g.id:
		if _, ours := g.pending[now.rec.Nonce]; ours {
			// A renewal landed late. The release goes over it.
			g.version, g.rec = now.version, now.rec
			return false, nil
		}
	case now.rec != nil && now.rec.State == Broken && now.rec.Grant == g.id:
		g.version, g.rec = now.version, now.rec // so does it over a break
		return false, nil
	}
	g.h.saw(now)
	if unclear || now.rec != nil && sent[now.rec.Nonce] {
		return true, nil // ours; or another's grant, on top of ours for all that can be known
	}
	lost := &LostError{Name: g.h.name, Token: g.token, Reason: ErrStolen}
	switch {
	case now.rec == nil:
		lost.Reason = ErrRemoved
	case now.rec.State == Broken:
		lost.Reason = ErrBroken
	default:
		lost.By = now.rec.Holder
	}
	return true, lost
}
