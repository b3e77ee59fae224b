package lease

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/internal/username"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// Defaults and bounds of the options.
const (
	// defaultTTL is how long a lease lasts without a renewal.
	defaultTTL = 30 * time.Second

	// MinLocalTTL is the shortest lease on a store without a network, and MinRemoteTTL the
	// shortest lease on any other store.
	MinLocalTTL  = 500 * time.Millisecond
	MinRemoteTTL = 2 * time.Second

	// MaxTTL is the longest lease.
	MaxTTL = lockrec.MaxTTL

	// maxMinInterval is the longest [Options.MinInterval].
	maxMinInterval = lockrec.MaxInterval

	// minRemoteMargin is the least default margin on a store that is reached over a network, for
	// leases of at least six times that; shorter ones have a sixth of their TTL.
	minRemoteMargin = time.Second

	// MaxDefaultGrace is the largest default of [Options.Grace].
	MaxDefaultGrace = 5 * time.Second

	// DefaultMaxClockDrift is the default of [Tuning.MaxClockDrift].
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

	// renewalsPerTTL is how many renewals there are in a TTL.
	renewalsPerTTL = 3

	// A release waits for a renewal in flight for half of its time. On a store that
	// has its writes wait both have to fit.
	releaseWrites = 3
)

// Options configures a [Client]. The zero value of each field means its default.
type Options struct {
	// TTL is the time for which a lease lasts without a renewal. If the holder dies, other clients
	// wait for this time. TTL is in whole milliseconds. It is at least [MinLocalTTL] or
	// [MinRemoteTTL], at least the minimum of the store, and at most [MaxTTL]. It is more than
	// twice the sum of [Tuning.Margin] and Grace. Default 30 s, or more if the store needs more.
	TTL time.Duration

	// Grace is the time between the end of the guard's context and the moment when another
	// client may hold the lock. In this time guarded work can stop. A negative value means no
	// grace. Default min(TTL/4, [MaxDefaultGrace]).
	Grace time.Duration

	// Holder names the holder, for people. At most 1,024 bytes of UTF-8. Holdfast compares it
	// only if ReclaimOwn is set. Default: user, host and process id.
	Holder string

	// With ReclaimOwn the client takes a lock at once if the record has the same Holder and names a
	// different process. Holder must be set. The caller must ensure that no other running process,
	// and no [Ticket], has this Holder.
	ReclaimOwn bool

	// MinInterval is the shortest time from the start of a grant of this client to the start of the
	// next grant of any client. An early release or a loss of the grant does not make the interval
	// shorter. The client writes the end of the interval into the record, by this machine's wall
	// clock. Another machine compares that time with its own clock, and waits at most MinInterval
	// from its first read of the record. So MinInterval only separates the starts of grants. The
	// lease, not MinInterval, prevents two holders at the same time. At most 366 days. Default:
	// none.
	MinInterval time.Duration

	// AssumeNew says that the program uses each name only once. So if a handle knows nothing
	// about its lock, it tries to create the record without a read.
	AssumeNew bool

	// CheckTokenFloor reads the floor of tokens (see [Client.Sweep]) before the client creates a
	// record. That costs two more requests for a new lock. Without CheckTokenFloor, only the
	// wall clock makes the first token of a new lock higher than the tokens of a removed lock
	// with the same name.
	CheckTokenFloor bool

	// With ManualRenewal only [Guard.Renew] and [Session.Renew] renew leases. A lease
	// without a renewal still ends on time.
	ManualRenewal bool

	// With NoPresence the client does not write the store's announcement of this process into
	// the record. Use it for leases that outlive the process.
	NoPresence bool

	// StoreTimeout is the time for which Acquire and OpenSession wait for a store that answers no
	// request, or answers every request with an error. Then they return an error that matches
	// [ErrUnresponsive]. The time begins at the last answer to any waiter of the client. If only
	// writes fail, for example on a full disk, the time begins at the last answered write, and
	// counts only while there is something to write. On a store that delays its writes, the time
	// begins when a write should have finished, and is at least the time of two writes. If a write
	// that takes the lock has no answer and may still be applied, the call takes up to
	// [Tuning.ReleaseTimeout] more to make this write harmless. Zero means no limit.
	StoreTimeout time.Duration

	// The key of a lock is KeyPrefix, a slash, and the name of the lock. Default
	// "lock".
	KeyPrefix string

	// With History the client keeps a history of the locks that it takes; see [Client.History]. That
	// costs at most one request more for each grant, and no lease waits for this request. Clients without
	// History write entries only for locks that have a history already.
	History bool

	// Cache stores for later processes what this client has read of locks. Default: none.
	Cache Cache

	// OnEvent is called for each [Event], one call after the other, in the order of the events. The
	// calls are in a goroutine that exists only while there are events. A lease never waits for
	// OnEvent. OnEvent may call any method except [Client.Close] and [Client.FlushEvents], which
	// would wait for it. Up to 512 events wait until OnEvent returns; at most half of them report
	// renewals, waiting or failures. The client drops and counts further events; see [Event.Dropped] and
	// [Client.Stats].
	OnEvent func(Event)

	// Trace, if not nil, is called when a call begins to take the lock with this name, or to release
	// the guard g; for a call that takes a lock, g is nil. For example, Trace begins a span. The call
	// continues with the context that Trace returns, which must come from ctx. The requests of the
	// call and the renewals of its grant have the values of this context. So have the guard's
	// context, and the context of the function of a Do, Once or Lead. At its end the call passes its
	// guard, or nil, and its error to done. Calls wait for Trace and done, however long these take.
	// Until Trace returns, a Release has not begun: the guard stays valid, and its lease is renewed.
	// Renewals wait for neither. Module otel has such a function.
	Trace func(ctx context.Context, name string, g *Guard) (_ context.Context, done func(g *Guard, err error))

	// Logger receives the same events as OnEvent; neither waits for the other. Nil
	// discards them.
	Logger *slog.Logger

	// The rare options: Options.RenewInterval, Options.MaxPoll and so on.
	Tuning
}

