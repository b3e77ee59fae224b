// Package model checks the protocol of a single lock by visiting every state that a
// small world of it can reach. The rules of a record are those of package lockrec, which
// package lease runs, too. Those of a client are the model's own: package lease is not checked.
//
// # What is modelled
//
// One register with compare-and-swap on versions that are never used twice. Two clients, A and B,
// with different TTLs. Each may read, acquire, take over, renew and release. It may give up an
// acquire whose outcome it does not know, read back, and send again over the same predecessor. It
// may take back its own former grant at once, forget everything, and start again with a new grant.
// An operator breaks the lock, with and without --now. The broken record keeps the grant, its
// holder and presence, and the version of its last write: clients that have watched that write
// continue their watch by it. A release writes over the broken record.
//
// Tickets, in worlds of their own: a holder detaches at any moment, also with renewals of unknown
// outcome. It leaves a ticket in a file, which survives the client and may be copied at any time.
// Either client attaches, renews or releases with the file that it has, also twice with the same
// one, and stops at any step. A renewal writes its nonce into the file before it is sent: it
// announces it. Time has no part in a ticket: it may count as fresh or as too late at any time. So
// the checks hold for any clocks, and for tickets whose times were altered. Records name the
// process that wrote them, which takes its own former grant at once, and its presence: when the
// process ends, others may take the lock at once. Presence is in worlds with breaks, too.
//
// Requests to yield, in worlds of their own, with breaks and presence too: other clients write into
// the record of a grant at any moment, repeatedly, and copy all but the version. The record marks
// the last write of the holder. Waiters time that write. A holder whose write conflicts with such a
// record knows by the mark that no other client has its grant. A client may read its own record at
// any time.
//
// A store that reports how old a version is, in worlds with breaks: its clock is one more that runs
// fast or slow. A breaker writes that age into the broken record, after any time; a waiter adds it
// to the age of the broken record.
//
// A network that carries out a request at once, later, much later (when its sender has long since
// begun another grant) or never. It loses replies and delays them, and a conflict carries the value
// that the write found, or does not. A client may be stopped between any two steps for any time.
//
// Clocks that differ. A tick of true time is 1.5 units of a right clock; each clock advances by one
// unit or by two in a tick, as the worst case demands. So rho is 1/3 and f = (1+rho)/(1-rho) is 2.
// With a TTL of four units a slow holder believes for four ticks; a fast waiter that waits TTL x f
// takes over after four, one that waits TTL x (1+rho) after three. A real rho of 1 % would show
// none of this. The rates between the extremes are left out: a belief ends no later, and a wait no
// earlier, than at one of them. A machine may sleep: its monotonic clock, by which waiters count,
// stops, while the other clocks of holders continue. A wall clock may jump forward.
//
// Runs have no bound. After each step the numbers of versions and grants, tokens and instants are
// normalised, and values that cannot matter any more are dropped. So there are finitely many
// states, and a search that ends has seen them all. A test of its own checks that no value is
// dropped that matters. Two states that differ only by an exchange of the clients count as two,
// since the clients differ in their TTLs.
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
//   - A break delays no client that could have taken the lock without it.
//   - A ticket whose lease no process has taken up is good, whichever process has ended meanwhile.
//   - From a sample of the states: a client that is left alone with a good network gets the lock,
//     and a holder with a renewal in doubt that is left alone keeps it.
//
// This means little unless the rules are tried. So each [Event] has to occur, and each [Fault], a
// client with one wrong rule, has to be caught. The tests print the shortest run that catches it.
// Wrong rules of a record are mutants of lockrec.
//
// # What is not modelled
//
// The register itself, which packages storetest and fold check: no client's own write conflicts
// with itself, and reads are linearizable. The margin before a deadline: it is zero here, as if the
// holder read the clock as late as it may. Sessions, handles shared by goroutines, and observations
// that persist. The veto of the holder's wall clock against the store's clock. A breaker that
// writes another age than the store reported, which lets others in as a break with --now does. The
// assumption of ReclaimOwn, that the former process is dead, is built in. Three clients or more. A
// store that is emptied or restored. The work under the lock, which a stopped process may continue
// for an instant after it wakes: the token is for that.
//
// Bounds: how many writes of one grant may be unresolved at a time, and how many writes
// that can still take effect may be under way at a time ([Config]). A state is known by
// a 64-bit hash of it; see package explore for the chance that one is overlooked.
//
// # Running it
//
// The tests visit some four million states, far fewer under the race detector. With
// HOLDFAST_TORTURE=1 (make torture) they visit all of the full world, that is 30 million, 26
// million with tickets, 7 million with breaks, presence and age, and 6 million with requests to yield,
// try every fault there, and compare states with their reduced forms; that takes more than ten
// minutes of processor time and 2 GB:
//
//	HOLDFAST_TORTURE=1 go test -v -timeout 60m ./lease/internal/model
package model
