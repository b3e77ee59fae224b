package lease

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/user"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Defaults and bounds. Each is an option.
const (
	// DefaultTTL is how long a lease lasts without a renewal.
	DefaultTTL = 30 * time.Second

	// MinLocalTTL and MinRemoteTTL are the shortest leases on a store that is
	// reached without a network, and on any other.
	MinLocalTTL  = 500 * time.Millisecond
	MinRemoteTTL = 2 * time.Second

	// MaxTTL is the longest lease.
	MaxTTL = 24 * time.Hour

	// MinRemoteMargin is the least default margin on a store behind a network.
	MinRemoteMargin = time.Second

	// MaxGrace is the largest default grace.
	MaxGrace = 5 * time.Second

	// DefaultRho is the assumed bound of the error of a clock's rate.
	DefaultRho = 0.01

	// DefaultMinPoll and DefaultMaxPoll bound the pause between two looks of a
	// waiter at a store that does not tell of changes.
	DefaultMinPoll = 50 * time.Millisecond
	DefaultMaxPoll = 5 * time.Second

	// DefaultReleaseTimeout bounds how long a release, or the clean-up of an
	// acquire that was given up, tries.
	DefaultReleaseTimeout = 5 * time.Second

	// DefaultKeyPrefix is where locks lie in a store.
	DefaultKeyPrefix = "lock"

	// renewals per TTL, and how far each renewal strays from its time.
	renewalsPerTTL = 3
	renewalJitter  = 0.1

	// A release waits for a renewal in flight for half of its time. On a store that
	// has its writes wait both have to fit.
	releaseWrites = 3
)

// Options configures a [Client]. The zero value of each field means its default.
type Options struct {
	// TTL is how long a lease lasts without a renewal, and how long others wait
	// for a holder that fell silent. In milliseconds; at least [MinLocalTTL] or
	// [MinRemoteTTL] and what the store asks for, at most [MaxTTL], and more than
	// 2*(Margin+Grace). Default [DefaultTTL].
	TTL time.Duration

	// Renew is the time between renewals, jittered by 10 %. At most half of the
	// TTL. Default TTL/3.
	Renew time.Duration

	// Margin is kept between the end of a holder's trust and the end of its
	// lease, for timers that are late. At least one look at the clocks,
	// min(TTL/10, 1 s). Default TTL/10, but at least [MinRemoteMargin] on a store
	// behind a network.
	Margin time.Duration

	// Grace is kept besides, for guarded work to stop in after the guard's
	// context has ended. Negative means none. Default min(TTL/4, [MaxGrace]).
	Grace time.Duration

	// Rho bounds the error of the rate of any machine's clock: 0.01 is one
	// percent. From 0.0001 to 0.2. Default [DefaultRho].
	Rho float64

	// Holder says who holds the lock, for people. At most 1,024 bytes. It has no
	// part in telling owners apart, except with ReclaimOwn. Default: user, host
	// and process id.
	Holder string

	// ReclaimOwn takes a lock at once whose record names the same Holder and
	// another process than this one. The caller vouches that no other running
	// process and no [Ticket] has this Holder, which must be given.
	ReclaimOwn bool

	// Fresh says that names are used once only: a handle that knows nothing of a
	// name tries to create its record without reading first.
	Fresh bool

	// Floor reads the floor of tokens, see [Client.Collect], before a record is made
	// where there is none: two requests more for a new lock. Without it a new lock
	// relies on the wall clock alone to start above the tokens of a removed one.
	Floor bool

	// Manual leaves renewals to [Guard.Renew]; the lease still ends on time.
	Manual bool

	// NoPresence leaves the store's announcement of this process out of the
	// record, for leases that outlive the process.
	NoPresence bool

	// NoStoreAge never judges a lock by the store's own clock.
	NoStoreAge bool

	// MinPoll and MaxPoll bound the pause between two looks of a waiter where the
	// store does not tell of changes; never above a third of the TTL in the
	// record. Defaults [DefaultMinPoll], [DefaultMaxPoll].
	MinPoll, MaxPoll time.Duration

	// Patience is how long Acquire puts up with a store that fails every request
	// before it returns the error. Zero means as long as the context lives.
	Patience time.Duration

	// ReleaseTimeout bounds a release and a clean-up. Default
	// [DefaultReleaseTimeout].
	ReleaseTimeout time.Duration

	// KeyPrefix is put before a lock's name, with a slash, to make its key.
	// Default [DefaultKeyPrefix].
	KeyPrefix string

	// Memory keeps what was seen of a lock beyond the life of this process.
	// Default: nothing is kept.
	Memory Memory

	// OnEvent is called for each [Event], from the goroutine in which it happens,
	// which may be the one that renews: it must return at once, so it hands on what
	// takes longer, output too. It must not call the client, the handle or the guard,
	// but for a guard's Name, Token, Err, Context and Trust. Calls come from several
	// goroutines at the same time.
	OnEvent func(Event)

	// Logger receives what OnEvent receives. Nil discards.
	Logger *slog.Logger
}

