package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The errors of this package, to be tested with [errors.Is]. Some state an outcome, for
// [store.OutcomeOf]. Those that end a lease, a guard or a client state none: they are also the
// causes of contexts, and the write that they interrupt may be applied.
var (
	// ErrHeld: another client or handle holds the lock. The error is a [*HeldError].
	ErrHeld = store.NewError("lock is held", store.NotApplied)

	// ErrLost: the lease ended before it was released. The error is a [*LostError], whose Reason is
	// one of the next six.
	ErrLost = errors.New("lease lost")

	// ErrTakenOver: the record names another grant.
	ErrTakenOver = errors.New("taken over by another")

	// ErrExpired: no renewal was confirmed before the deadline.
	ErrExpired = errors.New("not renewed in time")

	// ErrBroken: a client broke the grant; see [Client.Break].
	ErrBroken = errors.New("broken by another client")

	// ErrRemoved: the record was removed from the store.
	ErrRemoved = errors.New("record removed from the store")

	// ErrRevoked: another client has revoked the session, because it was not renewed in time, or
	// because its process was found dead; see Options.ReclaimOwn.
	ErrRevoked = errors.New("session revoked by another client")

	// ErrTicketUsed: the ticket was used before, or it is a copy of a used one. The lease
	// continues, and the [LostError] names its holder. This ticket is void.
	ErrTicketUsed = errors.New("the ticket was used before")

	// ErrYieldRequested: the holder was asked to yield; see [Client.RequestYield]. It is the cause
	// with which the context of a function in a [Handle.Do] ends. It does not match [ErrLost].
	ErrYieldRequested = errors.New("asked to give way")

	// ErrYieldRefused: the holder of the lock refuses to yield.
	ErrYieldRefused = store.NewError("the holder refuses to give way", store.NotApplied)

	// ErrNoYieldRequest: the holder has read no request to yield.
	ErrNoYieldRequest = store.NewError("not asked to give way", store.NotApplied)

	// ErrReleased: the guard was released. It is the cause with which a guard's context ends after
	// Release. It does not match [ErrLost].
	ErrReleased = errors.New("lease released")

	// ErrReleaseFailed: the function of a [Client.Do] has returned, but the release of the lock is
	// not confirmed. Others may have to wait until the lease expires.
	ErrReleaseFailed = errors.New("the release is not confirmed: the lock may stay taken until its lease expires")

	// ErrClosed: the client, or the session, was closed.
	ErrClosed = errors.New("lease client or session closed")

	// ErrUnresponsive: the store has answered no request, or no write, for Options.StoreTimeout.
	// The error also matches [store.ErrUnavailable], and [ErrHeld] if the lock was held when the
	// store answered last.
	ErrUnresponsive = errors.New("the store does not answer")

	// ErrSessionInDoubt: the outcome of the session's last renewal is not known, so that no lock is
	// taken under it now. An Acquire waits until the outcome is known.
	ErrSessionInDoubt = store.NewError("the outcome of the session's last renewal is not known", store.NotApplied)

	// ErrDetached: the guard was detached, see [Guard.Detach]. The lease continues without it.
	ErrDetached = errors.New("lease detached")

	// ErrAlreadyRan: the job has run in this period. The error is a [*AlreadyRanError].
	ErrAlreadyRan = store.NewError("ran already in this period", store.NotApplied, store.ErrPermanent)

	// ErrRunInFuture: by this machine's clock the last run of the job is in a later period, and
	// more than 5 minutes in the future. The error is a [*AlreadyRanError].
	ErrRunInFuture = store.NewError("the last run is in the future of this machine's clock", store.NotApplied, store.ErrPermanent)

	// ErrNotHeld: the lock has no grant that the call could end or change.
	ErrNotHeld = store.NewError("lock is not held", store.NotApplied)

	// ErrTokenMismatch: the lock has another token than the caller names.
	ErrTokenMismatch = store.NewError("the lock has another token than the caller names", store.NotApplied)

	// ErrTokenInFuture: the token of a lock is above the clock (Unix time in microseconds), so that
	// [Client.Sweep] does not remove the lock.
	ErrTokenInFuture = store.NewError("the token is above the clock (Unix time in microseconds)", store.NotApplied)

	// ErrUnresolved: all attempts to find out whether a write was applied have failed.
	ErrUnresolved = store.NewError("it is unknown whether the write was applied", store.Unknown)

	// ErrNewerFormat: the record is of a newer format than this program knows.
	ErrNewerFormat = errors.New("the record has a newer format than this program knows")

	// ErrFull: the lock has [MaxMembers] holders and waiters already, or its record has no room
	// for another one.
	ErrFull = store.NewError("no room for another holder", store.NotApplied, store.ErrPermanent)

	// ErrWrongKind: the lock is a semaphore and was used as a lock, or the other way round.
	ErrWrongKind = store.NewError("the lock is of another kind", store.NotApplied, store.ErrPermanent)

	// ErrSlotCount: the semaphore has another number of slots than the caller names. The error
	// is a [*SlotCountError].
	ErrSlotCount = store.NewError("the semaphore has another number of slots", store.NotApplied, store.ErrPermanent)

	// ErrInvalidTicket: a [Ticket] contradicts itself, or the record that it names.
	ErrInvalidTicket = store.NewError("invalid ticket", store.NotApplied, store.ErrPermanent)
)

