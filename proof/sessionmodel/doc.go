// Package sessionmodel checks the protocol of sessions by visiting every state that a small world
// of it can reach. The rules of a record are those of package lockrec, which package lease runs, too.
// Those of a client are the model's own. Package model does the same for a single plain lease.
//
// # What is modelled
//
// The world has one or two locks, and one register for each lock and each session. The registers
// change by compare-and-swap. No version is used twice. There are two clients, A and B. Each client
// opens a session, renews it, claims locks under it, releases them, and closes the session. If a
// client does not know the outcome of a claim, it may give up, read back, or send the claim again
// over the same predecessor. A client may also forget everything, and start again with a new
// session. A waiter reads the session that the record of a lock names, and watches it. It revokes
// the session by a conditional write over the version that has not changed for TTL x f. When the
// session is revoked or closed, the waiter claims the lock over the version that it has read.
//
// An operator, or a program that cleans up, may remove the record of a session at any time. So the
// absent version can return, and a late opening may be applied over it. If a waiter finds the
// session of a lock absent, it writes a placeholder. This is an open record that no client renews.
// Then the waiter continues as with any other session.
//
// Other clients write requests to yield into the record of a lock, and notifications into the
// record of a session. They copy all other fields, also the mark of the holder's last write. If a
// holder's write conflicts with such a write over its own write, the holder continues. Waiters
// measure the age of the mark.
//
// An operator breaks locks under sessions. The broken record keeps its holder. Waiters treat the
// lock as held by the session until the holder reads the break and frees the lock, or until the
// session is revoked.
//
// Client B may take plain leases instead. The record of a plain lease shows whether its holder
// lives. So clients with sessions and clients with plain leases wait for each other.
//
// The network delivers a write at once, later, or never. A write can arrive after its sender has
// begun another session. The network also loses replies. The system may stop a client between any
// two steps for any time. The clocks differ as in package model: rho is 1/3, f is 2, and in a tick
// each clock advances by one unit or by two.
//
// Runs have no bound. After each step, the model renumbers the names of versions and sessions, and
// the tokens, and it drops values that cannot matter any more. So there are finitely many states,
// and a search that ends has visited all of them. A separate test checks that the model drops no
// value that matters.
//
// Three pairs of actions of a program are one step here, because separate steps add nothing:
//
//   - A read, and the use of its result. A later action on an old result either conflicts, or does
//     the same as after a fresh read. The model stores a read only if a time is counted from it.
//   - The applying of a write, and its reply. A late reply is the same as a lost reply and a
//     read-back at that time.
//   - The refusal of a claim or a release whose predecessor was replaced, and the reply. No belief
//     depends on this reply.
//
// # What is checked
//
//   - No two clients believe at the same time that they hold the lock.
//   - No client trusts a session that was revoked or closed, or a session whose deadline has passed
//     once.
//   - Each grant has a higher token than the grant before it.
//   - A living session holds no lock without the knowledge of its client, and no write under way
//     can give it such a lock. Otherwise the lock would stay held as long as the session lives.
//   - A release frees only the record of its own grant, or the predecessor of a claim that was given
//     up. A claim that has certainly ended is never applied.
//   - A client does not report an open session as lost, unless its record was removed.
//   - A request to yield or a notification, even if it is repeated, makes no waiter wait longer.
//   - In a sample of the states, only one client runs, with a good network. It gets each lock,
//     whether the other client is dead or idle, and it keeps its session.
//
// Each [Event] must occur. Each [Fault], a client with one wrong rule, must break a property. The
// tests print the shortest run that shows the fault. The wrong rules of a record are mutants of
// package lockrec.
//
// # What it found
//
// In an earlier design, a waiter that found a session absent created its record as revoked, and
// then waited for TTL x f. But other clients read that the session is revoked, and take its locks
// at once, while its owner still trusts its last renewal. So after eleven steps a lock has two
// holders (AbsentIsRevoked). Therefore a waiter now writes a placeholder, and every waiter measures
// the age of the placeholder.
//
// Exclusion does not need the rule that a session takes no lock while the outcome of its last
// renewal is unknown. In the model, clients take locks in this case until their deadline.
//
// # What is not modelled
//
// These parts are missing:
//
//   - The register itself: no write of a client conflicts with itself.
//   - The margin before a deadline, and definite failures.
//   - Sleeping machines, jumping clocks, presence, the age by the store's clock, tickets, breaks of
//     plain leases, and breaks with immediate effect. Package model has them for the plain lease.
//   - Three clients or more, and a re-entrant handle.
//   - The work under the lock, which the token protects.
//
// [Config] has two bounds: the number of writes of one session with unknown outcomes, and the
// number of writes under way that can still take effect. The search knows a state by a 64-bit
// hash; package explore says how likely it is that the search misses a state.
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
