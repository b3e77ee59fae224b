package holding

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/lease"
)

// BusyError says who holds a lock, and how the user could get it. --quiet hides this
// message.
type BusyError struct {
	*lease.HeldError
	By      string // who holds it
	on      string // the URL of its store, with its parameters
	orphans string // what a dead holder has left running
	broken  string // when other clients can take it after a break
}

func (e *BusyError) Unwrap() error { return e.HeldError }

func (e *BusyError) Error() string {
	r := e.Record
	text := fmt.Sprintf("lock %q", e.Name)
	switch {
	case r.State == lease.Shared && r.Slots > 0:
		text += fmt.Sprintf(" has %d of %d slots taken, by %s", len(r.Holders), r.Slots, e.By)
	case r.State == lease.Shared && len(r.Holders) == 1:
		text += " is held by 1 reader, " + e.By
	case r.State == lease.Shared:
		text += fmt.Sprintf(" is held by %d readers, %s", len(r.Holders), e.By)
	case r.State == lease.Broken:
		text += fmt.Sprintf(" was broken, and is free when the holder has stopped, in at most %v", e.Wait.Round(100*time.Millisecond))
	case r.State == lease.Free && !r.NotBefore.IsZero():
		text += " is " + leases.FreeAfter(r.NotBefore)
	case r.State == lease.Free:
		text += " is free, but other clients are taking it at the moment"
	default:
		text += " is held by " + e.By
		if !r.Granted.IsZero() {
			text += " since " + output.ShortTime(r.Granted)
			if age := time.Since(r.Granted); age >= 0 {
				text += " (" + output.Ago(age) + ")"
			}
		}
	}
	if e.Store != "" {
		text += ", on " + e.Store
	}
	switch n := e.Waiting(); n {
	case 0:
		return text
	case 1:
		return text + "; 1 client waits in its queue"
	default:
		return fmt.Sprintf("%s; %d clients wait in its queue", text, n)
	}
}

// Hints says how to ask the holder to release the lock, and how to force it.
func (e *BusyError) Hints() (hints []string) {
	r := e.Record
	line := "holdfast --store " + output.Quote(e.on)
	forced := fmt.Sprintf("%s break %s --token %d", line, output.Quote(e.Name), r.Token)
	if r.State == lease.Free && r.NotBefore.After(time.Now()) {
		return []string{"to let clients take it now: " + forced}
	}
	if r.State != lease.Held && r.State != lease.Shared {
		return nil
	}
	if late := overdue(e.HeldError); late != "" {
		hints = append(hints, late)
	}
	if e.orphans != "" {
		hints = append(hints, e.orphans)
	}
	ask, end, dead := "to ask the holder to stop:", "to end the holder's work:", "the holder is certainly dead. If the holder lives, it works"
	if len(r.Holders) > 1 {
		ask, end, dead = "to ask the holders to stop:", "to end the work of all:", "all holders are certainly dead. If a holder lives, it works"
	}
	width := max(len(ask), len(end))
	return append(hints,
		fmt.Sprintf("%-*s  %s ask %s --wait 5m", width, ask, line, output.Quote(e.Name)),
		fmt.Sprintf("%-*s  %s", width, end, forced),
		fmt.Sprintf("After a break, %s.", e.broken),
		fmt.Sprintf("Add --now to break only if %s at the same time as the next holder.", dead))
}

// overdue says when a waiter can take a lock that its holder did not renew in time. The holder is
// not known to be dead, so the waiter can be certain only after a wait.
func overdue(held *lease.HeldError) string {
	r := held.Record
	over := time.Since(r.Renewed.Add(r.TTL))
	if r.State != lease.Held || r.Session != "" || over < 0 { // a session has a record of its own
		return ""
	}
	return fmt.Sprintf("the renewal of the lock is %v late, if the clocks of both machines agree: other clients can take the lock in %v, unless the holder renews it", over.Round(time.Second), held.Wait.Round(100*time.Millisecond))
}

// lostText says that a lock was lost, and why.
func lostText(err error) string {
	var lost *lease.LostError
	if !errors.As(err, &lost) || lost.Name == "" {
		return output.OneLine(err)
	}
	why := output.OneLine(lost.Reason)
	is := func(reason error) bool { return errors.Is(lost.Reason, reason) }
	switch {
	case is(lease.ErrBroken):
		why = "another client broke it"
	case is(lease.ErrExpired):
		why = "the store did not confirm a renewal in time"
	case is(lease.ErrTakenOver):
		why = "another holder has taken it"
	case is(lease.ErrRemoved):
		why = "its record was removed from the store"
	case is(lease.ErrRevoked):
		why = "another client has revoked its session"
	}
	if lost.NewHolder != "" {
		why += " (" + lost.NewHolder + ")"
	}
	switch {
	case lost.Cause != nil:
		why += ": " + output.OneLine(lost.Cause)
	case is(lease.ErrExpired): // no request has ended with an error
		why += ": a renewal has had no answer, or this machine was suspended"
	}
	return fmt.Sprintf("lock %q was lost: %s", lost.Name, why)
}

// lostError is the loss of a lock under a command.
type lostError struct {
	cause error
	end   string // how the command ended; empty if there is none
}

func (e *lostError) Unwrap() error { return e.cause }

func (e *lostError) Error() string {
	if e.end == "" {
		return lostText(e.cause)
	}
	return lostText(e.cause) + ". The command " + e.end + "."
}

func (e *lostError) Hints() []string {
	token := ""
	var lost *lease.LostError
	if errors.As(e.cause, &lost) && lost.Token != 0 {
		token = fmt.Sprintf("token %d, ", lost.Token)
	}
	return []string{"check what the command has done, then start it again (" + token + "see holdfast help leases)"}
}
