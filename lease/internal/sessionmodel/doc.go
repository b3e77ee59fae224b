// Package sessionmodel checks the protocol of sessions by visiting every state that a small world
// of it can reach. The rules of a record are those of package lockrec, which package lease runs, too.
// Those of a client are the model's own. Package model does the same for a single plain lease.
//
// # What is modelled
//
// Registers with compare-and-swap on versions that are never used twice: one for each of one or two
// locks, one for each session. Two clients, A and B, which open a session, renew it, claim locks
// under it and release them. They give up a claim whose outcome they do not know, send again over
// the same predecessor, and read back. They close, forget everything, and start again with a new
// session. A waiter reads the session that a lock's record names, and watches it. It revokes it by
// a conditional write over the version that it saw unchanged for TTL x f. Once the session is
// revoked or closed, it claims the lock over the version that it read.
//
// An operator, or a program that cleans up, who removes the record of a session at any time. So its
// version, the absent one, does return, and a late opening may be applied over it. A waiter that
// finds the session of a lock absent writes a placeholder, which is open and which no client
// renews, and continues as with any other session.
//
// Requests to yield, in the lock's record, and notifications, in the session's: others write a
// field into the record and copy all else, also the mark of the holder's own last write. A holder
// whose write conflicts with one, written over its own write, continues. Waiters time the mark.
//
// Breaks of locks under sessions: the record keeps its holder, and waiters treat it as held by the
// session, until the holder reads of it and frees the lock, or its session is revoked.
//
// Client B may take plain leases instead, whose own records show whether their holder lives: so
// each kind waits for the other.
//
// A network that carries out a write at once, later, much later (when its sender has long
// since begun another session) or never, and that loses replies. A client may be stopped
// between any two steps for any time. Clocks that differ as in package model: rho is 1/3,
// f is 2, each clock advances by one unit or by two in a tick.
//
// Runs have no bound. After each step the names of versions and sessions, and the numbers of
// tokens, are normalised, and values that cannot matter any more are dropped. So there are finitely
// many states, and a search that ends has seen them all. A test of its own checks that no value is
// dropped that matters.
//
// Three things that a program does one after the other are one step here, since separate steps add
// nothing. A read and the use of its result: a client that acts on it later either has a conflict,
// or does what a fresh read would have led to; the model keeps a read only where time counts from
// it. A reply and the applying of a write: a later reply is a lost one, and a read-back at that
// time. The refusal of a claim or a release whose predecessor was replaced, and the reply about it:
// no belief depends on it.
//
// # What is checked
//
//   - No two clients believe at one instant that they hold the lock.
//   - No client trusts in a session that was revoked or closed, nor in one whose deadline has
//     passed once.
//   - Tokens rise strictly from grant to grant.
//   - No living session holds a lock of which its client does not know, or may come to hold one by
//     a write that is under way: the lock would be held for as long as the session is renewed.
//   - A release frees its own grant's record, or the predecessor of a claim that was given
//     up, and nothing else. A claim that is over for certain is never applied.
//   - A client does not report as lost a session that is open, unless records are removed.
//   - A request to yield or a notification, however often it is repeated, makes no waiter wait
//     longer.
//   - From a sample of the states: a client that is left alone with a good network gets each
//     lock, whether the other one is dead or lives and wants nothing; and keeps its session.
//
// Each [Event] has to occur, and each [Fault], a client with one wrong rule, has to be caught. The
// tests print the shortest run that catches it. Wrong rules of a record are mutants of lockrec.
//
// # What it found
//
// In an earlier design a waiter that found a session absent created it as revoked, and waited for
// TTL x f from the reply. But others read that it is revoked, and take the locks at once, while the
// owner still trusts in its last renewal: two holders, after eleven steps (AbsentIsRevoked). Hence
// the placeholder, which every waiter times.
//
// Exclusion does not need the rule that no lock is acquired while the outcome of the last renewal
// is unknown: in the model clients do so, as long as the deadline has not passed.
//
// # What is not modelled
//
// The register itself; no client's write conflicts with its own. The margin before a deadline.
// Sleeping machines, jumping clocks, presence, the age by the store's clock, tickets, and breaks of
// plain leases or at once: the model of the plain lease has these. Definite failures. Three clients
// or more. A re-entrant handle. The work under the lock, for which the token is.
//
// Bounds: how many writes of one session may be unresolved at a time, and how many writes that
// can still take effect may be under way at a time ([Config]). A state is known by a 64-bit
// hash of it; see package explore for the chance that one is overlooked.
//
// # Running it
//
// The tests visit about a million states. With HOLDFAST_TORTURE=1 (make torture) they visit
// all of larger worlds: 28,231,079 states and 275,699,351 transitions with two locks and
// unequal TTLs, and 3.9 million with one lock, two writes under way and all else that may
// happen. That takes some five minutes of two cores, and 2.5 GB:
//
//	HOLDFAST_TORTURE=1 go test -v -timeout 60m ./lease/internal/sessionmodel
package sessionmodel
