package cell

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// Settings are the options of a client that were checked, with the defaults filled in, and the
// traits of its store. All pauses and bounds follow from them.
type Settings struct {
	TTL, Margin, Grace, RenewInterval         time.Duration
	MinPoll, MaxPoll                          time.Duration
	ReleaseTimeout, StoreTimeout, MinInterval time.Duration
	Holder, KeyPrefix                         string
	Cache                                     Cache
	ReclaimOwn, AssumeNew, CheckTokenFloor    bool
	ManualRenewal, NoPresence                 bool
	IgnoreStoreClock, History                 bool
	Trace                                     any // lease.Options.Trace

	Traits store.Traits
	Factor float64 // (1+d)/(1-d), d is Tuning.MaxClockDrift
}

const (
	// MaxCall bounds one request even of a long lease, so that a connection that hangs is noticed
	// in time.
	MaxCall = 30 * time.Second

	// MaxDuration bounds a call that changes the record of another, with all of its requests.
	MaxDuration = 4 * MaxCall

	// MaxRounds bounds how often one attempt begins again after others were faster.
	MaxRounds = 8

	// RenewalJitter is the part of the interval by which a renewal strays from its time.
	RenewalJitter = 0.1

	// A renewal that is due at the latest has this part of the TTL to arrive in.
	latencyPerTTL = lockrec.LatencyPerTTL
)

// ClockCheckInterval is the longest time between two readings of the clocks while a lease is
// trusted.
func (s *Settings) ClockCheckInterval() time.Duration { return min(s.TTL/10, time.Second) }

// Trust is the time from the sending of a renewal to the end of the trust in it.
func (s *Settings) Trust() time.Duration { return s.TTL - s.Margin - s.Grace }

// CallTimeout bounds one request, so that several fit into a lease. It is never shorter than the
// time for which the store lets a write wait.
func (s *Settings) CallTimeout() time.Duration {
	return max(min(s.TTL/2, MaxCall), s.WriteTime())
}

// ResolveTimeout bounds a write with the requests that resolve it.
func (s *Settings) ResolveTimeout() time.Duration {
	return max(min(s.TTL, MaxDuration), s.CallTimeout())
}

// LatestRenewal is how long after the write before it a renewal that is due late is
// through.
func (s *Settings) LatestRenewal() time.Duration {
	late := time.Duration(RenewalJitter * float64(s.RenewInterval))
	return s.RenewInterval + late + max(s.TTL/latencyPerTTL, s.WriteTime())
}

// WriteTime is what a write takes on a store that has its writes wait, with an allowance.
// Elsewhere it is 0.
func (s *Settings) WriteTime() time.Duration { return s.Traits.MinWriteTime + s.Traits.MinWriteTime/4 }

// DrainTime is how long a release waits for a write in flight: half of its time, and no
// longer than leaves enough for the release itself.
func (s *Settings) DrainTime() time.Duration {
	return min(s.ReleaseTimeout/2, s.ReleaseTimeout-s.WriteTime())
}

// LeastPoll is the shortest pause between two reads of a lock with that TTL.
func (s *Settings) LeastPoll(ttl time.Duration) time.Duration {
	return min(s.MinPoll, s.MostPoll(ttl))
}

// MostPoll is the longest pause between two reads of a lock with that TTL.
func (s *Settings) MostPoll(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return s.MaxPoll
	}
	return min(s.MaxPoll, ttl/3)
}

// Expiry is how long an unchanged record must be watched before it may be taken
// over: the holder's clock may be slow while the watcher's is fast.
func (s *Settings) Expiry(ttl time.Duration) time.Duration {
	return lockrec.Expiry(ttl, s.Factor)
}

// readsPerTTL bounds how often a client reads a session's record.
const readsPerTTL = 6

// RereadDelay is how long waiters use what was read of a session with this TTL.
func (s *Settings) RereadDelay(ttl time.Duration) time.Duration {
	return min(s.MaxPoll, ttl/readsPerTTL)
}
