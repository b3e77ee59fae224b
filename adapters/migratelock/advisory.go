package migratelock

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// WithoutAdvisoryLock returns a connector for the drivers postgres, pgx and pgx/v5 of migrate. These
// drivers also take their own advisory lock while they open. Some poolers give each transaction another
// session, for example PgBouncer in transaction mode. There this lock can stay held for as long as the
// pooler keeps the session, and then no process can open the database. The connections of the connector
// answer the statements of this lock by themselves:
//
//	db := sql.OpenDB(migratelock.WithoutAdvisoryLock(stdlib.GetConnector(*config)))
//	err := client.Do(ctx, "migrations/shop", func(context.Context, *lease.Guard) (err error) {
//		inner, err = pgx.WithInstance(db, &pgx.Config{})
//		return err
//	}, nil)
//
// Call Do as above if several processes may open a new database at the same time. Otherwise one of them
// can find that another has just created the table of versions.
//
// The driver of the connector must implement the methods of contexts, as pgx and lib/pq do.
func WithoutAdvisoryLock(c driver.Connector) driver.Connector { return connector{c} }

type connector struct{ driver.Connector }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := conn.(contextConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("migratelock: a connection of type %T cannot be used without its advisory lock", conn)
	}
	return withoutLock{inner}, nil
}

type contextConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type withoutLock struct{ contextConn }

func (c withoutLock) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if query == "SELECT pg_advisory_lock($1)" || query == "SELECT pg_advisory_unlock($1)" {
		return driver.RowsAffected(1), nil
	}
	return c.contextConn.ExecContext(ctx, query, args)
}
