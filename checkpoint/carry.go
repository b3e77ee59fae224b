package checkpoint

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The pauses between tries grow, each of a random length, between these bounds.
const (
	minPause = time.Millisecond
	maxPause = 250 * time.Millisecond
)

// plan is what a batch comes to on one state: at most one write, and a verdict on
// each call that holds once that write is known to have been applied.
type plan struct {
	base     state
	next     record
	write    bool
	value    []byte
	verdicts []verdict
}

// carry brings a batch of calls to its end: it answers every one of them.
//
// It writes against what it remembers, if that is certain, since a write that is
// applied proves that the memory was right. Any other answer (behind, fenced, ...)
// is given only on a state that was read while the calls were waiting.
func (l *line) carry(ctx context.Context, batch []*call) {
	base, fresh, err := l.start(ctx, batch)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		if err == nil {
			err = l.askHolder(ctx, batch[0], base)
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
		before := l.memory()
		current, cause := l.write(ctx, p)
		if cause == nil {
			l.finish(batch, p, current)
			return
		}
		if !errors.Is(cause, store.ErrConflict) {
			l.fail(batch, cause)
			return
		}
		l.unsend(batch)
		fresh = true
		if pause == minPause {
			base, err = l.lost(ctx, before, current, cause)
		} else if err = sleep(ctx, rand.N(pause)); err == nil {
			base, err = l.reread(ctx)
		}
	}
}

// start returns the state that the first try is written against, and whether it was
// read for these calls.
func (l *line) start(ctx context.Context, batch []*call) (s state, fresh bool, err error) {
	before := l.memory()
	if batch[0].shared() && before.certain {
		return before, false, nil
	}
	if _, peeks := store.As[store.Peeker](l.k.st); peeks && batch[0].shared() {
		s, err = l.peek(ctx)
		if err != nil || !s.older(&before) {
			return s, false, err
		}
	}
	s, err = l.reread(ctx)
	return s, true, err
}

// reread reads the register, and tells whether the store went back.
func (l *line) reread(ctx context.Context) (state, error) {
	before := l.memory()
	s, err := l.read(ctx)
	s.back = s.older(&before)
	return s, err
}

// lost returns the state that was in the way of a write: at once, from the conflict,
// where it tells. before is what was known when the write began.
func (l *line) lost(ctx context.Context, before, met state, cause error) (state, error) {
	var conflict *store.ConflictError
	if _, peeks := store.As[store.Peeker](l.k.st); !peeks && !met.known && errors.As(cause, &conflict) && conflict.Known {
		var err error
		if met, err = l.parse(conflict.Value, conflict.Version); err != nil {
			return state{}, err
		}
	}
	if !met.known {
		return l.reread(ctx)
	}
	met.back = met.older(&before)
	return met, nil
}

// askHolder refuses a Reset or Delete while another holds the lease. It is asked
// after the checkpoint was read: whoever takes the lease after the question raises
// the fence first, and that makes the write that follows here a conflict.
func (l *line) askHolder(ctx context.Context, c *call, base state) error {
	if c.shared() || c.Force || l.k.opts.HeldBy == nil || !c.on(base.rec).Write {
		return nil
	}
	h, held, err := l.k.opts.HeldBy(ctx, l.key)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	if held && h.Token != c.Token {
		c.answer.current = base.rec.checkpoint(l.key)
		return &HeldError{Key: l.key, Holder: h}
	}
	return nil
}

// plan judges the calls one after the other, and marks those that have a part in the
// write. Calls whose callers have left are passed over.
func (l *line) plan(batch []*call, base state) (plan, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := plan{base: base, next: base.rec, verdicts: make([]verdict, len(batch))}
	for i, c := range batch {
		if c.Gone {
			continue
		}
		if c.Epoch == 0 && base.certain {
			c.Epoch = base.rec.epoch // and stays so if another is met in the next try
		}
		v := c.on(p.next)
		if base.back && c.Verb == VerbAdvance {
			v = verdict{Verdict{Status: RolledBack}, p.next}
		}
		p.verdicts[i] = v
		p.next = v.next
		p.write = p.write || v.Write
	}
	if !p.write && !base.durable && p.relies(batch) {
		// Writing it once more, as ours, makes it durable.
		p.write = true
	}
	if !p.write {
		return p, nil
	}
	// What stands in the way of the others is what the batch comes to: states
	// between are never seen by anybody.
	for i, c := range batch {
		if v := &p.verdicts[i]; c.Verb == VerbAdvance && !c.Gone && !v.Write && v.Status != RolledBack {
			v.Status = c.on(p.next).Status
		}
	}
	p.next = p.next.follow()
	var err error
	if p.value, err = p.next.encode(l.key); err != nil {
		return p, store.MarkNotApplied(&store.OpError{Op: "put", Key: l.register, Err: err})
	}
	for i, c := range batch {
		c.Sent = p.verdicts[i].Write
	}
	return p, nil
}

