package reserve

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The defaults are the same as in object_store.
const (
	// DefaultTimeout is the default of [Options].Timeout.
	DefaultTimeout = 20 * time.Second

	// defaultMaxClockSkewRate is by how much the clocks of two machines may differ; see [Options].
	defaultMaxClockSkewRate = 3

	// defaultTTL is how long a row stays in its table; see [Options].
	defaultTTL = time.Hour

	// TestInterval is the first pause of a waiter between two checks. The pauses grow to one
	// fortieth of the time after which the waiter takes the row over, or to twice TestInterval if
	// this is longer.
	// A waiter takes over a row at most TestInterval too late.
	TestInterval = 100 * time.Millisecond

	// MinTimeout and MaxTimeout bound Options.Timeout.
	MinTimeout = 50 * time.Millisecond
	MaxTimeout = 24 * time.Hour

	// clockSkewRateLimit bounds Options.MaxClockSkewRate.
	clockSkewRateLimit = 100

	// maxTTL bounds Options.TTL.
	maxTTL = 365 * 24 * time.Hour

	// ttlSlack is how much longer than a waiter waits a row stays in its table.
	ttlSlack = time.Minute
)

// Options are the settings of a [Reserver]. Programs on the same table may have different settings,
// because a waiter uses the timeout in the row.
type Options struct {
	// Timeout is the longest time of an operation. The time begins before the Reserver writes the
	// row. Slow operations need a long Timeout, but a long Timeout also makes other writers wait
	// longer after a crash. It is a whole number of milliseconds, from 50 ms to 24 hours; 0 means
	// 20 seconds.
	Timeout time.Duration

	// MaxClockSkewRate is a factor: a waiter takes a row over after the timeout of the row
	// multiplied by MaxClockSkewRate. It is from 2 to 100; 0 means 3. The additional time is for
	// clocks that run at different speeds, and for operations that the store applies late.
	MaxClockSkewRate int

	// TTL is the time after which the table may remove a row. It is at least Timeout *
	// MaxClockSkewRate plus one minute, and at most 365 days. 0 means an hour, or twice Timeout *
	// MaxClockSkewRate if that is longer.
	TTL time.Duration

	// With ReleaseApplied, the Reserver also releases the row of an applied operation. That costs
	// one more request. Then other programs do not wait for the row if the object is in the
	// reserved state again. This happens after a create and a delete, because the object is absent
	// again. If versions are ETags, it also happens if a write restores the earlier bytes of the
	// object.
	ReleaseApplied bool

	// Logger receives a message for each wait, takeover and release. Nil means no log.
	Logger *slog.Logger
}

func (o *Options) check() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("reserve: %w: Options.%s", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxClockSkewRate = cmp.Or(o.MaxClockSkewRate, defaultMaxClockSkewRate)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	switch {
	case o.Timeout < MinTimeout || o.Timeout > MaxTimeout:
		return invalid("Timeout is %v; it must be from %v to %v", o.Timeout, MinTimeout, MaxTimeout)
	case o.Timeout%time.Millisecond != 0:
		return invalid("Timeout is %v; it must be in whole milliseconds", o.Timeout)
	case o.MaxClockSkewRate < 2 || o.MaxClockSkewRate > clockSkewRateLimit:
		return invalid("MaxClockSkewRate is %d; it must be from 2 to %d", o.MaxClockSkewRate, clockSkewRateLimit)
	}
	wait := o.Timeout * time.Duration(o.MaxClockSkewRate)
	o.TTL = cmp.Or(o.TTL, max(defaultTTL, 2*wait))
	if least := wait + ttlSlack; o.TTL < least || o.TTL > maxTTL {
		return invalid("TTL is %v; it must be from %v (a minute more than Timeout times MaxClockSkewRate) to %v", o.TTL, least, maxTTL)
	}
	return nil
}
