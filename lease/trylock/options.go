package trylock

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Defaults and bounds of the options.
const (
	defaultTTL            = 30 * time.Second
	defaultMinPoll        = 50 * time.Millisecond
	defaultMaxPoll        = time.Second
	defaultReleaseTimeout = 5 * time.Second

	// MinTTL is the shortest lease.
	MinTTL = lease.MinLocalTTL

	// MaxTTL is the longest lease.
	MaxTTL = lease.MaxTTL

	// MaxKey is the largest length of a key in bytes.
	MaxKey = 512

	// MaxHolder is the largest length of [Options].Holder in bytes.
	MaxHolder = 256

	renewalsPerTTL = 3
	renewalJitter  = 0.1
	maxCall        = 30 * time.Second
)

// Options configures a [Handle]. The zero value of each field means its default.
type Options struct {
	// TTL is the duration of a lease without a renewal. If the holder dies, other programs wait for this time.
	// It is in whole milliseconds, from [MinTTL] to [MaxTTL], and more than twice Margin. Default 30 s.
	TTL time.Duration

	// Margin is the time between the end of the guard's context and the end of the lease in the store. In this
	// time guarded work must stop. It also allows for late timers and for clocks that differ. At least
	// min(TTL/10, 1 s). Default TTL/4.
	Margin time.Duration

	// RenewInterval is the time between renewals. Each interval differs at random by up to 10 %. From 50 ms to
	// TTL/2. The longest interval must be at least TTL/10 shorter than TTL - Margin. Default TTL/3.
	RenewInterval time.Duration

	// MinPoll and MaxPoll bound the pauses of a waiter: the first pause is at most MinPoll, and each further
	// pause at most twice as long, up to MaxPoll. The real pause is a random part of it. From 1 ms to 1 h.
	// Defaults 50 ms and 1 s.
	MinPoll, MaxPoll time.Duration

	// ReleaseTimeout bounds a release, and the clean-up of an attempt without a result. From 1 ms to the TTL.
	// Default min(5 s, TTL).
	ReleaseTimeout time.Duration

	// Holder is the beginning of each holder id in the store, for people. At most [MaxHolder] bytes. Random
	// characters follow it. Default: none.
	Holder string
}

// trust is the time from the sending of a call to the end of the trust in its lease.
func (o *Options) trust() time.Duration { return o.TTL - o.Margin }

// checkInterval is the longest time between two readings of the clocks while a lease is trusted.
func (o *Options) checkInterval() time.Duration { return min(o.TTL/10, time.Second) }

// checked returns the options with all defaults filled in. It refuses options that are out of bounds, or
// contradict each other.
func checked(key string, given *Options) (o Options, err error) {
	o = *cmp.Or(given, &Options{})
	o.TTL = cmp.Or(o.TTL, defaultTTL)
	o.Margin = cmp.Or(o.Margin, o.TTL/4)
	o.RenewInterval = cmp.Or(o.RenewInterval, o.TTL/renewalsPerTTL)
	o.MinPoll = cmp.Or(o.MinPoll, defaultMinPoll)
	o.MaxPoll = cmp.Or(o.MaxPoll, max(defaultMaxPoll, o.MinPoll))
	o.ReleaseTimeout = cmp.Or(o.ReleaseTimeout, min(defaultReleaseTimeout, o.TTL))
	bad := func(fields, format string, args ...any) (Options, error) {
		return o, &lease.OptionError{Fields: strings.Fields(fields), Why: fmt.Sprintf(format, args...)}
	}
	late := time.Duration(float64(o.RenewInterval)*(1+renewalJitter)) + o.TTL/10
	switch {
	case key == "" || len(key) > MaxKey || !utf8.ValidString(key) || strings.ContainsRune(key, 0):
		return o, fmt.Errorf("%w: the key %.100q is not valid: a key has 1 to %d bytes of UTF-8 text without a zero byte", store.ErrInvalid, key, MaxKey)
	case o.TTL < MinTTL || o.TTL > MaxTTL || o.TTL%time.Millisecond != 0:
		return bad("TTL", "the TTL is %v; it can be from %v to %v, in whole milliseconds", o.TTL, MinTTL, MaxTTL)
	case o.Margin < o.checkInterval() || o.Margin >= o.TTL/2:
		return bad("TTL Margin", "the margin is %v; for a TTL of %v it must be at least %v, and less than half of the TTL", o.Margin, o.TTL, o.checkInterval())
	case o.RenewInterval < lease.MinRenewInterval || o.RenewInterval > o.TTL/2:
		return bad("TTL RenewInterval", "the renewal interval is %v; for a TTL of %v it can be from %v to %v", o.RenewInterval, o.TTL, lease.MinRenewInterval, o.TTL/2)
	case late > o.trust():
		return bad("TTL RenewInterval Margin", "the renewal interval is %v and the TTL is %v; the holder trusts its lease for %v, and a renewal that takes a tenth of the TTL could end later; use a shorter interval", o.RenewInterval, o.TTL, o.trust())
	case o.MinPoll < time.Millisecond || o.MaxPoll < o.MinPoll || o.MaxPoll > time.Hour:
		return bad("MinPoll MaxPoll", "MinPoll is %v and MaxPoll is %v; they can be from 1ms to 1h, and MinPoll must not be above MaxPoll", o.MinPoll, o.MaxPoll)
	case o.ReleaseTimeout < time.Millisecond || o.ReleaseTimeout > o.TTL:
		return bad("TTL ReleaseTimeout", "the release timeout is %v; it can be from 1ms to the TTL (%v)", o.ReleaseTimeout, o.TTL)
	case len(o.Holder) > MaxHolder || !utf8.ValidString(o.Holder) || strings.ContainsRune(o.Holder, 0):
		return bad("Holder", "the holder %.100q is not valid: it has at most %d bytes of UTF-8 text without a zero byte", o.Holder, MaxHolder)
	}
	return o, nil
}
