package integration_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/sqltable"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/proof/integration/registers"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// database is a database with empty tables, which a test opens as often as it likes.
type database struct {
	dialect sqlstore.Dialect
	driver  string
	url     string
}

// newSQLite makes a database in a file.
func newSQLite(t *testing.T) database {
	d := database{sqlstore.SQLite, "sqlite", "file:" + strings.ReplaceAll(filepath.Join(t.TempDir(), "db.sqlite"), "#", "%23") +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"}
	d.create(t)
	return d
}

// newPostgres makes a schema in a server.
func newPostgres(t *testing.T, server *servers.Postgres) database {
	schema := "s" + strconv.FormatUint(rand.Uint64(), 36)
	d := database{sqlstore.PostgreSQL, "pgx", server.URL("") + "&search_path=" + schema}
	if _, err := d.open(t).ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	d.create(t)
	return d
}

// newMariaDB makes a database in a server. Its URL is the name for the driver.
func newMariaDB(t *testing.T, server *servers.MariaDB) database {
	name := "d" + strconv.FormatUint(rand.Uint64(), 36)
	d := database{sqlstore.MySQL, "mysql", server.DSN("", "mysql")}
	d.with(t, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	d.url = server.DSN("", name)
	d.create(t)
	return d
}

// through returns a database of a server at another address, of a proxy or of a server that was restarted.
func (d database) through(address string) database {
	if d.dialect == sqlstore.MySQL {
		config, err := mysql.ParseDSN(d.url)
		if err != nil {
			panic(err) // the test made it
		}
		config.Addr = address
		d.url = config.FormatDSN()
		return d
	}
	u, err := url.Parse(d.url)
	if err != nil {
		panic(err) // the test made it
	}
	u.Host = address
	d.url = u.String()
	return d
}

func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.url)
	if d.dialect == sqlstore.PostgreSQL {
		var config *pgx.ConnConfig
		if config, err = pgx.ParseConfig(d.url); err == nil {
			config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
				f := pgproto3.NewFrontend(r, w)
				f.SetMaxBodyLen(sqltable.MaxRow)
				return f
			}
			db = stdlib.OpenDB(*config)
		}
	}
	if d.dialect == sqlstore.MySQL {
		var config *mysql.Config
		if config, err = mysql.ParseDSN(d.url); err == nil {
			config.Logger = &mysql.NopLogger{}
			var connector driver.Connector
			connector, err = mysql.NewConnector(config)
			db = sql.OpenDB(connector)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(8)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (d database) create(t testing.TB) {
	t.Helper()
	if err := sqlstore.CreateTables(t.Context(), d.open(t), d.dialect, nil); err != nil {
		t.Fatal(err)
	}
}

func (d database) store(t testing.TB, listen bool) store.Store {
	t.Helper()
	o := &sqlstore.Options{Name: d.url}
	if listen {
		o.Listen = sqlstore.Listener(
			func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, d.url) },
			func(n *pgconn.Notification) string { return n.Payload },
		)
	}
	st, err := sqlstore.New(d.open(t), d.dialect, o)
	if err != nil {
		t.Fatal(err)
	}
	return inDatabase{st, d, listen}
}

// inDatabase is a store that knows where it is.
type inDatabase struct {
	store.Store
	d      database
	listen bool
}

func (s inDatabase) Unwrap() store.Store { return s.Store }

// anotherHandle opens another handle on the same tables, as another process would.
func anotherHandle(t *testing.T, first store.Store) store.Store {
	s := first.(inDatabase)
	return s.d.store(t, s.listen)
}

// The suites of registers and leases on SQLite.
func TestSQLite(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) store.Store { return newSQLite(t).store(t, false) }
	storetest.Run(t, open, &storetest.Options{Rounds: 3, Reopen: anotherHandle})
	leasetest.Run(t, open, &leasetest.Options{TTL: 4 * time.Second, Second: anotherHandle, Parallel: true, CaseTimeout: 3 * time.Minute})
}

// reduced returns the tests of a second set-up, in which leases do nothing new: all of them in the torture.
func reduced(k registers.Kind) func(*testing.T) {
	if torture() {
		return k.Run
	}
	return k.RunRegisters
}

