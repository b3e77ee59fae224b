package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/sqltable"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// TestMySQLSetUp: settings and tables that can lose a commit, and everything else that the server lacks, are
// reported before the first write.
func TestMySQLSetUp(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, "--log-bin=log", "--sync-binlog=1")
	admin := database{sqlstore.MySQL, "mysql", server.DSN("", "mysql")}
	admin.with(t, "CREATE USER u@'%' IDENTIFIED BY 'right'", "GRANT SELECT ON *.* TO u@'%'")
	other := "(`key` varbinary(900) PRIMARY KEY, version varbinary(100), deleted boolean, record mediumblob)"
	as := func(user string) func(string) string {
		return func(dsn string) string { return strings.Replace(dsn, "root@", user+"@", 1) }
	}
	with := func(parameters string) func(string) string {
		return func(dsn string) string { return dsn + "?" + parameters }
	}
	for _, tt := range []struct {
		name   string
		before string // statements
		dsn    func(string) string
		want   error
		words  string
	}{
		{"no tables", "DROP TABLE holdfast", nil, store.ErrMisconfigured, "holdfast init"},
		{"no database", "", func(dsn string) string { return dsn + "none" }, store.ErrMisconfigured, "Unknown database"},
		{"no user", "", as("nobody"), store.ErrCredentials, "1045"},
		{"a wrong password", "", as("u:wrong"), store.ErrCredentials, "1045"},
		{"a right that is missing", "", as("u:right"), store.ErrDenied, "1142"},
		{"no server", "", func(dsn string) string { return strings.Replace(dsn, server.Address(), "127.0.0.1:1", 1) }, store.ErrUnavailable, ""},
		{"lost when the server crashes", "SET GLOBAL innodb_flush_log_at_trx_commit = 0", nil, store.ErrUnsafe, "crash of the server"},
		{"lost without power", "SET GLOBAL innodb_flush_log_at_trx_commit = 2", nil, store.ErrUnsafe, "power failure"},
		{"a binary log that is not synced", "SET GLOBAL sync_binlog = 0", nil, store.ErrUnsafe, "sync_binlog"},
		{"a binary log that is synced rarely", "SET GLOBAL sync_binlog = 100", nil, store.ErrUnsafe, "sync_binlog"},
		{"a server that only reads", "SET GLOBAL read_only = 1", nil, store.ErrMisconfigured, "read_only"},
		{"a session that only reads", "", with("tx_read_only=1"), store.ErrMisconfigured, "tx_read_only"},
		{"a replica", "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'x'; START SLAVE SQL_THREAD", nil, store.ErrMisconfigured, "replica"},
		{"no commits", "", with("autocommit=0"), store.ErrMisconfigured, "autocommit"},
		{"reads of what is not committed", "", with("tx_isolation=%27READ-UNCOMMITTED%27"), store.ErrMisconfigured, "READ-UNCOMMITTED"},
		{"values that are cut", "", with("sql_mode=%27ANSI_QUOTES%27"), store.ErrMisconfigured, "STRICT_TRANS_TABLES"},
		{"Aria", "DROP TABLE holdfast; CREATE TABLE holdfast " + other + " ENGINE = Aria", nil, store.ErrUnsafe, "Aria"},
		{"MyISAM", "DROP TABLE holdfast; CREATE TABLE holdfast " + other + " ENGINE = MyISAM", nil, store.ErrUnsafe, "MyISAM"},
		{"a table of fences in memory", "DROP TABLE holdfast_fence; CREATE TABLE holdfast_fence (name varbinary(900) PRIMARY KEY, token bigint, checks bigint) ENGINE = MEMORY", nil, store.ErrUnsafe, "MEMORY"},
		{"a temporary table", "DROP TABLE holdfast; CREATE TEMPORARY TABLE holdfast " + other, nil, store.ErrUnsafe, "temporary"},
		{"a view", "RENAME TABLE holdfast TO h; CREATE VIEW holdfast AS SELECT * FROM h", nil, store.ErrUnsafe, "view"},
		{"another table", "ALTER TABLE holdfast DROP COLUMN deleted", nil, store.ErrMisconfigured, "1054"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newMariaDB(t, server)
			db := d.open(t)
			db.SetMaxOpenConns(1) // a temporary table is that of one connection
			for statement := range strings.SplitSeq(tt.before, "; ") {
				if _, err := db.ExecContext(t.Context(), statement); statement != "" && err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			defer admin.with(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 1", "SET GLOBAL sync_binlog = 1", "SET GLOBAL read_only = 0", "STOP SLAVE", "RESET SLAVE ALL")
			if tt.dsn != nil {
				d.url = tt.dsn(d.url)
				db = d.open(t)
			}
			st, err := sqlstore.New(db, d.dialect, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = st.Put(t.Context(), "k", "", []byte("v"))
			if !errors.Is(err, tt.want) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("got %v (%v), want %v with %q", err, store.OutcomeOf(err), tt.want, tt.words)
			}
		})
	}
	d := newMariaDB(t, server)
	name := d.url[strings.LastIndex(d.url, "/")+1:]
	admin.with(t, "CREATE USER one@'%'", "GRANT SELECT, INSERT, UPDATE ON "+name+".holdfast TO one@'%'")
	for _, user := range []string{"root", "one"} {
		d.url = as(user)(d.url)
		if _, err := d.store(t, false).Put(t.Context(), user, "", []byte("v")); err != nil {
			t.Errorf("the control, without any of this, as %s: %v", user, err)
		}
	}
}

