// Package sessionmodel checks the protocol of sessions. It visits every state of a small world with
// package explore, which explains worlds, states and steps. The model uses the rules of a record from
// package lockrec, as package lease does. The rules of a client are a part of the model. Package
// lockmodel does the same for a single plain lease, which has no session.
//
// # What is modelled
//
// The world has one or two locks, and one register for each lock and each session. The registers change
// by compare-and-swap. No version is used twice. There are two clients, A and B. Each client opens a
// session, renews it, takes locks with it, releases them, and closes the session. The write that takes a
// lock is called a claim. If a client does not know the outcome of a claim, it may give up, read back, or
// send the claim again over the same predecessor. A client may also lose its memory, as after a crash,
// and start again with a new session. If the record of a lock names a session, a waiter reads the record
// of this session and watches it. If its version has not changed for TTL x f, the waiter revokes the
// session with a conditional write over this version. When the session is revoked or closed, the waiter
// claims the lock, over the version of its record that it has read.
//
// An operator, or a program that cleans up, may remove the record of a session at any time. Then the
// register is absent again, and a late write that opens the session may be applied. If a waiter finds
// that the record of a session is absent, it writes a placeholder. A placeholder is an open record that
// no client renews. Then the waiter continues as with any other session.
//
// Other clients write requests to yield into the record of a lock. They also write the name of this lock
// into the record of the session; this is a notification. They copy all other fields, including the mark
// of the holder's last write. If a holder's write conflicts only with such writes, the holder continues.
// Waiters measure the age of the marked write.
//
// An operator may break a lock: the break ends the grant of its session. The broken record still names
// its holder. Waiters treat the lock as held by the session until the holder reads the break and frees
// the lock, or until the session is revoked.
//
// In some worlds, client B takes plain leases instead of sessions. The record of a plain lease shows
// whether its holder lives. So a client with sessions can wait for a client with plain leases, and the
// other way round.
//
// The network delivers a write at once, later, or never. A write can arrive after its sender has begun
// another session. The network also loses replies. The system may stop a client between any two steps for
// any time. The clocks have different rates, as in package lockmodel: rho is 1/3, and f is 2. In a tick,
// each clock advances by one unit or by two.
//
// Runs have no limit. After each step, the model gives new numbers to versions, sessions and tokens, and
// removes values that have no effect on later steps. So the number of states is finite, and a search that
// ends has visited all of them. A separate test checks that the model removes no value that has an
// effect.
//
// In three cases, two actions of a program are one step here, because two steps would add nothing:
//
//   - A read, and the use of its result. A later action on an old result either conflicts, or does the
//     same as after a fresh read. The model stores the result of a read only if a client counts a time
//     from it.
//   - A write that the store applies, and its reply. A late reply has the same effect as a lost reply,
//     after which the client reads the record.
//   - A claim or a release that the store refuses because its predecessor was replaced, and the reply.
//     Whether a client believes that it holds a lock does not depend on this reply.
//
// # What is checked
//
//   - No two clients believe at the same time that they hold the lock.
//   - No client trusts a session after it was revoked or closed, or after its deadline has passed once.
//   - Each grant has a higher token than the grant before it.
//   - While a session is valid, it holds no lock without the knowledge of its client, and no write under
//     way can give it such a lock. Otherwise the session would hold this lock until the session ends.
//   - A release frees only the record of its own grant, or the predecessor of a claim that the client has
//     given up. If a client reports that a claim has failed, the claim is never applied later.
//   - A client does not report an open session as lost, unless its record was removed.
//   - A request to yield or a notification makes no waiter wait longer, even if other clients repeat it.
//   - In a sample of the states, the model lets only one client run, with a good network. It gets each
//     lock, whether the other client is dead or idle, and it keeps its session.
//
// Each [Event] must occur. Each [Fault] is one wrong rule of a client. It must break a property. The
// tests print the shortest run that shows the fault. The wrong rules of a record are mutants of package
// lockrec.
//
// # A fault that the model found
//
// In an earlier design, a waiter that found no record of a session wrote a revoked record. Then the
// waiter waited for TTL x f. But other clients read that the session is revoked, and take its locks at
// once, while the owner of the session still trusts its last renewal. So after eleven steps, a lock has
// two holders (fault AbsentIsRevoked). Therefore a waiter now writes a placeholder, and every waiter
// measures the age of the placeholder.
//
// The protocol also has this rule: while the outcome of its last renewal is unknown, a session takes no
// lock. Exclusion does not need this rule. So in the model, clients take locks until their deadline, even
// in this case.
//
// # What is not modelled
//
// The model does not have these parts:
//
//   - The register itself, in which no write of a client conflicts with itself.
//   - The margin before a deadline, and writes that certainly failed.
//   - Machines that sleep, clocks that jump, presence, the age by the store's clock, tickets, breaks of
//     plain leases, and breaks with immediate effect. Package lockmodel has these parts for the plain
//     lease.
//   - Three clients or more, and a client that takes one lock several times at once.
//   - The work under the lock, which the token protects.
//
// [Config] limits two numbers: the writes of one session with unknown outcomes, and the writes under way
// that can still take effect. The search identifies a state by a 64-bit hash. Package explore describes
// how likely it is that the search misses a state.
//
// # Running it
//
// The tests visit about a million states. With HOLDFAST_TORTURE=1 (make torture) they visit all
// states of larger worlds. A world with two locks and unequal TTLs has 28,231,079 states and
// 275,699,351 transitions. A world with one lock, two writes under way and all other features has
// 3.9 million states. This takes about five minutes on two cores, and 2.5 GB:
//
//	HOLDFAST_TORTURE=1 go test -v -timeout 60m ./proof/sessionmodel
package sessionmodel
