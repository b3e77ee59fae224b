package leaselocks

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/drivers/sqldialect"
	"github.com/holdfast-go/holdfast/store"
)

// The statements of matrix-sdk-sqlite.
const (
	createTable = `CREATE TABLE IF NOT EXISTS "lease_locks" ("key" TEXT PRIMARY KEY NOT NULL, "holder" TEXT NOT NULL, "expiration" REAL NOT NULL, "generation" INTEGER NOT NULL DEFAULT 1)`
	addColumn   = `ALTER TABLE "lease_locks" ADD COLUMN "generation" INTEGER NOT NULL DEFAULT 1`
	rename      = `ALTER TABLE "lease_locks" RENAME COLUMN "expiration_ts" TO "expiration"`
	setVersion  = `INSERT INTO kv VALUES ('version', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1`
	takeLock    = `INSERT INTO lease_locks (key, holder, expiration) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET
		holder = excluded.holder, expiration = excluded.expiration,
		generation = CASE holder WHEN excluded.holder THEN generation ELSE generation + 1 END
		WHERE holder = excluded.holder OR expiration < ?4 RETURNING generation`
)

// upgrades are the files of matrix-sdk-sqlite whose next upgrade adds the generation: a table that only this kind
// of file has, and the version of the file before the upgrade.
var upgrades = []struct {
	table   string
	version byte
}{{"media", 1}, {"event_chunks", 12}, {"inbound_group_session", 12}}

// Options configures [Open]. Nil means that all are false.
type Options struct {
	// Create creates the table if the database has none. Do not use it for a file that a program with
	// matrix-sdk-sqlite creates: that program could not open its file. Let that program open the file first.
	Create bool

	// Upgrade adds the generation to a table of a release before 0.16, as release 0.16 does, and raises the
	// version of the file. It does this only for a file that was last opened by the release just before the
	// change. For an older file, open it once with a newer release of matrix-sdk-sqlite.
	Upgrade bool
}

// Table is the table lease_locks of a database. It is a backend of package lease/trylock. Any number of goroutines
// may use it.
type Table struct {
	db    *sql.DB
	rules sqldialect.Rules
}

// hint is the advice in errors about a table that is missing or different.
const hint = "open the file once with matrix-sdk-sqlite 0.16 or later, or use Options.Create or Options.Upgrade of package leaselocks"

