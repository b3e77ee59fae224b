//go:build unix

package migrations_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast/adapters/migratelock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// pooler does what PgBouncer does in transaction mode: each transaction, and each statement outside of one, gets the
// next session of the server.
type pooler struct {
	sessions []*sql.DB // each has one connection
	turn     atomic.Uint64
}

func newPooler(t *testing.T, at target, sessions int) *pooler {
	p := &pooler{}
	for range sessions {
		db := at.mustOpen(t)
		db.SetMaxOpenConns(1)
		p.sessions = append(p.sessions, db)
	}
	return p
}

func (p *pooler) next() *sql.DB { return p.sessions[p.turn.Add(1)%uint64(len(p.sessions))] }

// advisoryLocks returns the number of advisory locks that the sessions hold.
func (p *pooler) advisoryLocks(t *testing.T) (all int) {
	t.Helper()
	for _, session := range p.sessions {
		var n int
		err := session.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		all += n
	}
	return all
}

func (p *pooler) Connect(context.Context) (driver.Conn, error) { return &pooled{pooler: p}, nil }
func (p *pooler) Driver() driver.Driver                        { return nil }

// pooled is a connection to the pooler.
type pooled struct {
	pooler *pooler
	tx     *sql.Tx
}

func (c *pooled) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *pooled) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return nil, errors.ErrUnsupported
}
func (c *pooled) Close() error              { return nil }
func (c *pooled) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

func (c *pooled) BeginTx(ctx context.Context, _ driver.TxOptions) (_ driver.Tx, err error) {
	c.tx, err = c.pooler.next().BeginTx(ctx, nil)
	return c, err
}

func (c *pooled) Commit() error   { return c.end((*sql.Tx).Commit) }
func (c *pooled) Rollback() error { return c.end((*sql.Tx).Rollback) }

func (c *pooled) end(how func(*sql.Tx) error) error {
	tx := c.tx
	c.tx = nil
	return how(tx)
}

func (c *pooled) session() interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
} {
	if c.tx != nil {
		return c.tx
	}
	return c.pooler.next()
}

func values(named []driver.NamedValue) (all []any) {
	for _, v := range named {
		all = append(all, v.Value)
	}
	return all
}

func (c *pooled) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.session().ExecContext(ctx, query, values(args)...)
}

func (c *pooled) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.session().QueryContext(ctx, query, values(args)...)
	if err != nil {
		return nil, err
	}
	return pooledRows{rows}, nil
}

type pooledRows struct{ rows *sql.Rows }

func (r pooledRows) Columns() []string {
	names, _ := r.rows.Columns()
	return names
}

func (r pooledRows) Close() error { return r.rows.Close() }

func (r pooledRows) Next(dest []driver.Value) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	pointers := make([]any, len(dest))
	for i := range dest {
		pointers[i] = (*any)(&dest[i])
	}
	return r.rows.Scan(pointers...)
}

// With a pooler, a session still holds the advisory locks of both projects after their release. The leases of the
// adapters work there.
func testPooler(t *testing.T, newTarget targetFunc) {
	t.Run("control: migrate", func(t *testing.T) {
		p := newPooler(t, newTarget(t), 2)
		if _, err := pgx.WithInstance(sql.OpenDB(p), &pgx.Config{}); err != nil {
			t.Fatal(err)
		}
		if n := p.advisoryLocks(t); n != 1 {
			t.Errorf("%d advisory locks are held after the driver has released its lock", n)
		}
	})
	t.Run("control: goose", func(t *testing.T) {
		p := newPooler(t, newTarget(t), 3)
		locker, err := lock.NewPostgresSessionLocker(lock.WithUnlockTimeout(1, 1))
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(p)
		defer db.Close()
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := locker.SessionLock(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		err = locker.SessionUnlock(t.Context(), conn)
		if n := p.advisoryLocks(t); n != 1 || err == nil {
			t.Errorf("%d advisory locks are held after the release, which returned %v", n, err)
		}
	})
	for _, tool := range []string{withMigrate, withGoose} {
		t.Run(tool, func(t *testing.T) {
			at := newTarget(t)
			p := newPooler(t, at, 3)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if err := upThrough(t, p, at, tool); err != nil && err.Error() != "no change" {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got := at.applied(t); got != eachOnce {
				t.Errorf("applied %s", got)
			}
			if n := p.advisoryLocks(t); n != 0 {
				t.Errorf("%d advisory locks", n)
			}
		})
	}
}

// upThrough migrates through a pooler. The lease uses the pooler, too.
func upThrough(t *testing.T, p *pooler, at target, tool string) error {
	st, err := sqlstore.New(sql.OpenDB(p), at.dialect(), nil)
	if err != nil {
		return err
	}
	client, err := lease.New(st, &lease.Options{TTL: ttl})
	if err != nil {
		return err
	}
	defer client.Close(context.Background())
	if tool == withGoose {
		return gooseUp(t.Context(), job{Target: at, Tool: tool}, sql.OpenDB(p), client, func(string) {})
	}
	m, err := newMigrate(t.Context(), at, sql.OpenDB(migratelock.WithoutAdvisoryLock(p)), client, true, func(string) {})
	if err != nil {
		return err
	}
	return m.Up()
}
