// Package rostermodel checks the rules of records with several holders. It visits every state of a small
// world with package explore, which explains worlds, states and steps. The rules are about readers and
// writers, slots, and the queue of waiters. A release gives the lock to the first waiter of the queue.
// The model uses the rules of package lockrec, as package lease does. So the model detects a wrong change
// of a rule there.
//
// # What is modelled
//
// The world has one record that changes by compare-and-swap, and two or three clients. A client enters
// the record as a reader, as a writer or for a slot, with or without the queue. It reads its place in the
// record, stops waiting, or leaves. It may leave before it knows the outcome of its entry. The network
// may lose a write, deliver it late, or lose its reply. When the store applies a write, it refuses all
// other writes under way.
//
// Each entry belongs to a session, which may end at any time: its deadline passes, or its client loses
// its memory and starts again with another session. Other clients revoke a session that has ended, and
// then remove its entries. Package sessionmodel shows that a session is revoked only after its deadline.
// So this model has no clocks. The first waiter of the queue, and clients outside the queue, check the
// holders. Every other waiter checks the waiter directly before it.
//
// The number of slots may change. A record has room only for a few entries.
//
// # What is checked
//
//   - A reader and a writer never believe at the same time that they hold the lock, nor do two
//     writers. Two clients never believe that they hold the same slot.
//   - Other clients never remove an entry whose session lives.
//   - While a session is valid, it has no entry that its client does not know of, and cannot get such an
//     entry. So a release never gives the lock to a waiter that has left.
//   - No client gets the lock before a client that has waited for longer.
//   - No client gets a slot above the number of slots. Tokens rise.
//   - In a sample of the states, the model lets only one client run, with a good network. It gets the
//     lock, whether the other clients are dead or idle.
//
// Each [Event] must occur. Each [Fault] is one wrong rule of a client. It must break a property. The
// tests print the shortest run that shows the fault. The wrong rules of a record are mutants of package
// lockrec.
//
// # What is not modelled
//
// The model has no clocks, no renewals (see package sessionmodel), no requests to yield, and no breaks.
// It has no plain leases, because they do not use the queue. It has at most three clients. The search
// identifies a state by a 64-bit hash.
//
// # Running it
//
// The tests visit some 600,000 states, and with HOLDFAST_TORTURE=1 (make torture) nine
// million more.
package rostermodel
