package belief

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/event"
)

// Acknowledge notes a request in a record that the grant's next write is based on.
func (g *Grant) Acknowledge(rec *lockrec.Record) {
	if len(rec.LocksToCheck) > 0 {
		g.owner().Named(rec.LocksToCheck)
	}
	if len(lockrec.RequestedOf(rec)) == 0 || !lockrec.IsFor(rec.YieldRequest, g.ID()) {
		return
	}
	asked := rec.YieldRequest
	if g.Want(); asked.OnlyIfIdle {
		return
	}
	g.mu.Lock()
	g.acts()
	first := g.request == nil
	g.request = rec
	if first && g.ended == nil {
		g.yieldRequestedLocked()
		g.signalYield()
	}
	g.mu.Unlock()
	if first {
		e := g.event(event.YieldRequested)
		e.Token, e.Holder, e.Reason = g.token, asked.By, asked.Reason
		g.cell.Space.Emit(e)
	}
}

// yieldRequestedLocked returns a context that ends when the grant gets a request to yield. The
// caller holds g.mu. Most grants never get one, and make no context.
func (g *Grant) yieldRequestedLocked() context.Context {
	if g.acts(); g.yieldCtx == nil {
		g.yieldCtx, g.signalYield = context.WithCancel(context.Background())
		if g.request != nil {
			g.signalYield()
		}
	}
	return g.yieldCtx
}

// YieldContext returns a context that ends when the grant gets a request to yield.
func (g *Grant) YieldContext() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.yieldRequestedLocked()
}

// YieldRequested reports whether the holder has read a request to yield, and has not refused it.
func (g *Grant) YieldRequested() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.request != nil && g.request.YieldRequest.RefusalReason == ""
}

// Request returns the record with the request to yield that the holder has read, or nil.
func (g *Grant) Request() *lockrec.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.request
}

// CheckUnderSession reads the record of a lock under the session. If the lock was broken, it is
// freed when its holder has had the time to stop.
func (g *Grant) CheckUnderSession(ctx context.Context) error {
	err := g.checkRecord(ctx, "")
	if errors.Is(g.Cause(), ErrBroken) {
		time.AfterFunc(g.cell.Space.Set.Grace, func() { _ = g.Release(context.Background(), ErrReleased) })
	}
	if g.Cause() != nil {
		return nil // it is over
	}
	return err
}
