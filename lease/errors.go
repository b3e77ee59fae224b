package lease

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/holding"
	"github.com/holdfast-go/holdfast/store"
)

// The errors of this package, for errors.Is. Some of them also say whether a write was applied;
// see [store.OutcomeOf]. The errors that end a lease, a guard or a client do not say this,
// because they are also the causes of contexts. If such a context interrupts a write, the store
// may still apply the write.
var (
	// ErrHeld: another client, or another handle, holds the lock. The error is a
	// [*HeldError].
	ErrHeld = holding.ErrHeld

	// ErrLost: the lease ended before its release. The error is a [*LostError]. Its Reason is one
	// of the next six errors.
	ErrLost = belief.ErrLost

	// ErrTakenOver: the record names another grant.
	ErrTakenOver = belief.ErrTakenOver

	// ErrExpired: no renewal was confirmed before the deadline.
	ErrExpired = belief.ErrExpired

	// ErrBroken: a client broke the grant; see [Client.Break].
	ErrBroken = belief.ErrBroken

	// ErrRemoved: the record was removed from the store.
	ErrRemoved = belief.ErrRemoved

	// ErrRevoked: another client has revoked the session, because the session was not renewed in
	// time, or because its process is dead; see Options.ReclaimOwn.
	ErrRevoked = lockrec.ErrRevoked

	// ErrTicketUsed: the ticket, or a copy of it, was used before. The lease continues elsewhere,
	// and the [LostError] names its holder. This ticket is no longer valid.
	ErrTicketUsed = lockrec.ErrTicketUsed

	// ErrYieldRequested: a client asked the holder to yield; see [Client.RequestYield]. If
	// [Handle.Do] ends the context of its function because of such a request, the cause of the
	// context matches ErrYieldRequested, but not [ErrLost].
	ErrYieldRequested = errors.New("another client asks the holder to release the lock")

	// ErrYieldRefused: the holder of the lock refuses to yield.
	ErrYieldRefused = store.NewError("the holder refuses to release the lock", store.NotApplied)

	// ErrNoYieldRequest: the holder has read no request to yield.
	ErrNoYieldRequest = store.NewError("no client has asked the holder to release the lock", store.NotApplied)

	// ErrReleased: the guard was released. The guard's context ends with this cause. It does not
	// match [ErrLost].
	ErrReleased = belief.ErrReleased

	// ErrReleaseFailed: the function that [Client.Do] ran has returned, but the release of the
	// lock is not confirmed. Other clients may have to wait until the lease expires.
	ErrReleaseFailed = errors.New("the release is not confirmed: the lock may stay held until its lease expires")

	// ErrClosed: the client, or the session, was closed.
	ErrClosed = cell.ErrClosed

	// ErrUnresponsive: the store has answered no request, or no write, for Options.StoreTimeout.
	// The error also matches [store.ErrUnavailable]. It matches [ErrHeld] if the last answer of the
	// store showed that the lock was held.
	ErrUnresponsive = cell.ErrUnresponsive

	// ErrSessionInDoubt: the outcome of the session's last renewal is unknown. Until the outcome
	// is known, the session takes no lock, and an Acquire waits.
	ErrSessionInDoubt = holding.ErrSessionInDoubt

	// ErrDetached: the guard was detached; see [Guard.Detach]. The lease continues without the
	// guard.
	ErrDetached = belief.ErrDetached

	// ErrAlreadyRan: the job has already run in this period. The error is a [*AlreadyRanError].
	ErrAlreadyRan = holding.ErrAlreadyRan

	// ErrRunInFuture: the last run of the job began in a later period, and more than 5 minutes
	// after the present time of this machine's clock. The error is a [*AlreadyRanError].
	ErrRunInFuture = store.NewError("the last run began in the future, by the clock of this machine", store.NotApplied, store.ErrPermanent)

	// ErrNotHeld: the lock has no grant that the call can end or change.
	ErrNotHeld = lockrec.ErrNotHeld

	// ErrTokenMismatch: the token of the lock differs from the token that the caller passed.
	ErrTokenMismatch = lockrec.ErrTokenMismatch

	// ErrTokenInFuture: the token of a lock is above the Unix time in microseconds by this
	// machine's clock. So [Client.Sweep] does not remove the lock.
	ErrTokenInFuture = lockrec.ErrTokenInFuture

	// ErrUnresolved: the client could not find out whether a write was applied.
	ErrUnresolved = cell.ErrUnresolved

	// ErrNewerFormat: the format of the record is newer than this program.
	ErrNewerFormat = lockrec.ErrNewerFormat

	// ErrFull: the lock already has [MaxMembers] holders and waiters, or its record has no room
	// for a further holder or waiter.
	ErrFull = lockrec.ErrFull

	// ErrWrongKind: the call used a semaphore as a plain lock, or a plain lock as a
	// semaphore.
	ErrWrongKind = lockrec.ErrWrongKind

	// ErrSlotCount: the number of slots of the semaphore differs from the number that the
	// caller passed. The error is a [*SlotCountError].
	ErrSlotCount = lockrec.ErrSlotCount

	// ErrInvalidTicket: the fields of a [Ticket] contradict each other, or contradict
	// the record of the lock.
	ErrInvalidTicket = lockrec.ErrInvalidTicket
)

// HeldError names the holder of a lock. It matches [ErrHeld]. Its method Waiting returns the number of
// other clients in the queue of the lock. The fields are:
//
//   - Name: the name of the lock.
//   - Store: the name of the store, if it has one.
//   - Record: the record of the lock. Holder and Token are those of the holder, Granted is the start
//     of the holder's grant.
//   - Wait: if the holder is dead, this waiter may take the lock after the time Wait at the latest.
//     Each renewal by the holder restarts this time.
type HeldError = holding.HeldError

// LostError contains the reason why a lease ended. A LostError matches [ErrLost] and its Reason.
// The fields are:
//
//   - Name: the name of the lock; empty if a session was lost.
//   - Session: the session that was lost, or the session of the lease; empty if there is none.
//   - Token: the token of the grant.
//   - Reason: ErrTakenOver, ErrExpired, ErrBroken, ErrRemoved, ErrRevoked or ErrTicketUsed.
//   - NewHolder: the present holder of the lock, if known.
//   - Cause: the last error of the store, if any. The error also matches it.
type LostError = belief.LostError

// SlotCountError contains the number of slots of a semaphore, and the number that the caller
// passed. It matches [ErrSlotCount].
type SlotCountError = lockrec.SlotCountError

// OptionError names the fields of [Options] whose values [New] refuses. Either one value is wrong,
// or several values contradict each other. The error matches [store.ErrInvalid].
type OptionError struct {
	Fields []string // fields of Options or of its Tuning, such as TTL, Margin or MinPoll
	Why    string   // their values, and the values that are allowed
}

func (e *OptionError) Error() string { return store.ErrInvalid.Error() + ": " + e.Why }

func (e *OptionError) Unwrap() error { return store.ErrInvalid }
