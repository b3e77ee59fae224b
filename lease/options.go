package lease

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Defaults and bounds of the options.
const (
	// defaultTTL is how long a lease lasts without a renewal.
	defaultTTL = 30 * time.Second

	// MinLocalTTL and MinRemoteTTL are the shortest leases on a store that is
	// reached without a network, and on any other.
	MinLocalTTL  = 500 * time.Millisecond
	MinRemoteTTL = 2 * time.Second

	// MaxTTL is the longest lease.
	MaxTTL = 24 * time.Hour

	// maxMinInterval is the longest [Options.MinInterval].
	maxMinInterval = 366 * 24 * time.Hour

	// minRemoteMargin is the least default margin on a store that is reached over a network, for
	// leases of at least six times that; shorter ones have a sixth of their TTL.
	minRemoteMargin = time.Second

	// MaxDefaultGrace is the largest default grace.
	MaxDefaultGrace = 5 * time.Second

	// DefaultMaxClockDrift is the assumed bound of the error of a clock's rate.
	DefaultMaxClockDrift = 0.01

	// defaultMinPoll and defaultMaxPoll bound the pause between two looks of a
	// waiter at a store that does not tell of changes.
	defaultMinPoll = 50 * time.Millisecond
	defaultMaxPoll = 2500 * time.Millisecond

	// defaultReleaseTimeout bounds how long a release, or the clean-up of an
	// acquire that was given up, tries.
	defaultReleaseTimeout = 5 * time.Second

	// defaultKeyPrefix is where locks lie in a store.
	defaultKeyPrefix = "lock"

	// MinRenewInterval is the shortest time between renewals.
	MinRenewInterval = 50 * time.Millisecond

	// renewals per TTL, and how far each renewal strays from its time.
	renewalsPerTTL = 3
	renewalJitter  = 0.1

	// A renewal that is due at the latest has this part of the TTL to arrive in.
	latencyPerTTL = 10

	// A release waits for a renewal in flight for half of its time. On a store that
	// has its writes wait both have to fit.
	releaseWrites = 3
)

// Options configures a [Client]. The zero value of each field means its default.
type Options struct {
	// TTL is how long a lease lasts without a renewal, and how long others wait
	// for a holder that fell silent. In milliseconds; at least [MinLocalTTL] or
	// [MinRemoteTTL] and what the store asks for, at most [MaxTTL], and more than
	// twice [Tuning.Margin] and Grace together. Default 30 s, or more where the store
	// asks for more.
	TTL time.Duration

	// Grace is the time that guarded work has to stop in after the guard's context has
	// ended, and before the lease may be another's. Negative means none. Default min(TTL/4, [MaxDefaultGrace]).
	Grace time.Duration

	// Holder says who holds the lock, for people. At most 1,024 bytes. It has no
	// part in telling owners apart, except with ReclaimOwn. Default: user, host
	// and process id.
	Holder string

	// ReclaimOwn takes a lock at once whose record names the same Holder and
	// another process than this one. The caller vouches that no other running
	// process and no [Ticket] has this Holder, which must be given.
	ReclaimOwn bool

	// MinInterval is how long after the beginning of a grant of this client the next grant may
	// begin at the earliest, whatever happens to this one: released, lost, or its machine
	// restarted. All clients heed it. It is in the record as a time of this machine's wall
	// clock; another machine compares it with its own, and never waits longer than MinInterval
	// from its own first sight of the record on. So it spaces jobs whose clocks agree, and is
	// no exclusion: the lease is. At most 366 days. Default: none.
	MinInterval time.Duration

	// AssumeNew says that names are used once only: a handle that knows nothing of a
	// name tries to create its record without reading first.
	AssumeNew bool

	// CheckTokenFloor reads the floor of tokens, see [Client.Sweep], before a record is made
	// where there is none: two requests more for a new lock. Without it a new lock
	// relies on the wall clock alone to start above the tokens of a removed one.
	CheckTokenFloor bool

	// ManualRenewal leaves renewals to [Guard.Renew]; the lease still ends on time.
	ManualRenewal bool

	// NoPresence leaves the store's announcement of this process out of the
	// record, for leases that outlive the process.
	NoPresence bool

	// StoreTimeout is how long Acquire and OpenSession put up with a store that answers no request,
	// or fails every one, before they return the error. The error matches [ErrUnresponsive]. The time
	// counts from the last answer to any of the client's waits. If only writes fail, as on a full
	// disk, it counts from the last answered write, without the times in which there is nothing
	// to write. On a store that has its writes wait it begins when a write should be done, and is
	// at least two writes. A claim that may yet be applied is then made harmless, which takes up to
	// [Tuning.ReleaseTimeout] more. Zero means as long as the context lives.
	StoreTimeout time.Duration

	// KeyPrefix is put before a lock's name, with a slash, to make its key.
	// Default "lock".
	KeyPrefix string

	// Cache keeps what was seen of a lock beyond the life of this process.
	// Default: nothing is kept.
	Cache Cache

	// OnEvent is called for each [Event], one after the other in the order in which
	// they happened, from a goroutine that exists while there is something to tell. A
	// lease never waits for it: it may take its time and call anything but
	// [Client.Close] and [Client.FlushEvents], which would wait for it. While it does not
	// return, up to 512 events wait for it, and half as many that tell of a renewal or
	// of waiting; what is more is dropped and counted, see [Event.Dropped] and
	// [Client.Stats].
	OnEvent func(Event)

	// Logger receives what OnEvent receives, independently of it. Nil discards.
	Logger *slog.Logger

	// The rare options: Options.RenewInterval, Options.MaxPoll and so on.
	Tuning
}

