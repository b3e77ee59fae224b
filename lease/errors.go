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
	ErrHeld = store.NewSentinel("lock is held", store.NotApplied)

	// ErrLost: the lease is over although it was not released. The error is a
	// [*LostError], whose Reason is one of the next seven.
	ErrLost = errors.New("lease lost")

	// ErrStolen: another grant stands in the record.
	ErrStolen = errors.New("taken over by another")

	// ErrExpired: no renewal was known to have been applied until the deadline.
	ErrExpired = errors.New("not renewed in time")

	// ErrBroken: a client broke the grant; see [Client.Break].
	ErrBroken = errors.New("broken by another client")

	// ErrRemoved: the record was removed from the store.
	ErrRemoved = errors.New("record removed from the store")

	// ErrFenced: another client has ended the session, which was not renewed in time; or it was
	// judged dead, see Options.ReclaimOwn.
	ErrFenced = errors.New("session fenced by another client")

	// ErrUsed: the ticket was used before, or it is a copy of one that was. The lease
	// goes on, and the [LostError] tells in whose hands; this ticket is void.
	ErrUsed = errors.New("the ticket was used before")

	// ErrAsked: the holder was asked to give way; see [Client.Ask]. It is the cause of the end
	// of the context of a function in a [Handle.Do], and no [ErrLost].
	ErrAsked = errors.New("asked to give way")

	// ErrRefused: the holder of the lock refuses to give way.
	ErrRefused = store.NewSentinel("the holder refuses to give way", store.NotApplied)

	// ErrNotAsked: the holder has heard of no ask.
	ErrNotAsked = store.NewSentinel("not asked to give way", store.NotApplied)

	// ErrReleased: the guard was released. It is the cause of the end of a guard's
	// context after Release, and no [ErrLost].
	ErrReleased = errors.New("lease released")

	// ErrUnreleased: the function of a [Client.Do] has returned, and it is not known that
	// the lock was released. Then others wait until the lease expires.
	ErrUnreleased = errors.New("the lock may not be released")

	// ErrClosed: the client, or the session, was closed.
	ErrClosed = errors.New("lease client or session closed")

	// ErrSilent: the store has answered no request, or no write, for Options.Patience. An error that matches it
	// matches [store.ErrUnavailable], too, and [ErrHeld] if the lock was held when the store answered
	// last.
	ErrSilent = errors.New("the store is silent")

	// ErrDoubtful: no lock is taken under a session now, since the outcome of its last renewal
	// is not known. An Acquire waits until it is.
	ErrDoubtful = store.NewSentinel("the outcome of the session's last renewal is not known", store.NotApplied)

	// ErrDetached: the guard was detached, see [Guard.Detach]; the lease goes on
	// without it.
	ErrDetached = errors.New("lease detached")

	// ErrRan: the job has run in this period. The error is a [*RanError].
	ErrRan = store.NewSentinel("ran already in this period", store.NotApplied, store.ErrPermanent)

	// ErrAheadRun: the last run of the job is of a later period by this machine's clock, and
	// more than [MaxAhead] ahead of it. The error is a [*RanError].
	ErrAheadRun = store.NewSentinel("the last run is ahead of the clock", store.NotApplied, store.ErrPermanent)

	// ErrTooLong: a run has lasted longer than [OnceOptions.Max].
	ErrTooLong = errors.New("it ran for too long")

	// ErrNotHeld: there is no grant to act on.
	ErrNotHeld = store.NewSentinel("lock is not held", store.NotApplied)

	// ErrToken: the lock has another token than the one named.
	ErrToken = store.NewSentinel("another token", store.NotApplied)

	// ErrAhead: the token of a lock is ahead of the clock, so that
	// [Client.Collect] leaves the lock alone.
	ErrAhead = store.NewSentinel("the token is ahead of the clock", store.NotApplied)

	// ErrUnresolved: it is not known whether a write was applied. It is said
	// after all attempts to find out.
	ErrUnresolved = store.NewSentinel("outcome unknown", store.Unknown)

	// ErrFormat: the record is of a newer format than this program knows.
	ErrFormat = errors.New("record of a newer format")

	// ErrFull: the lock has [MaxMembers] holders and waiters already, or its record has no room
	// for another one.
	ErrFull = store.NewSentinel("no room for another holder", store.NotApplied, store.ErrPermanent)

	// ErrKind: the lock is a semaphore and was used as a lock, or the other way round.
	ErrKind = store.NewSentinel("a lock of another kind", store.NotApplied, store.ErrPermanent)

	// ErrSlots: the semaphore has another number of slots than the caller names. The error
	// is a [*SlotsError].
	ErrSlots = store.NewSentinel("another number of slots", store.NotApplied, store.ErrPermanent)

	// ErrTicket: a [Ticket] contradicts the record that it names, or itself.
	ErrTicket = store.NewSentinel("invalid ticket", store.NotApplied, store.ErrPermanent)
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
	Name    string // of the lock; empty if a session was lost
	Session string // the session that was lost, or that the lease was under
	Token   uint64
	Reason  error  // ErrStolen, ErrExpired, ErrBroken, ErrRemoved, ErrFenced, ErrUsed
	By      string // who holds the lock now, if known
	Cause   error  // the last error of the store, if any

	now bool // it was broken with immediate effect
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("lease on %q (token %d) lost: %v", e.Name, e.Token, e.Reason)
	if e.Name == "" {
		s = fmt.Sprintf("session %s lost: %v", e.Session, e.Reason)
	}
	if e.By != "" {
		s += ": " + e.By
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

// SlotsError tells that a semaphore has another number of slots than the caller names. It
// matches [ErrSlots].
type SlotsError struct {
	Name string
	Want int // what the caller names
	Have int // what stands in the store
}

func (e *SlotsError) Error() string {
	return fmt.Sprintf("semaphore %q: it has %d slots, and the caller names %d: name the same number, or resize it", e.Name, e.Have, e.Want)
}

// Unwrap returns ErrSlots.
func (e *SlotsError) Unwrap() error { return ErrSlots }

// OptionError tells which fields of [Options] have values that a client does not take, or that
// do not go together. It matches [store.ErrInvalid].
type OptionError struct {
	Fields []string // of Options, or of its Tuning: TTL, Margin, Grace, Rho, Renew, MinPoll and so on
	Why    string   // what they are, and what they can be
}

func (e *OptionError) Error() string { return store.ErrInvalid.Error() + ": " + e.Why }

// Unwrap returns store.ErrInvalid.
func (e *OptionError) Unwrap() error { return store.ErrInvalid }
