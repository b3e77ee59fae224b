package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"cirello.io/pglock"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// The kinds of locks on PostgreSQL.
const (
	kindSQLStore = "holdfast, sqlstore"
	kindAdvisory = "advisory lock of a session"
	kindPGLock   = "pglock"
)

// TraceQueryStart counts a statement. A counter is the tracer of its connections.
func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// openPostgres returns what makes claimants of a kind. Those that are to keep what they
// have renew it by themselves, as the library does by default.
func openPostgres(kind, url string, n *counter, keep bool) (claimants, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.Tracer = n
	if kind == kindAdvisory {
		return func(lock string) (claimant, error) {
			conn, err := pgx.ConnectConfig(context.Background(), config)
			return &advisory{conn, lock}, err
		}, nil
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	if kind == kindPGLock {
		var opts []pglock.ClientOption
		if !keep {
			opts = append(opts, pglock.WithHeartbeatFrequency(0))
		}
		return func(lock string) (claimant, error) {
			c, err := pglock.UnsafeNew(db, opts...)
			return &rowLock{c: c, name: lock}, err
		}, nil
	}
	st, err := sqlstore.New(db, sqlstore.PostgreSQL, &sqlstore.Options{Name: url, Listen: sqlstore.Listener(
		func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config) },
		func(n *pgconn.Notification) string { return n.Payload },
	)})
	if err != nil {
		return nil, err
	}
	return newHoldfast(st, &lease.Options{ManualRenewal: !keep}), nil
}

// advisory is a lock that ends with its session: one connection for each holder and each
// waiter.
type advisory struct {
	conn *pgx.Conn
	name string
}

func (c *advisory) try(ctx context.Context) (got bool, err error) {
	err = c.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`, c.name).Scan(&got)
	return got, err
}

func (c *advisory) wait(ctx context.Context) error {
	_, err := c.conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended($1, 0))`, c.name)
	return err
}

func (c *advisory) renew(context.Context) error { return nil } // the session is the lock

func (c *advisory) release(ctx context.Context) error {
	var held bool
	err := c.conn.QueryRow(ctx, `SELECT pg_advisory_unlock(hashtextextended($1, 0))`, c.name).Scan(&held)
	return must(held, err)
}

// rowLock is a lock of pglock.
type rowLock struct {
	c    *pglock.Client
	name string
	lock *pglock.Lock
}

func (c *rowLock) try(ctx context.Context) (bool, error) {
	l, err := c.c.AcquireContext(ctx, c.name, pglock.FailIfLocked())
	c.lock = l
	return unlessRefused(errors.Is(err, pglock.ErrNotAcquired), err)
}

func (c *rowLock) wait(ctx context.Context) (err error) {
	c.lock, err = c.c.AcquireContext(ctx, c.name)
	return err
}

func (c *rowLock) renew(ctx context.Context) error   { return c.c.SendHeartbeat(ctx, c.lock) }
func (c *rowLock) release(ctx context.Context) error { return c.c.ReleaseContext(ctx, c.lock) }

// postgres compares locks on PostgreSQL.
func postgres(ctx context.Context, w io.Writer, server *servers.Postgres, r *run) error {
	url := server.URL("")
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	locks, err := pglock.UnsafeNew(db)
	if err != nil {
		return err
	}
	if err := errors.Join(sqlstore.CreateTables(ctx, db, sqlstore.PostgreSQL, nil), locks.CreateTable()); err != nil {
		return err
	}
	on := on{title: "PostgreSQL", unit: "statements", spread: pglock.DefaultLeaseDuration}
	if on.raw, err = rawPostgres(ctx, url); err != nil {
		return err
	}
	return onServer(ctx, w, on, url, r, kindSQLStore, kindAdvisory, kindPGLock)
}

// rawPostgres returns a function that overwrites one row on the condition that it is
// still what it was.
func rawPostgres(ctx context.Context, url string) (func(context.Context) error, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	version := rand.Text()
	_, err = conn.Exec(ctx, `CREATE TABLE raw (key text PRIMARY KEY, version text NOT NULL, record text NOT NULL)`)
	if err == nil {
		_, err = conn.Exec(ctx, `INSERT INTO raw VALUES ('raw', $1, '')`, version)
	}
	return func(ctx context.Context) error {
		next := rand.Text()
		done, err := conn.Exec(ctx, `UPDATE raw SET version = $2, record = $3 WHERE key = 'raw' AND version = $1`, version, next, strings.Repeat(next, 16))
		version = next
		return must(done.RowsAffected() == 1, err)
	}, err
}

// dead kills a process that holds locks for which another process waits, and
// measures when that one has them, with the default settings of each library.
func dead(w io.Writer, title, url string, kinds []string) error {
	const locks = 12
	t := table{head: []string{"on " + title + ": takeover after kill -9, default settings", "median", "least", "most"}}
	return t.rowsTogether(w, kinds, func(i int) ([]string, error) {
		// Kinds share a server, and a key of NATS has no space.
		got, err := takeover(task{Kind: kinds[i], Dir: url, Name: "takeover-" + rand.Text() + "-", Locks: locks}, locks*spread+time.Second)
		if err != nil {
			return nil, err
		}
		return []string{short(got.median()), short(slices.Min(got)), short(slices.Max(got))}, nil
	})
}

// takeover kills a worker that has all locks of a task, and returns the times until another worker, which waits for
// them, has each. The pause lets the other worker wait for all.
func takeover(t task, pause time.Duration) (got samples, err error) {
	var pair [2]*process
	for i := range pair {
		if pair[i], err = startWorker(t); err != nil {
			return nil, err
		}
		defer pair[i].kill()
		if err := pair[i].begin(); err != nil {
			return nil, err
		}
		if i == 1 {
			break // it waits
		}
		for range t.Locks {
			if _, err := pair[i].next("held"); err != nil {
				return nil, err
			}
		}
	}
	time.Sleep(pause)
	at := pair[0].kill()
	for range t.Locks {
		l, err := pair[1].next("held")
		if err != nil {
			return nil, err
		}
		got = append(got, time.Duration(l.At-at))
	}
	return got, nil
}