// relies reports whether a caller is told that its event is covered by what is saved:
// it may act on that as on its own write, so that must survive as well.
func (p *plan) relies(batch []*call) bool {
	for i, c := range batch {
		if s := p.verdicts[i].Status; !c.Gone && (s == Unchanged || s == Behind) {
			return true
		}
	}
	return false
}

// unsend notes that the write which the calls were part of is certainly not applied.
func (l *line) unsend(batch []*call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range batch {
		c.Sent = false
	}
}

// write writes the plan, and follows it up until its outcome is known. It returns
// the state that the write made, or a later one. With a conflict it may return the
// state that was in the way.
func (l *line) write(ctx context.Context, p plan) (state, error) {
	s, err := l.put(ctx, p.base.version, p.next, p.value)
	if err == nil || store.OutcomeOf(err) == store.NotApplied || store.TraitsOf(l.k.st).NoReadBack {
		return s, err
	}
	return l.settle(ctx, p, store.MarkUnknown(err))
}

// put writes a record once.
func (l *line) put(ctx context.Context, prev store.Version, next record, value []byte) (state, error) {
	version, err := l.k.st.Put(ctx, l.register, prev, value)
	if err != nil {
		return state{}, err
	}
	return state{rec: next, version: version, known: true, certain: true, durable: true}, nil
}

// confirm makes the state s durable, by writing it once more.
func (l *line) confirm(ctx context.Context, s state) (state, error) {
	next := s.rec.follow()
	value, err := next.encode(l.key)
	if err != nil {
		return state{}, err
	}
	return l.put(ctx, s.version, next, value)
}

// settle finds out what became of a write whose outcome is unknown, by reading
// back. cause is returned if it cannot.
//
// Our nonce stands there, or in the line of the nonces before: applied, and where
// that does not mean durable it is confirmed by one more write. The state that we
// wrote against stands there: not applied yet, and the same bytes are sent again,
// which can take effect only once. The line of nonces reaches back to that state
// without ours: another came first, and ours can never be applied. Else nobody can
// know.
func (l *line) settle(ctx context.Context, p plan, cause error) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, l.k.opts.SettleTimeout)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		s, err := l.read(ctx)
		switch yes, known := s.rec.descends(p.next.nonce, p.base.rec.nonce); {
		case errors.Is(err, store.ErrCorrupt):
			return state{}, errors.Join(cause, store.MarkUnknown(err))
		case err != nil:
			// Not readable now: try again.
		case yes && s.durable:
			return s, nil
		case yes:
			if s, err = l.confirm(ctx, s); err == nil {
				return s, nil
			}
		case s.version == p.base.version:
			if s, err = l.put(ctx, p.base.version, p.next, p.value); err == nil {
				return s, nil
			}
		case known:
			return s, store.ErrConflict
		default:
			return state{}, cause
		}
		if sleep(ctx, rand.N(pause)) != nil {
			return state{}, cause
		}
	}
}

// finish answers all calls of a batch with the state that it came to. current is
// that state, or a later one that was seen while the outcome was followed up.
func (l *line) finish(batch []*call, p plan, current state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	came := current.rec
	if p.write {
		came = p.next
	}
	shown := false
	for i, c := range batch {
		if v := p.verdicts[i]; c.Verb != VerbAdvance && !c.Gone && v.Err == nil {
			shown = true // its caller asked for the state, and goes on from it
		}
	}
	accepted := p.base.back && (p.write || shown)
	if accepted || !current.back && current.rec.n >= l.last.rec.n {
		l.last = current
		l.last.back = false
	}
	if shown || l.epoch == 0 {
		l.epoch = came.epoch
	}
	l.want = len(batch) + l.queue.Len()
	for i, c := range batch {
		v := p.verdicts[i]
		c.conclude(answer{v.Status, came.checkpoint(l.key)}, v.Err)
	}
}

// fail answers all calls of a batch with an error, which is an unknown outcome only
// for those that were part of a write.
func (l *line) fail(batch []*call, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unknown := store.OutcomeOf(err) == store.Unknown
	if unknown {
		l.last.certain = false
	}
	for _, c := range batch {
		if unknown && c.Sent {
			c.conclude(c.answer, err)
		} else {
			c.conclude(c.answer, store.MarkNotApplied(err))
		}
	}
}

// sleep waits for d, or returns the context's error, as one of a call that wrote
// nothing.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return store.MarkNotApplied(context.Cause(ctx))
	case <-t.C:
		return nil
	}
}
