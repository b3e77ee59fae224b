package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The errors of this package, to be read with [errors.Is]. Those that tell an outcome
// are for [store.OutcomeOf]. Those that end a lease, a guard or a client tell none: they
// are also the causes of contexts, and the write that they interrupt may be applied.
var (
	// ErrHeld: another client or handle holds the lock. The error is a [*HeldError].
	ErrHeld = store.NewError("lock is held", store.NotApplied)

	// ErrLost: the lease is over although it was not released. The error is a
	// [*LostError], whose Reason is one of the next seven.
	ErrLost = errors.New("lease lost")

	// ErrTakenOver: another grant stands in the record.
	ErrTakenOver = errors.New("taken over by another")

	// ErrExpired: no renewal was known to have been applied until the deadline.
	ErrExpired = errors.New("not renewed in time")

	// ErrBroken: a client broke the grant; see [Client.Break].
	ErrBroken = errors.New("broken by another client")

	// ErrRemoved: the record was removed from the store.
	ErrRemoved = errors.New("record removed from the store")

	// ErrRevoked: another client has ended the session, which was not renewed in time; or it was
	// judged dead, see Options.ReclaimOwn.
	ErrRevoked = errors.New("session fenced by another client")

	// ErrTicketUsed: the ticket was used before, or it is a copy of one that was. The lease
	// goes on, and the [LostError] tells in whose hands; this ticket is void.
	ErrTicketUsed = errors.New("the ticket was used before")

	// ErrYieldRequested: the holder was asked to give way; see [Client.RequestYield]. It is the cause of the end
	// of the context of a function in a [Handle.Do], and no [ErrLost].
	ErrYieldRequested = errors.New("asked to give way")

	// ErrYieldRefused: the holder of the lock refuses to give way.
	ErrYieldRefused = store.NewError("the holder refuses to give way", store.NotApplied)

	// ErrNoYieldRequest: the holder has heard of no ask.
	ErrNoYieldRequest = store.NewError("not asked to give way", store.NotApplied)

	// ErrReleased: the guard was released. It is the cause of the end of a guard's
	// context after Release, and no [ErrLost].
	ErrReleased = errors.New("lease released")

	// ErrReleaseFailed: the function of a [Client.Do] has returned, and it is not known that
	// the lock was released. Then others wait until the lease expires.
	ErrReleaseFailed = errors.New("the lock may not be released")

	// ErrClosed: the client, or the session, was closed.
	ErrClosed = errors.New("lease client or session closed")

	// ErrUnresponsive: the store has answered no request, or no write, for Options.StoreTimeout. An error that matches it
	// matches [store.ErrUnavailable], too, and [ErrHeld] if the lock was held when the store answered
	// last.
	ErrUnresponsive = errors.New("the store is silent")

	// ErrSessionInDoubt: no lock is taken under a session now, since the outcome of its last renewal
	// is not known. An Acquire waits until it is.
	ErrSessionInDoubt = store.NewError("the outcome of the session's last renewal is not known", store.NotApplied)

	// ErrDetached: the guard was detached, see [Guard.Detach]; the lease goes on
	// without it.
	ErrDetached = errors.New("lease detached")

	// ErrAlreadyRan: the job has run in this period. The error is a [*AlreadyRanError].
	ErrAlreadyRan = store.NewError("ran already in this period", store.NotApplied, store.ErrPermanent)

	// ErrRunInFuture: the last run of the job is of a later period by this machine's clock, and
	// more than 5 minutes ahead of it. The error is a [*AlreadyRanError].
	ErrRunInFuture = store.NewError("the last run is ahead of the clock", store.NotApplied, store.ErrPermanent)

	// ErrRunTimeout: a run has lasted longer than [OnceOptions.Timeout].
	ErrRunTimeout = errors.New("it ran for too long")

	// ErrNotHeld: there is no grant to act on.
	ErrNotHeld = store.NewError("lock is not held", store.NotApplied)

	// ErrTokenMismatch: the lock has another token than the one named.
	ErrTokenMismatch = store.NewError("another token", store.NotApplied)

	// ErrTokenInFuture: the token of a lock is ahead of the clock, so that
	// [Client.Sweep] leaves the lock alone.
	ErrTokenInFuture = store.NewError("the token is ahead of the clock", store.NotApplied)

	// ErrUnresolved: it is not known whether a write was applied. It is said
	// after all attempts to find out.
	ErrUnresolved = store.NewError("outcome unknown", store.Unknown)

	// ErrNewerFormat: the record is of a newer format than this program knows.
	ErrNewerFormat = errors.New("record of a newer format")

	// ErrFull: the lock has [MaxMembers] holders and waiters already, or its record has no room
	// for another one.
	ErrFull = store.NewError("no room for another holder", store.NotApplied, store.ErrPermanent)

	// ErrWrongKind: the lock is a semaphore and was used as a lock, or the other way round.
	ErrWrongKind = store.NewError("a lock of another kind", store.NotApplied, store.ErrPermanent)

	// ErrSlotCount: the semaphore has another number of slots than the caller names. The error
	// is a [*SlotCountError].
	ErrSlotCount = store.NewError("another number of slots", store.NotApplied, store.ErrPermanent)

	// ErrInvalidTicket: a [Ticket] contradicts the record that it names, or itself.
	ErrInvalidTicket = store.NewError("invalid ticket", store.NotApplied, store.ErrPermanent)
)

// HeldError tells who holds a lock. It matches [ErrHeld].
type HeldError struct {
	Name   string
	Store  string // the store's name, if it has one
	Record Record // what stands in the store; Holder, Token, Granted tell who, and since when

	// Wait is how long it will take at the most, from now, until this waiter may
	// take the lock over if its holder is dead. Each renewal begins it anew.
	Wait time.Duration

	own string // the grant under which the waiter itself stands in the queue
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
	waiting := 0 // besides the waiter that gets this error
	for _, m := range e.Record.Queue {
		if m.Grant != e.own {
			waiting++
		}
	}
	switch waiting {
	case 0:
	case 1:
		b.WriteString(", and 1 waits in line")
	default:
		fmt.Fprintf(&b, ", and %d wait in line", waiting)
	}
	return b.String()
}

// holders says who holds the lock, for people: of several holders, how many there are.
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

// LostError tells why a lease ended. It matches [ErrLost] and its Reason.
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

// SlotCountError tells that a semaphore has another number of slots than the caller names. It
// matches [ErrSlotCount].
type SlotCountError struct {
	Name string
	Want int // what the caller names
	Have int // what stands in the store
}

func (e *SlotCountError) Error() string {
	return fmt.Sprintf("semaphore %q: it has %d slots, and the caller names %d: name the same number, or resize it", e.Name, e.Have, e.Want)
}

// Unwrap returns ErrSlotCount.
func (e *SlotCountError) Unwrap() error { return ErrSlotCount }

// OptionError tells which fields of [Options] have values that a client does not take, or that
// do not go together. It matches [store.ErrInvalid].
type OptionError struct {
	Fields []string // of Options, or of its Tuning: TTL, Margin, Grace, MaxClockDrift, RenewInterval, MinPoll and so on
	Why    string   // what they are, and what they can be
}

func (e *OptionError) Error() string { return store.ErrInvalid.Error() + ": " + e.Why }

// Unwrap returns store.ErrInvalid.
func (e *OptionError) Unwrap() error { return store.ErrInvalid }
