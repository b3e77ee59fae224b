// Package model checks the protocol of a single lock by visiting every state that a
// small world of it can reach. It is a check of the rules, not of the code in package
// lease, which it does not import.
//
// # What is modelled
//
// One register with compare-and-swap on versions that never return. Two clients, A and
// B, with different TTLs, each of which may read, acquire, take over, renew, release,
// give up an acquire whose outcome it does not know, read back, send again on the same
// predecessor, take back its own former grant at once, forget everything, and begin anew
// with a new grant. An operator who breaks the lock, with and without --now: the broken
// record keeps the grant, its holder and presence, and the version of its last write, by
// which those who have watched that write go on; a release goes over it.
//
// Tickets, in worlds of their own: a holder detaches at any moment, its renewals of
// unknown outcome too, and leaves a ticket in a file, which survives the client and may be
// copied at any time. Either client attaches, renews or releases with the file that it
// has, the same one twice too, and leaves that at any step. A renewal announces its nonce
// in the file before it is sent. Time has no part in a ticket: it may be taken for fresh
// or for too late at any time, so that what is checked holds for any clocks, and for
// tickets whose times were altered. Records name the process that wrote them, which takes
// its own former grant at once, and its presence: when the process ends, others may take
// the lock at once. Presence is in worlds with breaks, too.
//
// Askers, in worlds of their own, with breaks and presence too: they write into the record of a
// grant at any moment, again and again, and copy all but the version. The record marks the last
// write of the holder, which waiters time, and by which a holder whose write meets the record
// knows that no other has its grant. A client may read its own record at any time.
//
// A store that tells for how long a version has stood, in worlds with breaks: its clock is
// one more that runs fast or slow. A breaker writes into the broken record what it was
// told, after any time; a waiter adds that to the age of the broken record.
//
// A network that carries out a request at once, later, much later (when its sender has
// long since begun another grant) or never, that loses replies and delays them, and
// that tells a conflict with or without the value which was met. A client may be stopped
// between any two steps for any time.
//
// Clocks that differ. A tick of true time is 1.5 units of a right clock; each clock
// advances by one unit or by two in a tick, as the worst case demands, so that rho is
// 1/3 and f = (1+rho)/(1-rho) is 2. With a TTL of four units a slow holder believes for
// four ticks; a fast waiter that waits TTL x f takes over after four, one that waits
// TTL x (1+rho) after three. With a real rho of 1 % nothing of this would show. The
// rates between the extremes are left out: a belief ends no later, and a wait no earlier,
// than at one of them. A machine may sleep: its monotonic clock stands still, by which
// waiters count, while the other clocks of holders go on. A wall clock may jump forward.
//
// Runs have no bound. The numbers of versions and grants, tokens and instants are
// normalised after each step, and what can make no difference any more is dropped, so that
// the states are finitely many, and a search that ends has seen them all. That nothing is
// dropped which makes a difference is a test of its own. States of which one is the other
// with the clients exchanged are not identified, since the clients differ in their TTLs.
//
// # What is checked
//
//   - No two clients believe at one instant that they hold the lock; after a break with
//     --now they may, but then the older one has the smaller token.
//   - Tokens rise strictly from grant to grant, and never fall in the register.
//   - No client takes a record for its own that is not of its present grant.
//   - A grant is reported as lost, released or given up only when the register no longer
//     holds it, and from then on it is never written again, however late a request
//     arrives.
//   - A release frees its own grant's record and nothing else.
//   - A break keeps no client out that could have taken the lock without it.
//   - A ticket whose lease has not been taken up is good, whatever has died in between.
//   - From a sample of the states: a client that is left alone with a good network gets
//     the lock, and a holder with an unsettled renewal that is left alone keeps it.
//
// All of it means little unless the rules are tried: so each [Event] has to occur, and
// each [Fault], a copy of the rules with one of them wrong, has to be caught. The tests
// print the shortest run that catches it.
//
// # What is not modelled
//
// The register itself, which packages storetest and fold look after: no client's own write is a
// conflict for it, reads are linearizable. The margin before a deadline, which is zero here, as
// if the holder's look at the clock came as late as it may. Sessions, handles shared by
// goroutines, and observations that persist; the veto of the holder's wall clock against the
// store's clock; a breaker that writes another age than it was told, which lets others in
// as a break with --now does; the assumption of ReclaimOwn, that the former process is
// dead, is built in. Three clients or more. A store that is emptied or restored. The work
// under the lock, which a stopped process may continue for an instant after it wakes: that
// is what the token is for.
//
// Bounds: how many writes of one grant may be unresolved at a time, and how many writes
// that can still take effect may be under way at a time ([Config]). A state is known by
// a 64-bit hash of it; see package explore for the chance that one is overlooked.
//
// # Running it
//
// The tests visit some four million states, far fewer under the race detector. With
// HOLDFAST_TORTURE=1 (make torture) they visit all of the full world, which are 30 million, 26
// million with tickets, 7 million with breaks beside presence and age, and 6 million with asks,
// try every fault there, and compare states with their reduced forms; that takes more than ten
// minutes of processor time and 2 GB:
//
//	HOLDFAST_TORTURE=1 go test -v -timeout 60m ./lease/internal/model
package model
