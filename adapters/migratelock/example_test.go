package migratelock_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	_ "github.com/golang-migrate/migrate/v4/source/stub"

	"github.com/holdfast-go/holdfast/adapters/migratelock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func ExampleNew() {
	st := memstore.New() // in a program: sqlstore.New(db, sqlstore.PostgreSQL, nil), for example
	client, _ := lease.New(st, &lease.Options{Holder: "deploy-7"})
	inner, _ := stub.WithInstance(nil, &stub.Config{}) // in a program: pgx.WithInstance(db, &pgx.Config{})
	driver, err := migratelock.New(inner, client, "migrations/shop", &migratelock.Options{LockTimeout: 50 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, _ := migrate.NewWithDatabaseInstance("stub://", "stub", driver)
	m.LockTimeout = time.Minute // more than the TTL of the lease, and more than the LockTimeout of the driver
	fmt.Println(m.Force(3))

	// Another process holds the lock.
	_ = driver.Lock()
	other, _ := migratelock.New(inner, client, "migrations/shop", &migratelock.Options{LockTimeout: time.Second})
	err = other.Lock()
	fmt.Println(errors.Is(err, database.ErrLocked), errors.Is(err, lease.ErrHeld))
	// Output:
	// <nil>
	// true true
}
