// Package lockmodel checks the protocol of a single lock. It visits every state of a small world with
// package explore, which explains worlds, states and steps. The model uses the rules of a record from
// package lockrec, as package lease does. The model has its own rules of a client, so it does not check
// the code of package lease.
//
// # What is modelled
//
// The world has one register with compare-and-swap. No version is used twice. There are two clients, A
// and B, with different TTLs. A client believes that it holds the lock while it has a grant whose
// deadline has not passed by its clocks. Each client may read, acquire, take over, renew and release. If
// a client does not know the outcome of its acquire, it may give up, read back, or send the write again
// over the same predecessor. A client may take its own former grant back at once. It may also lose its
// memory, as after a crash, and start again with a new grant. An operator may end the grant of a holder.
// This is a break; it can let other clients take the lock at once (--now). The record of the broken lock
// keeps the grant, its holder and presence, and the version of its last write. So clients that have
// watched this write continue their watch. A release by the holder writes over the broken record.
//
// Some worlds have tickets. A ticket is a file with which another process continues a lease. A holder may
// detach at any moment: it writes a ticket, and renews the lease no longer. It may detach even if the
// outcome of a renewal is unknown. The file remains when the client ends, and may be copied at any time.
// Each client can use its file to continue, renew or release the lease, also twice with the same file. It
// may stop at any step. Before a client sends a renewal with a ticket, it writes the nonce of the renewal
// into the file. The model ignores the times in a ticket: the ticket may count as valid or as too late at
// any time. So the checks hold for any clocks, and for tickets with changed times. A record names the
// process that wrote it. It also has the presence of this process: a text by which other clients find out
// whether the process is alive. A process takes its own former grant at once. When a process has ended,
// other clients may take its lock at once. Some worlds have breaks; these worlds also have presence.
//
// Some worlds have requests to yield; these worlds also have breaks and presence. Other clients then
// write into the record of a grant at any moment, and repeatedly. They copy all fields except the
// version. The record marks the last write of the holder, and waiters measure the age of this write. If a
// holder's write conflicts with a request, the mark shows that no other client has the grant. A client
// may read its own record at any time.
//
// Some worlds with breaks have a store that reports the age of a version by its own clock. This clock
// also runs fast or slow. The client that breaks a lock writes the reported age into the broken record,
// after a delay of any length. A waiter adds this age to the age of the broken record.
//
// The network delivers a request at once, later, or never. A request can arrive after its sender has
// begun another grant. The network also loses and delays replies. A conflict may contain the value that
// the write found. The system may stop a client between any two steps for any time.
//
// The clocks have different rates. One tick of true time is 1.5 units of a right clock. In a tick, each
// clock advances by one unit or by two. So rho, the rate error of a clock, is 1/3, and f =
// (1+rho)/(1-rho) is 2. An example: the TTL is four units. A holder with a slow clock believes for four
// ticks that it holds the lock. A waiter with a fast clock that waits for TTL x f takes over after four
// ticks. If it waited for TTL x (1+rho), it would take over after three ticks. A real rho of 1 % would
// not show this error. The model has only the two extreme rates, because they are the worst cases. With a
// rate between them, no holder believes longer, and no waiter waits shorter. A machine may sleep. Then
// its monotonic clock stops, which waiters use. Holders also use other clocks, which continue. A wall
// clock may jump forward.
//
// Runs have no limit. After each step, the model gives new numbers to versions, grants, tokens and times,
// and removes values that have no effect on later steps. So the number of states is finite, and a search
// that ends has visited all of them. A separate test checks that the model removes no value that has an
// effect. If two states differ only by an exchange of the clients, they count as two states, because the
// clients have different TTLs.
//
// # What is checked
//
//   - No two clients believe at the same time that they hold the lock. After a break with --now they may,
//     but then the older one has the smaller token.
//   - Each grant has a higher token than the grant before it, and the token in the register never falls.
//   - A client treats a record as its own only if the record has the client's present grant.
//   - A client reports a grant as lost, released or given up only when the register no longer has
//     this grant. No late request writes the grant again.
//   - A release frees only the record of its own grant.
//   - A break delays no client that could have taken the lock without the break.
//   - A ticket stays valid until a process continues its lease, even if other processes end.
//   - In a sample of the states, the model lets only one client run, with a good network. If it waits for
//     the lock, it gets the lock. If it is the holder and has a renewal of unknown outcome, it keeps the
//     lock.
//
// Each [Event] must occur. Each [Fault] is one wrong rule of a client. It must break a property. The
// tests print the shortest run that shows the fault. The wrong rules of a record are mutants of package
// lockrec.
//
// # What is not modelled
//
// The model does not have these parts:
//
//   - The register itself. Packages storetest and fold check it: no write of a client conflicts with
//     itself, and reads are linearizable.
//   - The margin before a deadline. It is zero here, as if the holder read its clock as late as
//     possible.
//   - Sessions, handles that several goroutines share, and observations that a client stores in a file.
//   - The waiter's check of the renewal time with its own wall clock, which can prevent a takeover by the
//     store's clock.
//   - A break that writes another age than the store has reported. Such a break would let other clients
//     in, like a break with --now.
//   - Three clients or more, and a store whose data is removed or restored from a backup.
//   - The work under the lock. A stopped process may continue its work for a moment after it wakes: the
//     token protects against this.
//
// With ReclaimOwn, the model assumes that the former process of the client is dead.
//
// [Config] limits two numbers: the writes of one grant with unknown outcomes, and the writes under way
// that can still take effect. The search identifies a state by a 64-bit hash. Package explore describes
// how likely it is that the search misses a state.
//
// # Running it
//
// The tests visit about four million states. With HOLDFAST_TORTURE=1
// (make torture) they visit the full world, check every wrong rule there, and compare states with their
// reduced forms. The full world has 30 million states. There are 26 million states with tickets, 7
// million with breaks, presence and age, and 6 million with requests to yield. This takes more than ten
// minutes of processor time and 2 GB:
//
//	HOLDFAST_TORTURE=1 go test -v -timeout 60m ./proof/lockmodel
package lockmodel
