package leaselocks_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/compat/leaselocks"
	"github.com/holdfast-go/holdfast/store"
)

// database answers the statements of the package, and notes them. It is a driver for tests of what a broken
// database answers; the tests with SQLite itself are in proof/integration/leaselocks.
type database struct {
	mu     sync.Mutex
	fail   map[string]error // the errors of statements by their first word
	texts  []string
	args   []driver.NamedValue // of the last INSERT
	opened int
	closed int
	row    []driver.Value // the answer to INSERT; nil for none
	cancel func()         // called when the answer to INSERT has been read, if it is not nil
}

func (d *database) Connect(context.Context) (driver.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened++
	return conn{d}, nil
}

func (d *database) Driver() driver.Driver { return nil }

type conn struct{ d *database }

func (c conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not used") }
func (c conn) Begin() (driver.Tx, error)           { return nil, errors.New("not used") }

func (c conn) Close() error {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.closed++
	return nil
}

func (c conn) ExecContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.texts = append(c.d.texts, text)
	return driver.ResultNoRows, c.d.fail[strings.Fields(text)[0]]
}

func (c conn) QueryContext(_ context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.texts = append(c.d.texts, text)
	switch word := strings.Fields(text)[0]; {
	case word == "INSERT":
		c.d.args = args
		return &rows{row: c.d.row, closed: c.d.cancel}, c.d.fail[word]
	case strings.Contains(text, "synchronous"):
		return &rows{row: []driver.Value{int64(2)}}, nil
	case strings.Contains(text, "journal_mode"):
		return &rows{row: []driver.Value{"wal"}}, nil
	case strings.Contains(text, "pragma_table_info"):
		return &rows{row: []driver.Value{"key! holder expiration generation"}}, nil
	}
	return &rows{row: []driver.Value{"file"}}, nil
}

type rows struct {
	row    []driver.Value
	closed func()
}

func (r *rows) Columns() []string { return []string{"column"} }

func (r *rows) Close() error {
	if r.closed != nil {
		r.closed()
	}
	return nil
}

func (r *rows) Next(to []driver.Value) error {
	if r.row == nil {
		return io.EOF
	}
	copy(to, r.row)
	r.row = nil
	return nil
}

// openFake returns the table of a database that has answered the questions of Open.
func openFake(t *testing.T, d *database) *leaselocks.Table {
	t.Helper()
	db := sql.OpenDB(d)
	t.Cleanup(func() { db.Close() })
	table, err := leaselocks.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.texts = nil
	return table
}

// The statement and its arguments are those of matrix-sdk-sqlite.
func TestStatement(t *testing.T) {
	d := &database{row: []driver.Value{int64(7)}}
	table := openFake(t, d)
	for _, c := range []struct{ duration, want time.Duration }{
		{500 * time.Millisecond, 500 * time.Millisecond}, {0, 0}, {time.Microsecond, time.Millisecond}, {1500 * time.Microsecond, 2 * time.Millisecond},
	} {
		d.texts = nil
		before := time.Now().UnixMilli()
		generation, obtained, err := table.TryLock(t.Context(), "job", "me", c.duration)
		if generation != 7 || !obtained || err != nil {
			t.Fatalf("got %d, %t, %v", generation, obtained, err)
		}
		const want = "INSERT INTO lease_locks (key, holder, expiration) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET" +
			" holder = excluded.holder, expiration = excluded.expiration," +
			" generation = CASE holder WHEN excluded.holder THEN generation ELSE generation + 1 END" +
			" WHERE holder = excluded.holder OR expiration < ?4 RETURNING generation"
		if len(d.texts) != 3 || d.texts[0] != "BEGIN IMMEDIATE" || strings.Join(strings.Fields(d.texts[1]), " ") != want || d.texts[2] != "COMMIT" {
			t.Errorf("got the statements %q", d.texts)
		}
		end, now := d.args[2].Value.(int64), d.args[3].Value.(int64)
		if d.args[0].Value != "job" || d.args[1].Value != "me" || end-now != c.want.Milliseconds() || now < before || now > time.Now().UnixMilli() {
			t.Errorf("%v: got the arguments %v", c.duration, d.args)
		}
	}
}

// What an error of each statement proves, and whether the connection is used again.
func TestErrorsOfStatements(t *testing.T) {
	cut := errors.New("disk I/O error")
	for name, c := range map[string]struct {
		fail    map[string]error
		row     []driver.Value
		outcome store.Outcome
		last    string
		closed  int
	}{
		"the begin is refused":                  {map[string]error{"BEGIN": errors.New("database is locked"), "ROLLBACK": errors.New("cannot rollback - no transaction is active")}, nil, store.NotApplied, "ROLLBACK", 0},
		"the statement fails":                   {map[string]error{"INSERT": cut}, nil, store.NotApplied, "ROLLBACK", 0},
		"and so does the rollback":              {map[string]error{"INSERT": cut, "ROLLBACK": cut}, nil, store.NotApplied, "ROLLBACK", 1},
		"the commit fails":                      {map[string]error{"COMMIT": cut}, []driver.Value{int64(1)}, store.NotApplied, "ROLLBACK", 0},
		"the commit fails and ends":             {map[string]error{"COMMIT": errors.New("database is locked"), "ROLLBACK": errors.New("cannot rollback - no transaction is active")}, []driver.Value{int64(1)}, store.Unknown, "ROLLBACK", 0},
		"the commit and the rollback fail":      {map[string]error{"COMMIT": cut, "ROLLBACK": cut}, []driver.Value{int64(1)}, store.Unknown, "ROLLBACK", 1},
		"the generation is a text":              {nil, []driver.Value{"many"}, store.NotApplied, "ROLLBACK", 0},
		"the generation is not positive":        {nil, []driver.Value{int64(0)}, store.NotApplied, "ROLLBACK", 0},
		"the generation is above all integers":  {nil, []driver.Value{9.3e18}, store.NotApplied, "ROLLBACK", 0},
		"the table has been changed since then": {map[string]error{"INSERT": errors.New("no such column: generation")}, nil, store.NotApplied, "ROLLBACK", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := &database{fail: c.fail, row: c.row}
			_, obtained, err := openFake(t, d).TryLock(t.Context(), "job", "me", time.Second)
			if obtained || err == nil || store.OutcomeOf(err) != c.outcome {
				t.Errorf("got %t, %v with the outcome %v, want %v", obtained, err, store.OutcomeOf(err), c.outcome)
			}
			if last := d.texts[len(d.texts)-1]; last != c.last || d.closed != c.closed {
				t.Errorf("the last statement was %s, and %d connections were closed", last, d.closed)
			}
		})
	}
}

// A context that ends before the commit takes nothing.
func TestContextEndsBeforeTheCommit(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := &database{row: []driver.Value{int64(1)}, cancel: cancel}
	_, obtained, err := openFake(t, d).TryLock(ctx, "job", "me", time.Second)
	if obtained || !errors.Is(err, context.Canceled) || store.OutcomeOf(err) != store.NotApplied || slices.Contains(d.texts, "COMMIT") {
		t.Errorf("got %t, %v after %q", obtained, err, d.texts)
	}
}
