package checkpoint

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// The pauses between tries are random, and grow between these bounds.
const (
	minPause = time.Millisecond
	maxPause = 250 * time.Millisecond
)

// plan is the result of a batch on one state: at most one write, and a decision for each
// call. The decisions are valid once that write is known to be applied.
type plan struct {
	base      state
	next      record
	write     bool
	value     []byte
	decisions []decision
}

// runBatch carries out a batch of calls, and answers every one of them.
//
// It writes against the state in memory, if that is certain: if the write is applied, the
// memory was right. Any other answer (behind, fenced, ...) is based on a state that was
// read while the calls waited.
func (l *keyQueue) runBatch(ctx context.Context, batch []*call) {
	base, fresh, err := l.start(ctx, batch)
	for try := 1; ; try++ {
		if err == nil {
			err = l.checkHolder(ctx, batch[0], base)
		}
		var p plan
		if err == nil {
			p, err = l.plan(batch, base)
		}
		if err != nil {
			l.fail(batch, err)
			return
		}
		if !p.write && !fresh {
			base, err = l.reread(ctx)
			fresh = true
			continue
		}
		if !p.write {
			l.finish(batch, p, base)
			return
		}
		before := l.cached()
		current, cause := l.write(ctx, p)
		if cause == nil {
			l.finish(batch, p, current)
			return
		}
		if !errors.Is(cause, store.ErrConflict) || store.OutcomeOf(cause) != store.NotApplied {
			l.fail(batch, cause)
			return
		}
		l.cancelSent(batch)
		fresh = true
		if try == 1 {
			base, err = l.afterConflict(ctx, before, current, cause)
		} else if backoff.Wait(ctx, try, minPause, maxPause) != nil {
			err = store.CheckContext(ctx)
		} else {
			base, err = l.reread(ctx)
		}
	}
}

// start returns the state that the first try is written against. fresh says that it was
// read for these calls.
func (l *keyQueue) start(ctx context.Context, batch []*call) (s state, fresh bool, err error) {
	before := l.cached()
	if batch[0].shared() && before.certain {
		return before, false, nil
	}
	if l.k.delayed && batch[0].shared() {
		s, err = l.readUncommitted(ctx)
		if err != nil || !s.older(&before) {
			return s, false, err
		}
	}
	s, err = l.reread(ctx)
	return s, true, err
}

// reread reads the register, and sets wentBack if the store went back.
func (l *keyQueue) reread(ctx context.Context) (state, error) {
	before := l.cached()
	s, err := l.read(ctx)
	s.wentBack = s.older(&before)
	return s, err
}

// afterConflict returns the state that caused the conflict of a write. It takes the state
// from the conflict, if the conflict carries it, and reads otherwise. before is the state
// that was known when the write began.
func (l *keyQueue) afterConflict(ctx context.Context, before, met state, cause error) (state, error) {
	var conflict *store.ConflictError
	if !l.k.delayed && !met.wasRead && errors.As(cause, &conflict) && conflict.HasCurrent {
		var err error
		if met, err = l.parse(conflict.Value, conflict.Version); err != nil {
			return state{}, err
		}
	}
	if !met.wasRead {
		return l.reread(ctx)
	}
	met.wentBack = met.older(&before)
	return met, nil
}

// checkHolder refuses a Reset or Delete while another holder has the lease. It calls HeldBy
// after the checkpoint was read. A holder that takes the lease later raises the fence
// first, so the write that follows here is a conflict.
func (l *keyQueue) checkHolder(ctx context.Context, c *call, base state) error {
	if c.shared() || c.Force || l.k.opts.HeldBy == nil || !c.on(base.rec).Write {
		return nil
	}
	h, held, err := l.k.opts.HeldBy(ctx, l.key)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	if held && (h.Token == 0 || h.Token != c.Token) {
		c.answer.Current = base.rec.checkpoint(l.key)
		return &HeldError{Key: l.key, Holder: h}
	}
	return nil
}