// Tuning are the rare options of a [Client]: their defaults follow from the TTL and from
// what the store says of itself. The zero value of each field means its default.
type Tuning struct {
	// RenewInterval is the time between renewals, jittered by 10 %. At least [MinRenewInterval], at
	// most half of the TTL, and with the jitter at least a tenth of the TTL less than
	// the trust, TTL - Margin - Grace: so a request that takes up to a tenth of the TTL
	// loses no lease. Default TTL/3.
	RenewInterval time.Duration

	// Margin is kept between the end of a holder's trust and the end of its
	// lease, for timers that are late. At least one look at the clocks,
	// min(TTL/10, 1 s). Default TTL/10; on a store that is reached over a network at least
	// min(TTL/6, 1 s).
	Margin time.Duration

	// MaxClockDrift bounds the error of the rate of any machine's clock: 0.01 is one
	// percent. From 0.0001 to 0.2. Default [DefaultMaxClockDrift].
	MaxClockDrift float64

	// MinPoll and MaxPoll bound the pause between two looks of a waiter where the
	// store does not tell of changes; never above a third of the TTL in the
	// record. From 1 ms to 1 h. Defaults 50 ms and 2.5 s.
	MinPoll, MaxPoll time.Duration

	// ReleaseTimeout bounds a release and a clean-up: they wait for nothing longer, but
	// 0.2 s for each call of the store to end. Never above the TTL. Default
	// 5 s, or three writes on a store that has its writes wait.
	ReleaseTimeout time.Duration

	// IgnoreStoreClock never judges a lock by the store's own clock.
	IgnoreStoreClock bool
}

// settings are options that were checked, with the defaults filled in.
type settings struct {
	Options
	traits             store.Traits
	factor             float64 // (1+d)/(1-d), d is MaxClockDrift
	clockCheckInterval time.Duration
	trust              time.Duration // TTL - Margin - Grace: from the sending to the end of belief
}

