package migratelock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/adapters/migratelock"
)

// fakeConnector opens connections that write down their statements.
type fakeConnector struct {
	driver.Connector
	conn driver.Conn
	err  error
}

func (f fakeConnector) Connect(context.Context) (driver.Conn, error) { return f.conn, f.err }

type plainConn struct {
	driver.Conn
	closed bool
}

func (p *plainConn) Close() error {
	p.closed = true
	return nil
}

type fakeConn struct {
	plainConn
	statements []string
}

func (f *fakeConn) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	f.statements = append(f.statements, query)
	return driver.RowsAffected(0), nil
}

func (f *fakeConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	f.statements = append(f.statements, query)
	return nil, errors.New("no rows")
}

func (f *fakeConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return nil, errors.New("no transactions")
}

func (f *fakeConn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return nil, errors.New("no preparation")
}

func TestWithoutAdvisoryLock(t *testing.T) {
	conn := &fakeConn{}
	db := sql.OpenDB(migratelock.WithoutAdvisoryLock(fakeConnector{conn: conn}))
	defer db.Close()
	for _, query := range []string{"SELECT pg_advisory_lock($1)", "SELECT pg_advisory_unlock($1)", "CREATE TABLE a ()"} {
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	if want := []string{"CREATE TABLE a ()"}; !slices.Equal(conn.statements, want) {
		t.Errorf("the server got %q, want %q", conn.statements, want)
	}
}

func TestWithoutAdvisoryLockRefuses(t *testing.T) {
	plain, broken := &plainConn{}, errors.New("no server")
	for _, c := range []struct {
		conn fakeConnector
		says string
	}{{fakeConnector{conn: plain}, "plainConn"}, {fakeConnector{err: broken}, "no server"}} {
		if err := sql.OpenDB(migratelock.WithoutAdvisoryLock(c.conn)).PingContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v", err)
		}
	}
	if !plain.closed {
		t.Error("the refused connection stays open")
	}
}
