package gooselock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/holdfast-go/holdfast/adapters/gooselock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// A provider whose migrations cannot commit after the lock is lost.
func Example() {
	migrate := func(ctx context.Context, db *sql.DB, migrations fs.FS, client *lease.Client) error {
		locker, err := gooselock.New(client, "migrations/shop", &gooselock.Options{Fence: sqlstore.PostgreSQL})
		if err != nil {
			return err
		}
		versions, err := database.NewStore(database.DialectPostgres, goose.DefaultTablename)
		if err != nil {
			return err
		}
		provider, err := goose.NewProvider(goose.DialectCustom, db, migrations,
			goose.WithLocker(locker), goose.WithStore(locker.Store(versions)))
		if err != nil {
			return err
		}
		ctx, cancel := locker.Context(ctx)
		defer cancel()
		_, err = provider.Up(ctx)
		return err
	}
	_ = migrate // call it with a database
}

func ExampleLocker_Lock() {
	st := memstore.New()
	client, _ := lease.New(st, &lease.Options{Holder: "deploy-7"})
	first, _ := gooselock.New(client, "migrations/shop", nil)
	second, _ := gooselock.New(client, "migrations/shop", &gooselock.Options{LockTimeout: time.Second})
	ctx := context.Background()
	fmt.Println(first.Lock(ctx, nil))
	err := second.Lock(ctx, nil)
	fmt.Println(errors.Is(err, gooselock.ErrLockTimeout), errors.Is(err, lease.ErrHeld))
	fmt.Println(first.Unlock(ctx, nil))
	// Output:
	// <nil>
	// true true
	// <nil>
}
