package waiting

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

// pauses are what a waiter that has the turn knows of its pauses.
type pauses struct {
	polls   polls            // while the lock is held
	errors  *cell.RetryPause // while the store fails
	until   time.Time        // end of the pause that was begun; zero: none was
	due     time.Time        // when the holder may be dead, by the read before the pause
	lag     time.Duration    // how much shorter the next pause is: the last batch poll began that long ago
	waits   bool             // the pause is for a held lock, and the end of the grant may end it
	watched store.Version    // the version that the last pause was for
	early   bool             // that pause ended before its time
	idle    time.Duration    // pause after one that ended early without a change
	place   int              // the place in the lock's own queue, as last seen; negative: in none
	placed  time.Time        // since when it has that place; zero: not known
	step    time.Duration    // estimate of the time in which it moves forward by one place
	skips   time.Duration    // how long it does not read, since it is far from the head
}

// Look is what the last read of a record means for the waiter that has the turn.
type Look struct {
	Seen *cell.Seen

	// Wait is how long it takes at most until the lock may be taken, if nothing changes.
	Wait time.Duration

	// Entries are the entries in the lock's own queue of all that wait through the client, or nil if
	// the waiter has none.
	Entries []string

	// Due is the time until the session of one ahead in the queue is read next; 0 if it is not.
	Due time.Duration

	// Turn is in which time the queue moved forward by one at an earlier wait of the handle; 0: not known.
	Turn time.Duration

	// IsWoken says that the store wakes the handle when its entry leaves the queue.
	IsWoken bool

	// Pace keeps how fast the queue moves forward, for the next wait of the same handle.
	Pace *time.Duration
}

// SessionWatch returns true when the session that holds the lock in a record may be over, and false
// when ctx ends or it is not worth watching.
type SessionWatch func(ctx context.Context, r *lockrec.Record) bool

// Pausing reports whether a pause was begun.
func (l *Queue) Pausing() bool { return !l.until.IsZero() }

// SawHeld adapts the pauses to a grant with that TTL that was not seen before.
func (l *Queue) SawHeld(ttl time.Duration) { l.polls.sawHeld(l.of.space.Set, l.of.space.Random, ttl) }

// PollEvery makes the pauses even: that of an observer, which waits for no grant.
func (l *Queue) PollEvery(p time.Duration) {
	l.polls = polls{least: p, most: p, early: p, random: l.of.space.Random}
}

// PauseAfterError begins the pause after an attempt that failed. If the waiter polls, and the lock was
// held when it was seen last, the pause is that of a poll: an earlier read adds to the load of the
// store.
func (l *Queue) PauseAfterError() {
	pause := l.errors.Pause()
	if l.polls.most > 0 && !l.of.space.Watches() && l.Last != nil && l.Last.Rec != nil && l.Last.Rec.State != lockrec.Free {
		l.polls.readFailed()
		pause = max(pause, l.polls.pause())
	}
	l.PauseFor(pause)
}

// PauseFor begins a pause that no change ends.
func (l *Queue) PauseFor(d time.Duration) { l.waits, l.until = false, time.Now().Add(d) }

// Await waits for the rest of the pause that was begun, or until another try is worthwhile sooner.
func (l *Queue) Await(ctx context.Context, w *Waiter, c *cell.Cell, session SessionWatch) {
	ctx, cancel := context.WithDeadline(ctx, l.until)
	defer cancel()
	last := c.Known()
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
	failed := l.waitForChange(ctx, cancel, w, c, last, session)
	l.early = !failed && time.Now().Before(l.until)
}

