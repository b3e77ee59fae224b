package lease

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// settings are the options of a client that were checked, with the defaults filled in, and the
// traits of its store. All pauses and bounds follow from them.
type settings struct {
	TTL, Margin, Grace, RenewInterval         time.Duration
	MinPoll, MaxPoll                          time.Duration
	ReleaseTimeout, StoreTimeout, MinInterval time.Duration
	Holder, KeyPrefix                         string
	Cache                                     Cache
	ReclaimOwn, AssumeNew, CheckTokenFloor    bool
	ManualRenewal, NoPresence                 bool
	IgnoreStoreClock                          bool

	traits store.Traits
	factor float64 // (1+d)/(1-d), d is Tuning.MaxClockDrift
}

const (
	// maxCall bounds one request even of a long lease, so that a connection that hangs is noticed
	// in time.
	maxCall = 30 * time.Second

	// renewalJitter is the part of the interval by which a renewal strays from its time.
	renewalJitter = 0.1

	// A renewal that is due at the latest has this part of the TTL to arrive in.
	latencyPerTTL = lockrec.LatencyPerTTL
)

// clockCheckInterval is the longest time between two readings of the clocks while a lease is
// trusted.
func (s *settings) clockCheckInterval() time.Duration { return min(s.TTL/10, time.Second) }

// trust is the time from the sending of a renewal to the end of the trust in it.
func (s *settings) trust() time.Duration { return s.TTL - s.Margin - s.Grace }

// callTimeout bounds one request, so that several fit into a lease. It is never shorter than the
// time for which the store lets a write wait.
func (s *settings) callTimeout() time.Duration {
	return max(min(s.TTL/2, maxCall), s.writeTime())
}

// latestRenewal is how long after the write before it a renewal that is due late is
// through.
func (s *settings) latestRenewal() time.Duration {
	late := time.Duration(renewalJitter * float64(s.RenewInterval))
	return s.RenewInterval + late + max(s.TTL/latencyPerTTL, s.writeTime())
}

// writeTime is what a write takes on a store that has its writes wait, with an allowance.
// Elsewhere it is 0.
func (s *settings) writeTime() time.Duration { return s.traits.MinWriteTime + s.traits.MinWriteTime/4 }

// drainTime is how long a release waits for a write in flight: half of its time, and no
// longer than leaves enough for the release itself.
func (s *settings) drainTime() time.Duration {
	return min(s.ReleaseTimeout/2, s.ReleaseTimeout-s.writeTime())
}

// leastPoll and mostPoll bound the pause between two looks at a lock with that TTL.
func (s *settings) leastPoll(ttl time.Duration) time.Duration {
	return min(s.MinPoll, s.mostPoll(ttl))
}
func (s *settings) mostPoll(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return s.MaxPoll
	}
	return min(s.MaxPoll, ttl/3)
}

// expiry is how long an unchanged record must be watched before it may be taken
// over: the holder's clock may be slow while the watcher's is fast.
func (s *settings) expiry(ttl time.Duration) time.Duration {
	return lockrec.Expiry(ttl, s.factor)
}


// readsPerTTL bounds how often a client reads a session's record.
const readsPerTTL = 6

// rereadDelay is how long waiters use what was read of a session with this TTL.
func (s *settings) rereadDelay(ttl time.Duration) time.Duration {
	return min(s.MaxPoll, ttl/readsPerTTL)
}
