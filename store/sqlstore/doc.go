// Package sqlstore keeps registers in one table of a database that is reached through
// [database/sql]: PostgreSQL or SQLite. It imports no driver: the caller opens the
// database, with any driver.
//
//	db, err := sql.Open("pgx", "postgres://db.example/app") // github.com/jackc/pgx/v5/stdlib
//	...
//	err = sqlstore.CreateTables(ctx, db, sqlstore.PostgreSQL, nil) // once
//	...
//	st, err := sqlstore.New(db, sqlstore.PostgreSQL, nil)
//
// # What is stored
//
// The table holdfast (see [Options].Table) has a row for each register:
//
//	key      text     the key, with the prefix
//	version  text     the nonce of the state, new in every write
//	deleted  boolean  whether it is a tombstone, which stays
//	record   text     the state as JSON; see package engine
//
// The table holdfast_fence has the highest fencing token that [Fence] has seen for each
// lock.
//
// # Cost
//
// Each operation is one statement that commits by itself: a Get is a SELECT by the
// primary key, a Put an INSERT or UPDATE with the condition in it. A Put that is refused
// costs a SELECT more. A listing takes a statement for each thousand keys. The store
// holds no lock of the database between calls.
//
// # Durability
//
// A write that was answered is as durable as a commit of the database. Before the first
// write the store reads the settings that decide that. It refuses a session in which a
// power loss may undo a commit: synchronous_commit = off and fsync = off of PostgreSQL,
// synchronous = OFF or NORMAL, and journal_mode = OFF or MEMORY, of SQLite. It refuses
// UNLOGGED and temporary tables, also that of [Fence], and a PostgreSQL server that is a
// standby. A server that fails over asynchronously can bring old states back; no store on
// top of it can detect that.
//
// # Waiting
//
// On PostgreSQL every write notifies the channel that has the name of the table. With
// [Options].Listen a waiter learns of a change at once; without it, waiters poll.
// [Listener] makes the hook of a driver's connections in a few lines.
//
// # SQLite
//
// The database must be a file on a local file system. Its writers wait for each other.
// Open it with a busy time-out of a few seconds, and in WAL mode so that readers do not
// wait. Each connection needs synchronous = FULL, which is SQLite's default, but not
// every driver's.
//
// Keep the file in a directory that only its user, and root, can write to. When SQLite
// finds a journal beside the file it rolls it back, and removes the file that the journal
// names.
package sqlstore