// TestPostgres: the suites on PostgreSQL, while connections are cut, and while the server is killed. Without
// notifications, waiters poll, as they do on MariaDB.
func TestPostgres(t *testing.T) {
	t.Parallel()
	for _, listen := range []bool{false, true} {
		k := registers.Kind{
			Start: func(t *testing.T) registers.Server { return servers.NewPostgres(t) },
			NewSpace: func(t *testing.T, server registers.Server) registers.Open {
				d := newPostgres(t, server.(*servers.Postgres))
				return func(t testing.TB, address string) store.Store { return d.through(address).store(t, listen) }
			},
		}
		run := k.Run
		if !listen {
			run = reduced(k)
		}
		t.Run(fmt.Sprintf("listen=%v", listen), run)
	}
}

// TestMariaDB: the suites on MariaDB, while connections are cut, and while the server is killed. A driver can
// count the rows that match, or only those that change.
func TestMariaDB(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{"", "?clientFoundRows=true&interpolateParams=true"} {
		k := registers.Kind{
			Start: func(t *testing.T) registers.Server { return servers.NewMariaDB(t) },
			NewSpace: func(t *testing.T, server registers.Server) registers.Open {
				d := newMariaDB(t, server.(*servers.MariaDB))
				d.url += parameters
				return func(t testing.TB, address string) store.Store { return d.through(address).store(t, false) }
			},
		}
		run := k.Run
		if parameters != "" {
			run = reduced(k)
		}
		t.Run(parameters, run)
	}
}

// TestSQLFence: a transaction of an earlier holder is refused, and changes nothing;
// without the fence it does its damage.
func TestSQLFence(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	other := servers.NewMariaDB(t)
	maria, counting := newMariaDB(t, other), newMariaDB(t, other)
	counting.url += "?clientFoundRows=true"
	for name, d := range map[string]database{"sqlite": newSQLite(t), "postgresql": newPostgres(t, server), "mysql": maria, "mysql, counting matches": counting} {
		t.Run(name, func(t *testing.T) {
			db, ctx := d.open(t), t.Context()
			if _, err := db.ExecContext(ctx, "CREATE TABLE ledger (n INTEGER)"); err != nil {
				t.Fatal(err)
			}
			insert := func(name string, token uint64, fenced bool) error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				if fenced {
					if err := d.dialect.Fence(ctx, tx, name, token); err != nil {
						return err
					}
				}
				if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO ledger VALUES (%d)", token)); err != nil {
					t.Fatal(err)
				}
				return tx.Commit()
			}
			count := func() (n int) {
				if err := db.QueryRowContext(ctx, "SELECT count(*) FROM ledger").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			const name = `jobs/ni'ght"ly; DROP TABLE ledger --%s\é`
			for _, token := range []uint64{7, 7, 9} {
				if err := insert(name, token, true); err != nil {
					t.Fatalf("token %d: %v", token, err)
				}
			}
			if err := insert(name, 8, true); !errors.Is(err, sqlstore.ErrFenced) || store.OutcomeOf(err) != store.NotApplied || count() != 3 {
				t.Errorf("an earlier holder: %v, %d rows", err, count())
			}
			if err := insert("jobs/another", 1, true); err != nil || count() != 4 {
				t.Errorf("another lock: %v, %d rows", err, count())
			}
			if err := insert(name, 8, false); err != nil || count() != 5 {
				t.Errorf("the control, without the fence: %v, %d rows", err, count())
			}
			for _, token := range []uint64{0, 1 << 63} {
				if err := insert(name, token, true); err == nil || errors.Is(err, sqlstore.ErrFenced) {
					t.Errorf("token %d: %v", token, err)
				}
			}
		})
	}
}

