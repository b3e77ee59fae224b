package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// maxTries bounds the writes of one renewal that are in flight at the same time, and
// maxReads the reads that find out what became of them.
const (
	maxTries = 8
	maxReads = 4
)

// reply is what became of one request of a renewal.
type reply struct {
	rec     *Record       // of a write: what was sent; of a read: nil
	at      time.Duration // of a write: when it was sent
	version store.Version // of a write that was applied
	now     *seen         // of a read: what stands
	err     error
}

// renew writes the record anew, changed by change if that is given, and finds out what
// became of it. A nil error means that the lease counts from the sending of one of its
// writes, or of an earlier one that turned out to be applied. After an error nothing of
// it is awaited any more, and it is of unknown outcome if any of its writes is; if the
// lease is lost it has ended. What is firm survives a power cut.
//
// A request that takes long is not given up while there is trust left: nothing better
// could follow. When a third of what was left has passed, another is sent besides, on the
// same predecessor, so that at most one of them is applied: a connection that hangs costs
// a third, and a store that is slow throughout nothing. The lease counts from the sending
// of the one that is seen to be applied.
func (g *grant) renew(ctx context.Context, firm bool, change func(*Record) error) (err error) {
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
	var sent []string // nonces
	defer func() {
		unclear := func(nonce string) bool { _, pending := g.pending[nonce]; return pending }
		if err != nil && slices.ContainsFunc(sent, unclear) {
			err = store.MarkUnknown(err)
		}
	}()
	var flying sync.WaitGroup
	defer flying.Wait() // not for long: see calls
	ctx, cancel := context.WithTimeout(outlive(ctx), left)
	defer cancel()
	defer context.AfterFunc(g.life, cancel)()

	put := g.c.st.Put
	if volatile, ok := store.As[store.VolatilePutter](g.c.st); ok && !firm {
		put = volatile.PutVolatile
	} else {
		firm = true
	}

	replies := make(chan reply, maxTries+maxReads)
	writing, reading := 0, 0
	read := func() {
		reading++
		flying.Go(func() {
			now, err := g.c.fetch(ctx, g.h.name, g.h.key)
			replies <- reply{now: now, err: err}
		})
	}
	write := func() error {
		rec := *g.rec
		rec.Nonce, rec.Renewed = rand.Text(), g.c.clock.wall()
		if change != nil {
			if err := change(&rec); err != nil {
				return err
			}
		}
		value, err := rec.encode()
		if err != nil {
			return err
		}
		writing++
		at, prev := g.c.clock.look(), g.version
		// Before it is sent: a ticket that is made while the write hangs announces it.
		g.mu.Lock()
		g.pending[rec.Nonce] = at
		g.mu.Unlock()
		sent = append(sent, rec.Nonce)
		flying.Go(func() {
			version, err := put(ctx, g.h.key, prev, value)
			replies <- reply{rec: &rec, at: at, version: version, err: err}
		})
		return nil
	}
	if err := write(); err != nil {
		return err
	}
	next := time.NewTimer(g.patience(left))
	defer next.Stop()
	stop := g.stop
	var problem error
	for writing+reading > 0 {
		select {
		case <-ctx.Done():
			// What is in flight is left to itself: its nonces are remembered.
			return errors.Join(problem, context.Cause(ctx), g.cause())
		case <-stop:
			// It is released or lost: what is in flight is awaited, and no more sent.
			next.Stop()
			stop = nil
		case <-next.C:
			left := g.check()
			if left <= 0 {
				continue // as above
			}
			if writing < maxTries {
				if err := write(); err != nil {
					return err
				}
			}
			next.Reset(g.patience(left))
		case r := <-replies:
			if r.rec != nil {
				writing--
			} else {
				reading--
			}
			switch {
			case r.rec != nil && r.err == nil:
				return g.renewed(r.version, r.rec, r.at, firm)
			case r.rec == nil && r.err == nil:
				if over, err := g.found(r.now); over {
					return err
				}
			case r.rec == nil:
				// Unreadable is neither lost nor absent: unknown, until the deadline.
				problem = errors.Join(problem, r.err)
			case certain(r.err):
				g.mu.Lock()
				delete(g.pending, r.rec.Nonce)
				g.mu.Unlock()
				problem = r.err
			default:
				// Even a conflict can be with this very write, where a transport repeats
				// it, and with one that was sent before it.
				problem = r.err
				if conflictTells(r.err) {
					now, err := g.c.after(ctx, g.h.name, g.h.key, r.err)
					if err != nil {
						problem = errors.Join(problem, err)
					} else if over, err := g.found(now); over {
						return err
					}
				} else if reading < maxReads {
					read()
				}
			}
		}
	}
	return problem
}

