// Package sessionmodel checks the protocol of sessions by visiting every state that a small
// world of it can reach. It is a check of the rules, not of the code in package lease, which
// it does not import. Package model does the same for a single plain lease.
//
// # What is modelled
//
// Registers with compare-and-swap on versions that never return: one for each of one or two
// locks, one for each session. Two clients, A and B, which open a session, beat, claim
// locks under it, release them, give up a claim whose outcome they do not know, send again
// on the same predecessor, read back, close, forget everything, and begin anew with a new
// session. A waiter looks at the session that a lock's record names, watches it, fences it by
// a conditional write over the version that it saw unchanged for TTL x f, and claims the lock
// over the version that it read, once the session is fenced or closed.
//
// An operator, or a program that cleans up, who removes the record of a session at any
// time: so its version, the absent one, does come back, and an opening that comes late may
// land on it. A waiter that finds the session of a lock absent creates a stand-in, which is
// open and which no client renews, and goes on as with any other session.
//
// Asks, of the lock's record and of the session's: others write a field into the record and
// copy all else, the mark of the holder's own last write included. A holder that meets an ask
// over its own write goes on. Waiters time the mark.
//
// Breaks of locks under sessions: the record keeps its holder, and waiters treat it as held by
// the session, until the holder hears of it and frees it, or its session is fenced.
//
// Client B may take plain leases instead, whose records tell by their own writes whether
// their holder lives: so each kind waits for the other.
//
// A network that carries out a write at once, later, much later (when its sender has long
// since begun another session) or never, and that loses replies. A client may be stopped
// between any two steps for any time. Clocks that differ as in package model: rho is 1/3,
// f is 2, each clock advances by one unit or by two in a tick.
//
// Runs have no bound. The names of versions and sessions, and the numbers of tokens, are
// normalised after each step, and what can make no difference any more is dropped, so that
// the states are finitely many, and a search that ends has seen them all. That nothing is
// dropped which makes a difference is a test of its own.
//
// Three things that a program does one after the other are one step here, since doing them
// apart adds nothing. A read and the use of what it found: a client that acts on it later
// either meets a conflict, or does what a fresh read would have led to; what it has seen is
// kept only where time is counted from it. A reply and the applying of a write: a reply that
// comes later is one that is lost, and a reading back at that time. The refusal of a claim or
// a release whose predecessor is gone, and the news of it: no belief hangs on it.
//
// # What is checked
//
//   - No two clients believe at one instant that they hold the lock.
//   - No client trusts in a session that was fenced or closed, nor in one whose deadline
//     has passed once.
//   - Tokens rise strictly from grant to grant.
//   - No living session holds a lock, or may come to hold it by a write that is under way,
//     of which its client does not know: it would be held for as long as the session beats.
//   - A release frees its own grant's record, or the predecessor of a claim that was given
//     up, and nothing else. A claim that is over for certain is never applied.
//   - A client does not report as lost a session that is open, unless records are removed.
//   - An ask, however often it is repeated, makes no waiter wait longer.
//   - From a sample of the states: a client that is left alone with a good network gets each
//     lock, whether the other one is dead or lives and wants nothing; and keeps its session.
//
// Each [Event] has to occur, and each [Fault], a copy of the rules with one of them wrong, has
// to be caught. The tests print the shortest run that catches it.
//
// # What it found
//
// An absent session was to be created as fenced by the waiter that came across it, which
// was to wait for TTL x f from the reply. But others see it fenced, and take the locks at
// once, while the owner still trusts in its last beat: two holders, after eleven steps
// (AbsentIsRevoked). Hence the stand-in, which every waiter times.
//
// That nothing is acquired while the outcome of the last beat is unknown is not needed for
// exclusion: in the model clients do so, as long as the deadline has not passed.
//
// # What is not modelled
//
// The register itself; a conflict is never with the sender's own write. The margin before a deadline. Sleeping
// machines, jumping clocks, presence, the age by the store's clock, tickets, and breaks of plain
// leases or at once, which the model of the plain lease has. Definite failures. Three clients or more. A re-entrant
// handle. The work under the lock, for which the token is.
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
