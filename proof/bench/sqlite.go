package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	_ "modernc.org/sqlite" // the driver

	"github.com/holdfast-go/holdfast/store"
)

// sqliteStore is a register in a SQLite database in WAL mode with full sync: each
// write is one statement, durable when it returns. It wakes no waiter: waiters poll.
type sqliteStore struct{ db *sql.DB }

func openSQLite(file string) (*sqliteStore, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS registers (key TEXT PRIMARY KEY, version TEXT NOT NULL, value BLOB NOT NULL) WITHOUT ROWID`)
	return &sqliteStore{db}, err
}

func (s *sqliteStore) Get(ctx context.Context, key string) (value []byte, v store.Version, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT value, version FROM registers WHERE key = ?`, key).Scan(&value, &v)
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	return value, v, err
}

func (s *sqliteStore) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	next := store.Version(rand.Text())
	var result sql.Result
	var err error
	if prev == "" {
		result, err = s.db.ExecContext(ctx, `INSERT INTO registers VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, key, next, value)
	} else {
		result, err = s.db.ExecContext(ctx, `UPDATE registers SET version = ?, value = ? WHERE key = ? AND version = ?`, next, value, key, prev)
	}
	if err != nil {
		return "", err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return next, err
	}
	return "", &store.ConflictError{Key: key}
}

// Delete is not measured.
func (s *sqliteStore) Delete(context.Context, string, store.Version) error {
	return errors.ErrUnsupported
}
