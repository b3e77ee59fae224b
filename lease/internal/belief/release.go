package belief

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/store"
)

// Release ends the grant, then frees the lock. It is called when the last guard was released, and
// by Close with another reason. All calls return the same.
func (g *Grant) Release(ctx context.Context, reason error) error {
	if !g.ReleaseFirst(ctx, reason) {
		<-g.over()
	}
	return g.result
}

// ReleaseFirst is release, but it does not wait if another goroutine has begun the release, and
// reports which of the two began it.
func (g *Grant) ReleaseFirst(ctx context.Context, reason error) (first bool) {
	if !g.beginsFinish() {
		return false
	}
	g.result = ErrUnfinished
	defer func() { // if a call of the store panics, too
		g.owner().Released(g)
		g.endRelease()
	}()
	g.result = g.finish(ctx, reason)
	return true
}

// ErrUnfinished is the error of a release that did not return.
var ErrUnfinished error = unfinished{}

type unfinished struct{}

func (unfinished) Error() string {
	return cell.ErrUnresolved.Error() + ": a call panicked, or ended its goroutine"
}
func (unfinished) Unwrap() error { return cell.ErrUnresolved }

// beginsFinish reports whether no other goroutine has begun the release.
func (g *Grant) beginsFinish() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acts()
	began := g.finishing
	g.finishing = true
	return !began
}

func (g *Grant) finish(ctx context.Context, reason error) error {
	g.mu.Lock()
	g.releasing = true
	g.endIdle()
	g.mu.Unlock()
	g.Check()
	g.Halt(reason)
	ctx, cancel := g.cell.Space.Ending(ctx)
	defer cancel()
	g.drain(ctx)
	switch cause := g.Cause(); {
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
	if s := g.session(); err != nil && s != nil && s.isReleased() {
		err = nil // the lock is free in any case
	}
	g.Emit(event.Released, 0, err)
	return err
}

// endRelease notes that the release is over.
func (g *Grant) endRelease() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOver = true; g.finished != nil {
		close(g.finished)
	}
}

// AwaitRelease waits until the release of the grant, which was begun, is over or ctx ends. It reports
// whether the release is over.
func (g *Grant) AwaitRelease(ctx context.Context) bool {
	select {
	case <-g.over():
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isOver
}

// Abandon waits for the writes of a grant that has ended without a release, and returns the state of
// the register as the grant knows it.
func (g *Grant) Abandon(ctx context.Context) *cell.Seen {
	g.drain(context.WithoutCancel(ctx)) // then no goroutine writes for the grant
	turn := g.turn()
	turn <- struct{}{}
	defer func() { <-turn }()
	return &cell.Seen{Version: g.tries.Base, Rec: g.tries.Rec, At: g.cell.Space.Clock.Monotonic(), Age: -1}
}

// Discard ends a grant that was never handed out, and frees the lock.
func (g *Grant) Discard(ctx context.Context, cause error) error {
	g.Halt(cause)
	ctx, cancel := g.cell.Space.Ending(ctx)
	defer cancel()
	g.drain(context.WithoutCancel(ctx))
	return g.free(ctx)
}

// Detached is what a grant leaves behind that continues elsewhere.
type Detached struct {
	Base    *cell.Seen    // the state of the register as the grant knows it
	Sent    time.Duration // when the write that made it was sent
	Open    []cell.Try    // writes over it, of unknown outcome
	Settled bool          // no write over it can be applied, and it survives a power cut
	Idle    bool          // no write is in flight
}

// Finish waits for the writes of a grant that was halted, and leaves the lock as it is.
func (g *Grant) Finish(ctx context.Context) {
	if g.beginsFinish() {
		g.drain(context.WithoutCancel(ctx))
		g.owner().Released(g)
		g.endRelease()
	}
	<-g.over()
}

// Detach returns what a grant leaves behind that was halted. Until done is called, nothing else
// writes for the grant.
func (g *Grant) Detach(ctx context.Context) (d Detached, done func()) {
	turn := g.turn()
	done = func() {}
	select {
	case turn <- struct{}{}:
		d.Idle, done = true, func() { <-turn }
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	d.Base = &cell.Seen{Version: g.tries.Base, Rec: g.tries.Rec, At: g.cell.Space.Clock.Monotonic(), Age: -1}
	d.Sent, d.Open = g.sent, g.tries.Open()
	d.Settled = g.firm && len(d.Open) == 0 || g.cell.Space.Set.Traits.Delayed()
	return d, done
}

// flies notes how to end the write in flight, nil if there is none any more, and ends it if the grant
// writes no more.
func (g *Grant) flies(end context.CancelFunc) {
	g.mu.Lock()
	g.inFlight = end
	isCut := g.isCut && end != nil
	g.mu.Unlock()
	if isCut {
		end()
	}
}

// cut ends the write in flight, and every later one.
func (g *Grant) cut() {
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
func (g *Grant) drain(ctx context.Context) {
	g.mu.Lock()
	g.acts()
	g.isCut = g.isCut || g.inFlight == nil // no later write begins
	cut := g.isCut
	g.mu.Unlock()
	if !cut {
		timer := time.AfterFunc(g.cell.Space.Set.DrainTime(), g.cut)
		defer timer.Stop()
		defer context.AfterFunc(ctx, g.cut)()
	}
	g.renewals.Wait()
	turn := g.turn()
	turn <- struct{}{} // the write of a caller
	<-turn
	g.cut()
}

// free writes the free record over the version that the lease ended on, in the time of ctx and of
// the lease. Whatever it returns, the grant is over. After an error the free record may not be in
// the store: then waiters wait until the lease expires.
func (g *Grant) free(ctx context.Context) error {
	turn := g.turn()
	turn <- struct{}{} // drain has cancelled every other writer, so that this wait is short
	defer func() { <-turn }()
	now := g.cell.Space.Clock.SinceStart()
	left := func() time.Duration { return g.lastSent() + g.cell.Space.Set.TTL - g.cell.Space.Set.Margin - now }
	if d, ok := ctx.Deadline(); !ok || time.Until(d) > left() {
		bound, cancel := context.WithTimeoutCause(ctx, left(), errOver)
		defer cancel()
		ctx = bound
	}
	if g.IsMember() {
		ended, err := g.owner().Depart(ctx, &cell.Seen{Version: g.tries.Base, Rec: g.tries.Rec}, g.ID())
		if err == nil && ended != nil {
			return g.lost(lockrec.Loss(ended.Rec, g.ID()))
		}
		return err
	}
	t := g.tries.Again()
	var last error
	for pause := g.cell.Space.ResolveBackoff(); ; now = g.cell.Space.Clock.SinceStart() {
		if ctx.Err() != nil || left() <= 0 {
			g.leave(t)
			return fmt.Errorf("release of lock %q: %w (the lease expires in at most %v): %w", g.cell.Name(), cell.ErrUnresolved, g.cell.Space.Set.Expiry(g.tries.Rec.TTL), errors.Join(last, cmp.Or(store.Cause(ctx), errOver)))
		}
		base, err := g.cell.WithHighestMark(ctx, g.tries.Rec)
		if err != nil {
			last = err
			_ = pause.Wait(ctx)
			continue
		}
		rec := g.Freeing(base)
		rec.Nonce = rand.Text()
		f := t.Send(ctx, &rec, now)
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
				t, last = g.tries.Again(), f.Err
				continue
			}
		}
		last = f.Err
		_ = pause.Wait(ctx) // the loop checks whether the time is over
	}
}

// Freeing returns the record that frees the lock in the state r. The caller adds a nonce.
func (g *Grant) Freeing(r *lockrec.Record) lockrec.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	rec := *r
	if g.rerunAllowed {
		rec.NotBefore = time.Time{}
	}
	rec = lockrec.Freed(&rec, g.cell.Space.Clock.Wall())
	g.endRun(&rec)
	return rec
}

