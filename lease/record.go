package lease

import "github.com/holdfast-go/holdfast/internal/lockrec"

// Record is the content of the register of a lock or of a session. The package comment documents
// its JSON form. The fields are:
//
//   - Name: the name of the lock, or the id of the session.
//   - Kind: empty for a lock, [KindSession] for a session.
//   - State: see [State]. A session is Held (open), Free (closed) or Revoked.
//   - Token: the fencing token of the last grant.
//   - Grant: the random id of that grant. Session: the session of the grant, if there is one.
//   - TTL: the TTL of the grant.
//   - Holder: the text for people that names the holder.
//   - Process, Presence: the random id of the holder's process, and the store's announcement of
//     this process.
//   - Granted, Renewed: the times of the grant and of its last renewal by the holder's clock.
//   - Nonce: a random text that is new in every write. HolderNonce: the nonce of the holder's last
//     write, if other clients have written after it. OtherWrites: the number of their writes.
//   - Immediate, BrokenNonce, HolderWriteAge: for a broken lock, whether other clients can take
//     the lock at once, the nonce of the holder's last write, and the age of that write by the
//     store's clock.
//   - Data: the data that [Guard.SetData] has written, or nil.
//   - NotBefore: the earliest time at which the next grant may begin; see
//     Options.MinInterval.
//   - Linger: the longest time for which the holder keeps the lock after its work.
//   - Run: the last run of a periodic job, or nil.
//   - Holders: the readers, or the holders of slots. Queue: the waiters in order. Slots: the number
//     of slots of a semaphore, otherwise 0.
//   - YieldRequest: the request to yield, or nil.
//   - LocksToCheck: for a session, the locks for which another client has written a request to
//     yield or a break; "*" means all locks.
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

	// Shared: one or more readers, or holders of slots, hold the lock. Each of them holds the lock
	// until its session ends, at the latest.
	Shared = lockrec.Shared

	// Revoked: a state of sessions only. Another client has revoked the session. The session
	// never becomes valid again.
	Revoked = lockrec.Revoked
)

// KindSession is [Record.Kind] of the record of a session.
const KindSession = lockrec.KindSession

// Member is one of several holders of a lock, or a waiter in its queue. A member belongs to a
// session, and ends with the session. The fields are:
//
//   - Grant, Session: the ids of the member's grant and of its session.
//   - TTL: the TTL of the session.
//   - Mode: what the member holds or waits for.
//   - Slot: the number of the member's slot, from 1 on; 0 if the member has no slot.
//   - Token: the token of the grant; 0 in the queue.
//   - Since: when the member entered the queue or took the lock, by the clock of its machine.
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

// YieldRequest is a request to the holders of a lock to yield. By names the requesting client,
// Reason is its reason, and At is the time of the request. Grant is the id of the grant that should
// end. If the lock has several holders, Grants has the ids of their grants, and Grant is empty.
// With OnlyIfIdle, a holder yields only if it keeps the lock although it has no work. Acknowledged
// means that the holder has read the request. RefusalReason is not empty if the holder has refused.
type YieldRequest = lockrec.YieldRequest

// Run describes the last run of a job that runs once in each period, from the record of its lock.
// All times are by the clock of the machine of the run. Period is the period as text, Began the
// start of the run, PeriodEnd the end of its period. Ended is zero until the run is done or has
// failed. Outcome and Error are the result of the run. Holder and Grant are the holder and the
// grant of the run. Attempts is the number of runs that have begun in the period. RerunAllowed
// means that the job may run again in this period, because of a [Client.Break].
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
