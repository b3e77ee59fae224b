package s3verstore

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The defaults and bounds of [Options].
const (
	// DefaultPutLifetime is the default of [Options].PutLifetime.
	DefaultPutLifetime = 5 * time.Second

	// DefaultSettleDelay is the default of [Options].SettleDelay for [DefaultPutLifetime].
	DefaultSettleDelay = 6 * time.Second

	// DefaultMaxClockDrift is the default of [Options].MaxClockDrift.
	DefaultMaxClockDrift = 0.01

	// MinPutLifetime and MaxPutLifetime bound [Options].PutLifetime.
	MinPutLifetime = 50 * time.Millisecond
	MaxPutLifetime = 10 * time.Minute

	// The shortest lease is four times SettleDelay plus this time. A renewal takes
	// SettleDelay, and must end before the margin and grace of the lease begin.
	ttlBeyondSettles = 3 * time.Second
)

// Options are the options of [New]. The zero value of each field means its default.
type Options struct {
	// PutLifetime (L in the package comment) is a time limit for the effect of a PUT. If a PUT has
	// not taken effect within PutLifetime after it was sent, it must never take effect. The clock
	// of the sending machine measures this time. If the clocks of the server's machines differ, add
	// the difference. If a PUT takes longer, the outcome of the write is unknown. All clients of a
	// bucket should have the same value. PutLifetime is from [MinPutLifetime] to [MaxPutLifetime];
	// 0 means [DefaultPutLifetime].
	PutLifetime time.Duration

	// SettleDelay is the wait between a PUT and the listing that shows the outcome of the write.
	// It is more than L*(1+d)/(1-d) plus a twentieth of L, where L is PutLifetime and d is
	// MaxClockDrift. The default is 1.2*L, or more if d is large.
	SettleDelay time.Duration

	// MaxClockDrift is the largest error in the speed of any machine's clock, as a fraction: 0.01
	// means 1 %. It is from 0.0001 to 0.2; 0 means [DefaultMaxClockDrift].
	MaxClockDrift float64

	// With KeepAllVersions, the Store removes no superseded versions. Their number then grows
	// without limit.
	KeepAllVersions bool

	// With UnsafeTimes, New accepts a PutLifetime and a SettleDelay out of bounds. No promise of
	// this package holds then. Use UnsafeTimes only to demonstrate why the settle delay is necessary.
	UnsafeTimes bool

	// Logger receives each fault that no call returns as an error. Nil means no log.
	Logger *slog.Logger
}

// MinSettleDelay returns the shortest SettleDelay for a PutLifetime and a MaxClockDrift.
func MinSettleDelay(lifetime time.Duration, drift float64) time.Duration {
	return time.Duration(math.Ceil(float64(lifetime)*(1+drift)/(1-drift))) + lifetime/20
}

// check fills in the defaults and refuses what is out of bounds.
func (o *Options) check() error {
	o.PutLifetime = cmp.Or(o.PutLifetime, DefaultPutLifetime)
	o.MaxClockDrift = cmp.Or(o.MaxClockDrift, DefaultMaxClockDrift)
	o.SettleDelay = cmp.Or(o.SettleDelay, max(o.PutLifetime*6/5, MinSettleDelay(o.PutLifetime, o.MaxClockDrift)))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	bad := func(format string, args ...any) error {
		return fmt.Errorf("s3verstore: Options: %w: %s", store.ErrMisconfigured, fmt.Sprintf(format, args...))
	}
	switch {
	case math.IsNaN(o.MaxClockDrift) || o.MaxClockDrift < 0.0001 || o.MaxClockDrift > 0.2:
		return bad("MaxClockDrift is %v; it can be from 0.0001 to 0.2", o.MaxClockDrift)
	case o.PutLifetime < 0 || o.SettleDelay < 0:
		return bad("PutLifetime is %v and SettleDelay is %v; they must not be negative", o.PutLifetime, o.SettleDelay)
	case !o.UnsafeTimes && (o.PutLifetime < MinPutLifetime || o.PutLifetime > MaxPutLifetime):
		return bad("PutLifetime is %v; it can be from %v to %v", o.PutLifetime, MinPutLifetime, MaxPutLifetime)
	case !o.UnsafeTimes && o.SettleDelay < MinSettleDelay(o.PutLifetime, o.MaxClockDrift):
		return bad("SettleDelay is %v; for a PutLifetime of %v it must be at least %v", o.SettleDelay, o.PutLifetime, MinSettleDelay(o.PutLifetime, o.MaxClockDrift))
	}
	return nil
}