// TestMySQLSessions: settings of the session that change the language, the clock or the texts change nothing,
// and keys that a collation would take for equal are different registers.
func TestMySQLSessions(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, "--character-set-server=latin1", "--collation-server=latin1_swedish_ci")
	keys := []string{"a", "A", "a ", "a  ", "ä", "a\u0308", "a\x00", "a\x01", `a'"\%_` + "`", "a\U0001F512", strings.Repeat("\x00", store.MaxKey)}
	for _, parameters := range []string{
		"", "interpolateParams=true", "charset=latin1", "time_zone=%27-11:00%27", "interpolateParams=true&charset=utf8mb4&collation=utf8mb4_general_ci",
		"interpolateParams=true&sql_mode=%27STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT,NO_ZERO_DATE,PAD_CHAR_TO_FULL_LENGTH,ORACLE%27",
		"sql_mode=%27STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,ANSI_QUOTES%27", "tx_isolation=%27SERIALIZABLE%27", "sql_safe_updates=1", "clientFoundRows=true&sql_select_limit=1000",
	} {
		t.Run(parameters, func(t *testing.T) {
			d := newMariaDB(t, server)
			d.url += "?" + parameters
			for _, prefix := range []string{"", strings.Repeat("\x01", store.MaxKey)} {
				st, err := sqlstore.New(d.open(t), d.dialect, &sqlstore.Options{Prefix: prefix})
				if err != nil {
					t.Fatal(err)
				}
				versions := map[string]store.Version{}
				for _, key := range keys {
					v, err := st.Put(t.Context(), key, "", []byte(key))
					if err == nil {
						v, err = st.Put(t.Context(), key, v, []byte("of "+key))
					}
					if err != nil {
						t.Errorf("%.20q: %v", key, err)
					}
					versions[key] = v
				}
				for _, key := range keys {
					if value, v, err := st.Get(t.Context(), key); string(value) != "of "+key || v != versions[key] || err != nil {
						t.Errorf("%.20q: got %.20q, %v", key, value, err)
					}
				}
				listed := 0
				for _, err := range st.List(t.Context(), "") {
					if err != nil {
						t.Error(err)
					}
					listed++
				}
				if want := len(keys); listed != want {
					t.Errorf("listed %d keys, want %d", listed, want)
				}
			}
		})
	}
	// The control: a column of texts, even with a binary collation, takes spaces at the end for nothing.
	d := newMariaDB(t, server).with(t, "CREATE TABLE texts (k varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY)", "INSERT INTO texts VALUES ('a')")
	if _, err := d.open(t).ExecContext(t.Context(), "INSERT INTO texts VALUES ('a ')"); err == nil {
		t.Error("the control: two texts that differ in a space are different")
	}
}

