// Package rostermodel checks the rules of records with several holders, by visiting every
// state that a small world of them can reach: locks that are shared or exclusive, slots, and
// the queue of those who wait, to the head of which a release hands over. It is a check of the
// rules, not of the code in package lease, which it does not import.
//
// # What is modelled
//
// One record that changes by compare-and-swap, and two or three clients. Each enters it, as a
// reader, a writer or for a slot, in turn or not; reads where it stands; leaves, also
// before it has heard what became of its entry; and gives up waiting. Each write is lost,
// comes late, or loses its reply. Whatever is under way when another write is applied is
// refused.
//
// Each entry stands under a session, which may end at any time: its deadline passes, or its
// client forgets everything, and begins anew with another session. Others fence a session
// that is over, and then remove its entries. That a session is fenced only after its deadline
// is what package sessionmodel shows, so no time is left here. The head of the queue, and
// those who do not queue, judge the holders; the others judge the one directly ahead of them.
//
// The number of slots may change. A record has room for a few entries only.
//
// # What is checked
//
//   - No reader believes beside a writer, no two writers, no two clients one slot.
//   - An entry whose session lives is never removed by others.
//   - No record has an entry, or may come to have one, of a living session whose client does
//     not know of it: so nothing is handed over to a waiter that has left.
//   - No client is granted before one that has waited for longer.
//   - No slot is granted above the number that there are; tokens rise.
//   - From a sample of the states: a client that is left alone with a good network is granted,
//     whether the others are dead or live and want nothing.
//
// Each [Event] has to occur, and each [Fault], a copy of the rules with one of them wrong, has
// to be caught. The tests print the shortest run that catches it.
//
// # What is not modelled
//
// Clocks and beats, see package sessionmodel; asks; breaks; plain leases, which do not queue;
// more than three clients. A state is known by a 64-bit hash of it.
//
// # Running it
//
// The tests visit some 400,000 states, and with HOLDFAST_TORTURE=1 (make torture) six
// million more.
package rostermodel
