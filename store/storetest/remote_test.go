package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// table is a server with compare-and-swap, as a database is. Its versions are the
// integers from 1, and it keeps the number of a row that was deleted.
type table struct {
	mu   sync.Mutex
	rows map[string]row
}

type row struct {
	number  int
	value   []byte
	deleted bool
}

// swap changes a row if its number is prev; 0 means that there is none.
func (t *table) swap(key string, prev int, next row) (now row, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.rows[key]
	if now.deleted && prev == 0 || now.number == prev && !now.deleted {
		next.number = now.number + 1
		t.rows[key] = next
		return next, true
	}
	return now, false
}

func (t *table) get(key string) row {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[key]
}

// remote is the smallest complete backend: a client of a table. A request whose answer is
// lost fails with an error that matches store.ErrUnavailable. Without a mark, its outcome is unknown.
type remote struct {
	table *table
	carry func(request func() error) error

	lost func(err error, again func() error) error // a fault: how the client handles a lost answer
}

func newRemote() *remote {
	return &remote{table: &table{rows: make(map[string]row)}, carry: func(request func() error) error { return request() }}
}

func (r *remote) Get(ctx context.Context, key string) (value []byte, v store.Version, err error) {
	err = r.call(ctx, store.OpGet, key, store.CheckKey(key), func() error {
		found := r.table.get(key)
		if found.number == 0 || found.deleted {
			return store.ErrNotFound
		}
		value, v = bytes.Clone(found.value), store.Version(strconv.Itoa(found.number))
		return nil
	})
	return value, v, err
}

func (r *remote) Put(ctx context.Context, key string, prev store.Version, value []byte) (v store.Version, err error) {
	err = r.swap(ctx, store.OpPut, key, prev, store.CheckPut(key, value), row{value: bytes.Clone(value)}, &v)
	return v, err
}

func (r *remote) Delete(ctx context.Context, key string, prev store.Version) error {
	var v store.Version
	return r.swap(ctx, store.OpDelete, key, prev, store.CheckDelete(key, prev), row{deleted: true}, &v)
}

func (r *remote) swap(ctx context.Context, op store.Kind, key string, prev store.Version, invalid error, next row, v *store.Version) error {
	number, err := strconv.Atoi(string(prev))
	if err != nil && prev != "" || prev != "" && strconv.Itoa(number) != string(prev) || number < 0 || prev == "0" {
		invalid = errors.Join(invalid, store.ErrVersion)
	}
	return r.call(ctx, op, key, invalid, func() error {
		now, ok := r.table.swap(key, number, next)
		if !ok {
			return &store.ConflictError{Key: key}
		}
		*v = store.Version(strconv.Itoa(now.number))
		return nil
	})
}

// call sends one request, unless the arguments are invalid or the context has ended.
func (r *remote) call(ctx context.Context, op store.Kind, key string, invalid error, request func() error) error {
	err := errors.Join(invalid, store.CheckContext(ctx))
	if err == nil {
		var answer error
		send := func() error { return r.carry(func() error { answer = request(); return answer }) }
		err = send()
		switch {
		case err == nil || err == answer:
		case r.lost != nil:
			err = r.lost(err, send)
		default:
			err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
	if err != nil {
		return &store.OpError{Op: op, Key: key, Err: err}
	}
	return nil
}

// TestSmallestBackend shows the least that passes the suite: integers from 1 as versions,
// no ability, no repetition.
func TestSmallestBackend(t *testing.T) {
	open := func(*testing.T) store.Store { return newRemote() }
	o := &storetest.Options{
		Reopen: func(_ *testing.T, first store.Store) store.Store {
			second := newRemote()
			second.table = first.(*remote).table
			return second
		},
		Intercept: func(_ *testing.T, first store.Store, carry func(func() error) error) store.Store {
			return &remote{table: first.(*remote).table, carry: carry}
		},
	}
	storetest.Run(t, open, o)
}

// brokenCuts are clients that handle a lost answer wrongly.
func brokenCuts() []broken {
	with := func(fault string, caught []string, lost func(err error, again func() error) error) broken {
		return broken{fault, caught, func() store.Store {
			r := newRemote()
			r.lost = lost
			return r
		}, nil}
	}
	return []broken{
		with("calls every failed write not applied", []string{"DisconnectWrites"}, func(err error, _ func() error) error {
			return store.MarkNotApplied(err)
		}),
		with("sends again, and does not read back", []string{"DisconnectWrites"}, func(_ error, again func() error) error {
			return again()
		}),
		with("calls every failed write applied", []string{"DisconnectWrites"}, func(error, func() error) error { return nil }),
		with("returns the bare error of the network", []string{"DisconnectUnavailable"}, func(err error, _ func() error) error { return err }),
		with("takes a lost answer for absence", []string{"DisconnectReads"}, func(error, func() error) error { return store.ErrNotFound }),
	}
}
