package lease

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// verdict tells whether a lock may be taken in the state that was seen.
type verdict struct {
	open   bool
	reason string        // why a grant that was not released is over
	wait   time.Duration // when not open: until it will be, if nothing changes
}

// judge decides whether the lock may be taken. Whoever takes it does so by a write
// that is conditional on this very version, so that a state read earlier serves as
// well as one read now: if it was renewed meanwhile, the write does not happen.
func (h *Handle) judge(ctx context.Context, s *seen) verdict {
	switch {
	case s.rec == nil, s.rec.State == Free:
		return verdict{open: true}
	case s.rec.State == Broken && s.rec.Now:
		return verdict{open: true, reason: "broken with immediate effect"}
	}
	if over, ours := h.ours(s.rec); over {
		return verdict{open: true, reason: "this handle's own earlier grant"}
	} else if ours > 0 {
		return verdict{wait: ours}
	}
	if h.c.set.ReclaimOwn && s.rec.Holder == h.c.set.Holder && s.rec.Process != processID() {
		return verdict{open: true, reason: "an earlier process of this holder"}
	}
	if h.c.presence != nil && s.rec.Presence != "" && h.c.presence.Judge(ctx, s.rec.Presence) == store.Dead {
		return verdict{open: true, reason: "its process is dead"}
	}
	expiry := h.c.set.expiry(s.rec.TTL)
	watched := h.c.clock.monotonic().Sub(s.at)
	if watched >= expiry {
		return verdict{open: true, reason: "not renewed while watched for " + s.rec.TTL.String()}
	}
	// A broken record has the age of what it broke, too.
	if !h.c.set.NoStoreAge && s.age >= 0 && s.age+s.rec.Stood >= expiry && h.c.clock.wall().Sub(s.rec.Renewed) >= expiry {
		return verdict{open: true, reason: "expired by the store's clock"}
	}
	return verdict{wait: expiry - watched}
}

// ours tells whether the record shows a grant of this handle that is over: one
// that was never handed out, or whose guards were all released. A grant that was
// lost while its guards still exist may have work that is stopping: then it tells
// how long the lease would have lasted.
func (h *Handle) ours(r *Record) (over bool, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.abandoned[r.Grant] {
		return true, 0
	}
	g := h.grant
	if g == nil || g.id != r.Grant {
		return false, 0
	}
	now := h.c.clock.look()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		return false, 0 // attempts join it, and never come here
	}
	if g.detached {
		return false, 0 // it goes on in a ticket
	}
	left := g.sent + h.c.set.TTL - now
	return g.releasing || left <= 0, max(left, 0)
}

// abandon remembers a grant that was sent and will never be handed out.
func (h *Handle) abandon(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.abandoned == nil || len(h.abandoned) > 100 {
		h.abandoned = map[string]bool{}
	}
	h.abandoned[id] = true
}

// await returns when it is worth trying again.
func (h *Handle) await(ctx context.Context, held *HeldError, polls *backoff) {
	wait := max(held.Wait, time.Millisecond)
	watcher, watches := store.As[store.Watcher](h.c.st)
	if !watches {
		wait = min(wait, polls.pause())
	} else {
		// Nobody should have to trust a watcher for ever.
		wait = min(wait, 2*h.c.set.MaxPoll)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if h.c.presence != nil && held.Record.Presence != "" && held.Record.State != Free {
		wg.Go(func() {
			if h.c.presence.Await(ctx, held.Record.Presence) == nil {
				cancel()
			}
		})
	}
	last := h.known()
	if watches && last != nil && watcher.Watch(ctx, h.key, last.version) == nil {
		return
	}
	// No watcher, or one that failed.
	if watches && ctx.Err() == nil {
		_ = sleep(ctx, polls.pause())
		return
	}
	<-ctx.Done()
}
