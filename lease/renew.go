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

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// renewAll renews the lease until the grant ends. It continues after every error.
func (g *grant) renewAll(ctx context.Context) {
	set := g.c.space.Set
	pause := g.c.space.Backoff(min(set.MinPoll, set.RenewInterval/4), min(set.RenewInterval/2, cell.MaxCall))
	next := func() time.Duration {
		g.mu.Lock()
		due := g.sent + set.RenewInterval
		g.mu.Unlock()
		stray := time.Duration((2*g.c.space.Random() - 1) * cell.RenewalJitter * float64(set.RenewInterval))
		return max(1, due+stray-g.c.space.Clock.SinceStart())
	}
	timer := time.NewTimer(next())
	defer timer.Stop()
	stop := g.stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		if g.check() <= 0 {
			return
		}
		if err := g.renew(ctx, false, nil); err == nil {
			pause.Tries = 0
			timer.Reset(next())
		} else {
			g.fail(err)
			// The less trust is left, the more often it is tried.
			timer.Reset(max(10*time.Millisecond, min(pause.Pause(), g.check()/3)))
		}
	}
}

// maxTries bounds the writes of one renewal that are in flight at the same time, and maxReads the
// reads that resolve them.
const (
	maxTries = 8
	maxReads = 4
)

// reply is the result of one request of a renewal.
type reply struct {
	tries   *cell.Tries         // what it was sent for
	rec     *Record             // of a write: what was sent; of a read: nil
	at      time.Duration       // of a write: when it was sent
	version store.Version       // of a write that was applied
	now     *cell.Seen          // of a read: the state that it returned
	found   store.ResolveResult // of a read
	err     error
}

// renew writes the record again, changed by change if that is given, and resolves the write. A nil
// error means that the lease counts from the sending of one of its writes, or of an earlier one
// that turned out to be applied. After an error no request of it is awaited. The outcome is unknown
// if that of any of its writes is. A lost lease has ended when renew returns. A firm write survives
// a power cut.
//
// renew does not give up a slow request while there is trust left: its reply may still come. When a
// third of the trust that was left has passed, renew sends another one over the same state, so that
// at most one of them is applied. So a connection that hangs costs a third of the trust, and a
// store that is always slow costs none. The lease counts from the sending of the write that was
// applied.
func (g *grant) renew(ctx context.Context, firm bool, change func(*Record) error) (err error) {
	turn, stop := g.turn(), g.stop()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-stop:
		return g.cause()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	left := g.check()
	if left <= 0 {
		return g.cause()
	}
	var sent []*Record
	defer func() {
		if err != nil && slices.ContainsFunc(g.tries.Open(), func(s cell.Try) bool { return slices.Contains(sent, s.Rec) }) {
			err = store.MarkUnknown(err)
		}
	}()
	var flying sync.WaitGroup
	defer flying.Wait() // calls bounds this wait
	ctx, cancel := context.WithTimeout(cell.Outlive(ctx), left)
	defer cancel()
	g.flies(cancel)
	g.peekForOtherWrites(ctx, left)

	put := g.c.space.Store.Put
	if volatile, ok := store.As[store.UnsyncedPutter](g.c.space.Store); ok && !firm {
		put = volatile.PutUnsynced
	} else {
		firm = true
	}

	replies := make(chan reply, maxTries+maxReads)
	writing, reading := 0, 0
	read := func() {
		reading++
		t := g.tries
		versions := t.Versions()
		flying.Go(func() {
			now, found, err := g.h.cell.ReadBack(ctx, t.Base, versions)
			replies <- reply{tries: t, now: now, found: found, err: err}
		})
	}
	write := func() error {
		rec := lockrec.Renewed(g.tries.Rec, g.c.space.Clock.Wall())
		rec.Nonce = rand.Text()
		if change != nil {
			if err := change(&rec); err != nil {
				return err
			}
		}
		value, err := lockrec.Encode(&rec)
		if err != nil {
			return err
		}
		writing++
		at, t := g.c.space.Clock.SinceStart(), g.tries
		// Before the write is sent: a ticket that is made while the write hangs names it as
		// pending.
		g.mu.Lock()
		t.Add(&rec, at)
		g.mu.Unlock()
		sent = append(sent, &rec)
		flying.Go(func() {
			version, err := put(ctx, g.h.cell.Key, t.Base, value)
			replies <- reply{tries: t, rec: &rec, at: at, version: version, err: err}
		})
		return nil
	}
	// judge calls found, for a state that was read. The renewal continues over what others have
	// written.
	judge := func(now *cell.Seen, found store.ResolveResult) (over bool, _ error) {
		t := g.tries
		if over, err := g.found(now, found); over || g.tries == t || stop == nil || writing == maxTries {
			return over, err
		}
		err := write()
		return err != nil, err
	}
	if err := write(); err != nil {
		return err
	}
	next := time.NewTimer(g.hedgeDelay(left))
	defer next.Stop()
	var problem error
	for writing+reading > 0 {
		select {
		case <-ctx.Done():
			// Requests in flight continue. Their nonces are remembered.
			g.check() // the trust may just have ended
			return errors.Join(problem, context.Cause(ctx), g.cause())
		case <-stop:
			// The lease is released or lost: wait for the requests in flight, and send no more.
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
			next.Reset(g.hedgeDelay(left))
		case r := <-replies:
			if r.rec != nil {
				writing--
			} else {
				reading--
			}
			switch {
			case r.rec != nil && r.err == nil:
				return g.renewed(r.version, r.rec, r.at, firm)
			case r.tries != g.tries:
				// The write was sent over a state that others have replaced. The state in its
				// conflict may be older than the last one read.
			case r.rec == nil && r.err == nil:
				if over, err := judge(r.now, r.found); over {
					return err
				}
			case r.rec == nil:
				// An unreadable record shows neither a loss nor an absence: the outcome stays
				// unknown until the deadline.
				problem = errors.Join(problem, r.err)
			default:
				problem = r.err
				g.mu.Lock()
				g.tries.Failed(r.rec, r.err)
				g.mu.Unlock()
				// The write that caused the conflict may be this one, repeated by a transport, or
				// one that was sent before it.
				if e, known := cell.ConflictEntry(r.err); known {
					now, err := g.h.cell.DecodeEntry(e, nil)
					if err != nil {
						problem = errors.Join(problem, err)
					} else if over, err := judge(now, store.ResolveResult{}); over {
						return err
					}
				} else if !cell.NotApplied(r.err) && reading < maxReads {
					read()
				}
			}
		}
	}
	if g.check() <= 0 {
		return errors.Join(problem, g.cause())
	}
	return problem
}