// Rest pauses for d, or until c changes where the store reports that. It reports whether c may have
// changed.
func (l *Queue) Rest(ctx context.Context, d time.Duration, w *Waiter, c *cell.Cell, session SessionWatch) bool {
	last := c.Known()
	if d <= 0 || last == nil || !c.Space.Watches() {
		w.pause(ctx, d)
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	l.waitForChange(ctx, cancel, w, c, last, session)
	return ctx.Err() != context.DeadlineExceeded
}

// waitForChange returns when ctx ends, when the store reports a change or the holder's death, or
// when w is woken. If the store's watcher fails, waitForChange pauses as on a store without one,
// and reports that.
func (l *Queue) waitForChange(ctx context.Context, cancel context.CancelFunc, w *Waiter, c *cell.Cell, last *cell.Seen, session SessionWatch) (failed bool) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if presence := c.Space.Presence; presence != nil && last.Rec != nil && last.Rec.Presence != "" && last.Rec.State != lockrec.Free {
		wg.Go(func() {
			if presence.WaitLiveness(ctx, last.Rec.Presence) == nil {
				cancel()
			}
		})
	}
	// The watcher reports what wakes w, too.
	deadline, _ := ctx.Deadline()
	wait := time.Until(deadline)
	if watcher := c.Space.Watcher; watcher != nil {
		if r := last.Rec; r != nil && r.State == lockrec.Held && r.Session != "" && l.place <= 0 {
			// The lock's record does not show whether its holder lives.
			wg.Go(func() {
				if session(ctx, r) {
					cancel()
				}
			})
		}
		if !w.pause(ctx, l.skips) {
			return false
		}
		watch := ctx
		if r := last.Rec; r != nil && r.Session == "" && w.party != nil && w.party.Entry() == "" {
			watch = store.WithWanted(ctx, lockrec.MayBeOpen)
		}
		if watcher.Watch(watch, c.Key, last.Version) == nil || ctx.Err() != nil {
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
func (l *Queue) skipTime(look *Look) time.Duration {
	place, s, set := -1, look.Seen, l.of.space.Set
	if look.Entries != nil && s != nil && s.Rec != nil {
		place = slices.IndexFunc(s.Rec.Queue, func(m lockrec.Member) bool { return slices.Contains(look.Entries, m.Grant) })
	}
	if place < 0 {
		l.place, l.placed = place, time.Time{}
		return 0
	}
	now := time.Now()
	since, ahead := now.Sub(l.placed), l.place-place
	switch {
	case l.placed.IsZero() || ahead < 0:
		l.placed, l.step = now, max(leastStep, *look.Pace/4) // the queue may have become faster
	case ahead > 0:
		l.placed, l.step = now, min(since/time.Duration(ahead+1), 2*l.step) // part of one more step has passed
	default:
		l.step = max(l.step, min(since, 2*l.step))
	}
	l.place, *look.Pace = place, l.step
	most := set.MaxPoll
	if lockrec.TurnsBefore(s.Rec, place) < 2 {
		most = set.MinPoll
	}
	skips := time.Duration(place) * l.step / turnPart
	switch {
	case look.IsWoken:
		skips = time.Duration(place+1) * max(look.Turn, l.step, leastTurn)
		skips += skips / wakePart
	case place < 2:
		return 0
	}
	return min(skips, most, s.Rec.Queue[place].TTL/3)
}

const (
	// turnPart: a waiter does not read for one part in turnPart of the time until its turn. With
	// two thirds of that time, where some writes take ten times as long as others, the lock was
	// idle four times as long.
	turnPart = 2

	// wakePart: a waiter that the store wakes reads nevertheless when that is late by one part in wakePart
	// of the time until its turn. A wake-up may be lost, and an earlier version sends none.
	wakePart = 4

	// leastTurn is the least time until the turn of the next waiter that such a waiter assumes. If it
	// read earlier, most of its reads would be in vain.
	leastTurn = 5 * time.Millisecond

	// leastStep is a waiter's first estimate of the time in which a queue moves forward by one.
	leastStep = time.Millisecond

	// safetyPolls times Options.MaxPoll is the longest time in which a waiter does not read
	// although the store reports no change: a watcher may miss one.
	safetyPolls = 4
)

// BeginPause begins the pause after a read of c that found the lock held.
func (l *Queue) BeginPause(c *cell.Cell, look Look) {
	set := c.Space.Set
	wait := max(look.Wait, time.Millisecond)
	if c.Space.Watches() {
		wait = min(wait, safetyPolls*set.MaxPoll)
	} else {
		wait = min(wait, l.polls.pause()-l.lag)
	}
	if l.skips = l.skipTime(&look); l.skips > wait {
		wait = l.skips
	}
	if l.place == 0 { // the lock is idle until this handle reads
		wait = min(wait, max(l.step/turnPart, set.MinPoll))
	}
	if l.place > 0 && look.Due > 0 { // no other client reads the session of the one ahead
		wait, l.skips = min(wait, look.Due), min(l.skips, look.Due)
	}
	now := time.Now()
	l.waits, l.until, l.due = true, now.Add(wait), now.Add(look.Wait)
	if l.of.batchPolls != nil {
		l.noteBatchPolls()
	}
}

// EndPause ends the pause that was begun. It returns the state that c knows if that is certainly
// unchanged, and nil if the waiter has to read.
func (l *Queue) EndPause(ctx context.Context, c *cell.Cell) *cell.Seen {
	if last := c.Known(); last != nil && last.Rec != nil && l.endPause(ctx, last.Version) {
		return last
	}
	return nil
}

// endPause ends the pause that was begun, and reports whether the record certainly has the version
// that was seen.
func (l *Queue) endPause(ctx context.Context, seen store.Version) bool {
	until := l.until
	l.until = time.Time{}
	return l.of.batchPolls != nil && l.unchanged(ctx, seen, until)
}

// pause sleeps for d, or until w is woken, or ctx ends. It reports whether it has slept for d.
func (w *Waiter) pause(ctx context.Context, d time.Duration) bool {
	began := time.Now()
	_ = backoff.SleepOrWake(ctx, d, w.Wake)
	return time.Since(began) >= d
}
