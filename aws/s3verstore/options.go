package s3verstore

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Defaults and bounds. Each is an option.
const (
	// DefaultPutLifetime is how long a PUT may be under way; see [Options].
	DefaultPutLifetime = 5 * time.Second

	// DefaultSettleDelay is the pause after a PUT that goes with [DefaultPutLifetime].
	DefaultSettleDelay = 6 * time.Second

	// DefaultMaxClockDrift is the assumed bound of the error of a clock's rate.
	DefaultMaxClockDrift = 0.01

	// MinPutLifetime and MaxPutLifetime bound [Options].PutLifetime.
	MinPutLifetime = 50 * time.Millisecond
	MaxPutLifetime = 10 * time.Minute

	// The shortest lease is four pauses and this: so that a renewal, which takes a
	// pause, is through before the margin and grace of a lease begin.
	ttlBeyondSettles = 3 * time.Second
)

// Options are the options of [New]. The zero value of each field means its default.
type Options struct {
	// PutLifetime (L in the package comment) is how long a PUT may be under way: from its
	// sending until it takes effect or never will, by the clocks of the machine that
	// sends it, and including what the clocks of the server's machines differ by. A
	// write whose PUT takes longer has an unknown outcome. All clients of a bucket
	// should have the same. From [MinPutLifetime] to [MaxPutLifetime]. Default [DefaultPutLifetime].
	PutLifetime time.Duration

	// SettleDelay is the pause between a PUT and the listing that confirms it. More than L*(1+d)/(1-d)
	// and a twentieth of L for a listing, where L is PutLifetime and d MaxClockDrift. Default
	// six fifths of L, or more where d is large.
	SettleDelay time.Duration

	// MaxClockDrift bounds the error of the rate of any machine's clock. From 0.0001 to 0.2.
	// Default [DefaultMaxClockDrift].
	MaxClockDrift float64

	// KeepAllVersions leaves every version where it is. They pile up.
	KeepAllVersions bool

	// UnsafeTimes accepts a PutLifetime and a SettleDelay out of bounds. Nothing is promised then; it
	// is there to show what the pause is for.
	UnsafeTimes bool

	// Logger gets a record of what went wrong outside of calls that return errors. Nil
	// discards.
	Logger *slog.Logger
}

// MinSettleDelay returns the shortest SettleDelay for a PutLifetime.
func MinSettleDelay(lifetime time.Duration, drift float64) time.Duration {
	return time.Duration(math.Ceil(float64(lifetime)*(1+drift)/(1-drift))) + lifetime/20
}

// check fills in the defaults and refuses what is out of bounds.
func (o *Options) check() error {
	o.PutLifetime = cmp.Or(o.PutLifetime, DefaultPutLifetime)
	o.MaxClockDrift = cmp.Or(o.MaxClockDrift, DefaultMaxClockDrift)
	o.SettleDelay = cmp.Or(o.SettleDelay, max(o.PutLifetime*6/5, MinSettleDelay(o.PutLifetime, o.MaxClockDrift)))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("s3verstore: Options: %w: %s", store.ErrMisconfigured, fmt.Sprintf(format, args...))
	}
	switch {
	case math.IsNaN(o.MaxClockDrift) || o.MaxClockDrift < 0.0001 || o.MaxClockDrift > 0.2:
		return bad("MaxClockDrift is %v; it can be from 0.0001 to 0.2", o.MaxClockDrift)
	case o.PutLifetime < 0 || o.SettleDelay < 0:
		return bad("PutLifetime is %v and SettleDelay %v; neither can be negative", o.PutLifetime, o.SettleDelay)
	case !o.UnsafeTimes && (o.PutLifetime < MinPutLifetime || o.PutLifetime > MaxPutLifetime):
		return bad("PutLifetime is %v; it can be from %v to %v", o.PutLifetime, MinPutLifetime, MaxPutLifetime)
	case !o.UnsafeTimes && o.SettleDelay < MinSettleDelay(o.PutLifetime, o.MaxClockDrift):
		return bad("SettleDelay is %v; for a PutLifetime of %v it is at least %v", o.SettleDelay, o.PutLifetime, MinSettleDelay(o.PutLifetime, o.MaxClockDrift))
	}
	return nil
}
