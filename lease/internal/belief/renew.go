package belief

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/store"
)

// renewalDelay returns the time until a renewal is due after a write that was sent at that time.
func (g *Grant) renewalDelay(sent time.Duration) time.Duration {
	due := sent + g.cell.Space.Set.RenewInterval
	stray := time.Duration((2*g.cell.Space.Random() - 1) * cell.RenewalJitter * float64(g.cell.Space.Set.RenewInterval))
	return max(1, due+stray-g.cell.Space.Clock.SinceStart())
}

// renewAll renews the lease, the first time at once, until the grant ends. It continues after every
// error.
func (g *Grant) renewAll(ctx context.Context) {
	defer g.renewals.Done()
	set, stop := g.cell.Space.Set, g.stop()
	pause := g.cell.Space.Backoff(min(set.MinPoll, set.RenewInterval/4), min(set.RenewInterval/2, cell.MaxCall))
	for g.Check() > 0 {
		var wait time.Duration
		if err := g.Renew(ctx, false, nil); err == nil {
			pause.Tries = 0
			wait = g.renewalDelay(g.lastSent())
		} else {
			g.fail(err)
			// The less trust is left, the more often it is tried.
			wait = max(10*time.Millisecond, min(pause.Pause(), g.Check()/3))
		}
		select {
		case <-stop:
			return
		case <-time.After(wait):
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
	rec     *lockrec.Record     // of a write: what was sent; of a read: nil
	at      time.Duration       // of a write: when it was sent
	version store.Version       // of a write that was applied
	now     *cell.Seen          // of a read: the state that it returned
	found   store.ResolveResult // of a read
	err     error
}

// Renew writes the record again, changed by change if that is given, and resolves the write. A nil
// error means that the lease counts from the sending of one of its writes, or of an earlier one
// that turned out to be applied. After an error no request of it is awaited. The outcome is unknown
// if that of any of its writes is. A lost lease has ended when renew returns. A firm write survives
// a power cut.
//
// Renew does not give up a slow request while there is trust left: its reply may still come. When a
// third of the trust that was left has passed, renew sends another one over the same state, so that
// at most one of them is applied. So a connection that hangs costs a third of the trust, and a
// store that is always slow costs none. The lease counts from the sending of the write that was
// applied.
func (g *Grant) Renew(ctx context.Context, firm bool, change func(*lockrec.Record) error) (err error) {
	turn, stop := g.turn(), g.stop()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-stop:
		return g.Cause()
	case <-ctx.Done():
		return store.Cause(ctx)
	}
	left := g.Check()
	if left <= 0 {
		return g.Cause()
	}
	r := &renewal{g: g, change: change, put: g.cell.Space.Store.Put, firm: true, stop: stop, replies: make(chan *reply, maxTries+maxReads)}
	if volatile := g.cell.Space.Unsynced; volatile != nil && !firm {
		r.put, r.firm = volatile.PutUnsynced, false
	}
	defer func() {
		if err != nil && slices.ContainsFunc(g.tries.Open(), func(s cell.Try) bool { return slices.Contains(r.sent, s.Rec) }) {
			err = store.MarkUnknown(err)
		}
	}()
	defer r.flying.Wait() // calls bounds this wait
	ctx, cancel := context.WithTimeout(cell.Outlive(ctx), left)
	defer cancel()
	g.flies(cancel)
	defer g.flies(nil)
	g.peekForOtherWrites(ctx, left)

	// This goroutine sends the first write itself: the stack of another one would have to grow.
	send, err := r.next(ctx)
	if err != nil {
		return err
	}
	delay, slow := g.hedgeDelay(left), make(chan error, 1)
	timer := time.AfterFunc(delay, func() {
		slow <- r.await(ctx, 0)
		cancel() // the first write, if it still hangs
	})
	first := send()
	if !timer.Stop() {
		r.replies <- first
		return <-slow
	}
	if over, err := r.answered(ctx, first); over {
		return err
	}
	return r.await(ctx, delay-(g.cell.Space.Clock.SinceStart()-first.at))
}

// await uses the replies until the renewal is over, and returns its result. It sends another write
// after the delay, if there is no result before.
func (r *renewal) await(ctx context.Context, delay time.Duration) error {
	g := r.g
	next := time.NewTimer(delay)
	defer next.Stop()
	for r.writing+r.reading > 0 {
		select {
		case <-ctx.Done():
			// Requests in flight continue. Their nonces are remembered.
			g.Check() // the trust may just have ended
			return errors.Join(r.problem, store.Cause(ctx), g.Cause())
		case <-r.stop:
			// The lease is released or lost: wait for the requests in flight, and send no more.
			next.Stop()
			r.stop = nil
		case <-next.C:
			left := g.Check()
			if left <= 0 {
				continue // as above
			}
			if r.writing < maxTries {
				if err := r.write(ctx); err != nil {
					return err
				}
			}
			next.Reset(g.hedgeDelay(left))
		case reply := <-r.replies:
			if over, err := r.answered(ctx, reply); over {
				return err
			}
		}
	}
	if g.Check() <= 0 {
		return errors.Join(r.problem, g.Cause())
	}
	return r.problem
}

// renewal is one call of [Grant.Renew], which has the turn to write the record.
type renewal struct {
	g                *Grant
	change           func(*lockrec.Record) error
	put              func(ctx context.Context, key string, base store.Version, value []byte) (store.Version, error)
	firm             bool            // put makes writes that survive a power cut
	stop             <-chan struct{} // closed when the grant ends; nil when no further write is sent
	replies          chan *reply
	writing, reading int               // requests in flight
	sent             []*lockrec.Record // by this call
	flying           sync.WaitGroup
	problem          error // of the last request that failed
}

// write sends a write over the base of the grant.
func (r *renewal) write(ctx context.Context) error {
	send, err := r.next(ctx)
	if err == nil {
		r.flying.Go(func() { r.replies <- send() })
	}
	return err
}

// next notes a write over the base of the grant, and returns the function that sends it.
func (r *renewal) next(ctx context.Context) (send func() *reply, err error) {
	g := r.g
	rec := lockrec.Renewed(g.tries.Rec, g.cell.Space.Clock.Wall())
	rec.Nonce = rand.Text()
	if r.change != nil {
		if err := r.change(&rec); err != nil {
			return nil, err
		}
	}
	g.cell.Chronicle(&rec, g.tries.Rec, nil)
	value, err := lockrec.Encode(&rec)
	if err != nil {
		return nil, err
	}
	r.writing++
	at, t := g.cell.Space.Clock.SinceStart(), g.tries
	// Before the write is sent: a ticket that is made while the write hangs names it as pending.
	g.mu.Lock()
	t.Add(&rec, at)
	g.mu.Unlock()
	r.sent = append(r.sent, &rec)
	return func() *reply {
		version, err := r.put(ctx, g.cell.Key, t.Base, value)
		return &reply{tries: t, rec: &rec, at: at, version: version, err: err}
	}, nil
}

// read sends a read that resolves the writes over the base of the grant.
func (r *renewal) read(ctx context.Context) {
	r.reading++
	t := r.g.tries
	versions := t.Versions()
	r.flying.Go(func() {
		now, found, err := r.g.cell.ReadBack(ctx, t.Base, versions)
		r.replies <- &reply{tries: t, now: now, found: found, err: err}
	})
}

// answered uses a reply, and reports whether the renewal is over, with its result.
func (r *renewal) answered(ctx context.Context, a *reply) (over bool, _ error) {
	g := r.g
	if a.rec != nil {
		r.writing--
	} else {
		r.reading--
	}
	switch {
	case a.rec != nil && a.err == nil:
		return true, g.renewed(a.version, a.rec, a.at, r.firm)
	case a.tries != g.tries:
		// The write was sent over a state that others have replaced. The state in its conflict may be
		// older than the last one read.
		return false, nil
	case a.rec == nil && a.err == nil:
		return r.judge(ctx, a.now, a.found)
	case a.rec == nil:
		// An unreadable record shows neither a loss nor an absence: the outcome stays unknown until
		// the deadline.
		r.problem = errors.Join(r.problem, a.err)
		return false, nil
	}
	r.problem = a.err
	g.mu.Lock()
	g.tries.Failed(a.rec, a.err)
	g.mu.Unlock()
	// The write that caused the conflict may be this one, repeated by a transport, or one that was
	// sent before it.
	if e, known := cell.ConflictEntry(a.err); known {
		now, err := g.cell.DecodeEntry(time.Time{}, e, nil)
		if err == nil {
			return r.judge(ctx, now, store.ResolveResult{})
		}
		r.problem = errors.Join(r.problem, err)
	} else if !cell.NotApplied(a.err) && r.reading < maxReads {
		r.read(ctx)
	}
	return false, nil
}

// judge calls found, for a state that was read. The renewal continues over what others have written.
func (r *renewal) judge(ctx context.Context, now *cell.Seen, found store.ResolveResult) (over bool, _ error) {
	t := r.g.tries
	if over, err := r.g.found(now, found); over || r.g.tries == t || r.stop == nil || r.writing == maxTries {
		return over, err
	}
	err := r.write(ctx)
	return err != nil, err
}

// peekForOtherWrites reads the record for writes of others, where writes take long and reads do
// not. Otherwise the renewal would find such a write only by a conflict, too late for another
// write.
func (g *Grant) peekForOtherWrites(ctx context.Context, left time.Duration) {
	if !g.cell.Space.Set.Traits.Delayed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(left/20, time.Second))
	defer cancel()
	value, version, err := store.GetUncommitted(ctx, g.cell.Space.Store, g.cell.Key)
	if now, err := g.cell.DecodeEntry(time.Time{}, store.Entry{Value: value, Version: version}, err); err == nil && lockrec.OnlyOthersWrote(now.Rec, g.tries.Rec) {
		g.noteRecord(now)
	}
}

