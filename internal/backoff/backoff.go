// Package backoff waits between two attempts of a request, and between two reads of a state.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d. If ctx has ended by then, Sleep returns the cause.
func Sleep(ctx context.Context, d time.Duration) error { return SleepOrWake(ctx, d, nil) }

// SleepOrWake is like [Sleep], but also ends when wake is ready.
//
// If d is not positive, SleepOrWake starts no timer. Otherwise Go's race detector could crash: two
// goroutines of a synctest bubble would start timers with a duration of zero at the same time.
func SleepOrWake(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-wake:
		case <-t.C:
		}
	}
	return context.Cause(ctx)
}

// Pause returns the pause after an attempt, without jitter. The first attempt has the number 1, and its
// pause is the parameter first. Each later pause is twice as long as the previous pause, up to the
// parameter most.
func Pause(try int, first, most time.Duration) time.Duration {
	shift := max(try-1, 0)
	if first > most>>shift {
		return most
	}
	return first << shift
}

// Jittered returns a random part of the [Pause] after an attempt. So programs that failed at the same time do
// not all try again at the same time. To begin again with short pauses, count the attempts from 1 again.
func Jittered(try int, first, most time.Duration) time.Duration {
	d := Pause(try, first, most)
	if d > 0 {
		d = rand.N(d)
	}
	return d
}

// Wait sleeps after an attempt, for the time [Jittered].
func Wait(ctx context.Context, try int, first, most time.Duration) error {
	return Sleep(ctx, Jittered(try, first, most))
}
