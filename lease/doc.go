// Package lease takes locks that expire, on any store with compare-and-swap. A lease is held for
// a TTL and renewed while its holder lives. It has a fencing token that only grows.
//
//	client, err := lease.New(st, nil)
//	err = client.Do(ctx, "nightly", func(ctx context.Context, guard *lease.Guard) error {
//		return work(ctx, guard.Token())
//	}, nil)
//
// [Client.Do] waits for the lock, runs the function while it holds the lock, and releases it. Most
// programs need no more.
//
// Here is what they call, in the order of use:
//
//   - Take a lock: [New] returns a [Client] with [Options] ([Options.TTL], [Options.Grace],
//     [Options.Holder], [Options.OnEvent], [Options.Logger]). [Client.Do] runs a function under a
//     lock. [Client.Acquire] waits for a lock, [Client.TryAcquire] does not. All take
//     [LockOptions], or nil. [Client.Close] releases everything.
//   - Work under it: a [Guard] has [Guard.Context], which ends with the lease, and [Guard.Token],
//     which goes with every write. [Guard.Err] and [Guard.Remaining] look at the clocks.
//     [Guard.Data] and [Guard.SetData] keep a value in the record. [Guard.Release] ends the lease.
//     If another client holds the lock, the error is [ErrHeld]; a [HeldError] names the holder.
//     A lease that
//     was lost is [ErrLost], with the reason in [LostError].
//   - Lead: [Client.Lead] runs a function on one machine at a time. [Client.Leader] and
//     [Client.Observe] return the [Leader], or [ErrNoLeader]. An [Election] has the single steps.
//   - Run once a period: [Client.Once] runs a job at most once in a [Period], such as [Every] or
//     [Daily], and returns an [OnceResult]. A handle of such a job returns an [AlreadyRanError].
//   - Many locks, readers, semaphores: [Client.OpenSession] opens a [Session], one renewal for any
//     number of locks. [Session.Close] frees them all. It has the calls of a client, and
//     [LockOptions.Shared], [LockOptions.Slots] and [LockOptions.Fair]. [Client.Handle] returns a
//     re-entrant [Handle]. [AcquireAll] takes all of several locks or none.
//   - Ask the holder to stop: [Client.RequestYield] sends a [YieldRequest]. The context of a Do ends
//     with [ErrYieldRequested]. Other holders watch [Guard.YieldRequested], or answer with
//     [Guard.RefuseYield]. [Client.Break] ends a grant without the holder's consent.
//   - Operate: [Client.Inspect] reads the [Record] of a lock, [Client.List] the names, and
//     [Client.Watch] the changes. [Client.Sweep] removes the records of unused locks. Each [Event]
//     reports what happened. [ErrUnresponsive] ends a wait for a store that does not answer.
//
// Rarely needed: [Tuning] has the options that follow from others, a [Ticket] moves a lease to
// another process ([Guard.Detach], [Client.Attach]), and a [Cache] remembers locks between runs.
//
// docs/safety.md has the arguments for what follows.
//
// # What is promised
//
// At most one holder trusts its lease at any time, under three conditions. The clock of no machine
// runs more than Options.MaxClockDrift too fast or too slow. No clock stops without the other
// clocks of its machine showing it. And no user calls Break with immediate effect. [Guard.Err], and the
// context of a guard, report whether the holder trusts its lease.
//
// Work can outlive that trust. A process can be stopped between a check and a write, and
// a request can reach its destination late. So pass the token with each write. If the destination
// refuses a token below the highest that it has seen, the work is safe without any condition on time.
//
// # Contexts
//
// The context of an Acquire bounds the wait alone: cancelling it later does not end the lease. The
// guard has a context of its own. A release works after the caller's context has ended. The
// context of a [Client.Do] also ends that of its function, but the lease lasts until the function has
// returned.
//
// # Clocks
//
//   - A holder counts from before it sent the last write that is known to have been applied. It
//     trusts its lease for TTL - Margin - Grace from there. It adds up the largest of what the
//     monotonic, the wall and (on Linux) the boot-time clock show. It does so at least every
//     min(TTL/10, 1 s), and whenever a caller asks.
//   - A waiter counts on its monotonic clock, from the reply that first showed a version to its
//     client, whatever the handle. So short tries of one client add up, and take a dead holder's lock, too.
//   - A waiter takes over when that version has not changed for T*(1+d)/(1-d). T is the TTL in
//     the record, and d is Options.MaxClockDrift. The factor is needed because the holder's
//     clock may be slow while the waiter's clock is fast. No takeover depends on a comparison
//     of the waiter's clock with a time that another
//     machine wrote.
//   - A holder is known to be dead at once where the store knows it ([store.Presence]), or by
//     the age of the record on the store's own clock ([store.AgeReader]). The age does not count if
//     the holder's last renewal looks too recent on the waiter's wall clock.
//
// # Time and requests
//
// A renewal may take until the trust ends. When a third of what was left has passed
// without a reply, the holder sends another one at the same time. With the defaults a store
// loses no lease if every request takes up to 36 % of a TTL of 30 s, or 21 % of one of 2 to 6 s;
// docs/stores.md has the table. With any options that New accepts it is a tenth of the TTL.
//
// No call waits for a call of the store for more than 0.2 s after the end of its context. If the
// store ignores its context, the client abandons that call with its goroutine, and
// counts it in [Client.Stats]. After 16 abandoned calls for one key, further ones fail at once. A
// late write of such a call does no harm: each write names the version that it follows.
//
// So Release, Close and Detach take at most Options.ReleaseTimeout plus one second. Close can
// take one second more, for the handlers of events. Acquire, TryAcquire and the
// calls that take a ticket take that time after the end of their context. Every other call
// returns with its context. One request lasts at most half a TTL or 30 s.
//
// Other clients write into a record that its holder renews: they ask the holder to yield, or enter
// the queue. The holder comes first. Its own write never pauses. The others pause after a conflict for
// longer than a renewal takes. They also count how many of them have written since the
// holder's last write. If a renewal that had to repeat for each of them
// would need more than a twentieth of the TTL, or one more renewal, they wait for the
// holder's next write. For that they take the duration of their own requests.
//
// The end of trust waits for nothing: no store, no handler of events, no logger.
//
// # The protocol
//
// A lock is one register; see package store. Its record names the grant by a random
// id, carries its token and its TTL, and has a new nonce in every write. Every
// change is one conditional write on the exact version that was read.
//
//   - A grant has a token greater than any before it. A release writes a free record and never
//     deletes, so that the tokens of later grants are higher. The first record of a lock starts at
//     the Unix time in microseconds. So tokens rise even if the store was emptied by hand, on two
//     conditions. The clock of the machine that makes the new record is not behind by more than
//     the time since the first one. And the lock was granted less than a million times a second.
//   - After an unknown outcome the client reads the register back. If it finds its own grant id, the
//     write was applied, and the lease counts from the sending of the attempt whose nonce it finds. If
//     it finds the version that it wrote against, the write is not applied yet, and it sends the
//     same again. If it finds anything else, the lease is lost. If the register is unreadable, the
//     outcome stays unknown until the deadline.
//   - An Acquire that is given up with an unknown outcome first writes a free record over the same
//     predecessor. So its claim cannot be applied later.
//   - A record names who holds the lease now: the process, its presence, the holder.
//     A process that takes up a lease with a [Ticket] writes its own names with its first
//     write. A ticket is good once. A ticket names one version, and can list writes whose
//     outcome is unknown, each by its nonce. It can take over the lease at that version, or at
//     one of those writes. A guard trusts its lease only from a write of its own process, with
//     a nonce that is in no ticket. A ticket that is too late frees that version alone.
//   - Others may write into the record of a grant to ask its holder to yield: see
//     [Client.RequestYield]. Their write is conditional on the version that they read. It adds
//     the request and keeps the rest of the record, also the field mark: the nonce of the
//     holder's own last write. Waiters time the mark. So a request
//     to yield prolongs no dead holder's lease, and is no sign of life. The holder's next write conflicts
//     with that record. If the record still has the holder's grant and the holder's last nonce
//     as mark, the holder writes over it. Any other
//     mark is that of a copy, and the lease is lost.
//   - When the lease is lost, the guard's context ends with the reason as its cause.
//     An event reports before that the lease is at risk.
//
// The idea of a lease with a bound on clock rates is from Gray and Cheriton (Leases: an
// efficient fault-tolerant mechanism for distributed file cache consistency, 1989). Kleppmann
// (How to do distributed locking, 2016) gave the fencing token its name. Chubby calls it a
// sequencer (Burrows, 2006).
//
// # Sessions
//
// A [Session] is one lease for any number of locks. It has a register of its own, below
// Options.KeyPrefix with ".session" appended, and renews only that. The records of its locks
// name the session, and repeat its TTL.
//
//   - Under a session, a holder trusts a lock until the deadline of the session. It does not
//     matter when the write of the lock itself was sent or answered.
//   - A waiter that finds a lock under a session judges the session's record as it would judge
//     a lock's. It reads it at most six times in a TTL, for all waiters of its client. If the
//     session is over, the waiter revokes it, by one write over the version that it judged. It takes a
//     lock of the session only after it has read or written fenced or closed there. It does so by a
//     write over the version of the lock's record that it read.
//   - A session whose record is absent is not known to be dead. The waiter reads the lock
//     again. If the lock still names the session, the waiter writes an open record in the
//     session's place, which no process renews. Every waiter watches that record for the TTL before it
//     revokes the session. If the session lives, its next renewal conflicts with that record, and the session is
//     lost. A session whose record cannot be read is neither dead nor absent: an operator has to
//     break its locks with immediate effect.
//   - A revoked or closed session never returns; another one has another random id. The session takes
//     no lock while the outcome of its last renewal is unknown ([ErrSessionInDoubt]).
//   - A claim that was given up, or a release, can have an unknown outcome. Such a claim or
//     release would keep the lock held for as long as the session lives. So the session tries
//     to undo it after each renewal.
//   - Close ends all contexts, then writes closed, then frees the records of the locks.
//   - A session reads the record of a lock only after another client has asked for the lock or
//     broken it. If a record is removed or replaced by hand, a plain lease notices that with its
//     next renewal. A guard under a session does not: it trusts its lease as long as its session lasts,
//     though another client can take the lock. Only the token helps then.
//
// So a session costs one request to open, one for each renewal whatever the number of its
// locks, one to close, and one more for each lock that is held then. Acquiring and releasing
// under it cost what they cost without. To take over all locks of a dead session costs one
// request for the session, and for each lock what it costs to take a free one.
//
// # Locks with several holders
//
// Under a [Session] many readers or one writer can hold a lock ([LockOptions.Shared]). A semaphore
// has as many holders as slots ([LockOptions.Slots], [Guard.Slot]). The lock's record names all of them.
// Since each of them writes the record, its version shows nothing of their lives. Each holder trusts
// its lease until the deadline of its own session. Others take it out after they have read or written
// that its session is over. The other readers do not keep a dead reader alive.
//
// The record has a queue, too. Readers that wait for a writer enter it, writers that wait for
// readers, and every handle with LockOptions.Fair. It is served in the order of arrival, and
// no later client overtakes those in it. So new readers do not starve a writer, and writers do not starve
// a reader. The release of a lock makes the head of the queue its holder in the same
// write. The new holder trusts its lease from when it has read that write, until the
// deadline of its session. A head that died costs the others the TTL of its session. Several that
// died in succession cost more than one TTL. A waiter with a deadline enters a long queue only
// if it expects its turn before that deadline. The handle estimates this from earlier waits. A
// plain lease
// is in no queue: where readers come and go all the time it may wait for ever.
//
// A grant of a writer, or of a slot, has a token above all before it. A reader has the token of
// the last writer before it. So a store that refuses lower tokens refuses the readers that came
// before that writer, and no others.
//
// A record has room for [MaxMembers] holders and waiters; the next one gets [ErrFull]. A lock is
// of one kind at a time. A client that takes a slot of a lock in use, or a semaphore as a lock, gets
// [ErrWrongKind]. One that names another number of slots gets a [*SlotCountError]; see
// [Client.Resize]. A reader that acquires the same lock as a writer in its own [Handle.Do] would wait
// for itself: it gets [store.ErrInvalid].
//
// # Elections
//
// A candidate ([Client.Election]) leads while it holds the lock of the election's name. Its
// value, for example an address, is in the data of the record and is written with the
// claim. So no reader gets the value of one leader with the token of another, and a campaign
// costs no request more than an Acquire. [Client.Lead] runs a function while this program
// leads, and campaigns again after a loss. [Client.Leader] and [Client.Observe] report who
// leads. A program that has a session anyway uses [Session.Election] and [Session.Lead], which
// cost no renewal. Between clients the candidates lead in no order. With
// [LockOptions.Fair] they lead in the order of their campaigns.
//
// # Jobs that run once in a period
//
// [Client.Once] runs a job at most once in each [Period] among all machines. The lock's record has
// the last run: its beginning is written with the grant, and its end with the release. So it is read
// and changed under the same condition as the lock, and costs no request. A run counts for the
// period in which it began, by the clock of its machine. Another machine compares that time with its own
// clock. Clocks that disagree can make a job run too early or too late. They never make two runs
// overlap, since the lease does not depend on them.
//
// # Waiting for many locks
//
// Where the store reports changes, waiters do not poll. Elsewhere the waiters for one lock in
// one client share their reads. Where the store lists tags ([store.TagLister]: S3, SQL tables), a
// client can wait for so many locks that a listing costs less than half of the reads. It then makes
// one listing within a pause, and reads the records that have changed. It does so when the pauses
// of these waiters have grown to half of MaxPoll.
//
// A listing decides nothing: a waiter acts on what it has read of the record itself, and its write
// names that version. It reads the record at least every 24 times MaxPoll (one minute by default), so
// that a wrong listing delays a hand-over by no more than that. A listing that fails or hangs delays a
// waiter once a minute, by MaxPoll and 0.2 s at most. Then each waiter reads for itself.
//
// # The record
//
// Readable JSON, one object, below Options.KeyPrefix:
//
//	holdfast     the version of the format: 2 if the record is of a session or has any of the
//	             fields from session on, else 1; a higher one is refused
//	kind         "lease", or "session" for the record of a session
//	name         the lock's name, or the session's id
//	state        "held", "shared" (by its holders), "free" or "broken"; of a session "open",
//	             "closed" or "fenced" (revoked)
//	token        the fencing token of the last grant, an unsigned 64-bit integer
//	holder       who, for people
//	grant        random id of the grant
//	ttl_ms       the grant's TTL in milliseconds
//	nonce        new in every write
//	granted      RFC 3339, the holder's wall clock, for people
//	renewed      RFC 3339, the holder's wall clock, of the last write; it can only veto a takeover
//	process      random id of the holder's process
//	presence     the store's announcement of that process, if there is one
//	now          of a broken record: it may be taken at once
//	broke        of a broken record: the nonce of the last write of the grant, whose
//	             holder, grant, renewed, process and presence it keeps
//	stood_ms     of a broken record: how long that write had been there, by the store's clock
//	not_before   when the next grant may begin at the earliest, by the holder's wall clock
//	run          the last run of a job that runs once in each period: an object with period (for
//	             people), began, until (the end of the period), ended, outcome ("running",
//	             "done", "failed" or "died"), error, holder, tries, grant, and again (the run
//	             was taken back), the times by the clock of its holder
//	data         the user's data where it is UTF-8 with few escapes, else data_base64
//	session      the session that the grant is under; the grant is then its id, a dot and a
//	             number of base 36
//	mark         the nonce of the last write by the grant's own holder, if others have written
//	             since
//	beside       how often others have written since
//	slots        how many slots the semaphore has; kept when all are free
//	holders      the readers, or the holders of slots: each an array of grant, mode ("r" for a
//	             reader, "s" for a slot, "w" for a writer), TTL of its session in milliseconds,
//	             when it entered in Unix seconds, token, and number of the slot
//	queue        the waiters in order, each such an array without token and slot
//	ask          the request to yield: an object with grant (whom it was asked of; empty if
//	             the lock has several holders), grants (those of several holders that held the
//	             lock when it was made), by, reason, at, idle (only if the holder has no work
//	             under it), heard, and refused (why)
//	linger_ms    how long the holder keeps the lock after its work if no client asks
//	attend       of a session: the locks that others have asked for or broken; ["*"] for all
//
// A client keeps fields that it does not know when it rewrites the record, unless they
// leave no room for it. A record that others or earlier versions filled up loses first
// what is for people, then the presence, the data, and those fields.
//
// # Goroutines
//
// A grant under a session owns no goroutine and no timer: the session has one of each.
// Every other grant owns one goroutine for renewals (none with Options.ManualRenewal), and a timer.
// A grant that its handle keeps (see LockOptions.Linger) owns another goroutine where the
// store reports changes. They end with the release, which waits for them, or with the loss of the
// lease. Release every guard, the lost ones too. A waiting Acquire uses up to two goroutines
// while it waits. Each request runs in a goroutine of its own, and so do Options.OnEvent
// and Options.Logger while there is an event to report.
package lease
