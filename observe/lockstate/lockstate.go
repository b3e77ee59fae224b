// Package lockstate says in words what a record shows of a lock. The command and the dashboard use the same words.
package lockstate

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// HandedOver is before the id of a session where the record of a lock names the holder to which the lock was handed
// over.
const HandedOver = "session "

// Expiry says what is known of the end of a lease that was not renewed in time.
type Expiry string

const (
	NotExpired Expiry = ""
	Likely     Expiry = "likely"  // if the clocks of the holder and of this machine agree
	Certain    Expiry = "certain" // by the store's own clock
)

// WatchTime returns for how long a waiter watches a lock of this TTL before it takes the lock over. The parameter
// drift is Options.MaxClockDrift of its lease client.
func WatchTime(ttl time.Duration, drift float64) time.Duration {
	return time.Duration(float64(ttl) * (1 + drift) / (1 - drift))
}

// ExpiryOf returns the expiry of a lock that is held, for a waiter with that drift. The holder renewed it at the time
// renewed, by its own clock. The parameter age is [lease.Info].Age, and negative if it is not known. If the store
// knows whether the holder lives, no clock matters.
func ExpiryOf(renewed, now time.Time, age, ttl time.Duration, drift float64, liveness store.Liveness) Expiry {
	switch over := WatchTime(ttl, drift); {
	case liveness != store.LivenessUnknown || renewed.IsZero():
		return NotExpired
	case age >= over:
		return Certain
	case now.Sub(renewed) >= over:
		return Likely
	}
	return NotExpired
}

// Facts are what a reader knows of a lock.
type Facts struct {
	State    lease.State
	Slots    int // of a semaphore
	Holders  int // if the state is shared
	Expired  Expiry
	Liveness string // the text of a [store.Liveness], or another word for it
}

// Words returns the state of a lock in words.
func (f Facts) Words() string {
	switch {
	case f.State == lease.Shared && f.Slots > 0:
		return fmt.Sprintf("%d of %d slots", f.Holders, f.Slots)
	case f.State == lease.Free && f.Slots > 0: // a handle of a lock cannot take it
		return fmt.Sprintf("free (%d slots)", f.Slots)
	case f.State == lease.Shared:
		return fmt.Sprintf("shared by %d", f.Holders)
	case f.Expired == Certain:
		return "expired"
	case f.Expired == Likely:
		return "expired?"
	case f.State == lease.Held && f.Liveness != store.LivenessUnknown.String():
		return fmt.Sprintf("held (%s)", f.Liveness)
	}
	return string(f.State)
}

// RunResult returns the outcome of a run in words. The record has "done" for a run that has succeeded.
func RunResult(o lease.RunOutcome) string {
	if o == lease.RunDone {
		return "succeeded"
	}
	return string(o)
}