// TestMySQLKilledControl: with innodb_flush_log_at_trx_commit = 0, a server that is killed loses writes that
// it has acknowledged. So Holdfast refuses this setting; TestMySQLSetUp shows that. With the setting that
// Holdfast demands, the server loses none.
func TestMySQLKilledControl(t *testing.T) {
	t.Parallel()
	for _, flush := range []string{"0", "1"} {
		server := servers.NewMariaDB(t, "--innodb-flush-log-at-trx-commit="+flush)
		d := newMariaDB(t, server)
		lost := 0
		for round := 0; round < 5 && lost == 0; round++ {
			table := "t" + strconv.Itoa(round)
			d.with(t, "CREATE TABLE "+table+" (n integer) ENGINE = InnoDB")
			db := d.open(t)
			var acknowledged atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for ctx.Err() == nil {
						if _, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)"); err == nil {
							acknowledged.Add(1)
						}
					}
				})
			}
			time.Sleep(300*time.Millisecond + time.Duration(round)*170*time.Millisecond) // it writes once a second
			server.Kill()
			cancel()
			wg.Wait()
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			d = d.through(server.Address())
			var rows int64
			if err := d.open(t).QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&rows); err != nil {
				t.Fatal(err)
			}
			if acknowledged.Load() == 0 {
				t.Error("nothing was written")
			}
			lost += max(0, int(acknowledged.Load()-rows))
		}
		t.Logf("innodb_flush_log_at_trx_commit = %s: %d acknowledged writes were lost", flush, lost)
		if (lost > 0) != (flush == "0") {
			t.Errorf("innodb_flush_log_at_trx_commit = %s: %d acknowledged writes were lost", flush, lost)
		}
	}
}

// TestMySQLRepeats: package database/sql sends a statement again only if the server did not get it. Some
// connections end while they are idle, and some after the statement, before its reply. A proxy counts the
// statements. Each call sends one statement at most, and a call that succeeds has sent exactly one.
func TestMySQLRepeats(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{"interpolateParams=true", ""} {
		t.Run(parameters, func(t *testing.T) {
			server := servers.NewMariaDB(t)
			d := newMariaDB(t, server).with(t, "CREATE TABLE counter (n integer)", "INSERT INTO counter VALUES (0)")
			p := newStatementProxy(t, server.Address(), "UPDATE counter")
			through := d.through(p.address)
			if parameters != "" {
				through.url += "?" + parameters
			}
			db := through.open(t)
			db.SetMaxOpenConns(1)
			applied, unknown, idle := 0, 0, 0
			for i := range 300 {
				switch i % 5 {
				case 1: // the pool has a connection that has ended
					p.closeAll()
					idle++
					if i%2 == 0 {
						time.Sleep(5 * time.Millisecond) // otherwise the driver may find it out when it writes
					}
				case 3:
					p.cutNext.Store(true)
				}
				before := p.statements.Load()
				_, err := db.ExecContext(t.Context(), "UPDATE counter SET n = n + ?", 1)
				sent := p.statements.Load() - before
				if sent > 1 || err == nil && sent != 1 {
					t.Fatalf("call %d (%v) sent %d statements", i, err, sent)
				}
				if err == nil {
					applied++
				} else {
					unknown++
				}
			}
			time.Sleep(100 * time.Millisecond) // the server carries the last one out
			var n int
			if err := d.open(t).QueryRowContext(t.Context(), "SELECT n FROM counter").Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n < applied || n > applied+unknown || unknown < 60 || applied < 200 {
				t.Errorf("the counter is %d after %d successes and %d errors", n, applied, unknown)
			}
			t.Logf("%d successes, %d errors, %d idle connections ended, the counter is %d", applied, unknown, idle, n)
		})
	}
}

// statementProxy counts the statements with a text that clients carry out.
type statementProxy struct {
	address    string
	statements atomic.Int64
	cutNext    atomic.Bool // after the next statement, before its reply

	mu    sync.Mutex
	conns []net.Conn
}

