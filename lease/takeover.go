package lease

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// verdict says whether a lock may be taken in the state that was seen.
type verdict struct {
	open   bool
	reason string        // why a grant that was not released is over
	wait   time.Duration // when not open: how long until the lock may be taken, if nothing changes
	next   *cell.Seen    // the newer state of the lock, to be evaluated in place of the earlier one
	err    error         // why the evaluation failed
}

// evaluate decides whether the lock may be taken. The write that takes it is conditional on this
// version. So a state that was read earlier is as good as a new one: if the holder has renewed the
// lease meanwhile, the store refuses the write.
func (h *Handle) evaluate(ctx context.Context, s *cell.Seen) verdict {
	var own lockrec.Facts
	if s.Rec != nil && s.Rec.State != Free {
		own.OwnEnded, own.OwnLeft = h.ownGrantOver(s.Rec)
	}
	judged := lockrec.Judge(s.Rec, h.cell.Facts(ctx, s, own))
	v := verdict{open: judged.Open, reason: judged.Reason, wait: judged.Wait}
	if judged.BySession {
		v = h.sessionOver(ctx, s.Rec.Session, s.Rec.TTL)
	}
	if left := h.intervalLeft(s); v.open && left > 0 {
		return verdict{wait: left}
	}
	return v
}

// intervalLeft returns how long the next grant has to wait although the one before is over.
func (h *Handle) intervalLeft(s *cell.Seen) time.Duration {
	if s.Rec == nil || h.isAbandoned(s.Rec.Grant) {
		return 0
	}
	return lockrec.Interval(s.Rec, h.c.space.Clock.Wall(), h.c.space.Clock.Monotonic().Sub(s.At))
}

// ownGrantOver reports whether the record shows a grant of this handle that is over: one that was
// never handed out, or whose guards were all released. A grant that was lost while its guards still
// exist may have work that is stopping: then ownGrantOver returns how long the lease would have
// lasted.
func (h *Handle) ownGrantOver(r *Record) (over bool, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.abandoned[r.Grant] {
		return true, 0
	}
	g := h.grant
	if g == nil || g.id != r.Grant {
		return false, 0
	}
	now, sent := h.c.space.Clock.SinceStart(), g.lastSent()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		return false, 0 // attempts join a live grant, and do not evaluate it
	}
	if g.detached {
		return false, 0 // the lease continues in a ticket
	}
	left := sent + h.c.space.Set.TTL - now
	return g.releasing || left <= 0, max(left, 0)
}

func (h *Handle) isAbandoned(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.abandoned[id]
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

// await waits for the rest of the pause that was begun, or until another try is worthwhile sooner.
func (h *Handle) await(ctx context.Context, l *waitQueue, w *waiter) {
	ctx, cancel := context.WithDeadline(ctx, l.until)
	defer cancel()
	last := h.cell.Known()
	if !l.waits || last == nil {
		w.pause(ctx, time.Until(l.until))
		return
	}
	// A watcher may return without a change, and Presence.WaitLiveness without a death. Each time
	// that happens, the pause before the next call grows.
	switch {
	case l.watched != last.Version:
		l.watched, l.idle = last.Version, (l.idle / 2).Truncate(time.Millisecond)
	case l.early:
		l.idle = min(max(2*l.idle, time.Millisecond), l.polls.most)
		if backoff.Sleep(ctx, l.idle) != nil {
			return
		}
	}
	failed := h.waitForChange(ctx, cancel, l, w, last)
	l.early = !failed && time.Now().Before(l.until)
}

// waitForChange returns when ctx ends, when the store reports a change or the holder's death, or
// when w is woken. If the store's watcher fails, waitForChange pauses as on a store without one,
// and reports that.
func (h *Handle) waitForChange(ctx context.Context, cancel context.CancelFunc, l *waitQueue, w *waiter, last *cell.Seen) (failed bool) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if h.c.space.Presence != nil && last.Rec != nil && last.Rec.Presence != "" && last.Rec.State != Free {
		wg.Go(func() {
			if h.c.space.Presence.WaitLiveness(ctx, last.Rec.Presence) == nil {
				cancel()
			}
		})
	}
	// The watcher reports what wakes w, too.
	deadline, _ := ctx.Deadline()
	wait := time.Until(deadline)
	if watcher, ok := store.As[store.Watcher](h.c.space.Store); ok {
		if r := last.Rec; r != nil && r.State == Held && r.Session != "" && l.place <= 0 && !h.c.trusts(r.Session) {
			// The lock's record does not show whether its holder lives.
			wg.Go(func() {
				if backoff.Sleep(ctx, h.readDueIn(r.Grant)) == nil && h.awaitSession(ctx, r.Session, r.TTL) {
					cancel()
				}
			})
		}
		w.pause(ctx, l.skips)
		if watcher.Watch(ctx, h.cell.Key, last.Version) == nil || ctx.Err() != nil {
			return false
		}
		failed = true
		if l.waits {
			wait = min(wait, l.polls.pause())
		}
	}
	w.pause(ctx, wait)
	return failed
}