// peekForOtherWrites reads the record for writes of others, where writes take long and reads do
// not. Otherwise the renewal would find such a write only by a conflict, too late for another
// write.
func (g *grant) peekForOtherWrites(ctx context.Context, left time.Duration) {
	peeker, ok := store.As[store.UncommittedGetter](g.c.space.Store)
	if !ok || g.c.space.Set.Traits.MinWriteTime == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(left/20, time.Second))
	defer cancel()
	value, version, err := peeker.GetUncommitted(ctx, g.h.cell.Key)
	if now, err := g.h.cell.DecodeEntry(store.Entry{Value: value, Version: version}, err); err == nil && lockrec.OnlyOthersWrote(now.Rec, g.tries.Rec) {
		g.noteRecord(now)
	}
}

// hedgeDelay is how long a request of a renewal is waited for before another is sent.
func (g *grant) hedgeDelay(left time.Duration) time.Duration {
	return max(min(left/3, cell.MaxCall), g.c.space.Set.WriteTime(), time.Millisecond)
}

// renewed notes a write that is known to be applied and was sent at the time at. If the lease is
// over nevertheless, it returns the reason: the reply can come too late.
func (g *grant) renewed(version store.Version, rec *Record, at time.Duration, firm bool) error {
	g.mu.Lock()
	g.rebase(version, rec, firm)
	g.sent = max(g.sent, at)
	g.atRisk, g.problem = false, nil
	g.mu.Unlock()
	if g.check() <= 0 {
		return g.cause()
	}
	if g.h.under == nil { // otherwise only the data of the lock changed
		g.emit(EventRenewed, nil)
	}
	if g.h.own != nil {
		g.h.own.tidy()
	}
	g.acknowledge(rec)
	return nil
}

// noteRecord notes the record of a grant in a version that may not survive a power cut.
func (g *grant) noteRecord(now *cell.Seen) {
	g.mu.Lock()
	g.rebase(now.Version, now.Rec, false)
	g.mu.Unlock()
	g.acknowledge(now.Rec)
}

// rebase makes a state the base of the grant's next write. The caller holds g.mu.
func (g *grant) rebase(version store.Version, rec *Record, firm bool) {
	g.firm = firm
	g.tries = g.h.cell.Over(version, rec) // the state that the other tries name was replaced
}

