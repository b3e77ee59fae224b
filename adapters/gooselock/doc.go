// Package gooselock guards the migrations of goose by a lock of Holdfast.
//
// The lock is a lease in any store of Holdfast. So it needs no session of the database: it works
// through a connection pooler, and it ends by itself if its holder dies.
//
//	locker, err := gooselock.New(client, "migrations/shop", &gooselock.Options{Fence: sqlstore.PostgreSQL})
//	versions, err := database.NewStore(database.DialectPostgres, goose.DefaultTablename)
//	provider, err := goose.NewProvider(goose.DialectCustom, db, migrations,
//		goose.WithLocker(locker), goose.WithStore(locker.Store(versions)))
//	ctx, cancel := locker.Context(ctx)
//	defer cancel()
//	results, err := provider.Up(ctx)
//
// With goose.WithLocker alone, migrations exclude each other. The other two calls stop a holder that has
// lost its lease, for example because the process was stopped for longer than the TTL:
//
//   - The context of [Locker.Context] ends. So goose sends no further statement, and rolls the
//     transaction back.
//   - The store of [Locker.Store] refuses to record the version. With Options.Fence, it checks the fencing
//     token in the transaction of the migration. So the migration of a former holder cannot commit, even
//     if its process was stopped just before the commit.
//
// In both cases the error of the provider matches lease.ErrLost.
//
// # What is not promised
//
// The fence refuses what a transaction contains. It cannot undo migrations with "NO TRANSACTION", Go
// migrations that use the *sql.DB, and statements of MySQL and MariaDB that define tables, because these
// commit by themselves. Such a statement of a former holder can reach the database late if the process was
// stopped just before it. A statement that the server already runs continues when the process dies.
//
// With goose.WithIsolateDDL, all statements commit by themselves. With goose.WithDisableVersioning, goose does not
// call the store, so there is no fence.
//
// A stopped process keeps its open transaction. Its locks in the database can make the next holder wait.
// Limit this time with the settings of the database, for example idle_in_transaction_session_timeout.
//
// # Choose the store
//
// The store may be package sqlstore in the migrated database, but not in SQLite. SQLite has one writer at a time, so a
// migration blocks the renewals of the lease: use another file, or a directory. Goose keeps one connection of its
// *sql.DB for the whole run. So the store needs its own *sql.DB, or a pool of at least three connections.
package gooselock
