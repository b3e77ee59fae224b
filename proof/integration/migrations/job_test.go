//go:build unix

package migrations_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/pressly/goose/v3"
	goosedb "github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast/adapters/gooselock"
	"github.com/holdfast-go/holdfast/adapters/migratelock"
	"github.com/holdfast-go/holdfast/lease"
)

const (
	lockName = "migrations/shop"
	ttl      = 10 * time.Second
	last     = 5 // the migrations are 1 to 5
)

// job is what one process does: it migrates the target up.
type job struct {
	Target target
	Tool   string // one of the constants below
	Pause  string // the step at which the process prints "paused", and waits for a line
}

const (
	withMigrate     = "migrate"
	migrateNoLease  = "migrate, without the adapter"
	withGoose       = "goose"
	gooseNoContext  = "goose, without the context of the locker"
	gooseLockerOnly = "goose, without the context and the store of the locker"
	gooseOwnTable   = "goose, with its own table locker"
)

func (j job) run(ctx context.Context, pause func(at string)) error {
	db, err := j.Target.open()
	if err != nil {
		return err
	}
	defer db.Close()
	client, done, err := j.Target.client()
	if err != nil {
		return err
	}
	defer done()
	switch j.Tool {
	case withMigrate, migrateNoLease:
		m, err := newMigrate(ctx, j.Target, db, client, j.Tool == withMigrate, pause)
		if err != nil {
			return err
		}
		return m.Up()
	default:
		return gooseUp(ctx, j, db, client, pause)
	}
}

// hooked is a driver that calls a function before and after each step.
type hooked struct {
	database.Driver
	step    func(at string)
	version int
}

func (h *hooked) Version() (int, bool, error) {
	version, dirty, err := h.Driver.Version()
	h.step("after version")
	return version, dirty, err
}

func (h *hooked) Run(r io.Reader) error {
	err := h.Driver.Run(r)
	h.step(fmt.Sprint("after run ", h.version))
	return err
}

func (h *hooked) SetVersion(version int, dirty bool) error {
	h.version = version
	h.step(fmt.Sprint("before set ", version, " ", dirty))
	err := h.Driver.SetVersion(version, dirty)
	h.step(fmt.Sprint("after set ", version, " ", dirty))
	return err
}

func openDriver(kind string, db *sql.DB) (database.Driver, error) {
	switch kind {
	case "sqlite":
		return sqlite.WithInstance(db, &sqlite.Config{})
	case "pgx":
		return pgx.WithInstance(db, &pgx.Config{})
	default:
		return mysql.WithInstance(db, &mysql.Config{NoLock: true})
	}
}

func newMigrate(ctx context.Context, at target, db *sql.DB, client *lease.Client, leased bool, step func(at string)) (*migrate.Migrate, error) {
	files := fstest.MapFS{}
	for v := 1; v <= last; v++ {
		files[fmt.Sprintf("%d_step.up.sql", v)] = &fstest.MapFile{
			Data: fmt.Appendf(nil, "CREATE TABLE t%d (x int); INSERT INTO applied (version) VALUES (%[1]d);", v)}
	}
	src, err := iofs.New(files, ".")
	if err != nil {
		return nil, err
	}
	var d database.Driver
	err = client.Do(ctx, lockName, func(context.Context, *lease.Guard) (err error) {
		d, err = openDriver(at.Kind, db)
		return err
	}, nil)
	if err != nil {
		return nil, err
	}
	d = &hooked{Driver: d, step: step}
	if leased {
		if d, err = migratelock.New(d, client, lockName, &migratelock.Options{LockTimeout: 2 * time.Minute}); err != nil {
			return nil, err
		}
	}
	m, err := migrate.NewWithInstance("iofs", src, at.Kind, d)
	if err == nil {
		m.LockTimeout = 3 * time.Minute
	}
	return m, err
}

func gooseDialect(at target) goose.Dialect {
	return map[string]goose.Dialect{"sqlite": goose.DialectSQLite3, "pgx": goose.DialectPostgres, "mysql": goose.DialectMySQL}[at.Kind]
}

func gooseUp(ctx context.Context, j job, db *sql.DB, client *lease.Client, step func(at string)) error {
	dialect := gooseDialect(j.Target)
	locker, err := gooselock.New(client, lockName, &gooselock.Options{Fence: j.Target.dialect()})
	if err != nil {
		return err
	}
	var options []goose.ProviderOption
	switch j.Tool {
	case withGoose, gooseNoContext:
		inner, err := goosedb.NewStore(dialect, goose.DefaultTablename)
		if err != nil {
			return err
		}
		dialect = goose.DialectCustom
		options = append(options, goose.WithLocker(locker), goose.WithStore(locker.Store(inner)))
		if j.Tool == withGoose {
			var cancel context.CancelFunc
			ctx, cancel = locker.Context(ctx)
			defer cancel()
		}
	case gooseLockerOnly:
		options = append(options, goose.WithLocker(locker))
	case gooseOwnTable:
		own, err := lock.NewPostgresTableLocker(lock.WithTableLeaseDuration(ttl/5), lock.WithTableHeartbeatInterval(ttl/20), lock.WithTableLockTimeout(ttl/50, 1000),
			lock.WithTableUnlockTimeout(ttl/50, 1))
		if err != nil {
			return err
		}
		options = append(options, goose.WithLocker(own))
	}
	provider, err := goose.NewProvider(dialect, db, nil, append(options, goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(gooseMigrations(step)...))...)
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// gooseMigrations do not look at their context, like programs that call others.
func gooseMigrations(step func(at string)) (all []*goose.Migration) {
	for v := int64(1); v <= last; v++ {
		all = append(all, goose.NewGoMigration(v, &goose.GoFunc{RunTx: func(_ context.Context, tx *sql.Tx) error {
			step(fmt.Sprint("before run ", v))
			_, err := tx.Exec(fmt.Sprintf("INSERT INTO applied (version) VALUES (%d)", v))
			step(fmt.Sprint("after run ", v))
			return err
		}}, nil))
	}
	return all
}
