// Package lockmodel checks the protocol of a single lock by visiting every state that a small world
// of it can reach. The model uses the rules of a record from package lockrec, as package lease
// does. The rules of a client are a part of the model: it does not check the code of package
// lease.
//
// # What is modelled
//
// The world has one register with compare-and-swap. No version is used twice. There are two
// clients, A and B, with different TTLs. Each client may read, acquire, take over, renew and
// release. If a client does not know the outcome of its acquire, it may give up, read back, or
// send the write again over the same predecessor. A client may take its own former grant back at
// once. It may also forget everything, and start again with a new grant. An operator breaks the
// lock, with and without --now. The broken record keeps the grant, its holder and presence, and
// the version of its last write. So clients that have watched this write continue their watch. A
// release writes over the broken record.
//
// Some worlds have tickets. A holder detaches at any moment, also with renewals of unknown
// outcome. It leaves a ticket in a file. The file remains when the client ends, and may be copied
// at any time. Each client attaches, renews or releases with its file, also twice with the same
// file, and may stop at any step. Before a client sends a renewal, it announces the renewal: it
// writes the nonce into the file. The model ignores the times in a ticket: the ticket may count
// as valid or as too late at any time. So the checks hold for any clocks, and for tickets with
// changed times. A record names the process that wrote it, and the presence of this process. A
// process takes its own former grant at once. When a process ends, other clients may take its
// lock at once. Worlds with breaks have presence, too.
//
// Some worlds have requests to yield, together with breaks and presence. Other clients write into
// the record of a grant at any moment, and repeatedly. They copy all fields except the version.
// The record marks the last write of the holder, and waiters measure the age of this write. If a
// holder's write conflicts with a request, the mark shows that no other client has the grant. A
// client may read its own record at any time.
//
// Some worlds with breaks have a store that reports the age of a version. The clock of this store
// also runs fast or slow. The client that breaks a lock writes this age into the broken record,
// after any time. A waiter adds it to the age of the broken record.
//
// The network delivers a request at once, later, or never. A request can arrive after its sender
// has begun another grant. The network also loses and delays replies. A conflict may contain the
// value that the write found. The system may stop a client between any two steps for any time.
//
// The clocks differ. A tick of true time is 1.5 units of a right clock. In a tick, each clock
// advances by one unit or by two. So rho, the error of a clock's rate, is 1/3, and f =
// (1+rho)/(1-rho) is 2. An example: with a TTL of four units, a holder with a slow clock believes
// for four ticks. A waiter with a fast clock that waits for TTL x f takes over after four ticks.
// If it waited for TTL x (1+rho), it would take over after three ticks. A real rho of 1 % would
// not show this error. The model has only the two extreme rates, because they are the worst
// cases: no rate between them ends a belief later or a wait earlier. A machine may sleep: then
// its monotonic clock, which waiters use, stops, but the other clocks of holders continue. A wall
// clock may jump forward.
//
// Runs have no bound. After each step the numbers of versions and grants, tokens and instants are
// normalised, and values that cannot matter any more are dropped. So there are finitely many
// states, and a search that ends has seen them all. A test of its own checks that no value is
// dropped that matters. If two states differ only by an exchange of the clients, they count as
// two states, because the clients have different TTLs.
//
// # What is checked
//
//   - No two clients believe at one instant that they hold the lock; after a break with
//     --now they may, but then the older one has the smaller token.
//   - Tokens rise strictly from grant to grant, and never fall in the register.
//   - A client treats a record as its own only if the record has the client's present grant.
//   - A client reports a grant as lost, released or given up only when the register no longer has
//     this grant. No late request writes the grant again.
//   - A release frees only the record of its own grant.
//   - A break delays no client that could have taken the lock without it.
//   - A ticket stays valid until a process continues its lease, even if any process has ended.
//   - In a sample of the states, only one client runs, with a good network. If it waits for the
//     lock, it gets the lock. If it is the holder and has a renewal of unknown outcome, it keeps
//     the lock.
//
// Each [Event] must occur. Each [Fault], a client with one wrong rule, must break a property. The
// tests print the shortest run that shows the fault. The wrong rules of a record are mutants of
// package lockrec.
//
// # What is not modelled
//
// These parts are missing:
//
//   - The register itself. Packages storetest and fold check it: no write of a client conflicts with
//     itself, and reads are linearizable.
//   - The margin before a deadline. It is zero here, as if the holder read its clock as late as
//     possible.
//   - Sessions, handles that goroutines share, and stored observations.
//   - The comparison of a renewal with the waiter's wall clock, which can overrule the store's clock.
//   - A break that writes another age than the store reported. It would let other clients in, like a
//     break with --now.
//   - Three clients or more, and a store that is emptied or restored.
//   - The work under the lock. A stopped process may continue its work for an instant after it
//     wakes: the token protects against this.
//
// With ReclaimOwn, the model assumes that the former process is dead.
//
// [Config] has two bounds: the number of writes of one grant with unknown outcomes, and the
// number of writes under way that can still take effect. The search knows a state by a 64-bit
// hash; package explore says how likely it is that the search misses a state.
//
// # Running it
//
// The tests visit about four million states, and fewer under the race detector. With
// HOLDFAST_TORTURE=1 (make torture) they visit the full world, try every fault there, and compare
// states with their reduced forms. The full world has 30 million states, 26 million with tickets,
// 7 million with breaks, presence and age, and 6 million with requests to yield. This takes more
// than ten minutes of processor time and 2 GB:
//
//	HOLDFAST_TORTURE=1 go test -v -timeout 60m ./proof/lockmodel
package lockmodel