// HeldError says who holds a lock. It matches [ErrHeld].
type HeldError struct {
	Name   string
	Store  string // the store's name, if it has one
	Record Record // the lock's record; Holder, Token and Granted say who holds the lock, and since when

	// Wait is the longest time, from now, until this waiter may take the lock over if its holder is
	// dead. Each renewal restarts it.
	Wait time.Duration

	own string // the grant of the waiter's own entry in the queue
}

func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %q", e.Name)
	switch r := &e.Record; {
	case r.State == Shared && r.Slots > 0:
		fmt.Fprintf(&b, " has %d of %d slots taken (token %d)", len(r.Holders), r.Slots, r.Token)
	case r.State == Shared:
		fmt.Fprintf(&b, " is held by %s (token %d)", r.holders(), r.Token)
	case r.State == Broken:
		fmt.Fprintf(&b, " was broken and is not free yet (token %d)", r.Token)
	case r.State == Free && !r.NotBefore.IsZero():
		fmt.Fprintf(&b, " is free, but not to be taken before %s (token %d)", r.NotBefore.Format(time.RFC3339), r.Token)
	case r.State == Free:
		fmt.Fprintf(&b, " is contended (token %d)", r.Token)
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
		b.WriteString(", and 1 waits in line")
	default:
		fmt.Fprintf(&b, ", and %d wait in line", waiting)
	}
	return b.String()
}

// Waiting returns how many other clients are in the queue of the lock.
func (e *HeldError) Waiting() (n int) {
	for _, m := range e.Record.Queue {
		if m.Grant != e.own {
			n++
		}
	}
	return n
}

// holders names who holds the lock, for people: of several holders, how many there are.
func (r *Record) holders() string {
	n := len(r.Holders)
	switch {
	case r.State != Shared:
		return r.Holder
	case r.Slots > 0:
		return fmt.Sprintf("%d of %d slots", n, r.Slots)
	case n == 1:
		return "1 reader"
	}
	return fmt.Sprintf("%d readers", n)
}

// Is makes a HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Outcome is NotApplied.
func (e *HeldError) Outcome() store.Outcome { return store.NotApplied }

// LostError says why a lease ended. It matches [ErrLost] and its Reason.
type LostError struct {
	Name      string // of the lock; empty if a session was lost
	Session   string // the session that was lost, or that the lease was under
	Token     uint64
	Reason    error  // ErrTakenOver, ErrExpired, ErrBroken, ErrRemoved, ErrRevoked, ErrTicketUsed
	NewHolder string // who holds the lock now, if known
	Cause     error  // the last error of the store, if any

	now bool // it was broken with immediate effect
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("lease on %q (token %d) lost: %v", e.Name, e.Token, e.Reason)
	if e.Name == "" {
		s = fmt.Sprintf("session %s lost: %v", e.Session, e.Reason)
	}
	if e.NewHolder != "" {
		s += ": " + e.NewHolder
	}
	if e.Cause != nil {
		s += ": " + strings.ReplaceAll(e.Cause.Error(), "\n", "; ")
	}
	return s
}

// Is makes a LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the reason and the cause.
func (e *LostError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Cause}
}

// SlotCountError says that a semaphore has another number of slots than the caller names. It
// matches [ErrSlotCount].
type SlotCountError struct {
	Name string
	Want int // what the caller names
	Have int // what the record says
}

func (e *SlotCountError) Error() string {
	return fmt.Sprintf("semaphore %q: it has %d slots, and the caller names %d: name the same number, or resize it", e.Name, e.Have, e.Want)
}

// Unwrap returns ErrSlotCount.
func (e *SlotCountError) Unwrap() error { return ErrSlotCount }

// OptionError names the fields of [Options] whose values a client refuses, alone or together. It
// matches [store.ErrInvalid].
type OptionError struct {
	Fields []string // of Options, or of its Tuning: TTL, Margin, Grace, MaxClockDrift, RenewInterval, MinPoll and so on
	Why    string   // the values that they have, and those that they can have
}

func (e *OptionError) Error() string { return store.ErrInvalid.Error() + ": " + e.Why }

// Unwrap returns store.ErrInvalid.
func (e *OptionError) Unwrap() error { return store.ErrInvalid }