// plan decides about the calls one after the other, and marks those that are part of the
// write. It skips calls whose callers have left.
func (l *keyQueue) plan(batch []*call, base state) (plan, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := plan{base: base, next: base.rec, decisions: make([]decision, len(batch))}
	for i, c := range batch {
		if c.Abandoned {
			continue
		}
		if c.Epoch == 0 && base.certain {
			c.Epoch = base.rec.epoch // and keeps it if the next try finds another epoch
		}
		v := c.on(p.next)
		if base.wentBack && c.Verb == VerbAdvance {
			v = decision{Decision{Status: RolledBack}, p.next}
		}
		p.decisions[i] = v
		p.next = v.next
		p.write = p.write || v.Write
	}
	if !p.write && !base.durable && p.relies(batch) {
		// One more write of the same state makes it durable.
		p.write = true
	}
	if !p.write {
		return p, nil
	}
	// The decisions about the other calls use the final state of the batch: no reader ever
	// sees the states between.
	for i, c := range batch {
		if v := &p.decisions[i]; c.Verb == VerbAdvance && !c.Abandoned && !v.Write && v.Status != RolledBack {
			v.Status = c.on(p.next).Status
		}
	}
	p.next = p.next.follow()
	p.next.chronicle(&base.rec, batch[0].Verb, l.k.opts.History)
	var err error
	if p.value, err = p.next.encode(l.key); errors.Is(err, store.ErrTooLarge) {
		delete(p.next.unknown, historyField) // or what is there in place of a history
		p.value, err = p.next.encode(l.key)
	}
	if err != nil {
		return p, store.MarkNotApplied(&store.OpError{Op: "put", Key: l.register, Err: err})
	}
	for i, c := range batch {
		c.Sent = p.decisions[i].Write
	}
	return p, nil
}

// relies reports whether a caller learns that a saved state covers its position, or has its token. It may
// rely on that state as on its own write, so that state must be durable as well.
func (p *plan) relies(batch []*call) bool {
	for i, c := range batch {
		d := p.decisions[i]
		if !c.Abandoned && (d.Status == Unchanged || d.Status == Behind || c.Verb == VerbFence && d.Err == nil) {
			return true
		}
	}
	return false
}

// cancelSent records that the write which the calls were part of was certainly not applied.
func (l *keyQueue) cancelSent(batch []*call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range batch {
		c.Sent = false
	}
}

// write writes the plan, and resolves an unknown outcome. It returns the state that the
// write made, or a later one. With a conflict it may return the state that caused it.
func (l *keyQueue) write(ctx context.Context, p plan) (state, error) {
	st, prev := l.k.st, p.base.version
	version, err := st.Put(ctx, l.register, prev, p.value)
	if err != nil && (store.OutcomeOf(err) == store.NotApplied || l.k.delayed) {
		return state{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.k.opts.resolveTimeout)
	defer cancel()
	found, err := store.ResolvePut(ctx, st, l.register, prev, p.value, version, err)
	if err != nil {
		return state{}, err
	}
	if found.Resolution == store.ResolutionApplied {
		return state{rec: p.next, version: found.Current.Version, wasRead: true, certain: true, durable: true}, nil
	}
	later, err := l.parse(found.Current.Value, found.Current.Version)
	switch {
	case found.Resolution == store.ResolutionNotApplied && err != nil:
		return state{}, store.ErrConflict // the next read shows why
	case found.Resolution == store.ResolutionNotApplied:
		return later, store.ErrConflict
	case err != nil: // applied, but the results of the calls are not known
		return state{}, store.MarkUnknown(err)
	}
	return later, nil
}

// finish answers all calls of a batch with the state after the batch. current is that
// state, or a later one that was read while an unknown outcome was resolved.
func (l *keyQueue) finish(batch []*call, p plan, current state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	after := current.rec
	if p.write {
		after = p.next
	}
	shows := false
	for i, c := range batch {
		if v := p.decisions[i]; c.Verb != VerbAdvance && !c.Abandoned && v.Err == nil {
			shows = true // the caller requested the state, and continues from it
		}
	}
	accepted := p.base.wentBack && (p.write || shows)
	if accepted || !current.wentBack && current.rec.n >= l.last.rec.n {
		l.last = current
		l.last.wentBack = false
	}
	if shows || l.epoch == 0 {
		l.epoch = after.epoch
	}
	l.want = len(batch) + l.queue.Len()
	for i, c := range batch {
		v := p.decisions[i]
		c.answer = Result{v.Status, after.checkpoint(l.key)}
		c.Finish(v.Err)
	}
}

// fail answers all calls of a batch with an error. An unknown outcome remains unknown only
// for the calls that were part of a write.
func (l *keyQueue) fail(batch []*call, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unknown := store.OutcomeOf(err) == store.Unknown
	if unknown {
		l.last.certain = false
	}
	for _, c := range batch {
		if unknown && c.Sent {
			c.Finish(err)
		} else {
			c.Finish(store.MarkNotApplied(err))
		}
	}
}