// hedgeDelay is how long a request of a renewal is waited for before another is sent.
func (g *Grant) hedgeDelay(left time.Duration) time.Duration {
	return max(min(left/3, cell.MaxCall), g.cell.Space.Set.WriteTime(), time.Millisecond)
}

// renewed notes a write that is known to be applied and was sent at the time at. If the lease is
// over nevertheless, it returns the reason: the reply can come too late.
func (g *Grant) renewed(version store.Version, rec *lockrec.Record, at time.Duration, firm bool) error {
	g.mu.Lock()
	g.rebase(&cell.Seen{Version: version, Rec: rec}, firm)
	g.sent = max(g.sent, at)
	g.atRisk, g.problem = false, nil
	g.mu.Unlock()
	if g.Check() <= 0 {
		return g.Cause()
	}
	if g.session() == nil { // otherwise only the data of the lock changed
		g.Emit(event.Renewed, g.cell.Space.Clock.SinceStart()-at, nil)
	}
	g.owner().Renewed()
	g.Acknowledge(rec)
	return nil
}

// noteRecord notes the record of a grant in a version that may not survive a power cut.
func (g *Grant) noteRecord(now *cell.Seen) {
	g.mu.Lock()
	g.rebase(now, false)
	g.mu.Unlock()
	g.Acknowledge(now.Rec)
}