func checkOptions(o *Options, traits store.Traits) (*settings, error) {
	s := &settings{traits: traits}
	if o != nil {
		s.Options = *o
	}
	setDefault(&s.TTL, max(defaultTTL, traits.MinTTL))
	setDefault(&s.RenewInterval, s.TTL/renewalsPerTTL)
	margin := s.TTL / 10
	if !traits.Local {
		margin = max(margin, min(s.TTL/6, minRemoteMargin))
	}
	setDefault(&s.Margin, margin)
	setDefault(&s.Grace, min(s.TTL/4, MaxDefaultGrace))
	s.Grace = max(s.Grace, 0)
	setDefault(&s.MaxClockDrift, DefaultMaxClockDrift)
	setDefault(&s.MinPoll, defaultMinPoll)
	setDefault(&s.MaxPoll, max(defaultMaxPoll, s.MinPoll))
	setDefault(&s.ReleaseTimeout, max(defaultReleaseTimeout, releaseWrites*traits.MinWriteTime))
	// After the lease there is nothing to release.
	s.ReleaseTimeout = min(s.ReleaseTimeout, s.TTL)
	setDefault(&s.KeyPrefix, defaultKeyPrefix)
	if s.ReclaimOwn && s.Holder == "" {
		return nil, fmt.Errorf("%w: ReclaimOwn needs a Holder that no other process has", store.ErrInvalid)
	}
	setDefault(&s.Holder, defaultHolder())
	s.clockCheckInterval = min(s.TTL/10, time.Second)
	s.trust = s.TTL - s.Margin - s.Grace
	s.factor = (1 + s.MaxClockDrift) / (1 - s.MaxClockDrift)
	return s, s.check()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (s *settings) check() error {
	least := MinRemoteTTL
	if s.traits.Local {
		least = MinLocalTTL
	}
	least = max(least, s.traits.MinTTL)
	bad := func(fields, format string, args ...any) error {
		return &OptionError{Fields: strings.Fields(fields), Why: fmt.Sprintf(format, args...)}
	}
	switch {
	case s.TTL < least || s.TTL > MaxTTL:
		return bad("TTL", "the TTL is %v; on this store it can be from %v to %v", s.TTL, least, MaxTTL)
	case s.TTL%time.Millisecond != 0:
		return bad("TTL", "the TTL is %v; it is counted in whole milliseconds", s.TTL)
	case s.Margin < s.clockCheckInterval:
		return bad("TTL Margin", "the margin is %v; for a TTL of %v it is at least %v", s.Margin, s.TTL, s.clockCheckInterval)
	case s.Margin > s.TTL || s.Grace > s.TTL || s.TTL <= 2*(s.Margin+s.Grace):
		return bad("TTL Margin Grace", "the TTL is %v; it must be more than twice the margin (%v) and grace (%v) together", s.TTL, s.Margin, s.Grace)
	case s.RenewInterval < MinRenewInterval || s.RenewInterval > s.TTL/2:
		return bad("TTL RenewInterval", "renewals every %v; for a TTL of %v it can be from %v to %v", s.RenewInterval, s.TTL, MinRenewInterval, s.TTL/2)
	case math.IsNaN(s.MaxClockDrift) || s.MaxClockDrift < 0.0001 || s.MaxClockDrift > 0.2:
		return bad("MaxClockDrift", "the maximal clock drift is %v; it can be from 0.0001 to 0.2", s.MaxClockDrift)
	case !s.ManualRenewal && s.latestRenewal() > s.trust && s.traits.MinWriteTime > 0:
		return bad("TTL RenewInterval Margin Grace", "renewals every %v; a write takes %v on this store, so that with a TTL of %v (%v of it trusted) none would be through in time; a longer TTL helps", s.RenewInterval, s.traits.MinWriteTime, s.TTL, s.trust)
	case !s.ManualRenewal && s.latestRenewal() > s.trust:
		return bad("TTL RenewInterval Margin Grace", "renewals every %v; of a TTL of %v only %v is trusted, so that a renewal that is due late, with a tenth of the TTL for its request, would not be through in time", s.RenewInterval, s.TTL, s.trust)
	case s.MinPoll < time.Millisecond || s.MaxPoll < s.MinPoll || s.MaxPoll > time.Hour:
		return bad("MinPoll MaxPoll", "polling from %v to %v; it can be from 1ms to 1h", s.MinPoll, s.MaxPoll)
	case s.ReleaseTimeout < max(time.Millisecond, s.writeTime()):
		return bad("ReleaseTimeout", "the release timeout is %v; it is at least %v", s.ReleaseTimeout, max(time.Millisecond, s.writeTime()))
	case s.MinInterval < 0 || s.MinInterval > maxMinInterval:
		return bad("MinInterval", "grants are %v apart; it can be from 0 to %v", s.MinInterval, maxMinInterval)
	case s.StoreTimeout < 0:
		return bad("StoreTimeout", "the store timeout is %v", s.StoreTimeout)
	case len(s.Holder) > 1024:
		return bad("Holder", "the holder has %d bytes; at most 1024 are allowed", len(s.Holder))
	}
	if err := store.CheckKey(s.KeyPrefix); err != nil {
		return fmt.Errorf("%w: key prefix: %w", store.ErrInvalid, err)
	}
	return nil
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
	return time.Duration(math.Ceil(float64(ttl) * s.factor))
}

func defaultHolder() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s@%s pid %d", name, host, os.Getpid())
}
