package leaselocks_test

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/compat/leaselocks"
	"github.com/holdfast-go/holdfast/lease/trylock"
)

// A program shares a lock with a program that uses matrix-sdk-sqlite. Import a driver for SQLite, for example
// modernc.org/sqlite.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:matrix-sdk-media.sqlite3?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(150)")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	table, err := leaselocks.Open(ctx, db, nil)
	if err != nil {
		panic(err)
	}
	handle, err := trylock.New(table, "cleanup", &trylock.Options{TTL: 500 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	guard, err := handle.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	err = clean(guard.Context())
	if err := errors.Join(err, guard.Release(ctx)); err != nil {
		panic(err)
	}
}

// clean stops when its context ends.
func clean(ctx context.Context) error { return ctx.Err() }
