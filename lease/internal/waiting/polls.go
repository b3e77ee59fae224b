package waiting

import (
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
)

// pollJitter is the part of a pause between two polls by which it is shortened at random, at most.
const pollJitter = 0.1

// earlyPolls is how long a waiter's pauses stay below a third of Options.MaxPoll. Most waits end
// in this time.
const earlyPolls = time.Minute

// polls is the pauses of a waiter between two reads of a lock that is held. They double up to a
// bound, which grows with the time that the waiter has waited. The first
// pause after a failed read has full jitter, so that waiters that fail at one time differ. The other
// pauses are even: a release comes at any time, and the time until the next read, half a pause on
// average, is then shortest for its cost.
type polls struct {
	least, most time.Duration
	early       time.Duration // the bound in the first minute
	random      func() float64
	next        time.Duration
	waited      time.Duration
	longest     time.Duration // bound of slow
	slow        time.Duration // the pause since a read has failed; 0: none has
	slowFor     time.Duration // how long it lasts
}

// sawHeld adapts the pauses to a grant that was not seen before, since it may be a short one. They
// stay below a third of its TTL.
func (p *polls) sawHeld(set *cell.Settings, random func() float64, ttl time.Duration) {
	p.random, p.least, p.most = random, set.LeastPoll(ttl), set.MostPoll(ttl)
	p.early = max(p.least, min(p.most, earlyPause(set)))
	p.next, p.longest = min(p.next, 2*p.least), max(p.most, ttl/3)
}

// earlyPause is the longest pause of a waiter in the first minute.
func earlyPause(set *cell.Settings) time.Duration { return set.MaxPoll / 3 }

// readFailed makes the pauses of the next minute those of a long wait, and twice as long after each
// further failure. If many programs wait for one lock, the store may refuse their reads, and the
// holder's renewals with them: also short grants must not make the pauses short again.
func (p *polls) readFailed() {
	p.slow, p.slowFor = min(max(2*p.slow, p.most), p.longest), earlyPolls
}

// pause returns the next pause.
func (p *polls) pause() time.Duration {
	grown := time.Duration(float64(p.early) * max(1, float64(p.waited)/float64(earlyPolls)))
	p.next = min(max(2*p.next, p.least), grown, p.most)
	pause, jitter := p.next, pollJitter
	if p.slow > 0 {
		pause = p.slow
	}
	if p.slowFor == earlyPolls {
		jitter = 1
	}
	pause = max(1, time.Duration((1-jitter*(1-p.random()))*float64(pause)))
	p.waited += pause
	if p.slowFor -= pause; p.slowFor <= 0 {
		p.slow = 0
	}
	return pause
}