// rebase makes a state the base of the grant's next write. The caller holds g.mu.
func (g *Grant) rebase(now *cell.Seen, firm bool) {
	g.firm = firm
	g.tries = g.cell.Over(now) // the state that the other tries name was replaced
}

// found evaluates the state read after a write in doubt, and reports whether that resolves it: the
// lease was renewed after all, or it is lost. If others have written and left the grant as it was,
// the grant continues over their state, and no try is left.
func (g *Grant) found(now *cell.Seen, found store.ResolveResult) (over bool, _ error) {
	switch member := g.IsMember(); {
	case member && now.Names(g.ID()) && now.Rec.State != lockrec.Broken:
		g.Acknowledge(now.Rec)
		return false, nil
	case member:
		g.lose(&LostError{Reason: lockrec.Loss(now.Rec, g.ID())})
		return true, g.Cause()
	}
	f := g.tries.Resolve(now, found)
	lost := &LostError{Reason: lockrec.Loss(now.Rec, g.ID())}
	switch {
	case f.Resolution == store.ResolutionPending:
		return false, nil // to be sent again over the same state
	case lost.Reason == ErrBroken:
		if lost.now = now.Rec.Immediate; now.Rec.Grant == g.ID() {
			g.noteRecord(now) // the state that a release frees
		}
	case lost.Reason == ErrTakenOver:
		lost.NewHolder = now.Rec.Holder
	case lost.Reason != nil:
	case f.OtherWrite:
		g.noteRecord(now)
		return false, nil
	case g.cell.Space.Set.Traits.Delayed():
		return false, nil // never adopted: the outcome stays unknown until the deadline
	case f.Resolution == store.ResolutionApplied:
		return true, g.renewed(now.Version, now.Rec, f.Try.At, f.Durable)
	default:
		lost.Reason, lost.NewHolder = ErrTakenOver, "a copy of this lease"
	}
	g.lose(lost)
	return true, g.Cause()
}

// IsMember reports whether the grant is one of several that can hold the lock: a reader's, or one
// of a slot. Its release changes a record that others write, too.
func (g *Grant) IsMember() bool {
	return g.special().Member != nil
}
