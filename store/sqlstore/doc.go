// Package sqlstore is a store in a table of PostgreSQL, MySQL, MariaDB or SQLite, through [database/sql]. It
// imports no driver: the caller opens the database, with any driver.
//
// # Use
//
//	db, err := sql.Open("pgx", "postgres://db.example/app") // github.com/jackc/pgx/v5/stdlib
//	err = sqlstore.CreateTables(ctx, db, sqlstore.PostgreSQL, nil) // once
//	s, err := sqlstore.New(db, sqlstore.PostgreSQL, nil)
//	client, err := lease.New(s, nil)
//
// The command "holdfast init" also creates the tables. Many programs call two more functions:
//
//   - [Fence] checks the fencing token of a lock inside a transaction of the program, so that a
//     former holder cannot commit.
//   - [Listener] returns a function for [Options].Listen. The caller passes a function that opens
//     a connection of the driver.
//
// # PostgreSQL
//
// Every write notifies the channel that has the name of the table. With [Options].Listen a waiter
// sees a change at once. Without Options.Listen, waiters poll.
//
// # MySQL and MariaDB
//
// The driver must be github.com/go-sql-driver/mysql, or one with the same texts of errors: Holdfast reads
// the number of an error from its text. Any value of the driver's options clientFoundRows,
// interpolateParams and charset is right. The sql_mode of the sessions must contain STRICT_TRANS_TABLES,
// as it does by default. Set innodb_lock_wait_timeout to less than 10 seconds: then a write that waits for
// a row of another transaction has a known outcome. Waiters poll. The tests use MariaDB 10.11, and never MySQL 8.
//
// # SQLite
//
// The database must be a file on a local file system, and all programs must open the same name of this
// file: SQLite keeps new data in files next to this name. So do not use hard links, and do not mount the
// file without its directory. Only one writer at a time can write; the
// others wait. Open the database with a busy time-out of a few seconds, and in WAL mode so that
// readers do not wait. Each connection needs synchronous = FULL. That is the default of SQLite, but
// not of every driver.
//
// Keep the file in a directory to which only its user and root can write. If SQLite finds a
// journal next to the file, it rolls the journal back, and removes the file that the journal
// names.
//
// # Durability
//
// An acknowledged write is as durable as a commit of the database. Before the first write the
// store reads the settings that decide this. It refuses
//
//   - settings with which a power loss may undo a commit: in PostgreSQL synchronous_commit = off
//     or fsync = off, in SQLite synchronous = OFF or NORMAL, or journal_mode = OFF or MEMORY, in
//     MySQL innodb_flush_log_at_trx_commit = 0 or 2, or a binary log without sync_binlog = 1,
//   - UNLOGGED and temporary tables, and tables of MySQL that are not InnoDB tables, also for [Fence],
//   - a PostgreSQL server that is a standby, and a MySQL server that is read-only or a replica,
//   - a server of a Galera cluster without wsrep_sync_wait = 1.
//
// After an asynchronous failover the new server may lack acknowledged writes. The store cannot
// detect this loss.
//
// # Requests
//
// Each operation is one statement that commits by itself. A Get is a SELECT by the primary key,
// and a Put is an INSERT or UPDATE with a condition. A refused Put takes one more SELECT. A
// listing takes one statement for each thousand keys. The store holds no database lock between
// calls.
//
// # What is stored
//
// The table holdfast (see [Options].Table) has a row for each register:
//
//	key      text     key, with the prefix
//	version  text     nonce of the state, new in every write
//	deleted  boolean  whether the row is a tombstone, which remains
//	record   text     state as JSON; see package engine
//
// In MySQL the texts are bytes, so that no collation takes different keys for equal.
//
// The table holdfast_fence has the highest fencing token that [Fence] has seen for each lock.
package sqlstore
