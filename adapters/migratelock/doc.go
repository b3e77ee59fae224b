// Package migratelock guards the migrations of golang-migrate by a lock of Holdfast.
//
// The lock is a lease in any store of Holdfast. So it needs no session of the database: it works
// through a connection pooler, and it ends by itself if its holder dies.
//
//	inner, err := pgx.WithInstance(db, &pgx.Config{}) // any driver of migrate
//	driver, err := migratelock.New(inner, client, "migrations/shop", &migratelock.Options{LockTimeout: 50 * time.Second})
//	m, err := migrate.NewWithInstance("iofs", source, "pgx5", driver)
//	m.LockTimeout = time.Minute // longer than the LockTimeout of the driver
//	err = m.Up()
//
// # If the lease is lost
//
// A lease is lost, for example, if the process was stopped for longer than the TTL. Then another
// process may migrate the database. So the driver checks the lease before and after each Run,
// SetVersion and Drop. If the lease is lost, the call returns an error that matches lease.ErrLost, and
// migrate stops. The mark "dirty" of migrate does the rest:
//
//   - If the lease was lost during a Run, the database stays dirty. The next holder gets
//     migrate.ErrDirty, and changes nothing. So no migration runs twice. A person must check the
//     database and call Force. A holder that dies during a Run leaves the same state.
//   - If the lease was lost between two migrations, the next holder continues.
//
// # What is not promised
//
// A process can be stopped between the check and the statement. Then this one statement can reach the
// database late. A late Run, or a late "clean" after it, finds the database still dirty, because no holder
// starts on a dirty database. A late "dirty" shows an old version: the next holder gets
// migrate.ErrDirty, and a person must call Force with the right version. Before you call Force, make sure
// that the earlier holder has ended. Force and Drop themselves have no such mark.
//
// The driver cannot prevent this by a fence in the same transaction. The drivers of migrate begin their
// transactions themselves, and a migration may contain its own BEGIN and COMMIT. Package gooselock has
// such a fence for goose.
//
// A statement that the server already runs continues when the process dies or loses the lease. Limit it
// with the time-outs of the database, for example x-statement-timeout.
//
// # Connection poolers
//
// The drivers of migrate also take their own lock while they open. Some poolers give each transaction
// another session. There, use [WithoutAdvisoryLock] for PostgreSQL, and the option NoLock (x-no-lock) for
// MySQL.
//
// # Choose the store
//
// The store may be package sqlstore in the migrated database, with two exceptions. In SQLite a migration
// stops the renewals of the lease, because SQLite has one writer at a time: use another file, or a
// directory. And Drop drops all tables of the schema: give the store its own schema or database. The
// store needs its own *sql.DB, or a pool of at least two connections more than the migrations use.
package migratelock
