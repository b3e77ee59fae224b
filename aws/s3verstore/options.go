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
	// DefaultLife is how long a PUT may be under way; see [Options].
	DefaultLife = 5 * time.Second

	// DefaultSettle is the pause after a PUT that goes with [DefaultLife].
	DefaultSettle = 6 * time.Second

	// DefaultRho is the assumed bound of the error of a clock's rate.
	DefaultRho = 0.01

	// MinLife and MaxLife bound [Options].Life.
	MinLife = 50 * time.Millisecond
	MaxLife = 10 * time.Minute

	// The shortest lease is four pauses and this: so that a renewal, which takes a
	// pause, is through before the margin and grace of a lease begin.
	ttlBeyondSettles = 3 * time.Second
)

// Options are the options of [New]. The zero value of each field means its default.
type Options struct {
	// Life (L in the package comment) is how long a PUT may be under way: from its
	// sending until it takes effect or never will, by the clocks of the machine that
	// sends it, and including what the clocks of the server's machines differ by. A
	// write whose PUT takes longer has an unknown outcome. All clients of a bucket
	// should have the same. From [MinLife] to [MaxLife]. Default [DefaultLife].
	Life time.Duration

	// Settle is the pause between a PUT and its judgement. More than
	// Life*(1+Rho)/(1-Rho) and a twentieth of Life for a listing. Default six fifths
	// of Life, or more where Rho is large.
	Settle time.Duration

	// Rho bounds the error of the rate of any machine's clock. From 0.0001 to 0.2.
	// Default [DefaultRho].
	Rho float64

	// KeepAll leaves every version where it is. They pile up.
	KeepAll bool

	// UnsafeTimes accepts a Life and a Settle out of bounds. Nothing is promised then; it
	// is there to show what the pause is for.
	UnsafeTimes bool

	// Log is told of what went wrong beside the calls that return errors. Nil
	// discards.
	Log *slog.Logger
}

// MinSettle returns the shortest Settle that goes with a Life.
func MinSettle(life time.Duration, rho float64) time.Duration {
	return time.Duration(math.Ceil(float64(life)*(1+rho)/(1-rho))) + life/20
}

// check fills in the defaults and refuses what is out of bounds.
func (o *Options) check() error {
	o.Life = cmp.Or(o.Life, DefaultLife)
	o.Rho = cmp.Or(o.Rho, DefaultRho)
	o.Settle = cmp.Or(o.Settle, max(o.Life*6/5, MinSettle(o.Life, o.Rho)))
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("s3verstore: Options: %w: %s", store.ErrMisconfigured, fmt.Sprintf(format, args...))
	}
	switch {
	case math.IsNaN(o.Rho) || o.Rho < 0.0001 || o.Rho > 0.2:
		return bad("Rho is %v; it can be from 0.0001 to 0.2", o.Rho)
	case o.Life < 0 || o.Settle < 0:
		return bad("Life or Settle is negative")
	case !o.UnsafeTimes && (o.Life < MinLife || o.Life > MaxLife):
		return bad("Life is %v; it can be from %v to %v", o.Life, MinLife, MaxLife)
	case !o.UnsafeTimes && o.Settle < MinSettle(o.Life, o.Rho):
		return bad("Settle is %v; for a Life of %v it is at least %v", o.Settle, o.Life, MinSettle(o.Life, o.Rho))
	}
	return nil
}