// skipTime returns how long a waiter that is far from the head of the lock's queue does not read.
// That is a part of the time until its turn. The waiter estimates that time by how fast the first
// waiter of this client has moved forward. It is 0 for the head and the next one, and for a waiter
// in no queue. Each change of the record wakes all waiters in the queue, and shows nothing to those
// far from its head.
//
// A lock that is handed to a waiter that does not read is idle, and then the queue seems slow to
// all. So the estimate begins low, at most doubles from read to read, and falls at once. A waiter
// does not read for Options.MaxPoll at most: all waiters before it may leave at one time, and no
// estimate predicts that. A reader whose turn is that of the head or the next one has it together
// with all readers between: it does not read for Options.MinPoll at most.
func (h *Handle) skipTime(l *waitQueue, s *cell.Seen) time.Duration {
	place := -1
	if h.entered() != "" && s != nil && s.Rec != nil {
		entries := h.entries(s)
		place = slices.IndexFunc(s.Rec.Queue, func(m Member) bool { return slices.Contains(entries, m.Grant) })
	}
	now := time.Now()
	since, ahead := now.Sub(l.placed), l.place-place
	switch {
	case place < 0 || l.placed.IsZero() || ahead < 0:
		l.placed, l.step = now, max(leastStep, h.pace/4) // the queue may have become faster
	case ahead > 0:
		l.placed, l.step = now, min(since/time.Duration(ahead+1), 2*l.step) // part of one more step has passed
	default:
		l.step = max(l.step, min(since, 2*l.step))
	}
	if l.place = place; place >= 0 {
		h.pace = l.step
	}
	if place < 2 {
		return 0
	}
	most := h.c.space.Set.MaxPoll
	if lockrec.TurnsBefore(s.Rec, place) < 2 {
		most = h.c.space.Set.MinPoll
	}
	return min(time.Duration(place)*l.step/turnPart, most, s.Rec.Queue[place].TTL/3)
}

const (
	// turnPart: a waiter does not read for one part in turnPart of the time until its turn. With
	// two thirds of that time, where some writes take ten times as long as others, the lock was
	// idle four times as long.
	turnPart = 2

	// leastStep is a waiter's first estimate of the time in which a queue moves forward by one.
	leastStep = time.Millisecond

	// safetyPolls times Options.MaxPoll is the longest time in which a waiter does not read
	// although the store reports no change: a watcher may miss one.
	safetyPolls = 4
)

// beginPause begins the pause after a read that found the lock held.
func (h *Handle) beginPause(l *waitQueue, held *HeldError) {
	wait := max(held.Wait, time.Millisecond)
	if h.watches() {
		wait = min(wait, safetyPolls*h.c.space.Set.MaxPoll)
	} else {
		wait = min(wait, l.polls.pause()-l.lag)
	}
	if l.skips = h.skipTime(l, h.cell.Known()); l.skips > wait {
		wait = l.skips
	}
	if l.place == 0 && h.entered() != "" { // the lock is idle until this handle reads
		wait = min(wait, max(l.step/turnPart, h.c.space.Set.MinPoll))
	}
	if due := h.nextRead(); l.place > 0 && due > 0 { // no other client reads the session of the one ahead
		wait, l.skips = min(wait, due), min(l.skips, due)
	}
	now := time.Now()
	l.waits, l.until, l.due = true, now.Add(wait), now.Add(held.Wait)
	h.usesBatchPolls(l)
}

// watches reports whether the store reports changes.
func (h *Handle) watches() bool {
	_, ok := store.As[store.Watcher](h.c.space.Store)
	return ok
}