// TestSQLSetUp: what the database lacks is reported before anything is written.
func TestSQLSetUp(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	good := newPostgres(t, server)
	file := newSQLite(t)
	bare := database{sqlstore.SQLite, "sqlite", "file:" + filepath.Join(t.TempDir(), "bare") + "?_pragma=journal_mode(OFF)&_pragma=synchronous(FULL)"}
	bare.create(t)
	for _, tt := range []struct {
		name string
		d    database
		want error
	}{
		{"no tables", database{sqlstore.PostgreSQL, "pgx", server.URL("")}, store.ErrMisconfigured},
		{"no database", database{sqlstore.PostgreSQL, "pgx", "postgres://postgres@" + server.Address() + "/nowhere?sslmode=disable"}, store.ErrMisconfigured},
		{"no user", database{sqlstore.PostgreSQL, "pgx", "postgres://nobody@" + server.Address() + "/postgres?sslmode=disable"}, store.ErrDenied},
		{"commits that can be lost", database{sqlstore.PostgreSQL, "pgx", good.url + "&synchronous_commit=off"}, store.ErrUnsafe},
		{"may only read", database{sqlstore.PostgreSQL, "pgx", good.url + "&default_transaction_read_only=on"}, store.ErrMisconfigured},
		{"no server", database{sqlstore.PostgreSQL, "pgx", "postgres://postgres@127.0.0.1:1/postgres?sslmode=disable"}, store.ErrUnavailable},
		{"SQLite without syncs", database{sqlstore.SQLite, "sqlite", file.url + "&_pragma=synchronous(NORMAL)"}, store.ErrUnsafe},
		{"SQLite without a journal", bare, store.ErrUnsafe},
		{"SQLite without tables", database{sqlstore.SQLite, "sqlite", "file:" + filepath.Join(t.TempDir(), "new") + "?_pragma=synchronous(FULL)"}, store.ErrMisconfigured},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.d.store(t, false).Put(t.Context(), "k", "", []byte("v"))
			if !errors.Is(err, tt.want) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("got %v (%v), want %v", err, store.OutcomeOf(err), tt.want)
			}
		})
	}
	// The session that may not write has seen that its own tables are good.
	if _, err := good.store(t, false).Put(t.Context(), "k", "", []byte("v")); err != nil {
		t.Error(err)
	}
}

