package lease

import "github.com/holdfast-go/holdfast/lease/internal/lockrec"

// Record is what the register of a lock holds: readable JSON, documented in the
// package comment.
type Record = lockrec.Record

// State says whether a lock is taken.
type State = lockrec.State

// The states of a lock.
const (
	// Held: the grant in the record is in force until it expires.
	Held = lockrec.Held

	// Free: the grant was released; the next one may begin at once.
	Free = lockrec.Free

	// Broken: another client ended the grant; see [Client.Break].
	Broken = lockrec.Broken

	// Shared: one or more readers, or holders of slots, hold the lock. Each of them holds it
	// until its session ends at the latest.
	Shared = lockrec.Shared

	// Revoked: a state of sessions only. Another client has revoked the session. The session
	// never becomes valid again.
	Revoked = lockrec.Revoked
)

// KindSession is [Record.Kind] of the record of a session.
const KindSession = lockrec.KindSession

// Member is one of several holders of a lock, or a waiter in its queue. It belongs to a session,
// and ends with it.
type Member = lockrec.Member

// Mode is what a member of a lock's record holds or waits for.
type Mode = lockrec.Mode

// The modes of members.
const (
	ModeShared    = lockrec.ModeShared    // to read, together with other readers
	ModeSlot      = lockrec.ModeSlot      // one slot of a semaphore
	ModeExclusive = lockrec.ModeExclusive // alone; in the queue only
	ModeCandidate = lockrec.ModeCandidate // alone, as the leader of an election; in the queue only
)

// YieldRequest is a request to the holders of a lock to yield.
type YieldRequest = lockrec.YieldRequest

// Run is the last run of a job that runs once in each period, as the record of its lock has it.
// All times are by the clock of the machine of the run.
type Run = lockrec.Run

// RunOutcome is the outcome of a run.
type RunOutcome = lockrec.RunOutcome

// The outcomes of a run.
const (
	// RunRunning: the run has begun, and its grant was not released. The process of the holder
	// may be dead.
	RunRunning = lockrec.RunRunning

	// RunDone: the function returned nil.
	RunDone = lockrec.RunDone

	// RunFailed: the function returned an error, or did not return (a panic).
	RunFailed = lockrec.RunFailed

	// RunDied: the grant of the run is over, and the record has no end of the run. The process
	// died, the lease was lost, or the guard was released before the function returned.
	RunDied = lockrec.RunDied
)

// Bounds of a record.
const (
	// MaxMembers is the largest number of holders and waiters together in the record of a lock:
	// 500.
	MaxMembers = lockrec.MaxMembers

	// MaxData is the most data that [Guard.SetData] stores, in bytes. This is half of a record,
	// because the rest of the record grows with each holder.
	MaxData = lockrec.MaxData

	// MaxReason is the longest reason of a request to yield, or of its refusal, in bytes: 1,024.
	MaxReason = lockrec.MaxReason
)

// tokenOf returns the token in the value of a register, 0 if that has none.
func tokenOf(value []byte) uint64 { return lockrec.TokenOf(value) }
