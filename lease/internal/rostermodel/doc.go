// Package rostermodel checks the rules of records with several holders, by visiting every state
// that a small world of them can reach: locks that are shared or exclusive, slots, and the queue of
// waiters, to whose head a release hands over. The rules are those of package lockrec, which package
// lease runs, too: a rule that is changed wrongly there is found here.
//
// # What is modelled
//
// One record that changes by compare-and-swap, and two or three clients. Each enters it, as a
// reader, a writer or for a slot, in the queue or not. It reads its place, leaves, perhaps before
// it knows the outcome of its entry, and gives up waiting. Each write is lost, comes late, or loses
// its reply. When another write is applied, all writes under way are refused.
//
// Each entry is under a session, which may end at any time: its deadline passes, or its client
// forgets everything, and starts again with another session. Others revoke a session that is over,
// and then remove its entries. Package sessionmodel shows that a session is revoked only after its
// deadline, so that this model has no time. The head of the queue, and clients that do not queue,
// evaluate the holders; the others evaluate the one directly ahead of them.
//
// The number of slots may change. A record has room for a few entries only.
//
// # What is checked
//
//   - No reader believes at the same time as a writer, no two writers, no two clients one slot.
//   - An entry whose session lives is never removed by others.
//   - No record has an entry, or may get one, of a living session whose client does not know of it.
//     So nothing is handed over to a waiter that has left.
//   - No client is granted before one that has waited for longer.
//   - No slot is granted above the number of slots; tokens rise.
//   - From a sample of the states: a client that is left alone with a good network is granted the
//     lock, whether the others are dead, or live and want nothing.
//
// Each [Event] has to occur, and each [Fault], a client with one wrong rule, has to be caught. The
// tests print the shortest run that catches it. Wrong rules of a record are mutants of lockrec.
//
// # What is not modelled
//
// Clocks and renewals, see package sessionmodel; requests to yield; breaks; plain leases, which do
// not queue; more than three clients. A state is known by a 64-bit hash of it.
//
// # Running it
//
// The tests visit some 600,000 states, and with HOLDFAST_TORTURE=1 (make torture) nine
// million more.
package rostermodel