// found evaluates the state read after a write in doubt, and reports whether that resolves it: the
// lease was renewed after all, or it is lost. If others have written and left the grant as it was,
// the grant continues over their state, and no try is left.
func (g *grant) found(now *cell.Seen, found store.ResolveResult) (over bool, _ error) {
	if g.isMember() {
		return g.foundMember(now)
	}
	lost := &LostError{Reason: ErrTakenOver}
	f := g.tries.Resolve(now, found)
	switch {
	case f.Resolution == store.ResolutionPending:
		return false, nil // to be sent again over the same state
	case now.Rec == nil:
		lost.Reason = ErrRemoved
	case now.Rec.State == Revoked:
		lost.Reason = ErrRevoked
	case g.h.own != nil && now.Rec.Grant != g.id:
		lost.Reason = ErrRemoved // and a waiter has made another record
	case now.Rec.State == Broken:
		lost.Reason, lost.now = ErrBroken, now.Rec.Immediate
		if now.Rec.Grant == g.id {
			g.noteRecord(now) // the state that a release frees
		}
	case f.OtherWrite:
		g.noteRecord(now)
		return false, nil
	case now.Rec.State == Held && now.Rec.Grant == g.id:
		if g.c.space.Set.Traits.CannotReadOwnWrites {
			return false, nil // never adopted: the outcome stays unknown until the deadline
		}
		if f.Resolution == store.ResolutionApplied {
			return true, g.renewed(now.Version, now.Rec, f.Try.At, f.Durable)
		}
		lost.NewHolder = "a copy of this lease"
	default:
		lost.NewHolder = now.Rec.Holder
	}
	g.lose(lost)
	return true, g.cause()
}

func (g *grant) cause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// release ends the grant, then frees the lock. It is called when the last guard was released, and
// by Close with another reason. All calls return the same.
func (g *grant) release(ctx context.Context, reason error) error {
	g.releaseFirst(ctx, reason)
	<-g.over()
	return g.result
}

// releaseFirst is release, but it does not wait if another goroutine has begun the release, and
// reports which of the two began it.
func (g *grant) releaseFirst(ctx context.Context, reason error) (first bool) {
	if !g.finishing.CompareAndSwap(false, true) {
		return false
	}
	g.result = g.finish(ctx, reason)
	g.c.remove(g)
	close(g.over())
	return true
}

func (g *grant) finish(ctx context.Context, reason error) error {
	g.mu.Lock()
	g.releasing = true
	g.endIdle()
	g.mu.Unlock()
	g.check()
	g.halt(reason)
	ctx, cancel := g.c.space.Ending(ctx)
	defer cancel()
	g.drain(ctx)
	switch cause := g.cause(); {
	case errors.Is(cause, ErrBroken):
		// The work has stopped, so that waiters need not wait for this holder's deadline. They wait
		// for it if this write does not reach the store.
		_ = g.free(ctx)
		return cause
	case errors.Is(cause, ErrLost):
		return cause
	case errors.Is(cause, ErrDetached):
		return nil // the lease continues in a ticket
	}
	err := g.free(ctx)
	if s := g.h.under; err != nil && s != nil && s.isClosed() {
		err = nil // the lock is free in any case
	}
	g.emit(EventReleased, err)
	return err
}

// flies notes how to end the write in flight, and ends it if the grant writes no more.
func (g *grant) flies(end context.CancelFunc) {
	g.mu.Lock()
	g.inFlight = end
	isCut := g.isCut
	g.mu.Unlock()
	if isCut {
		end()
	}
}

// cut ends the write in flight, and every later one.
func (g *grant) cut() {
	g.mu.Lock()
	g.isCut = true
	end := g.inFlight
	g.mu.Unlock()
	if end != nil {
		end()
	}
}

// drain waits for the renewer and the write in flight, for half of the time of a release, but not
// after the end of ctx. Then it cancels the write.
func (g *grant) drain(ctx context.Context) {
	timer := time.AfterFunc(g.c.space.Set.DrainTime(), g.cut)
	defer timer.Stop()
	defer context.AfterFunc(ctx, g.cut)()
	g.renewals.Wait()
	turn := g.turn()
	turn <- struct{}{} // the write of a caller
	<-turn
	g.cut()
}

