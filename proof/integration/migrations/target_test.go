//go:build unix

package migrations_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// target is a database to migrate, and the place of the lease: a directory, or else the same database, which the
// lease may reach at another address.
type target struct {
	Kind, URL, Dir, LeaseURL string
}

func (d target) open() (*sql.DB, error) {
	db, err := sql.Open(d.Kind, d.URL)
	if err == nil {
		db.SetMaxOpenConns(6)
	}
	return db, err
}

func (d target) dialect() sqlstore.Dialect {
	return map[string]sqlstore.Dialect{"sqlite": sqlstore.SQLite, "pgx": sqlstore.PostgreSQL, "mysql": sqlstore.MySQL}[d.Kind]
}

// client returns a client with its own connections.
func (d target) client() (_ *lease.Client, done func(), err error) {
	var st store.Store
	close := func() {}
	if d.Dir != "" {
		st, err = filestore.Open(d.Dir, nil)
	} else {
		var db *sql.DB
		if db, err = (target{Kind: d.Kind, URL: cmp.Or(d.LeaseURL, d.URL)}).open(); err != nil {
			return nil, nil, err
		}
		close = func() { _ = db.Close() }
		st, err = sqlstore.New(db, d.dialect(), nil)
	}
	if err != nil {
		return nil, nil, err
	}
	client, err := lease.New(st, &lease.Options{TTL: ttl})
	return client, func() {
		_ = client.Close(context.Background())
		close()
	}, err
}

// create creates the tables that the tests need.
func (d target) create(t *testing.T) target {
	t.Helper()
	db := d.mustOpen(t)
	if err := sqlstore.CreateTables(t.Context(), db, d.dialect(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE applied (version int NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d target) mustOpen(t *testing.T) *sql.DB {
	t.Helper()
	db, err := d.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (d target) mustClient(t *testing.T) *lease.Client {
	t.Helper()
	client, done, err := d.client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	return client
}

// applied returns how often each migration was applied, as text.
func (d target) applied(t *testing.T) (all string) {
	t.Helper()
	rows, err := d.mustOpen(t).QueryContext(t.Context(), "SELECT version, count(*) FROM applied GROUP BY version ORDER BY version")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var version, n int
		if err := rows.Scan(&version, &n); err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintf("%d:%d ", version, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

const eachOnce = "1:1 2:1 3:1 4:1 5:1 "

// targetFunc creates an empty database of a server.
type targetFunc func(t *testing.T) target

func newSQLite(t *testing.T) target {
	t.Helper()
	dir := t.TempDir()
	return target{Kind: "sqlite", Dir: filepath.Join(dir, "leases"), URL: "file:" + filepath.Join(dir, "db.sqlite") +
		"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"}.create(t)
}

func onPostgres(server *servers.Postgres) targetFunc {
	return func(t *testing.T) target {
		t.Helper()
		schema := "s" + strconv.FormatUint(rand.Uint64(), 36)
		d := target{Kind: "pgx", URL: server.URL("") + "&search_path=" + schema}
		if _, err := d.mustOpen(t).ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		return d.create(t)
	}
}

func onMariaDB(server *servers.MariaDB) targetFunc {
	return func(t *testing.T) target {
		t.Helper()
		name := "d" + strconv.FormatUint(rand.Uint64(), 36)
		admin := target{Kind: "mysql", URL: server.DSN("", "mysql")}
		if _, err := admin.mustOpen(t).ExecContext(t.Context(), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
			t.Fatal(err)
		}
		return target{Kind: "mysql", URL: server.DSN("", name) + "?multiStatements=true&parseTime=true"}.create(t)
	}
}
