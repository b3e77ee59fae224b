package lease

import (
	"context"
	"time"
)

// backoff is a pause that doubles from min to max, with full jitter.
type backoff struct {
	min, max time.Duration
	random   func() float64
	next     time.Duration
}

func (c *Client) backoff(from, to time.Duration) *backoff {
	return &backoff{min: from, max: max(from, to), random: c.random}
}

// settling is the pause between two looks at an outcome that is not clear.
func (c *Client) resolveBackoff() *backoff { return c.backoff(10*time.Millisecond, time.Second) }

// pause returns the next pause.
func (b *backoff) pause() time.Duration {
	b.next = min(max(2*b.next, b.min), b.max)
	return time.Duration(b.random()*float64(b.next)) + 1
}

// wait sleeps for the next pause, or returns the reason why ctx ended.
func (b *backoff) wait(ctx context.Context) error { return sleep(ctx, b.pause()) }

// contention is the pause before another try where many write the same record.
func (c *Client) contention() *backoff { return c.backoff(5*time.Millisecond, 200*time.Millisecond) }

// contention spreads the writes of many who change one record: each write that is applied makes
// those of the others conflict. The holder's own write comes first: after a conflict the others
// pause for longer than it takes to find out what stands there and to write over that, and twice
// as long after each further one.
type contention struct {
	h         *Handle
	pause     time.Duration
	conflicts int
	free      int // conflicts after which the next try does not wait
}

// freeConflicts is after how many conflicts in a row the next try of a holder's write waits, where
// no time is short: the holder's session is renewed elsewhere.
const freeConflicts = 2

// renewalTakes is how many times as long as one write a renewal takes that conflicts, with an
// allowance: the write, a read, and the write over what was read.
const renewalTakes = 4

// met notes a conflict. It pauses, and returns what stands in the
// record then: what the conflict told is old.
func (c *contention) conflict(ctx context.Context) (*seen, error) {
	if c.conflicts++; c.conflicts <= c.free {
		return nil, nil
	}
	c.pause = min(max(2*c.pause, renewalTakes*c.h.c.calls.takes(), time.Millisecond), c.h.c.set.MaxPoll)
	if err := sleep(ctx, c.pause+time.Duration(c.h.c.random()*float64(c.pause))); err != nil {
		return nil, err
	}
	return c.h.reread(ctx)
}

// pollJitter is by how much of itself a pause between two polls is shortened at random.
const pollJitter = 0.1

// earlyPolls is for how long a waiter's pauses stay below half of Options.MaxPoll.
const earlyPolls = 3 * time.Minute

// polls is the pauses of a waiter between two looks at a lock that is held. They double
// up to a bound, which is lower in the first minutes, when most waits end. Only
// the first has full jitter: it makes waiters that begin at one time differ. A release
// comes at any time between two looks, so that the time until the next look, on
// average half a pause, is shortest for what it costs when the pauses are even.
type polls struct {
	least, most time.Duration
	early       time.Duration // the bound in the first minutes
	random      func() float64
	next        time.Duration
	waited      time.Duration
}

// met adapts the pauses to a grant that was not seen before: it may be a short one. They
// stay below a third of its TTL.
func (p *polls) sawHeld(set *settings, random func() float64, ttl time.Duration) {
	p.random, p.least, p.most = random, set.leastPoll(ttl), set.mostPoll(ttl)
	p.early = max(p.least, min(p.most, set.MaxPoll/2))
	p.next = min(p.next, 2*p.least)
}

// pause returns the next pause.
func (p *polls) pause() time.Duration {
	first := p.waited == 0
	most := p.most
	if p.waited < earlyPolls {
		most = p.early
	}
	p.next = min(max(2*p.next, p.least), most)
	jitter := pollJitter
	if first {
		jitter = 1
	}
	pause := max(1, time.Duration((1-jitter*(1-p.random()))*float64(p.next)))
	p.waited += pause
	return pause
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
