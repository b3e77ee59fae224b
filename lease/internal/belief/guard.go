package belief

import (
	"context"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
)

// Guard is one user of a grant. The grant lasts until the last of its guards is released. The mutex
// of the grant guards it.
type Guard struct {
	g   *Grant
	ctx context.Context // that it was taken with: its values are the guard's
	own *guardState     // nil while the guard has nothing of that
}

// guardState is what most guards do not have that are only held.
type guardState struct {
	next   *Guard                  // of the same grant
	ctx    context.Context         // its own; nil until it is needed
	cancel context.CancelCauseFunc // of ctx
	cause  error                   // why the guard has ended, nil until it has

	wasLastHolder bool // no other handle has held the lock since the guard before
	released      bool
	last          bool // it was the last guard of the grant that was released
}

// state returns the state of the guard, which may be changed. The caller holds the mutex of the grant.
func (g *Guard) state() *guardState {
	if g.own == nil {
		g.own = &guardState{}
	}
	return g.own
}

// why is why the guard has ended; nil until it has. The caller holds the mutex of the grant.
func (g *Guard) why() error {
	if g.own == nil {
		return nil
	}
	return g.own.cause
}

// Join returns a new guard of the grant, with the values of ctx. It returns nil if the grant is over.
func (g *Grant) Join(ctx context.Context) *Guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended != nil || g.releasing {
		return nil
	}
	guard := &Guard{g: g, ctx: cell.Unbound(ctx)}
	if last := g.endIdle() || g.followsItself(); last || g.guard != nil {
		guard.own = &guardState{next: g.guard, wasLastHolder: last}
	}
	g.guard = guard
	return guard
}

// Grant returns the grant of the guard.
func (g *Guard) Grant() *Grant { return g.g }

// WasLastHolder reports whether no other handle has held the lock since the guard before.
func (g *Guard) WasLastHolder() bool {
	g.g.mu.Lock()
	defer g.g.mu.Unlock()
	return g.own != nil && g.own.wasLastHolder
}

// Context returns a context that ends with the guard. Its method Err reads the clocks.
func (g *Guard) Context() context.Context {
	g.g.Check()
	g.g.mu.Lock()
	defer g.g.mu.Unlock()
	own := g.state()
	if own.ctx == nil {
		inner, cancel := context.WithCancelCause(context.WithoutCancel(g.ctx))
		if own.ctx, own.cancel = (guardContext{inner, g}), cancel; own.cause != nil {
			cancel(own.cause)
		}
	}
	return own.ctx
}

// end ends the guard. The caller holds the mutex of the grant.
func (g *Guard) end(cause error) {
	own := g.state()
	if own.cause != nil {
		return
	}
	own.cause = cause
	if own.cancel != nil {
		own.cancel(cause)
	}
}

// Err reads the clocks, and returns why the guard has ended; nil until it has.
func (g *Guard) Err() error {
	g.g.Check()
	g.g.mu.Lock()
	defer g.g.mu.Unlock()
	return g.why()
}

// Release ends the guard, and the grant if no other guard is left and the grant is not kept.
func (g *Guard) Release(ctx context.Context) error {
	g.g.Check()
	gr := g.g
	most := gr.special().Linger
	gr.mu.Lock()
	if most > 0 && gr.known().Rec.Linger == 0 { // it was handed over: others do not know that asking pays
		most = 0
	}
	own := g.state()
	if !own.released {
		g.end(ErrReleased)
		gr.drop(g)
		own.released, own.last = true, gr.guard == nil && !gr.becomeIdle(most)
		if own.last {
			gr.acts()
			gr.releasing = true
		}
	}
	last, cause := own.last, own.cause
	gr.mu.Unlock()
	if last {
		return gr.Release(ctx, ErrReleased)
	}
	if lost, ok := cause.(*LostError); ok {
		return lost
	}
	return nil
}

// drop takes a guard from those of the grant. The caller holds g.mu.
func (g *Grant) drop(guard *Guard) {
	for at := &g.guard; *at != nil; at = &(*at).state().next {
		if *at == guard {
			*at = guard.state().next
			return
		}
	}
}

// guardContext is a context that reads the clocks each time it is queried. A process may be stopped
// past the end of its lease, and its timers may fire late. Err and Done report the end
// nevertheless.
type guardContext struct {
	context.Context
	guard *Guard
}

// Err implements context.Context.
func (c guardContext) Err() error {
	c.guard.g.Check()
	return c.Context.Err()
}

// Value gives [HeldAround] the guard.
func (c guardContext) Value(key any) any {
	v := c.Context.Value(key)
	if key == (workKey{}) {
		around, _ := v.(*Work)
		return &Work{guard: c.guard, around: around}
	}
	return v
}

// Work is the context of a function that runs under a guard. Like that of the guard it reads the
// clocks each time it is queried.
type Work struct {
	context.Context
	guard  *Guard
	end    context.CancelCauseFunc
	around *Work // that of the function around it
}

// workKey is the key of the innermost work in a context.
type workKey struct{}

// NewWork returns a context for a function under the guard. It has the values and the end of the
// context that the guard was taken with.
func (g *Guard) NewWork() *Work {
	around, _ := g.ctx.Value(workKey{}).(*Work)
	w := &Work{guard: g, around: around}
	w.Context, w.end = context.WithCancelCause(context.WithValue(g.ctx, workKey{}, w))
	return w
}

// End ends the context.
func (w *Work) End(cause error) { w.end(cause) }

// Err implements context.Context.
func (w *Work) Err() error {
	if err := w.guard.Err(); err != nil {
		w.end(err)
	}
	return w.Context.Err()
}

// HeldAround returns the grant of a function around ctx, or of the guard whose context ctx is made
// of, that holds the record of c through another cell. A wait for c with ctx would not end.
func HeldAround(ctx context.Context, c *cell.Cell) *Grant {
	for w, _ := ctx.Value(workKey{}).(*Work); w != nil; w = w.around {
		if of := w.guard.g.cell; of != c && of.Same(c) && w.guard.Err() == nil {
			return w.guard.g
		}
	}
	return nil
}