// leave hands a release of unknown outcome to the session. Otherwise the lock would stay taken for
// as long as the session lives.
func (g *Grant) leave(t *cell.Tries) {
	if g.session() != nil {
		g.owner().Remember(t, g)
	}
}

// errOver means that the lease has expired, so that nothing more is sent for it.
var errOver = errors.New("the lease has expired")

// lost returns the error of a release of a grant that was over before.
func (g *Grant) lost(reason error) *LostError {
	e := g.event(event.Lost)
	return &LostError{Name: e.Name, Session: e.Session, Token: g.token, Reason: reason}
}

// freed evaluates the state after a try to release, and reports whether the release is finished.
func (g *Grant) freed(f cell.Finding) (over bool, _ error) {
	now := f.Now
	ours := now.Rec != nil && now.Rec.Grant == g.ID()
	lost := g.lost(ErrBroken)
	switch {
	case f.Resolution == store.ResolutionPending:
		return false, nil
	case f.Resolution == store.ResolutionApplied && g.tries.Rec.State != lockrec.Broken:
		g.cell.Note(now)
		return true, nil
	case f.Resolution == store.ResolutionApplied:
		g.cell.Note(now)
		return true, lost
	case f.OtherWrite, ours && now.Rec.State == lockrec.Held && g.tries.Resolve(now, store.ResolveResult{}).Resolution == store.ResolutionApplied, ours && now.Rec.State == lockrec.Broken,
		ours && now.Rec.State == lockrec.Held && g.session() != nil:
		// Others requested to yield, a renewal was applied late, or the lock was broken. Or the
		// record was restored or changed by hand: then it would stay for as long as the session
		// lives, since only the session writes this grant. Free that state.
		g.noteRecord(now)
		return false, nil
	}
	g.cell.Note(now)
	if f.Resolution != store.ResolutionNotApplied {
		return true, nil // as far as can be known, it was applied and another grant followed
	}
	if lost.Reason = cmp.Or(lockrec.Loss(now.Rec, g.ID()), ErrTakenOver); lost.Reason == ErrTakenOver {
		lost.NewHolder = now.Rec.Holder
	}
	return true, lost
}
