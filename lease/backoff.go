package lease

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
)

// retryPause is a pause that doubles from min to max, with full jitter.
type retryPause struct {
	min, max time.Duration
	random   func() float64
	tries    int
}

func (c *space) backoff(from, to time.Duration) *retryPause {
	return &retryPause{min: from, max: max(from, to), random: c.random}
}

// resolveBackoff is the pause between two reads that resolve a write in doubt.
func (c *space) resolveBackoff() *retryPause { return c.backoff(10*time.Millisecond, time.Second) }

// pause returns the next pause.
func (b *retryPause) pause() time.Duration {
	b.tries++
	return time.Duration(b.random()*float64(backoff.Pause(b.tries, b.min, b.max))) + 1
}

// wait sleeps for the next pause, or returns the reason why ctx ended.
func (b *retryPause) wait(ctx context.Context) error { return backoff.Sleep(ctx, b.pause()) }

// contention is the pause before another try where many write the same record.
func (c *space) contention() *retryPause { return c.backoff(5*time.Millisecond, 200*time.Millisecond) }

// contention spreads the writes of many clients that change one record: each write that is applied
// makes those of the others conflict. The holder's own write comes first. After a conflict the
// others pause for longer than the holder needs to read the record and to write over it. The pause
// doubles after each further conflict.
type contention struct {
	cell      *cell
	pause     time.Duration
	conflicts int
	free      int // conflicts after which the next try does not wait
}

// freeConflicts is after how many conflicts in a row a holder's write waits before its next try. It
// counts only where there is no hurry: where the holder's session is renewed elsewhere.
const freeConflicts = 2

// renewalTakes is how many times as long as one write a renewal takes that conflicts, with an
// allowance: the write, a read, and the write over the record that was read.
const renewalTakes = 4

// conflict notes a conflict. It pauses, and then returns what is in the record: the state that the
// conflict carried is old by then.
func (c *contention) conflict(ctx context.Context) (*seen, error) {
	if c.conflicts++; c.conflicts <= c.free {
		return nil, nil
	}
	c.pause = min(max(2*c.pause, renewalTakes*c.cell.space.calls.takes(), time.Millisecond), c.cell.space.set.MaxPoll)
	if err := backoff.Sleep(ctx, c.pause+time.Duration(c.cell.space.random()*float64(c.pause))); err != nil {
		return nil, err
	}
	return c.cell.reread(ctx)
}

// pollJitter is the part of a pause between two polls by which it is shortened at random, at most.
const pollJitter = 0.1

// earlyPolls is how long a waiter's pauses stay below half of Options.MaxPoll.
const earlyPolls = 3 * time.Minute

// polls is the pauses of a waiter between two reads of a lock that is held. They double up to a
// bound, which is lower in the first minutes, when most waits end. Only the first pause has full
// jitter, so that waiters that begin at one time differ. The later ones are even: a release comes
// at any time, and the time until the next read, half a pause on average, is then shortest for its
// cost.
type polls struct {
	least, most time.Duration
	early       time.Duration // the bound in the first minutes
	random      func() float64
	next        time.Duration
	waited      time.Duration
}

// sawHeld adapts the pauses to a grant that was not seen before, since it may be a short one. They
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