// TestSQLTablesAtOnce: several programs create the tables at the same time, and all succeed.
func TestSQLTablesAtOnce(t *testing.T) {
	t.Parallel()
	for _, d := range []database{newSQLite(t), newPostgres(t, servers.NewPostgres(t)), newMariaDB(t, servers.NewMariaDB(t))} {
		t.Run(string(d.dialect), func(t *testing.T) {
			t.Parallel()
			db := d.open(t)
			for round := range 20 {
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						if err := sqlstore.CreateTables(t.Context(), db, d.dialect, &sqlstore.Options{Table: fmt.Sprint("at_once_", round)}); err != nil {
							t.Errorf("round %d: %v", round, err)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

// TestSQLLongestKeys: a listing yields the longest key below the longest prefix, of characters that the column key escapes.
func TestSQLLongestKeys(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("\x01", store.MaxKey)
	for _, d := range []database{newSQLite(t), newPostgres(t, servers.NewPostgres(t)), newMariaDB(t, servers.NewMariaDB(t))} {
		st, err := sqlstore.New(d.open(t), d.dialect, &sqlstore.Options{Prefix: longest})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Put(t.Context(), longest, "", nil); err != nil {
			t.Errorf("%s: %v", d.dialect, err)
		}
		listed := false
		for key, err := range st.List(t.Context(), "") {
			if listed = key == longest; err != nil {
				t.Errorf("%s: %v", d.dialect, err)
			}
		}
		if !listed {
			t.Errorf("%s: the key is not listed", d.dialect)
		}
	}
}

// TestPostgresUnlogged: a crash empties an UNLOGGED table, so that a lock could be granted
// again while its holder works. Such tables are refused, and temporary ones, with the parts
// of a table and the table of the fences.
func TestPostgresUnlogged(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	for name, statements := range map[string][]string{
		"registers": {"ALTER TABLE holdfast SET UNLOGGED"},
		"fences":    {"ALTER TABLE holdfast_fence SET UNLOGGED"},
		"a part": {"DROP TABLE holdfast", "CREATE TABLE holdfast (key text PRIMARY KEY, version text, deleted boolean, record text) PARTITION BY HASH (key)",
			"CREATE UNLOGGED TABLE part PARTITION OF holdfast FOR VALUES WITH (MODULUS 1, REMAINDER 0)"},
		"temporary": {"CREATE TEMPORARY TABLE holdfast (key text PRIMARY KEY, version text, deleted boolean, record text)"},
	} {
		d := newPostgres(t, server)
		db := d.open(t)
		db.SetMaxOpenConns(1) // a temporary table is that of one connection
		for _, statement := range statements {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		st, err := sqlstore.New(db, d.dialect, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Put(t.Context(), "k", "", []byte("v")); !errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: %v (%v)", name, err, store.OutcomeOf(err))
		}
		items, err := sqltable.New(db, d.dialect, &sqltable.Options{Table: "holdfast", Partition: largeitem.KeyAttribute{Name: "key"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := items.Put(t.Context(), itemKey(t, "k"), nil, nil); name != "fences" && (!errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied) {
			t.Errorf("%s, items: %v (%v)", name, err, store.OutcomeOf(err))
		}
	}
	d := newPostgres(t, server) // the control
	rows := func() (n int) {
		db := d.open(t)
		defer db.Close()
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM crashed").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	d.with(t, "CREATE UNLOGGED TABLE crashed (n integer)", "INSERT INTO crashed VALUES (1)")
	before := rows()
	server.Kill()
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = d.through(server.Address())
	if after := rows(); before != 1 || after != 0 {
		t.Errorf("the control: %d rows before the crash and %d after it", before, after)
	}
}

// TestSQLWakes: a waiter on PostgreSQL hears of a release at once, although it would
// look by itself only after seconds.
func TestSQLWakes(t *testing.T) {
	t.Parallel()
	d := newPostgres(t, servers.NewPostgres(t))
	o := &lease.Options{Tuning: lease.Tuning{MinPoll: 9 * time.Second, MaxPoll: 9 * time.Second}}
	first, err := lease.New(d.store(t, false), o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := lease.New(d.store(t, true), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var waited time.Duration
	for range 5 {
		guard, err := first.Acquire(ctx, "job", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan time.Time, 1)
		go func() {
			guard, err := second.Acquire(ctx, "job", nil)
			if err != nil {
				t.Error(err)
			} else if err := guard.Release(ctx); err != nil {
				t.Error(err)
			}
			got <- time.Now()
		}()
		time.Sleep(500 * time.Millisecond)
		if err := guard.Release(ctx); err != nil {
			t.Fatal(err)
		}
		released := time.Now()
		waited += (<-got).Sub(released)
	}
	if waited > 5*time.Second {
		t.Errorf("five hand-overs took %v", waited)
	}
}

// TestSQLForeignRows: what another program has written into the table is reported, or passed
// over, and is never read whole.
func TestSQLForeignRows(t *testing.T) {
	t.Parallel()
	for _, d := range []database{newSQLite(t), newPostgres(t, servers.NewPostgres(t))} {
		t.Run(string(d.dialect), func(t *testing.T) {
			db, st, ctx := d.open(t), d.store(t, false), t.Context()
			insert := func(key, version, record string) {
				t.Helper()
				if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO holdfast (key, version, deleted, record) VALUES (%s, %s, %s, %s)", key, version, "false", record)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := st.Put(ctx, "good", "", []byte(`{"a":1}`)); err != nil {
				t.Fatal(err)
			}
			huge, long := "repeat('x', 50000000)", "repeat('x', 3000)"
			if d.dialect == sqlstore.SQLite {
				huge, long = "hex(zeroblob(25000000))", "hex(zeroblob(1500))"
			}
			insert("'text'", "'v'", "'not a register'")
			insert("'copy'", "'another'", "(SELECT record FROM holdfast WHERE key = 'good')")
			insert("'huge'", "'v'", huge)
			insert(long, "'v'", "'x'")
			for _, key := range []string{"text", "copy", "huge"} {
				if _, _, err := st.Get(ctx, key); !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%s: %v", key, err)
				}
				if _, err := st.Put(ctx, key, "", []byte("v")); err == nil || store.OutcomeOf(err) == store.Applied {
					t.Errorf("%s was written over: %v", key, err)
				}
			}
			var keys []string
			for key, err := range store.List(ctx, st, "") {
				if err != nil || len(key) > store.MaxKey {
					t.Fatalf("a key of %d bytes, %v", len(key), err)
				}
				keys = append(keys, key)
			}
			if want := []string{"copy", "good", "huge", "text"}; !slices.Equal(keys, want) {
				t.Errorf("listed %q, want %q", keys, want)
			}
		})
	}
}
