package holding

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// ErrHeld: another client, or another handle, holds the lock.
var ErrHeld = store.NewError("lock is held", store.NotApplied)

// ErrSessionInDoubt: the outcome of the session's last renewal is unknown. Until the outcome
// is known, the session takes no lock, and an Acquire waits.
var ErrSessionInDoubt = store.NewError("the outcome of the session's last renewal is not known", store.NotApplied)

// ErrAlreadyRan: the job has already run in this period.
var ErrAlreadyRan = store.NewError("the job has already run in this period", store.NotApplied, store.ErrPermanent)

// HeldError names the holder of a lock. The alias in package lease documents the fields.
type HeldError struct {
	Name   string
	Store  string
	Record lockrec.Record
	Wait   time.Duration

	own string // the grant of the waiter's own entry in the queue
}

func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %q", e.Name)
	switch r := &e.Record; {
	case r.State == lockrec.Shared && r.Slots > 0:
		fmt.Fprintf(&b, " has %d of %d slots taken (token %d)", len(r.Holders), r.Slots, r.Token)
	case r.State == lockrec.Shared:
		fmt.Fprintf(&b, " is held by %s (token %d)", holdersOf(r), r.Token)
	case r.State == lockrec.Broken:
		fmt.Fprintf(&b, " was broken and is not free yet (token %d)", r.Token)
	case r.State == lockrec.Free && !r.NotBefore.IsZero():
		fmt.Fprintf(&b, " is free, but cannot be taken before %s (token %d)", r.NotBefore.Format(time.RFC3339), r.Token)
	case r.State == lockrec.Free:
		fmt.Fprintf(&b, " is being taken by other clients (token %d)", r.Token)
	default:
		fmt.Fprintf(&b, " is held by %s (token %d)", r.Holder, r.Token)
		if !r.Granted.IsZero() {
			fmt.Fprintf(&b, " since %s", r.Granted.Format(time.RFC3339))
		}
	}
	if e.Store != "" {
		fmt.Fprintf(&b, " on %s", e.Store)
	}
	switch waiting := e.Waiting(); waiting {
	case 0:
	case 1:
		b.WriteString("; 1 client waits in its queue")
	default:
		fmt.Fprintf(&b, "; %d clients wait in its queue", waiting)
	}
	return b.String()
}

// Waiting returns the number of other clients in the queue of the lock.
func (e *HeldError) Waiting() (n int) {
	for _, m := range e.Record.Queue {
		if m.Grant != e.own {
			n++
		}
	}
	return n
}

// holdersOf names who holds the lock, for people: of several holders, how many there are.
func holdersOf(r *lockrec.Record) string {
	n := len(r.Holders)
	switch {
	case r.State != lockrec.Shared:
		return r.Holder
	case r.Slots > 0:
		return fmt.Sprintf("%d of %d slots", n, r.Slots)
	case n == 1:
		return "1 reader"
	}
	return fmt.Sprintf("%d readers", n)
}

func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Outcome returns NotApplied.
func (e *HeldError) Outcome() store.Outcome { return store.NotApplied }