// patience is how long a request of a renewal is waited for before another is sent.
func (g *grant) patience(left time.Duration) time.Duration {
	return max(min(left/3, maxCall), g.c.set.writeTime(), time.Millisecond)
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

// stands notes a state of the grant that is not known to survive a power cut.
func (g *grant) stands(now *seen) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version, g.rec, g.firm = now.version, now.rec, false
	clear(g.pending) // their predecessor is gone
}

// found judges the state that stands after a write of unknown outcome, and reports
// whether that settles it: the lease was renewed after all, or it is lost.
func (g *grant) found(now *seen) (over bool, _ error) {
	lost := &LostError{Reason: ErrStolen}
	switch {
	case now.version == g.version:
		return false, nil // not applied yet: to be sent again on the same predecessor
	case now.rec == nil:
		lost.Reason = ErrRemoved
	case now.rec.State == Broken:
		lost.Reason, lost.now = ErrBroken, now.rec.Now
		if now.rec.Grant == g.id {
			g.stands(now) // what a release frees
		}
	case now.rec.State == Held && now.rec.Grant == g.id:
		if g.c.set.traits.NoReadBack {
			return false, nil // never adopted: unknown, until the deadline
		}
		if at, ours := g.pending[now.rec.Nonce]; ours {
			return true, g.renewed(now.version, now.rec, at, false)
		}
		lost.By = "a copy of this lease"
	default:
		lost.By = now.rec.Holder
	}
	g.lose(lost)
	return true, g.cause()
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
	ctx, cancel := g.c.ending(ctx)
	defer cancel()
	g.drain()
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
func (g *grant) drain() {
	timer := time.AfterFunc(g.c.set.drainTime(), g.cut)
	defer timer.Stop()
	g.renewals.Wait()
	g.write <- struct{}{} // the write of a caller
	<-g.write
	g.cut()
}

// free writes the free record over the version that the lease ended on, in the time of
// ctx and of the lease. Whatever it returns, the grant is over; an error says that the
// store could not be told and others have to wait until the lease expires there.
func (g *grant) free(ctx context.Context) error {
	g.write <- struct{}{} // not for long: drain has cut off every other writer
	defer func() { <-g.write }()
	end := func() time.Duration {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.sent + g.c.set.TTL - g.c.set.Margin - g.c.clock.look()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, end(), errOver)
	defer cancel()
	sent := map[string]bool{}
	unclear := false // whether one of them may have been applied
	pause := g.c.settling()
	var last error
	for {
		rec := *g.rec
		broken := rec.State == Broken
		rec.State, rec.Presence, rec.Now, rec.Broke, rec.Stood = Free, "", false, "", 0
		if ctx.Err() != nil || end() <= 0 {
			return fmt.Errorf("release of lock %q: %w: it stays taken for up to %v: %w", g.h.name, ErrUnresolved, g.c.set.expiry(rec.TTL), errors.Join(last, cmp.Or(context.Cause(ctx), errOver)))
		}
		rec.Nonce, rec.Renewed = rand.Text(), g.c.clock.wall()
		value, err := rec.encode()
		if err != nil {
			return err
		}
		version, err := g.c.st.Put(ctx, g.h.key, g.version, value)
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

// errOver says that nothing is sent any more for a lease that has run out.
var errOver = errors.New("the lease is over")

// freed finds out what a failed release left behind, and whether that is the end.
func (g *grant) freed(ctx context.Context, err error, sent map[string]bool, unclear bool) (bool, error) {
	now, seeErr := g.c.after(ctx, g.h.name, g.h.key, err)
	switch {
	case seeErr != nil, now.version == g.version:
		return false, nil // not known, or not applied yet: again
	case now.rec != nil && now.rec.State == Held && now.rec.Grant == g.id:
		if _, ours := g.pending[now.rec.Nonce]; ours {
			// A renewal landed late. The release goes over it.
			g.stands(now)
			return false, nil
		}
	case now.rec != nil && now.rec.State == Broken && now.rec.Grant == g.id:
		g.stands(now) // so does it over a break
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