// Tuning contains the options of a [Client] that programs rarely set. Their defaults follow from
// the TTL and from the traits of the store. The zero value of each field means its default.
type Tuning struct {
	// RenewInterval is the time between renewals. Each interval differs at random by up to 10 %.
	// At least [MinRenewInterval], and at most half of the TTL. The longest interval must be at
	// least a tenth of the TTL shorter than the time of trust, TTL - Margin - Grace. So no lease
	// is lost if a request takes up to a tenth of the TTL. Default TTL/3.
	RenewInterval time.Duration

	// Margin is the time between the end of the grace and the end of the lease. It allows for late
	// timers. At least the longest time between two checks of the clocks, min(TTL/10, 1 s). Default
	// TTL/10; but if the store is reached over a network, at least min(TTL/6, 1 s).
	Margin time.Duration

	// MaxClockDrift is the largest error in the speed of any machine's clock: 0.01 means that a
	// clock is at most one percent too fast or too slow. From 0.0001 to 0.2. Default
	// [DefaultMaxClockDrift].
	MaxClockDrift float64

	// MinPoll and MaxPoll are the shortest and the longest pause between two reads of a waiter if
	// the store does not report changes. After a failed read, the pauses of the next minute are at
	// least MaxPoll, and twice as long after each further failure. A pause is never longer than a
	// third of the TTL in the record. From 1 ms to 1 h. Defaults 50 ms and 2.5 s.
	MinPoll, MaxPoll time.Duration

	// ReleaseTimeout bounds a release and the clean-up after a cancelled Acquire. The calls can
	// take slightly longer, until the methods of the store return. At most the TTL. Default 5 s, or
	// three writes on a store that delays its writes.
	ReleaseTimeout time.Duration

	// With IgnoreStoreClock the client does not use the age of a record by the store's
	// own clock.
	IgnoreStoreClock bool
}

// checkOptions returns the options with all defaults filled in, and what follows from them.
func checkOptions(given *Options, traits store.Traits) (o Options, s *cell.Settings, err error) {
	o = *cmp.Or(given, &Options{})
	o.TTL = cmp.Or(o.TTL, max(defaultTTL, traits.MinTTL))
	o.RenewInterval = cmp.Or(o.RenewInterval, o.TTL/renewalsPerTTL)
	margin := o.TTL / 10
	if !traits.Local {
		margin = max(margin, min(o.TTL/6, minRemoteMargin))
	}
	o.Margin = cmp.Or(o.Margin, margin)
	o.Grace = cmp.Or(o.Grace, min(o.TTL/4, MaxDefaultGrace))
	o.Grace = max(o.Grace, 0)
	o.MaxClockDrift = cmp.Or(o.MaxClockDrift, DefaultMaxClockDrift)
	o.MinPoll = cmp.Or(o.MinPoll, defaultMinPoll)
	o.MaxPoll = cmp.Or(o.MaxPoll, max(defaultMaxPoll, o.MinPoll))
	o.ReleaseTimeout = cmp.Or(o.ReleaseTimeout, max(defaultReleaseTimeout, releaseWrites*traits.MinWriteTime))
	// After the lease there is nothing to release.
	o.ReleaseTimeout = min(o.ReleaseTimeout, o.TTL)
	o.KeyPrefix = cmp.Or(o.KeyPrefix, defaultKeyPrefix)
	if o.ReclaimOwn && o.Holder == "" {
		return o, nil, fmt.Errorf("%w: ReclaimOwn needs a Holder that no other process has", store.ErrInvalid)
	}
	if o.Holder == "" {
		o.Holder = defaultHolder()
	}
	s = &cell.Settings{
		TTL: o.TTL, Margin: o.Margin, Grace: o.Grace, RenewInterval: o.RenewInterval, MinPoll: o.MinPoll, MaxPoll: o.MaxPoll,
		ReleaseTimeout: o.ReleaseTimeout, StoreTimeout: o.StoreTimeout, MinInterval: o.MinInterval,
		Holder: o.Holder, KeyPrefix: o.KeyPrefix, Cache: o.Cache, ReclaimOwn: o.ReclaimOwn, AssumeNew: o.AssumeNew,
		CheckTokenFloor: o.CheckTokenFloor, ManualRenewal: o.ManualRenewal, NoPresence: o.NoPresence, IgnoreStoreClock: o.IgnoreStoreClock,
		History: o.History, Trace: o.Trace, Traits: traits, Factor: lockrec.Factor(o.MaxClockDrift),
	}
	return o, s, o.check(s)
}

