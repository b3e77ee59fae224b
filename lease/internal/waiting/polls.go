package waiting

import (
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
)

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
func (p *polls) sawHeld(set *cell.Settings, random func() float64, ttl time.Duration) {
	p.random, p.least, p.most = random, set.LeastPoll(ttl), set.MostPoll(ttl)
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
