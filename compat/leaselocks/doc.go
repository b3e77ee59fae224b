// Package leaselocks takes locks in the table lease_locks of a SQLite database, as the Rust crate matrix-sdk-sqlite
// does. A program with this crate and a program with this package exclude each other on one file. The format was
// checked with release 0.19.1.
//
//	table, err := leaselocks.Open(ctx, db, nil)
//	handle, err := trylock.New(table, "sync", &trylock.Options{TTL: 500 * time.Millisecond})
//	guard, err := handle.Acquire(ctx)
//
// [Table] is a backend of package lease/trylock, which says what such a lock promises. If only your own programs
// use the database, choose package store/sqlstore and package lease: they promise more.
//
// # The table
//
// A row has the key of the lock, its holder, the end of its lease in milliseconds since 1970, and its generation.
// All programs compare this end with their wall clocks, so they run on one machine, or their clocks agree. The lock is
// free when this millisecond is over, also after a release. The generation is 1 for a new key, and rises with each
// change of the holder. No program removes a row, because the generation would begin with 1 again.
//
// The SQLite library waits for other writers after a program has read the clock. So a program can get a lease of
// which only a part is left, or nothing. A handle of package trylock measures the lease from the time before the
// call, so it notices this. Keep all write transactions in the database short: a transaction that takes longer than
// a lease ends the lease.
//
// Releases of the crate before 0.16 have no generation. [Options].Upgrade adds it, as release 0.16 does when it
// opens the file. If a program with an older release still runs, both programs still exclude each other, but the
// old program does not raise the generation. Then a generation is no token.
//
// # The other program
//
// The crate uses leases of 500 ms and does not report a lost lease to its caller. Its locks have no wait queue. If
// many programs want a lock, the order in which they get it is random.
package leaselocks