// check refuses options that are out of bounds, or contradict each other.
func (o *Options) check(s *cell.Settings) error {
	least := MinRemoteTTL
	if s.Traits.Local {
		least = MinLocalTTL
	}
	least = max(least, s.Traits.MinTTL)
	bad := func(fields, format string, args ...any) error {
		return &OptionError{Fields: strings.Fields(fields), Why: fmt.Sprintf(format, args...)}
	}
	switch {
	case o.TTL < least || o.TTL > MaxTTL:
		return bad("TTL", "the TTL is %v; on this store it can be from %v to %v", o.TTL, least, MaxTTL)
	case o.TTL%time.Millisecond != 0:
		return bad("TTL", "the TTL is %v; it must be a number of whole milliseconds", o.TTL)
	case o.Margin < s.ClockCheckInterval():
		return bad("TTL Margin", "the margin is %v; for a TTL of %v it must be at least %v", o.Margin, o.TTL, s.ClockCheckInterval())
	case o.Margin > o.TTL || o.Grace > o.TTL || o.TTL <= 2*(o.Margin+o.Grace):
		return bad("TTL Margin Grace", "the TTL is %v; it must be more than twice the margin (%v) and grace (%v) together", o.TTL, o.Margin, o.Grace)
	case o.RenewInterval < MinRenewInterval || o.RenewInterval > o.TTL/2:
		return bad("TTL RenewInterval", "the renewal interval is %v; for a TTL of %v it can be from %v to %v", o.RenewInterval, o.TTL, MinRenewInterval, o.TTL/2)
	case math.IsNaN(o.MaxClockDrift) || o.MaxClockDrift < 0.0001 || o.MaxClockDrift > 0.2:
		return bad("MaxClockDrift", "the maximal clock drift is %v; it can be from 0.0001 to 0.2", o.MaxClockDrift)
	case !o.ManualRenewal && s.LatestRenewal() > s.Trust() && s.Traits.Delayed():
		return bad("TTL RenewInterval Margin Grace", "the renewal interval is %v, a write takes %v on this store, and the TTL is %v; the holder trusts its lease for %v, and a renewal could end later; use a longer TTL", o.RenewInterval, s.Traits.MinWriteTime, o.TTL, s.Trust())
	case !o.ManualRenewal && s.LatestRenewal() > s.Trust():
		return bad("TTL RenewInterval Margin Grace", "the renewal interval is %v and the TTL is %v; the holder trusts its lease for %v, and a renewal that takes a tenth of the TTL could end later; use a shorter interval", o.RenewInterval, o.TTL, s.Trust())
	case o.MinPoll < time.Millisecond || o.MaxPoll < o.MinPoll || o.MaxPoll > time.Hour:
		return bad("MinPoll MaxPoll", "MinPoll is %v and MaxPoll is %v; they can be from 1ms to 1h, and MinPoll must not be above MaxPoll", o.MinPoll, o.MaxPoll)
	case o.ReleaseTimeout < max(time.Millisecond, s.WriteTime()):
		return bad("ReleaseTimeout", "the release timeout is %v; it must be at least %v", o.ReleaseTimeout, max(time.Millisecond, s.WriteTime()))
	case o.MinInterval < 0 || o.MinInterval > maxMinInterval:
		return bad("MinInterval", "the minimal interval between grants is %v; it can be from 0 to %v", o.MinInterval, maxMinInterval)
	case o.StoreTimeout < 0:
		return bad("StoreTimeout", "the store timeout is %v; it must not be negative", o.StoreTimeout)
	case len(o.Holder) > 1024:
		return bad("Holder", "the holder has %d bytes; at most 1024 are allowed", len(o.Holder))
	case !utf8.ValidString(o.Holder):
		return bad("Holder", "the holder %.60q is not valid UTF-8", o.Holder)
	}
	if err := store.CheckKey(o.KeyPrefix); err != nil {
		return fmt.Errorf("%w: key prefix: %w", store.ErrInvalid, err)
	}
	return nil
}

func defaultHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return strings.ToValidUTF8(fmt.Sprintf("%s@%s pid %d", cmp.Or(username.Current(), "unknown"), host, os.Getpid()), "?")
}
