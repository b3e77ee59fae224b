// Package rostermodel checks the rules of records with several holders, by visiting every state
// that a small world of them can reach. The rules are about readers and writers, slots, and the
// queue of waiters; a release makes the first waiter of the queue the holder. The model uses the
// rules of package lockrec, as package lease does. So it finds a wrong change of a rule there.
//
// # What is modelled
//
// The world has one record that changes by compare-and-swap, and two or three clients. A client
// enters the record as a reader, as a writer or for a slot, with or without the queue. It reads its
// place, gives up its wait, or leaves, perhaps before it knows the outcome of its entry. Each write
// may be lost, may come late, or may lose its reply. When the store applies a write, it refuses all
// other writes under way.
//
// Each entry is under a session, which may end at any time: its deadline passes, or its client
// forgets everything, and starts again with another session. Other clients revoke a session that is
// over, and then remove its entries. Package sessionmodel shows that a session is revoked only after
// its deadline. So this model needs no time. The first waiter of the queue, and clients outside the
// queue, check the holders. Every other waiter checks the waiter directly before it.
//
// The number of slots may change. A record has room only for a few entries.
//
// # What is checked
//
//   - A reader and a writer never believe at the same time that they hold the lock, nor do two
//     writers. Two clients never believe that they hold the same slot.
//   - Other clients never remove an entry whose session lives.
//   - A living session has no entry, and can get none, that its client does not know of. So a
//     release never hands the lock to a waiter that has left.
//   - No client gets the lock before a client that has waited for longer.
//   - No client gets a slot above the number of slots. Tokens rise.
//   - In a sample of the states, only one client runs, with a good network. It gets the lock, whether
//     the other clients are dead or idle.
//
// Each [Event] must occur. Each [Fault], a client with one wrong rule, must break a property. The
// tests print the shortest run that shows the fault. The wrong rules of a record are mutants of
// package lockrec.
//
// # What is not modelled
//
// The model has no clocks and renewals (see package sessionmodel), no requests to yield, no breaks,
// no plain leases (they do not queue), and at most three clients. The search knows a state by a
// 64-bit hash.
//
// # Running it
//
// The tests visit some 600,000 states, and with HOLDFAST_TORTURE=1 (make torture) nine
// million more.
package rostermodel