func newStatementProxy(t *testing.T, server, text string) *statementProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &statementProxy{address: l.Addr().String()}
	t.Cleanup(func() { l.Close(); p.closeAll() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			backend, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, client)
			p.mu.Unlock()
			var silent atomic.Bool
			go func() {
				defer client.Close()
				b := make([]byte, 64<<10)
				for {
					n, err := backend.Read(b)
					if err != nil || silent.Load() {
						return
					}
					if _, err := client.Write(b[:n]); err != nil {
						return
					}
				}
			}()
			go func() {
				defer client.Close()
				defer backend.Close()
				b := make([]byte, 64<<10)
				for {
					n, err := client.Read(b)
					if err != nil {
						return
					}
					// The fifth byte is the command: 3 is a statement, 23 executes one that was prepared.
					const header, query, execute = 4, 3, 23
					if n > header && (b[header] == query && bytes.Contains(b[:n], []byte(text)) || b[header] == execute) {
						p.statements.Add(1)
						if p.cutNext.Swap(false) {
							silent.Store(true)
							_, _ = backend.Write(b[:n])
							time.Sleep(5 * time.Millisecond)
							return
						}
					}
					if _, err := backend.Write(b[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return p
}

func (p *statementProxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// TestMySQLBusy: a write that waits too long for a row, or loses a deadlock, was not applied.
func TestMySQLBusy(t *testing.T) {
	t.Parallel()
	d := newMariaDB(t, servers.NewMariaDB(t))
	st := d.store(t, false)
	v, err := st.Put(t.Context(), "k", "", []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := d.open(t).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "SELECT * FROM holdfast FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	hasty := d
	hasty.url += "?innodb_lock_wait_timeout=1"
	_, err = hasty.store(t, false).Put(t.Context(), "k", v, []byte("w"))
	if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(fmt.Sprint(err), "1205") {
		t.Errorf("a locked row: %v (%v)", err, store.OutcomeOf(err))
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Put(t.Context(), "k", v, []byte("w")); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestMySQLItems: expressions see the values before the change, a transaction of the caller replaces what
// is there and not what it has read earlier, and a row that another unique key refuses was not written.
func TestMySQLItems(t *testing.T) {
	t.Parallel()
	type num = largeitem.Number
	d := newMariaDB(t, servers.NewMariaDB(t)).with(t, "CREATE TABLE items (pk varbinary(700) PRIMARY KEY, a integer, b integer, c varchar(10) UNIQUE)")
	for _, parameters := range []string{"", "?clientFoundRows=true&interpolateParams=true&charset=latin1", "?sql_mode=%27STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES,ANSI_QUOTES%27&interpolateParams=true"} {
		d := d
		d.url += parameters
		db, table, ctx, key := d.open(t), d.items(t, nil), t.Context(), itemKey(t, "k")
		if _, err := table.Put(ctx, key, largeitem.Attributes{"a": num("1"), "b": num("2"), "c": `é'\`}, nil); err != nil {
			t.Fatal(err)
		}
		swapped := sqltable.Set{"a": {Text: "b + ?", Args: []any{10}}, "b": {Text: "a"}}
		got, err := table.Update(ctx, key, largeitem.Change{Expr: swapped}, &largeitem.Condition{Equal: largeitem.Attributes{"c": `é'\`}})
		if want := (largeitem.Attributes{"a": num("12"), "b": num("1"), "c": `é'\`}); err != nil || !sameItem(got, want) {
			t.Errorf("exchanged: %v, %v, want %v", got, err, want)
		}
		same := sqltable.Set{"a": {Text: "a"}}
		if got, err := table.Update(ctx, key, largeitem.Change{Expr: same}, nil); err != nil || !largeitem.Equal(got["a"], num("12")) {
			t.Errorf("a change that changes nothing: %v, %v", got, err)
		}
		for _, text := range []string{`c = '\' OR a = ?'`, "`a = ?", `"a = ?`} {
			if _, err := table.Update(ctx, key, largeitem.Change{}, &largeitem.Condition{Expr: sqltable.SQL{Text: text, Args: []any{1}}}); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s: %v", text, err)
			}
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.InTx(tx).Get(ctx, key, nil); err != nil { // from here, reads see this state
			t.Error(err)
		}
		if _, err := table.Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{"a": num("100")}}, nil); err != nil {
			t.Error(err)
		}
		var failed *largeitem.ConditionFailedError
		if _, err := table.InTx(tx).Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{"b": num("7")}}, &largeitem.Condition{Equal: largeitem.Attributes{"a": num("12")}}); !errors.As(err, &failed) {
			t.Errorf("a condition on a state that is gone: %v", err)
		}
		if got, err := table.InTx(tx).Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{"b": num("7")}}, nil); err != nil || !largeitem.Equal(got["a"], num("100")) {
			t.Errorf("in a transaction: %v, %v", got, err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if _, err := table.Put(ctx, itemKey(t, "other"), largeitem.Attributes{"c": "x"}, nil); err != nil {
			t.Error(err)
		}
		for _, key := range []string{"k", "new"} {
			if _, err := table.Put(ctx, itemKey(t, key), largeitem.Attributes{"c": "x"}, nil); !store.Permanent(err) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%s, with the value of a unique key that another row has: %v (%v)", key, err, store.OutcomeOf(err))
			}
		}
		if got, err := table.Get(ctx, key, nil); err != nil || !sameItem(got, largeitem.Attributes{"a": num("100"), "b": num("7"), "c": `é'\`}) {
			t.Errorf("at the end: %v, %v", got, err)
		}
	}
	lax := d
	lax.url += "?sql_mode=%27%27"
	for words, d := range map[string]database{"Aria": newMariaDB(t, servers.NewMariaDB(t)).with(t, "CREATE TABLE items (pk varbinary(700) PRIMARY KEY) ENGINE = Aria"), "STRICT": lax} {
		table, err := sqltable.New(d.open(t), d.dialect, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.Put(t.Context(), itemKey(t, "k"), nil, nil); store.OutcomeOf(err) != store.NotApplied || !strings.Contains(fmt.Sprint(err), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// TestMySQLItemsBackup: while a backup of the server holds all commits, a write of an item ends with its context, and
// its outcome is unknown.
func TestMySQLItemsBackup(t *testing.T) {
	t.Parallel()
	d := newMariaDB(t, servers.NewMariaDB(t))
	table, key := d.items(t, nil), itemKey(t, "a")
	if _, err := table.Put(t.Context(), key, largeitem.Attributes{"a": "1"}, nil); err != nil {
		t.Fatal(err)
	}
	backup, err := d.open(t).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer backup.Close()
	for _, stage := range []string{"START", "BLOCK_COMMIT"} {
		if _, err := backup.ExecContext(t.Context(), "BACKUP STAGE "+stage); err != nil {
			t.Fatal(err)
		}
	}
	end := sync.OnceFunc(func() {
		if _, err := backup.ExecContext(context.WithoutCancel(t.Context()), "BACKUP STAGE END"); err != nil {
			t.Error(err)
		}
	})
	late := time.AfterFunc(20*time.Second, end)
	defer late.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	_, err = table.Put(ctx, key, largeitem.Attributes{"a": "2"}, nil)
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || store.OutcomeOf(err) != store.Unknown || took > 10*time.Second {
		t.Errorf("got %v (%v) after %v", err, store.OutcomeOf(err), took)
	}
	end()
	if _, err := table.Put(t.Context(), key, largeitem.Attributes{"a": "3"}, nil); err != nil {
		t.Errorf("after the backup: %v", err)
	}
}

// TestMySQLCommand runs the command, as users do, on a server with a certificate.
func TestMySQLCommand(t *testing.T) {
	t.Parallel()
	holdfast, dir := servers.BuildCommand(t), t.TempDir()
	ca, key := servers.Certificate(t)
	server := servers.NewMariaDB(t, "--ssl-ca="+ca, "--ssl-cert="+ca, "--ssl-key="+key)
	plain := servers.NewMariaDB(t)
	admin := database{sqlstore.MySQL, "mysql", server.DSN("", "mysql")}
	admin.with(t, "CREATE DATABASE app", "CREATE USER ada IDENTIFIED BY 'open sesame' REQUIRE SSL", "GRANT ALL ON app.* TO ada")
	database{sqlstore.MySQL, "mysql", plain.DSN("", "mysql")}.with(t, "CREATE DATABASE app", "CREATE USER ada IDENTIFIED BY 'open sesame'", "GRANT ALL ON app.* TO ada")
	run := func(password, store string, args ...string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), holdfast, append([]string{"--store", store}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "MYSQL_PWD="+password)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	const right = "open sesame"
	at := func(s *servers.MariaDB, parameters string) string {
		return "mysql://" + s.Address() + "/app/locks?user=ada" + parameters
	}
	items := []string{"--table", "mysql://" + plain.Address() + "/app?user=ada&table=pages", "--bucket", "file:" + filepath.Join(dir, "objects")}
	for _, tt := range []struct {
		password, store string
		args            []string
		status          int
		words           string
	}{
		{right, at(server, "&sslmode=verify-full&sslrootcert="+ca), []string{"ls"}, 78, "holdfast init"},
		{right, at(server, "&sslmode=verify-full&sslrootcert="+ca), []string{"init"}, 0, "can be used"},
		{right, at(server, "&sslmode=verify-full&sslrootcert="+ca), []string{"run", "job", "--", "echo", "done"}, 0, "done"},
		{right, at(server, "&sslmode=verify-full&sslrootcert="+ca), []string{"ls", "--all"}, 0, "job"},
		{right, at(server, ""), []string{"run", "-n", "job", "--", "echo", "done"}, 0, "done"},
		{right, at(server, "&sslmode=require"), []string{"run", "-n", "job", "--", "echo", "done"}, 0, "done"},
		{right, at(server, "&sslmode=require"), []string{"doctor"}, 0, "innodb_flush_log_at_trx_commit=1"},
		{right, at(server, "&sslmode=require"), []string{"sweep", "--older-than", "720h"}, 0, ""},
		{right, at(server, "&sslmode=verify-full"), []string{"ls"}, 78, "certificate"},
		{right, at(server, "&sslmode=disable"), []string{"ls"}, 77, "no access for the user"},
		{"false sesame", at(server, ""), []string{"ls"}, 77, "with this password"},
		{"", at(server, ""), []string{"ls"}, 77, "set MYSQL_PWD"},
		{right, at(plain, "&sslmode=require"), []string{"ls"}, 78, "does not encrypt"},
		{right, at(plain, ""), []string{"init"}, 0, "can be used"},
		{right, "mysql://" + plain.Address() + "/none?user=ada", []string{"ls"}, 77, "no rights in the database"},
		{right, at(plain, ""), append([]string{"item", "init"}, items...), 0, ""},
		{right, at(plain, ""), append([]string{"item", "put", "page", "--attr", "html=@" + ca, "--set", `{"state": "new"}`}, items...), 0, ""},
		{right, at(plain, ""), append([]string{"item", "get", "page"}, items...), 0, "new"},
		{right, at(plain, ""), append([]string{"item", "ls"}, items...), 0, "page"},
	} {
		out, status := run(tt.password, tt.store, tt.args...)
		if status != tt.status || !strings.Contains(out, tt.words) || strings.Contains(out, right) || status > 0 && strings.Count(out, "\n") > 2 {
			t.Errorf("%s %v: got %d, %s\nwant %d with %q", tt.store, tt.args, status, out, tt.status, tt.words)
		}
	}
	for setting, words := range map[string]string{
		"innodb_flush_log_at_trx_commit = 0": "a crash of the server can lose", "innodb_flush_log_at_trx_commit = 2": "a power failure can lose", "read_only = 1": "only reads",
	} {
		admin.with(t, "SET GLOBAL "+setting)
		r, status := examine(t, holdfast, at(server, "&sslmode=require"), []string{"MYSQL_PWD=" + right})
		if status == 0 || len(r.Checks) != 1 || !strings.Contains(r.Checks[0].Found, words) {
			t.Errorf("%s: doctor ends with %d, %+v", setting, status, r.Checks)
		}
		if out, status := run(right, at(server, "&sslmode=require"), "run", "-n", "job", "--", "echo", "done"); status != 78 || !strings.Contains(out, words) || strings.Contains(out, "done") {
			t.Errorf("%s: run ends with %d, %s", setting, status, out)
		}
		admin.with(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 1", "SET GLOBAL read_only = 0")
	}
}

// TestMySQLSync: InnoDB shows a transaction to others before it is durable. So a write that a read has shown counts
// as applied only after another commit.
func TestMySQLSync(t *testing.T) {
	t.Parallel()
	d := newMariaDB(t, servers.NewMariaDB(t))
	st := d.store(t, false)
	commits := func() (n int) {
		t.Helper()
		err := d.open(t).QueryRowContext(t.Context(), "SELECT coalesce(max(checks + 1), 0) FROM "+sqlstore.FenceTable+" WHERE name = '!sync'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	v, err := st.Put(t.Context(), "k", "", []byte("v"))
	if err != nil || commits() != 0 {
		t.Fatalf("a write with a reply: %v, %d further commits", err, commits())
	}
	for want := 1; want < 3; want++ {
		found, err := store.Resolve(t.Context(), st, "k", "", v)
		if err != nil || found.Resolution != store.ResolutionApplied || commits() != want {
			t.Errorf("%v, %v, %d further commits; want %d", found.Resolution, err, commits(), want)
		}
	}
}
