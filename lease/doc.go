// Package lease provides locks that expire, on any store with compare-and-swap. A lease is a lock
// for a limited time, the TTL. The holder renews its lease until it releases the lock. If the
// holder dies, another client gets the lock after the TTL. Each grant of a lock has a fencing
// token: a number that is higher than the tokens of all earlier grants of the lock.
//
//	client, err := lease.New(st, nil)
//	err = client.Do(ctx, "nightly", func(ctx context.Context, guard *lease.Guard) error {
//		return work(ctx, guard.Token())
//	}, nil)
//
// [Client.Do] waits for the lock, runs the function while the client holds the lock, and releases
// the lock. Most programs need only Do.
//
// # What programs call
//
//   - Take a lock. [New] returns a [Client] with [Options]. [Options.TTL] is the TTL of its locks.
//     After the context of the work has ended, the work must stop within [Options.Grace].
//     [Client.Do] runs a function under a lock. [Client.Acquire] waits for a lock and returns a
//     [Guard]. [Client.TryAcquire] does not wait. [LockOptions] say how to take the lock; nil means
//     all defaults. [Client.Close] releases all locks of the client.
//   - Work under the lock. The context [Guard.Context] ends with the lease. Pass [Guard.Token]
//     with every write. [Guard.Err] says whether the lease is still valid. [Guard.Release] ends
//     the lease. [Guard.SetData] stores a value in the record of the lock.
//   - Handle the errors. [ErrHeld]: another client holds the lock; [HeldError] names the holder.
//     [ErrLost]: the lease ended before its release; [LostError] has the reason.
//     [ErrUnresponsive]: the store does not answer.
//   - Take a lock repeatedly. [Client.Handle] returns a re-entrant [Handle]. [AcquireAll] takes
//     several locks or none.
//   - Hold many locks. [Client.OpenSession] opens a [Session], which renews any number of locks
//     with one request. [Session.Close] frees all of them. A session also offers
//     [LockOptions.Shared] for readers, [LockOptions.Slots] for semaphores, and
//     [LockOptions.Fair] for the order of arrival.
//   - Lead. [Client.Lead] runs a function on one machine at a time. [Client.Leader] returns the
//     [Leader] or [ErrNoLeader]. [Client.Observe] yields each change of the leader.
//   - Run a job once in a period. [Client.Once] runs a job at most once in each [Period], such as
//     [Every] or [Daily], and returns an [OnceResult].
//   - Ask a holder to stop. [Client.RequestYield] sends the request. If the holder runs a Do, its
//     context ends with [ErrYieldRequested]. Other holders watch [Guard.YieldRequested].
//     [Client.Break] ends a grant without the consent of the holder.
//   - Operate. [Client.Inspect] reads the [Record] of a lock. [Client.List] yields the names of the
//     locks, and [Client.Watch] the changes of one lock. [Client.Sweep] removes the records of
//     unused locks. Options.OnEvent receives each [Event].
//
// Programs rarely need the rest. [Tuning] sets the times and bounds of the protocol. A [Ticket]
// moves a lease to another process ([Guard.Detach], [Client.Attach]). A [Cache] saves time if each
// attempt to take a lock runs in a new process: the next process learns from the cache for how long
// the record of the lock has not changed.
//
// # What is promised
//
// A holder trusts its lease until the context of its guard ends. To trust a lease means to work
// as the only holder of the lock. At any time at most one holder of a lock trusts its lease,
// under three conditions:
//
//   - The clock of every machine runs at most Options.MaxClockDrift too fast or too slow.
//   - If a machine sleeps, at least one of its clocks counts the sleep.
//   - No user breaks the lock with [BreakOptions.Immediate].
//
// A write can still arrive after the end of the lease: the system can stop the process between a
// check and a write, and the network can delay a request. So pass the token with each write. Let
// the target of the writes refuse each token that is lower than the highest token that it has
// seen. Then late writes do no harm, even if the conditions do not hold.
//
// The document docs/safety.md explains why these promises hold.
//
// # Contexts
//
// The context of an Acquire bounds the wait only. If the caller cancels that context later, the
// lease continues. If the context of a [Client.Do] ends, the context of the function ends too. The
// lease lasts until the function has returned. A release also works after the end of the caller's
// context.
//
// # Duration of calls
//
// Most calls return when their context ends. Three kinds of calls can take longer:
//
//   - Release and Detach take at most Options.ReleaseTimeout plus one second.
//   - Close takes at most Options.ReleaseTimeout plus two seconds. The last second is for the
//     handlers of events and for histories.
//   - Acquire, TryAcquire, and the calls that take a ticket can take Options.ReleaseTimeout plus
//     one second after the end of their context.
//
// The time that [Options.Trace] takes comes on top of these times.
//
// Every call of a store must return soon after the end of its context. If a call ignores its
// context, the methods of this package wait for the call, but the lease still ends in time. A
// late write of the call does no harm, because each write names the version that it replaces.
//
// # Goroutines
//
// Each grant has one timer, and one goroutine from the first renewal on (none with
// Options.ManualRenewal). A grant under a session has neither: the session has both. With
// LockOptions.Linger a handle keeps its lease for a while after the work. During that time the
// handle has one more goroutine if the store reports changes. All these goroutines end when the
// lease is lost or released. A release waits for these goroutines. Release every guard, even after
// the loss of its lease.
//
// With [Options.History] up to 16 goroutines of the client move entries of histories. Close ends them.
//
// A waiting Acquire uses up to two goroutines. While there are events to report,
// [Options.OnEvent] runs in one goroutine and [Options.Logger] in another.
//
// # Protocol: clocks
//
//   - The holder trusts its lease for TTL - Margin - Grace ([Tuning.Margin], [Options.Grace]). This
//     time begins just before the holder sends a write. A write counts only if it is known to be
//     applied. The holder reads its monotonic, wall and (on Linux) boot-time clocks at least every
//     min(TTL/10, 1 s), and in each call of Guard.Err. If the clocks have moved differently between
//     two readings, the holder uses the clock that has moved furthest.
//   - A waiter measures on its monotonic clock how long the version of the record has not
//     changed. The time begins with the reply that first showed this version to the waiter's
//     client. All handles of the client share this time. So many short attempts also get the lock
//     of a dead holder.
//   - A waiter takes the lock over when the version has not changed for T*(1+d)/(1-d). T is the TTL
//     in the record, and d is Options.MaxClockDrift. The factor allows for a holder's clock that is
//     slow and a waiter's clock that is fast. No takeover depends on a comparison of two machines'
//     clocks.
//   - A waiter takes the lock over earlier if the store proves that the holder is dead. Some stores
//     know which processes live ([store.Presence]). Other stores know the age of the record by
//     their own clock ([store.AgeReader]). A waiter ignores the age if the holder's last renewal
//     looks too recent on the waiter's wall clock.
//   - The guard's context ends on time, even if the store, a handler of events or the logger
//     hangs.
//
// # Protocol: renewals
//
// A renewal may take until the guard's context ends. If the store does not reply within a third
// of this time, the holder sends a second renewal. The holder also accepts a late reply to the
// first renewal. With any options that [New] accepts, no lease is lost while every request takes
// at most a tenth of the TTL. docs/stores.md lists how slow a store may become before a lease
// with the default options is lost. One request lasts at most half a TTL or 30 s.
//
// Other clients also write into the record that a holder renews: they ask the holder to yield, or
// they enter the queue. The holder never delays its own write for other clients. The other clients
// follow two rules:
//
//   - After a conflict they pause for longer than a renewal takes.
//   - They limit their writes. Between two writes of the holder, all other clients together may
//     send as many writes as fit into a twentieth of the TTL, but at least one. A client
//     estimates the time of a write from its own requests. At the limit the client waits for the
//     holder's next write.
//
// # Protocol: grants
//
// A lock is one register; see package store. Its record has the random id of the grant, its token
// and its TTL, and a new nonce in every write. Every change is one conditional write on the exact
// version that the writer has read.
//
//   - Tokens. Each grant has a higher token than every grant before it. A release deletes nothing:
//     it writes a free record with the token, so later tokens are higher. The token of the first
//     grant is the Unix time in microseconds. So tokens increase even after a user has emptied the
//     store by hand, under two conditions. First: the clock of the machine that creates the new
//     record is slow by less than the age of the lock. Second: the lock was granted less than a
//     million times a second.
//   - Unknown outcome. The client reads the register back. If it finds its own grant id, the
//     write was applied. The nonce in the record shows which attempt was applied, and the lease
//     begins at the time when the client sent this attempt. If it finds the version before the
//     write, it sends the same write again. If it finds the record before the write under another
//     version, another program has rewritten the object and not the record: the holder writes over
//     that version. If it finds anything else, the lease is lost. If it cannot read the register,
//     the outcome stays unknown until the deadline.
//   - A cancelled Acquire. If the outcome of its write is unknown, the client tries to write a
//     free record over the same version before Acquire returns. If this succeeds, the earlier
//     write cannot be applied later.
//   - Tickets. The record names the process that holds the lease now, its presence, and the holder.
//     A process that uses a [Ticket] writes itself into the record with its first write. A ticket
//     names one version of the record. It also lists the nonces of the writes whose outcome is
//     unknown. The ticket is valid only if the record has this version or one of these nonces. So a
//     ticket can be used only once. A guard from a ticket trusts its lease only after a write of
//     its own process, with a nonce that no ticket names. If the lease of a ticket has ended,
//     [Client.Attach] frees the lock, but only if the record still has the version or a nonce of
//     the ticket.
//   - Requests to yield (see [Client.RequestYield]). The write of another client keeps the record
//     and adds the request. The field mark keeps the nonce of the holder's last write. Waiters
//     measure how long the mark has not changed. So a request does not make a dead holder look
//     alive. The next write of a living holder conflicts with the request. If the record has the
//     holder's grant, and the mark is the holder's last nonce, the holder writes over the record.
//     If the mark is different, another process has renewed the lease, and this holder has lost
//     it.
//   - Loss. An event reports first that the lease is at risk. Then the guard's context ends, with
//     the reason as its cause.
//
// The idea of a lease with a bound on clock rates is from Gray and Cheriton (Leases: an efficient
// fault-tolerant mechanism for distributed file cache consistency, 1989). Kleppmann (How to do
// distributed locking, 2016) gave the fencing token its name. Chubby calls it a sequencer
// (Burrows, 2006).
//
// # Protocol: histories
//
// The write that changes the holders of a lock also adds entries to the field history of the record. So no
// entry exists without its change. The register ".holdfast/history/" + key of the lock has the older
// entries. A client with [Options.History] moves entries there, at most once in two grants, with one read
// and one write. After a lost reply it forgets the move, and a later move finds the entries by their numbers.
// A client removes entries from a record only after it has moved them, or to make room. A sweep first removes
// the record, and then the register, unless the lock has a record again.
//
// # Protocol: sessions
//
// A [Session] is one lease for any number of locks. Its register has the key KeyPrefix +
// ".session/" + id of the session. The session renews only this register. The records of its
// locks name the session and repeat its TTL.
//
//   - A holder under a session trusts its lock until the deadline of the session.
//   - If a waiter finds a lock under a session, it measures for how long the session's record has
//     not changed. The rule for this time is the same as for the record of a lock. All waiters of
//     a client together read the session's record at most six times in a TTL. If the record has
//     not changed for T*(1+d)/(1-d), the waiter revokes the session by a write over this version
//     of the record. The waiter takes a lock of the session only after it has read or written
//     "fenced" or "closed" in the session's record. The waiter takes the lock by a write over the
//     version of the lock's record that it has read.
//   - If the record of a session is absent, the session may still live. The waiter reads the lock
//     again. If the lock still names the session, the waiter writes an open record in the place
//     of the absent one. No process renews the new record. If the new record has not changed for
//     the TTL, a waiter revokes the session. A living session is lost when its next renewal
//     conflicts with the new record. If the record of a session cannot be read, an operator has
//     to break its locks with immediate effect.
//   - A revoked or closed session never becomes valid again. A new session has a new random id.
//   - A session takes no lock while the outcome of its last renewal is unknown
//     ([ErrSessionInDoubt]).
//   - The outcome of a release, or of the write of a cancelled Acquire, can be unknown. Then the
//     lock could stay held for as long as the session lives. So the session tries to free the
//     lock after each renewal.
//   - Close ends all contexts, then writes "closed", then frees the records of the locks.
//   - A session reads the record of a lock only after another client has broken the lock or asked
//     its holder to yield. So the guard does not notice that a user has removed or replaced the
//     record of a lock by hand. Then another client can take the lock while the guard is valid, and
//     only the check of tokens prevents late writes. A lease without a session notices the change
//     with its next renewal.
//
// To open a session costs one request, and so does each renewal. To close a session costs one
// request, and one more for each lock that the session still holds. To take over the locks of a
// dead session costs one request for the session, and for each lock as many requests as a free
// lock.
//
// # Protocol: several holders
//
// Under a [Session], many readers or one writer can hold a lock ([LockOptions.Shared]). A
// semaphore has as many holders as slots ([LockOptions.Slots], [Guard.Slot]). The record of the
// lock names all holders. Each holder trusts its lease until the deadline of its own session. All
// holders write the record, so its version does not show which of them live. Another client
// removes a holder only after it has read or written "closed" or "fenced" in the record of the
// holder's session.
//
// The record also has a queue. Three kinds of waiters enter the queue: readers that wait for a
// writer, writers that wait for readers, and every handle with LockOptions.Fair. The queue is
// served in the order of arrival, and later clients cannot overtake. So neither readers nor writers
// starve.
//
//   - The write of a release also makes the first waiter of the queue the holder. This waiter
//     trusts its lease after it has read the record, until the deadline of its session.
//   - If the first waiter is dead, the waiters after it wait for the TTL of its session. If there
//     are several dead waiters in a row, the waiters after them wait for several TTLs.
//   - A waiter with a deadline enters a long queue only if it expects its turn before that
//     deadline. Its handle estimates this from earlier waits.
//   - An Acquire without a session enters no queue. If new readers take the lock all the time, it
//     may wait for ever.
//
// The grant of a writer or of a slot has a higher token than all grants before it. A reader has the
// token of the last writer. So a target that has seen the token of a writer refuses the readers
// whose grants began before that writer's grant, and no others.
//
// # Waiting for many locks
//
// Waiters do not poll if the store reports changes. Otherwise all waiters of one client for the
// same lock share their reads. On some stores (S3, SQL tables) a listing shows which registers have
// changed ([store.TagLister]). If a listing costs less than half of the reads that it replaces, the
// client uses one listing in place of the reads of all waiters. The waiters then read only the
// records that have changed. A waiter never decides by a listing alone. After each listing the client
// also reads one of the other records, each in its turn. If such a read shows a change that the
// listings miss, the client uses no more listings. [Client.Watch] and [Client.Observe] share the
// listings with the waiters of their client.
//
// # The record
//
// The record is one JSON object in the register with the key KeyPrefix + "/" + name of the lock.
// Times have the form of RFC 3339 if the table gives no other unit.
//
//	holdfast     version of the format: 1, or 2 if the record belongs to a session or has one of
//	             the fields below from session to attend; a client refuses a higher version
//	kind         "lease", or "session" for the record of a session
//	name         name of the lock, or id of the session
//	state        of a lock: "held", "shared" (by its holders), "free" or "broken";
//	             of a session: "open", "closed" or "fenced" (revoked)
//	token        fencing token of the last grant, an unsigned 64-bit integer
//	holder       name of the holder, for people
//	grant        random id of the grant
//	ttl_ms       TTL of the grant in milliseconds
//	nonce        random text, new in every write
//	granted      time of the grant by the holder's wall clock, for people
//	renewed      time of the last write by the holder's wall clock; it can only delay a takeover
//	process      random id of the holder's process
//	presence     name under which the store knows that process, if it does
//	now          of a broken record: other clients may take the lock at once
//	broke        of a broken record: nonce of the last write by the holder of the broken grant;
//	             the fields holder, grant, renewed, process and presence are of that grant
//	stood_ms     of a broken record: age of that last write in milliseconds, by the store's clock
//	not_before   earliest time of the next grant, by the holder's wall clock
//	run          last run of a job that runs once in each period: an object with period (for
//	             people), began, until (end of the period), ended, outcome ("running", "done",
//	             "failed" or "died"), error, holder, tries, grant, and again (an operator allowed
//	             the job to run again in this period); times are by the clock of the run's holder
//	data         data of the user if it is UTF-8 with few escapes; otherwise data_base64
//	session      session of the grant; the id of the grant is then the id of the session, a dot
//	             and a number of base 36
//	mark         nonce of the last write by the holder of the grant, if other clients have
//	             written since then
//	beside       number of writes by other clients since the holder's last write
//	slots        number of slots of the semaphore, also while all slots are free
//	holders      readers or holders of slots: each is an array of grant, mode ("r" for a reader,
//	             "s" for a slot, "w" for a writer), TTL of its session in milliseconds, time of
//	             entry in Unix seconds, token, and number of the slot
//	queue        waiters in order: each is an array as in holders, without token and slot; mode
//	             "c" is a candidate of an election
//	ask          request to yield: an object with grant (the requested grant; empty if the lock
//	             has several holders), grants (the requested grants if there are several
//	             holders), by, reason, at, idle (the holder yields only if it has no work under
//	             the lock), heard (the holder has read the request), and refused (the reason of
//	             the holder)
//	linger_ms    how long the holder keeps the lock after its work if no client requests it
//	history      newest part of the history: an object with from (Unix time of its begin in
//	             microseconds), last (number of the last entry), tried (last entry at the last try to
//	             move entries), at (hash of the holders), and e (the entries: each is an array of kind,
//	             time in milliseconds, token, holder, by, reason and slot)
//	attend       of a session: locks of the session that other clients have broken, or whose
//	             holders they have asked to yield; ["*"] for all locks
//
// When a client rewrites a record, it keeps the fields that it does not know. If the record becomes
// too large, the client first drops the history, then the fields for people, then the presence, then the data, then
// the unknown fields.
package lease
