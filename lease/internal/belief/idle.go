package belief

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// A handle may keep its grant when the last guard is released. The grant is then idle, and is still
// renewed. That ends when an acquire uses it again, when others want the lock, or when the time for
// which it is kept is over.

// becomeIdle makes a grant without guards idle for that time, and reports whether it did. It does
// not if the grant is over, or if others want the lock. The caller holds g.mu.
func (g *Grant) becomeIdle(most time.Duration) bool {
	if most <= 0 || g.ended != nil || g.releasing || g.wanted || g.cell.Space.Life.Err() != nil {
		return false
	}
	if g.acts(); g.idle == nil {
		g.idle = time.AfterFunc(most, g.freeIdle)
	}
	if g.cell.Space.Watches() && g.unlisten == nil {
		var ctx context.Context
		ctx, g.unlisten = context.WithCancel(context.Background())
		g.renewals.Go(func() { g.listen(ctx) })
	}
	return true
}

// endIdle ends the idleness of a grant, and reports whether it was idle. The caller holds g.mu.
func (g *Grant) endIdle() bool {
	if g.idle == nil {
		return false
	}
	g.idle.Stop()
	g.idle = nil
	return true
}

func (g *Grant) isIdle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.idle != nil
}

// Want notes that others want the lock. The lock is freed now if the grant is idle, else with its
// last guard. want waits for nothing.
func (g *Grant) Want() {
	g.owner().Wanted()
	g.mu.Lock()
	g.acts()
	g.wanted = true
	g.mu.Unlock()
	g.freeIdle()
}

// freeIdle begins to free the lock if the grant is idle. It waits for nothing.
func (g *Grant) freeIdle() {
	g.mu.Lock()
	idle := g.ended == nil && !g.releasing && g.endIdle()
	if idle {
		g.releasing = true
	}
	g.mu.Unlock()
	if idle {
		go func() { _ = g.Release(context.Background(), ErrReleased) }() // an event carries its error
	}
}

// listen reads a request to yield as soon as the store reports the change.
func (g *Grant) listen(ctx context.Context) {
	for pause := g.cell.Space.Backoff(g.cell.Space.Set.MinPoll, g.cell.Space.Set.MaxPoll); ctx.Err() == nil; {
		g.mu.Lock()
		version := g.known().Base
		g.mu.Unlock()
		if g.cell.Space.Watcher.Watch(ctx, g.cell.Key, version) == nil {
			_ = g.checkRecord(ctx, version)
		}
		if g.standsAt(version) { // the watcher failed, or returned without a change
			_ = pause.Wait(ctx)
		} else {
			pause.Tries = 0
		}
	}
}

func (g *Grant) standsAt(version store.Version) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known().Base == version
}

// checkRecord reads what others have written over that version of the grant's record, or over any.
// It reads while it does not have the turn to write. So a read that hangs delays neither a renewal
// nor a release.
func (g *Grant) checkRecord(ctx context.Context, version store.Version) error {
	var now *cell.Seen
	turn := g.turn()
	for base := version; ; {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return store.Cause(ctx)
		}
		same := g.standsAt(base)
		var err error
		switch {
		case now != nil && same:
			_, err = g.found(now, store.ResolveResult{})
		case version == "": // what was read may be older than the grant's own last write
			base = g.tries.Base
		}
		<-turn
		if now != nil && same || version != "" && !same {
			return err // nothing was read, or the store reported the holder's own write
		}
		if now, err = g.cell.Fetch(ctx); err != nil {
			return err
		}
	}
}
