package gooselock

import (
	"context"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3/database"
)

// Store returns a store of versions for goose.WithStore. It does the same as inner, but records or removes a
// version only while the locker has the lock and its lease is trusted. With Options.Fence, it also checks
// the fencing token in the transaction of the migration. If the lock is lost, the error matches
// lease.ErrLost, or sqlstore.ErrFenced if the database knows a later holder first. Without a Lock the
// error matches ErrNotLocked.
func (l *Locker) Store(inner database.Store) database.Store { return versions{inner, l} }

type versions struct {
	database.Store
	locker *Locker
}

func (v versions) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	// Goose creates the table of versions, with version 0, also without the lock.
	if req.Version != 0 {
		if err := v.locker.check(ctx, db); err != nil {
			return fmt.Errorf("record version %d: %w", req.Version, err)
		}
	}
	return v.Store.Insert(ctx, db, req)
}

func (v versions) Delete(ctx context.Context, db database.DBTxConn, version int64) error {
	if err := v.locker.check(ctx, db); err != nil {
		return fmt.Errorf("remove version %d: %w", version, err)
	}
	return v.Store.Delete(ctx, db, version)
}

// TableExists is an optional method of stores, which goose looks for.
func (v versions) TableExists(ctx context.Context, db database.DBTxConn) (bool, error) {
	if inner, ok := v.Store.(interface {
		TableExists(ctx context.Context, db database.DBTxConn) (bool, error)
	}); ok {
		return inner.TableExists(ctx, db)
	}
	return false, errors.ErrUnsupported
}

// check returns an error if this locker is not, or no longer, the holder.
func (l *Locker) check(ctx context.Context, db database.DBTxConn) error {
	guard := l.guard.Load()
	if guard == nil {
		return ErrNotLocked
	}
	if err := guard.Err(); err != nil {
		return fmt.Errorf("refused, because the lock is lost: %w", err)
	}
	if l.fence == "" {
		return nil
	}
	return l.fence.Fence(ctx, db, l.name, guard.Token())
}
