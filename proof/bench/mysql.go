package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// The kinds of locks on MySQL and MariaDB.
const (
	kindMySQLStore = "holdfast, sqlstore on MariaDB"
	kindGetLock    = "GET_LOCK"
)

// dialMySQL returns a database whose statements are counted: each is one write.
func dialMySQL(dsn string, n *counter) (*sql.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.InterpolateParams = true
	config.DialFunc = n.dial
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(200)
	db.SetMaxIdleConns(200)
	return db, nil
}

// openMySQL returns what makes claimants of a kind.
func openMySQL(kind, dsn string, n *counter, keep bool) (claimants, error) {
	db, err := dialMySQL(dsn, n)
	if err != nil {
		return nil, err
	}
	if kind == kindGetLock {
		return func(lock string) (claimant, error) {
			conn, err := db.Conn(context.Background())
			return &namedLock{conn, lock}, err
		}, nil
	}
	st, err := sqlstore.New(db, sqlstore.MySQL, &sqlstore.Options{Name: dsn})
	if err != nil {
		return nil, err
	}
	return newHoldfast(st, &lease.Options{ManualRenewal: !keep}), nil
}

// namedLock is a lock that ends with its session: one connection for each holder and each waiter.
type namedLock struct {
	conn *sql.Conn
	name string
}

func (c *namedLock) get(ctx context.Context, seconds int) (got bool, err error) {
	err = c.conn.QueryRowContext(ctx, `SELECT GET_LOCK(?, ?)`, c.name, seconds).Scan(&got)
	return got, err
}

func (c *namedLock) try(ctx context.Context) (bool, error) { return c.get(ctx, 0) }
func (c *namedLock) wait(ctx context.Context) error        { return must(c.get(ctx, 3600)) }
func (c *namedLock) renew(context.Context) error           { return nil } // the session is the lock

func (c *namedLock) release(ctx context.Context) error {
	var freed bool
	err := c.conn.QueryRowContext(ctx, `SELECT RELEASE_LOCK(?)`, c.name).Scan(&freed)
	return must(freed, err)
}

// onMySQL compares locks on MariaDB.
func onMySQL(ctx context.Context, w io.Writer, server *servers.MariaDB, r *run) error {
	root, err := dialMySQL(server.DSN("", "mysql"), &counter{})
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = root.ExecContext(ctx, `CREATE DATABASE bench CHARACTER SET utf8mb4`)
	dsn := server.DSN("", "bench")
	db, errDB := dialMySQL(dsn, &counter{})
	if err := errors.Join(err, errDB); err != nil {
		return err
	}
	if err := sqlstore.CreateTables(ctx, db, sqlstore.MySQL, nil); err != nil {
		return err
	}
	on := on{title: "MariaDB", unit: "statements", spread: 5 * time.Second}
	if on.raw, err = rawMySQL(ctx, db); err != nil {
		return err
	}
	return onServer(ctx, w, on, dsn, r, kindMySQLStore, kindGetLock)
}

// rawMySQL returns a function that overwrites one row on the condition that it is still what it was.
func rawMySQL(ctx context.Context, db *sql.DB) (func(context.Context) error, error) {
	version := rand.Text()
	_, err := db.ExecContext(ctx, "CREATE TABLE raw (`key` varbinary(100) PRIMARY KEY, version varbinary(100) NOT NULL, record mediumblob NOT NULL)")
	if err == nil {
		_, err = db.ExecContext(ctx, `INSERT INTO raw VALUES ('raw', ?, '')`, version)
	}
	return func(ctx context.Context) error {
		next := rand.Text()
		done, err := db.ExecContext(ctx, "UPDATE raw SET version = ?, record = ? WHERE `key` = 'raw' AND version = ?", next, strings.Repeat(next, 16), version)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		version = next
		return must(n == 1, err)
	}, err
}
