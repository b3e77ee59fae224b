package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/holdfast-go/holdfast/lease"
)

// The functions of docs/migrating.md on redsync. They are compiled here, where the library of the first is.
var _, _ = before, after

func before(ctx context.Context, rs *redsync.Redsync, work func(context.Context) error) error {
	mutex := rs.NewMutex("report", redsync.WithExpiry(30*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(context.WithoutCancel(ctx))
	return work(ctx)
}

func after(ctx context.Context, client *lease.Client, work func(context.Context, uint64) error) error {
	return client.Do(ctx, "report", func(ctx context.Context, guard *lease.Guard) error {
		return work(ctx, guard.Token())
	}, nil)
}