// settings are options that were checked, with the defaults filled in.
type settings struct {
	Options
	traits store.Traits
	factor float64 // (1+rho)/(1-rho)
	look   time.Duration
	trust  time.Duration // TTL - Margin - Grace: from the sending to the end of belief
}

func resolve(o *Options, traits store.Traits) (*settings, error) {
	s := &settings{traits: traits}
	if o != nil {
		s.Options = *o
	}
	setDefault(&s.TTL, max(DefaultTTL, traits.MinTTL))
	setDefault(&s.Renew, s.TTL/renewalsPerTTL)
	margin := s.TTL / 10
	if !traits.Local {
		margin = max(margin, MinRemoteMargin)
	}
	setDefault(&s.Margin, margin)
	setDefault(&s.Grace, min(s.TTL/4, MaxGrace))
	s.Grace = max(s.Grace, 0)
	setDefault(&s.Rho, DefaultRho)
	setDefault(&s.MinPoll, DefaultMinPoll)
	setDefault(&s.MaxPoll, max(DefaultMaxPoll, s.MinPoll))
	setDefault(&s.ReleaseTimeout, max(DefaultReleaseTimeout, releaseWrites*traits.WriteTime))
	setDefault(&s.KeyPrefix, DefaultKeyPrefix)
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	if s.ReclaimOwn && s.Holder == "" {
		return nil, fmt.Errorf("%w: ReclaimOwn needs a Holder that no other process has", ErrOptions)
	}
	setDefault(&s.Holder, defaultHolder())
	s.look = min(s.TTL/10, time.Second)
	s.trust = s.TTL - s.Margin - s.Grace
	s.factor = (1 + s.Rho) / (1 - s.Rho)
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
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case s.TTL < least || s.TTL > MaxTTL:
		return bad("the TTL is %v; on this store it can be from %v to %v", s.TTL, least, MaxTTL)
	case s.TTL%time.Millisecond != 0:
		return bad("the TTL is %v; it is counted in whole milliseconds", s.TTL)
	case s.Margin < s.look:
		return bad("the margin is %v; for a TTL of %v it is at least %v", s.Margin, s.TTL, s.look)
	case s.TTL <= 2*(s.Margin+s.Grace):
		return bad("the TTL is %v; it must be more than twice the margin (%v) and grace (%v) together, %v", s.TTL, s.Margin, s.Grace, 2*(s.Margin+s.Grace))
	case s.Renew < 0 || s.Renew > s.TTL/2 || s.Renew >= s.trust:
		return bad("renewals every %v; for a TTL of %v at most every %v", s.Renew, s.TTL, min(s.TTL/2, s.trust-1))
	case math.IsNaN(s.Rho) || s.Rho < 0.0001 || s.Rho > 0.2:
		return bad("rho is %v; it can be from 0.0001 to 0.2", s.Rho)
	case !s.Manual && s.earliest() > s.trust:
		return bad("renewals every %v; a write takes %v on this store, so that with a TTL of %v (%v of it trusted) none would be through in time; a longer TTL helps", s.Renew, s.traits.WriteTime, s.TTL, s.trust)
	case s.MinPoll < time.Millisecond || s.MaxPoll < s.MinPoll || s.MaxPoll > time.Hour:
		return bad("polling from %v to %v; it can be from 1ms to 1h", s.MinPoll, s.MaxPoll)
	case s.ReleaseTimeout < time.Millisecond, s.ReleaseTimeout < s.traits.WriteTime:
		return bad("the release timeout is %v; it is at least %v", s.ReleaseTimeout, max(time.Millisecond, s.traits.WriteTime))
	case s.Patience < 0:
		return bad("the patience is %v", s.Patience)
	case len(s.Holder) > 1024:
		return bad("the holder has %d bytes; at most 1024 are allowed", len(s.Holder))
	}
	if err := store.CheckKey(s.KeyPrefix); err != nil {
		return fmt.Errorf("%w: key prefix: %w", ErrOptions, err)
	}
	return nil
}

// earliest is how long after the write before it a renewal that is due late is
// through, on a store that has its writes wait. Elsewhere it is 0.
func (s *settings) earliest() time.Duration {
	if s.traits.WriteTime == 0 {
		return 0
	}
	late := time.Duration(renewalJitter * float64(s.Renew))
	return s.Renew + late + s.traits.WriteTime + s.traits.WriteTime/4
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
