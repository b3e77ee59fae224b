package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// locks is a kind of lock between processes of one machine.
type locks interface {
	// lock waits for the lock of a name and returns what frees it.
	lock(ctx context.Context, name string) (unlock func() error, err error)
}

// The kinds that are compared. The three leases differ in their register alone.
const (
	kindHoldfast = "holdfast, file store"
	kindRename   = "flock and rename"
	kindSQLite   = "SQLite, WAL, FULL"
	kindFlock    = "gofrs/flock"
)

func kinds() []string { return []string{kindHoldfast, kindRename, kindSQLite, kindFlock} }

// what says in a few words what a kind gives.
func what(kind string) string {
	switch kind {
	case kindHoldfast:
		return "lease, token, durable"
	case kindRename, kindSQLite:
		return "the same lease on another register, durable; waiters poll"
	}
	return "no record, no token, nothing durable"
}

// openLocks opens the locks of a kind in a directory, or in the database of a URL, that
// all processes share.
func openLocks(kind, dir string) (locks, error) {
	var st store.Store
	var err error
	switch kind {
	case kindHoldfast:
		st, err = filestore.Open(filepath.Join(dir, "holdfast"), nil)
	case kindRename:
		st, err = openFlockRename(filepath.Join(dir, "rename"))
	case kindSQLite:
		st, err = openSQLite(filepath.Join(dir, "sqlite.db"))
	case kindFlock:
		d := filepath.Join(dir, "flock")
		return flocks{d}, os.MkdirAll(d, 0o700)
	default:
		return openClaimants(kind, dir, &counter{}, true)
	}
	if err != nil {
		return nil, err
	}
	client, err := lease.New(local{st}, &lease.Options{Tuning: lease.Tuning{MinPoll: 5 * time.Millisecond, MaxPoll: 50 * time.Millisecond}})
	return &leases{client, map[string]*lease.Handle{}}, err
}

// local says of a register that it is on this machine, so that all leases get the
// same numbers.
type local struct{ store.Store }

func (l local) Unwrap() store.Store { return l.Store }

func (l local) Traits() store.Traits { return store.Traits{Name: "local", Local: true} }

type leases struct {
	client  *lease.Client
	handles map[string]*lease.Handle
}

func (l *leases) lock(ctx context.Context, name string) (func() error, error) {
	h := l.handles[name]
	if h == nil {
		var err error
		if h, err = l.client.Handle(name, nil); err != nil {
			return nil, err
		}
		l.handles[name] = h
	}
	guard, err := h.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return func() error { return guard.Release(ctx) }, nil
}

type flocks struct{ dir string }

func (l flocks) lock(_ context.Context, name string) (func() error, error) {
	f := flock.New(filepath.Join(l.dir, name))
	if err := f.Lock(); err != nil {
		return nil, err
	}
	return f.Unlock, nil
}
