// Package lease gives mutual exclusion on any store that can compare and swap: a
// lock that is held for a limited time, renewed while its holder lives, and guarded
// by a token that only ever grows.
//
//	client, err := lease.New(st, nil)
//	err = client.Do(ctx, "nightly", func(ctx context.Context, guard *lease.Guard) error {
//		return work(ctx, guard.Token())
//	}, nil)
//
// [Client.Do] waits for the lock, runs the function under it, and releases it. It is the form
// that most programs should use; [Client.Acquire] and [Guard.Release] are its parts.
//
// # What is promised
//
// At most one holder believes that it holds a lock, provided that no machine's
// clock runs more than Options.MaxClockDrift too fast or too slow, or stops without the other
// clocks of its machine noticing, and that no user calls Break with immediate effect.
// Belief is what [Guard.Err], and the context of a guard, tell.
//
// Work can outlive belief: a process can be stopped between a check and a write, and
// a request can reach its destination late. Work that passes the token on, to a
// store that refuses a token below the highest it has seen, is safe without any
// proviso about time.
//
// # The protocol
//
// A lock is one register; see package store. Its record names the grant by a random
// id, carries its token and its TTL, and has a new nonce in every write. Every
// change is one conditional write on the exact version that was read.
//
//   - A grant has a token greater than any before it. Releasing a lock writes a free
//     record and never deletes, so that tokens go on. The first record of a lock
//     starts at the Unix time in microseconds. So tokens rise even where the store was
//     emptied by hand, on two conditions: the clock of the machine that makes the new
//     record is not slower by more than the time since the first one, and the lock was
//     granted less than a million times a second.
//   - A holder counts from before it sent the last write that is known to have been
//     applied, and trusts itself for TTL - Margin - Grace. It adds up the largest
//     of what the monotonic, the wall and (on Linux) the boot-time clock say, at
//     least every min(TTL/10, 1 s), and whenever it is asked.
//   - A waiter counts on its monotonic clock, from the reply that showed its client a version
//     first, whatever the handle: so short tries of one client see a dead holder, too. It takes
//     over when that version has not changed for the TTL in the record times
//     (1+rho)/(1-rho): the holder's clock may be slow while its own is fast. No
//     takeover rests on comparing the waiter's clock with a time that another machine
//     wrote.
//   - A holder is known to be dead at once where the store can tell
//     ([store.Presence]), or by the age of the record on the store's own clock
//     ([store.AgeReader]), unless the holder's last renewal, by its own wall clock,
//     looks too recent.
//   - After an unknown outcome the register is read back. Our own grant id: the
//     write was applied, and the lease counts from the sending of the attempt whose
//     nonce is seen. The version that was written against: not applied yet, and the
//     same is sent again. Anything else: lost. Unreadable: unknown, until the
//     deadline. An acquire that is given up while unknown first writes a free
//     record on the same predecessor, so that it cannot land later.
//   - A record names who holds the lease now: the process, its presence, the holder.
//     A process that takes a lease up with a [Ticket] puts its own in with its first
//     write. A ticket is good once: it works on the one version that it names, or on a
//     write whose nonce it announces, and a guard trusts only in a write that no
//     ticket has announced. A ticket that is too late frees that version alone.
//   - Others may write into the record of a grant, to ask its holder to give way: see
//     [Client.RequestYield]. Their write names the version that was read and copies all else, and
//     mark, the nonce of the holder's own last write. Waiters time the mark. So an ask
//     prolongs no dead holder's lease, and is no sign of life. The holder's next write meets
//     the record, finds its grant with a mark of its own, and goes on over it; any other
//     mark is that of a copy, and the lease is lost.
//   - When the lease is lost, the guard's context ends with the reason as its cause.
//     An event says before that it is at risk.
//
// The idea of a lease with a clock-rate bound is from Gray and Cheriton (Leases: an
// efficient fault-tolerant mechanism for distributed file cache consistency, 1989);
// the fencing token is Kleppmann's name (How to do distributed locking, 2016) for
// what Chubby calls a sequencer (Burrows, 2006).
//
// # Sessions
//
// A [Session] is one lease for any number of locks. It has a register of its own, below
// Options.KeyPrefix with ".session" appended, which alone is renewed. The records of its locks
// name it, and repeat its TTL.
//
//   - A lock under a session is believed until the session's deadline, whenever its own write
//     was sent or answered.
//   - A waiter that finds a lock under a session judges the session's record as it would judge
//     a lock's: it looks at most six times in a TTL, for all who wait in its client. If the
//     session is over, it fences it, by one write over the version that it judged. It takes a
//     lock of the session only after it has seen or written fenced or closed, by a write over
//     the version of the lock's record that it read.
//   - A session whose record is absent is not known to be dead. The waiter reads the lock
//     again. If the lock still names the session, the waiter writes an open record in the
//     session's place, which no process renews. Every waiter watches that for the TTL before it
//     fences it. If the session lives, it meets that record with its next renewal, and is lost.
//     A session whose record cannot be read is neither dead nor absent: its locks have to be
//     broken with immediate effect.
//   - A fenced or closed session never returns; another one has another random id. Nothing is
//     acquired while the outcome of the last renewal is not known ([ErrSessionInDoubt]).
//   - A claim that was given up, or a release, whose outcome is not known would hold its lock
//     for as long as the session lives. So the session goes on with it after each renewal.
//   - Close ends all contexts, then writes closed, then frees the records of the locks.
//   - A session reads the record of a lock only after another client has asked for the lock or
//     broken it. If a record is removed or replaced by hand, a plain lease notices that with its
//     next renewal. A guard under a session does not: it believes as long as its session does,
//     though another client can take the lock. Only the token helps then.
//
// So a session costs one request to open, one for each renewal whatever the number of its
// locks, and one to close besides one for each lock that is held. Acquiring and releasing
// under it cost what they cost without. To take over all locks of a dead session costs one
// request for the session, and for each lock what it costs to take one that is free.
//
// # Waiting for many locks
//
// Where the store tells of changes, waiters do not poll. Elsewhere the waiters for one lock in
// one client share their looks. Where the store lists tags ([store.TagLister]: S3, SQL tables), a
// client that waits for so many locks that a listing costs less than half of the looks makes one
// listing within a pause, and looks at the records that have changed. It does so when the pauses
// of these waiters have grown to half of MaxPoll. A listing decides nothing: a waiter goes by what
// it has read of the record itself, and its write names that version. It looks at least every 24
// times MaxPoll (one minute by default), so that a listing that is wrong delays a hand-over by no
// more than that. A listing that fails or hangs delays a waiter once a minute, by MaxPoll and
// 0.2 s at most; then all look for themselves.
//
// # Contexts
//
// The context of an acquire bounds the wait alone: cancelling it later does not
// touch the lease. The guard has a context of its own. Releasing works when the
// caller's context has ended. The context of a [Client.Do] ends that of its function, too;
// the lease lasts until the function has returned.
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
//	             "closed" or "fenced"
//	token        the fencing token of the last grant, an unsigned 64-bit integer
//	holder       who, for people
//	grant        random id of the grant
//	ttl_ms       the grant's TTL in milliseconds
//	nonce        new in every write
//	granted      RFC 3339, the holder's wall clock, for people
//	renewed      RFC 3339, likewise, of the last write; it can only veto a takeover
//	process      random id of the holder's process
//	presence     the store's announcement of that process, if there is one
//	now          of a broken record: it may be taken at once
//	broke        of a broken record: the nonce of the last write of the grant, whose
//	             holder, grant, renewed, process and presence it keeps
//	stood_ms     likewise: for how long that write had stood, by the store's clock
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
//	queue        the waiters in order, likewise, without token and slot
//	ask          the request to give way: an object with grant (whom it was asked of; empty if
//	             the lock has several holders), grants (those of several holders that held the
//	             lock when it was made), by, reason, at, idle (only if the holder has no work
//	             under it), heard, and refused (why)
//	linger_ms    for how long the holder keeps the lock after its work if no client asks
//	attend       of a session: the locks that others have asked for or broken; ["*"] for all
//
// Fields that are not known here are kept when the record is rewritten, unless they
// leave no room for it: a record that others or earlier versions filled up loses first
// what is for people, then the presence, the data, and those fields.
//
// # Jobs that run once in a period
//
// [Client.Once] runs a job at most once in each [Period] among all machines. What it knows of
// the last run stands in the lock's record: the beginning is written with the grant, and the
// end with the release. So it is read and changed under the same condition as the lock, and
// costs no request. A run counts for the period in which it began, by the clock of its
// machine, and another machine compares that time with its own clock. Clocks that disagree can
// make a job run too early or too late; they never make two run at the same time, since the
// lease does not depend on them.
//
// # Locks with several holders
//
// Under a [Session] a lock can be held by many readers or one writer
// ([LockOptions.Shared]), and a semaphore by as many holders as it has slots
// ([LockOptions.Slots], [Guard.Slot]). All of them stand in the lock's record. Since each of
// them writes it, its version tells nothing of their lives: each is believed until the
// deadline of its own session, and is taken out by others after they have seen or written that
// its session is over. A dead reader is not kept alive by the others.
//
// The record has a queue, too. Readers that a writer keeps out enter it, writers that readers
// keep out, and every handle with LockOptions.Fair. It is served in the order of arrival, and
// none that comes later overtakes those in it: a writer is not starved by new readers, nor a
// reader by writers. The release of a lock makes the head of the queue its holder in the same
// write. The new holder believes that it has the lock from when it has read that write, until the
// deadline of its session. A head that died costs the others the TTL of its session, and several
// that died one after the other more than one TTL. A waiter that has a deadline enters a long queue only
// if it may have its turn before, as far as its handle knows from the time before. A plain lease
// stands in no queue: where readers come and go all the time it may wait for ever.
//
// A grant of a writer, or of a slot, has a token above all before it. A reader has the token of
// the last writer before it. So a store that refuses lower tokens refuses the readers that came
// before that writer, and no others.
//
// A record has room for [MaxMembers] holders and waiters; the next one gets [ErrFull]. A lock is
// of one kind at a time: a client that takes a slot of a lock in use, or a semaphore as a lock, gets
// [ErrWrongKind], and one that names another number of slots a [*SlotCountError]; see [Client.Resize]. A
// reader that acquires the same lock as a writer in its own [Handle.Do] would wait for itself: it
// gets [store.ErrInvalid].
//
// # Elections
//
// A candidate ([Client.Election]) leads while it holds the lock of the election's name. Its
// value, an address for example, stands in the data of the record and is written with the
// claim. So no reader gets the value of one leader with the token of another, and a campaign
// costs no request more than an acquire. [Client.Lead] runs a function while this program
// leads, and campaigns again after a loss; [Client.Leader] and [Client.Observe] tell others who
// leads. A program that has a session anyway uses [Session.Election] and [Session.Lead], which
// cost no renewal. Between clients the candidates lead in no order; with
// [LockOptions.Fair] they can lead in the order of their campaigns.
//
// # Time
//
// A renewal may take until the trust ends; when a third of what was left has passed
// without a reply, another is sent besides. With the defaults a store loses no lease
// whose every request takes up to 36 % of a TTL of 30 s, or 21 % of one of 2 to 6 s;
// docs/stores.md has the table. With any options that are accepted it is a tenth of the
// TTL.
//
// Nothing waits for a call of the store for more than 0.2 s beyond the end of its
// context. A call that goes on then, because the store ignores its context, is left
// behind with its goroutine, and counted in [Client.Stats]; after 16 for one key further
// ones fail at once. What it may still write does no harm: each write names the version
// that it follows. So Release, Close and Detach take at most Options.ReleaseTimeout and
// a moment (a second at the most, Close another one for the handlers of events), and
// Acquire, TryAcquire and the calls that take a ticket that after the end of their
// context. Every other call returns with its context. One request lasts at most half a
// TTL or 30 s.
//
// Others write into a record that its holder renews: they ask, or enter the queue. The holder comes
// first. Its own write never pauses; the others pause after a conflict for longer than a renewal
// takes. And they wait for the holder's next write when so many of them have written since its last
// one (the field beside of the record) that a renewal which met one after the other would need more
// than a twentieth of the TTL, or one renewal more, by how long their own requests take.
//
// The end of belief waits for nothing: no store, no handler of events, no logger.
//
// # Goroutines
//
// A grant under a session owns no goroutine and no timer: the session has one of each.
// Every other grant owns one goroutine, for renewals (none with Options.ManualRenewal), and a timer.
// A grant that its handle keeps (see LockOptions.Linger) owns another goroutine where the
// store tells of changes.
// They end with the release, which waits for them, or with the loss of the lease.
// Release every guard, the lost ones too. A waiting Acquire uses up to two goroutines
// while it waits. Each request runs in a goroutine of its own, and so do Options.OnEvent
// and Options.Logger while there is something to tell.
package lease