// free writes the free record over the version that the lease ended on, in the time of ctx and of
// the lease. Whatever it returns, the grant is over. After an error the free record may not be in
// the store: then waiters wait until the lease expires.
func (g *grant) free(ctx context.Context) error {
	turn := g.turn()
	turn <- struct{}{} // drain has cancelled every other writer, so that this wait is short
	defer func() { <-turn }()
	end := func() time.Duration {
		return g.lastSent() + g.c.space.Set.TTL - g.c.space.Set.Margin - g.c.space.Clock.SinceStart()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, end(), errOver)
	defer cancel()
	if g.isMember() {
		return g.h.depart(ctx, &cell.Seen{Version: g.tries.Base, Rec: g.tries.Rec}, g.id)
	}
	t := g.h.cell.Over(g.tries.Base, g.tries.Rec)
	var last error
	for pause := g.c.space.ResolveBackoff(); ; {
		if ctx.Err() != nil || end() <= 0 {
			g.leave(t)
			return fmt.Errorf("release of lock %q: %w (the lease expires in at most %v): %w", g.h.name, ErrUnresolved, g.c.space.Set.Expiry(g.tries.Rec.TTL), errors.Join(last, cmp.Or(context.Cause(ctx), errOver)))
		}
		base, err := g.h.withHighestMark(ctx, g.tries.Rec)
		if err != nil {
			last = err
			_ = pause.Wait(ctx)
			continue
		}
		rec := g.freeing(base)
		rec.Nonce = rand.Text()
		f := t.Send(ctx, &rec, g.c.space.Clock.SinceStart())
		if f.Resolution == store.ResolutionNotApplied && errors.Is(f.Err, store.ErrTooLarge) {
			g.leave(t)
			return f.Err
		}
		if f.Now != nil {
			if over, err := g.freed(f); over {
				return err
			}
			if t.Base != g.tries.Base {
				// It is sent at once: with each delay more clients have written meanwhile.
				t, last = g.h.cell.Over(g.tries.Base, g.tries.Rec), f.Err
				continue
			}
		}
		last = f.Err
		_ = pause.Wait(ctx) // the loop checks whether the time is over
	}
}

// freeing returns the record that frees the lock in the state r. The caller adds a nonce.
func (g *grant) freeing(r *Record) Record {
	rec := *r
	if g.rerunAllowed.Load() {
		rec.NotBefore = time.Time{}
	}
	rec = lockrec.Freed(&rec, g.c.space.Clock.Wall())
	g.endRun(&rec)
	return rec
}

// leave hands a release of unknown outcome to the session. Otherwise the lock would stay taken for
// as long as the session lives.
func (g *grant) leave(t *cell.Tries) {
	if s := g.h.under; s != nil {
		s.remember(&leftover{h: g.h, t: t, rec: g.tries.Rec, grant: g.id, free: g.freeing})
	}
}

// errOver means that the lease has expired, so that nothing more is sent for it.
var errOver = errors.New("the lease has expired")

// freed evaluates the state after a try to release, and reports whether the release is finished.
func (g *grant) freed(f cell.Finding) (over bool, _ error) {
	now := f.Now
	ours := now.Rec != nil && now.Rec.Grant == g.id
	switch {
	case f.Resolution == store.ResolutionPending:
		return false, nil
	case f.Resolution == store.ResolutionApplied && g.tries.Rec.State != Broken:
		g.h.cell.Note(now)
		return true, nil
	case f.Resolution == store.ResolutionApplied:
		g.h.cell.Note(now)
		return true, &LostError{Name: g.h.name, Token: g.token, Reason: ErrBroken}
	case f.OtherWrite, ours && now.Rec.State == Held && g.tries.Resolve(now, store.ResolveResult{}).Resolution == store.ResolutionApplied, ours && now.Rec.State == Broken,
		ours && now.Rec.State == Held && g.h.under != nil:
		// Others requested to yield, a renewal was applied late, or the lock was broken. Or the
		// record was restored or changed by hand: then it would stay for as long as the session
		// lives, since only the session writes this grant. Free that state.
		g.noteRecord(now)
		return false, nil
	}
	g.h.cell.Note(now)
	if f.Resolution != store.ResolutionNotApplied {
		return true, nil // as far as can be known, it was applied and another grant followed
	}
	lost := &LostError{Name: g.h.name, Token: g.token, Reason: ErrTakenOver}
	switch {
	case now.Rec == nil:
		lost.Reason = ErrRemoved
	case now.Rec.State == Broken:
		lost.Reason = ErrBroken
	default:
		lost.NewHolder = now.Rec.Holder
	}
	return true, lost
}