// Open returns the table of a database. The driver of the database can be any driver for SQLite. Set a busy timeout
// of about a third of the trylock.Options.TTL in its URL, and WAL mode.
//
// If the table is missing, has another shape, or is of a release before 0.16, the error matches
// [store.ErrMisconfigured], unless [Options] say what to do. If a power failure could undo a commit, the error
// matches [store.ErrUnsafe]: a generation could return. Open does not close db.
func Open(ctx context.Context, db *sql.DB, opts *Options) (*Table, error) {
	rules, _ := sqldialect.Of("sqlite")
	t := &Table{db: db, rules: rules}
	opts = cmp.Or(opts, &Options{})
	if err := sqldialect.Bounded(ctx, func(ctx context.Context) error { return rules.Check(ctx, db) }); err != nil {
		return nil, t.explain(err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, t.explain(err)
	}
	found, err := shape(ctx, conn)
	conn.Close()
	switch {
	case err != nil:
		return nil, t.explain(err)
	case found == ready:
		return t, nil
	case found == missing && opts.Create:
		err = t.change(ctx, func(conn *sql.Conn) error {
			_, err := conn.ExecContext(ctx, createTable)
			return err
		})
	case found == withoutGeneration && opts.Upgrade:
		err = t.change(ctx, func(conn *sql.Conn) error { return upgrade(ctx, conn) })
	default:
		err = fmt.Errorf("%w: the table lease_locks %s (%s)", store.ErrMisconfigured, found, hint)
	}
	if err != nil {
		return nil, t.explain(err)
	}
	return t, nil
}

// explain returns an error that says what to do, with the outcome of err.
func (t *Table) explain(err error) error {
	explained := fmt.Errorf("table lease_locks: %w", t.rules.Explain(err, hint))
	if store.OutcomeOf(err) == store.NotApplied {
		return store.MarkNotApplied(explained)
	}
	return store.MarkUnknown(explained)
}

// TryLock implements trylock.Backend with one transaction. The lease ends after the duration, rounded up to whole
// milliseconds, by the wall clock of this machine. If the database is busy for longer than the busy timeout of its
// driver, nothing was done.
func (t *Table) TryLock(ctx context.Context, key, holder string, duration time.Duration) (generation uint64, obtained bool, err error) {
	err = t.change(ctx, func(conn *sql.Conn) error {
		now := time.Now().UnixMilli()
		end := now + (duration + time.Millisecond - 1).Milliseconds()
		var value any
		err := conn.QueryRowContext(ctx, takeLock, key, holder, end, now).Scan(&value)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		n, isNumber := value.(int64)
		if err == nil && (!isNumber || n < 1) {
			err = fmt.Errorf("%w: the generation of lock %.100q is %.100q", store.ErrCorrupt, key, fmt.Sprint(value))
		}
		generation, obtained = uint64(n), err == nil
		return err
	})
	if err != nil {
		return 0, false, t.explain(err)
	}
	return generation, obtained, nil
}

// change runs f in a transaction that has SQLite's write lock from the beginning. After an error nothing was
// changed, unless its outcome is unknown.
func (t *Table) change(ctx context.Context, f func(*sql.Conn) error) error {
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	defer conn.Close()
	if _, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err == nil {
		err = f(conn)
	}
	if err == nil {
		err = store.CheckContext(ctx)
	}
	ctx = context.WithoutCancel(ctx) // an interrupted commit would have an unknown outcome
	committing := err == nil
	if committing {
		if _, err = conn.ExecContext(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	_, problem := conn.ExecContext(ctx, "ROLLBACK")
	isOver := problem != nil && strings.Contains(problem.Error(), "no transaction is active")
	if problem != nil && !isOver {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // SQLite rolls back when it is closed
	}
	if committing && problem != nil {
		return store.MarkUnknown(err)
	}
	return store.MarkNotApplied(err)
}

// The shapes of the table.
const (
	ready             = ""
	missing           = "is missing"
	withoutGeneration = "has no column generation, as in releases of matrix-sdk-sqlite before 0.16"
	different         = "has other columns than those of matrix-sdk-sqlite"
)

// shape returns the shape of the table.
func shape(ctx context.Context, conn *sql.Conn) (string, error) {
	var columns string
	err := conn.QueryRowContext(ctx, `SELECT coalesce(group_concat(name || CASE WHEN pk > 0 THEN '!' ELSE '' END, ' '), '')
		FROM (SELECT name, pk FROM pragma_table_info('lease_locks') ORDER BY cid LIMIT 5)`).Scan(&columns)
	switch {
	case err != nil:
		return different, err
	case columns == "":
		return missing, nil
	case columns == "key! holder expiration generation":
		return ready, nil
	case columns == "key! holder expiration" || columns == "key! holder expiration_ts":
		return withoutGeneration, nil
	}
	return different, nil
}

// upgrade adds the generation, in a transaction.
func upgrade(ctx context.Context, conn *sql.Conn) error {
	if found, err := shape(ctx, conn); err != nil || found == ready {
		return err // another program was faster
	}
	statements, err := upgradeOf(ctx, conn)
	if err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}

type statement struct {
	text string
	args []any
}

// upgradeOf returns the statements that upgrade this file.
func upgradeOf(ctx context.Context, conn *sql.Conn) (all []statement, err error) {
	tables, err := texts(ctx, conn, `SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('kv', 'media', 'event_chunks', 'inbound_group_session')`)
	if err != nil {
		return nil, err
	}
	columns, err := texts(ctx, conn, `SELECT name FROM pragma_table_info('lease_locks') WHERE name = 'expiration_ts'`)
	if err != nil {
		return nil, err
	}
	if columns["expiration_ts"] {
		all = append(all, statement{text: rename})
	}
	all = append(all, statement{text: addColumn})
	if !tables["kv"] {
		return all, nil // no file of matrix-sdk-sqlite: it has no version
	}
	var version []byte
	if err := conn.QueryRowContext(ctx, `SELECT CAST(value AS BLOB) FROM kv WHERE key = 'version'`).Scan(&version); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	for _, u := range upgrades {
		if tables[u.table] && len(version) == 1 && version[0] == u.version {
			return append(all, statement{setVersion, []any{[]byte{u.version + 1}}}), nil
		}
	}
	return nil, fmt.Errorf("%w: the file has version %.20v, which this package cannot upgrade; open it once with matrix-sdk-sqlite 0.16 or later", store.ErrMisconfigured, version)
}

// texts returns the results of a query for texts.
func texts(ctx context.Context, conn *sql.Conn, query string) (map[string]bool, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]bool{}
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all[text] = true
	}
	return all, rows.Err()
}
