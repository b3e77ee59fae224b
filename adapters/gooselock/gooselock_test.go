package gooselock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast/adapters/gooselock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

const name = "migrations/shop"

func newClient(t *testing.T, st store.Store, holder string) *lease.Client {
	t.Helper()
	client, err := lease.New(st, &lease.Options{Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

func newLocker(t *testing.T, client *lease.Client, opts *gooselock.Options) *gooselock.Locker {
	t.Helper()
	l, err := gooselock.New(client, name, opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fakeVersions is a table of versions in memory.
type fakeVersions struct {
	database.Store
	changes []string
}

func (f *fakeVersions) Insert(_ context.Context, _ database.DBTxConn, req database.InsertRequest) error {
	f.changes = append(f.changes, fmt.Sprint("+", req.Version))
	return nil
}

func (f *fakeVersions) Delete(_ context.Context, _ database.DBTxConn, version int64) error {
	f.changes = append(f.changes, fmt.Sprint("-", version))
	return nil
}

func TestExclusion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := newLocker(t, newClient(t, st, "host a"), nil)
		b := newLocker(t, newClient(t, st, "host b"), nil)
		if err := a.Lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for kind, l := range map[string]*gooselock.Locker{"another process": b, "this process": a} {
			began := time.Now()
			if err := l.Lock(t.Context(), nil); !errors.Is(err, gooselock.ErrLockTimeout) || time.Since(began) != gooselock.DefaultLockTimeout {
				t.Errorf("%s: got %v after %v", kind, err, time.Since(began))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.SessionLock(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), "host a") {
			t.Errorf("got %v", err)
		}
		if err := b.Unlock(t.Context(), nil); !errors.Is(err, gooselock.ErrNotLocked) {
			t.Errorf("got %v", err)
		}
		if err := a.Unlock(ctx, nil); err != nil { // the context has ended
			t.Error(err)
		}
		if err := b.Lock(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock with an ended context: %v", err)
		}
		if err := errors.Join(b.SessionLock(t.Context(), nil), b.SessionUnlock(t.Context(), nil)); err != nil {
			t.Error(err)
		}
	})
}

// Goose can call Lock for the next run before it has called Unlock for the last one.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lock.Locker = newLocker(t, newClient(t, memstore.New(), "a"), nil)
		var working atomic.Int32
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := l.Lock(t.Context(), nil); err != nil {
					t.Error(err)
					return
				}
				if n := working.Add(1); n != 1 {
					t.Errorf("%d holders", n)
				}
				time.Sleep(time.Second)
				working.Add(-1)
				if err := l.Unlock(t.Context(), nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// If the lease is lost, the context of the work ends, no version is recorded, and Unlock returns the reason.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := faultstore.New(memstore.New(), faultstore.Schedule{})
		l := newLocker(t, newClient(t, st, "a"), nil)
		inner := &fakeVersions{}
		versions := l.Store(inner)
		ctx, cancel := l.Context(t.Context())
		defer cancel()
		record := func(version int64) error {
			return versions.Insert(ctx, nil, database.InsertRequest{Version: version})
		}
		for range 2 {
			if err := errors.Join(record(0), l.Lock(ctx, nil), record(1), versions.Delete(ctx, nil, 1), l.Unlock(ctx, nil)); err != nil {
				t.Fatal(err)
			}
			if ctx.Err() != nil {
				t.Fatal("the context ended with the release")
			}
		}
		if err := l.Lock(ctx, nil); err != nil {
			t.Fatal(err)
		}
		st.Set(faultstore.MustParse("* * drop"))
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, lease.ErrExpired) {
			t.Errorf("the context ended with %v", err)
		}
		for call, err := range map[string]error{"insert": record(2), "delete": versions.Delete(ctx, nil, 1), "unlock": l.Unlock(ctx, nil)} {
			if !errors.Is(err, lease.ErrLost) {
				t.Errorf("%s: got %v", call, err)
			}
		}
		for call, err := range map[string]error{"insert": record(2), "delete": versions.Delete(ctx, nil, 1), "unlock": l.Unlock(ctx, nil)} {
			if !errors.Is(err, gooselock.ErrNotLocked) {
				t.Errorf("%s without the lock: got %v", call, err)
			}
		}
		if got := strings.Join(inner.changes, " "); got != "+0 +1 -1 +0 +1 -1" {
			t.Errorf("got the changes %q", got)
		}
		st.Set(faultstore.Schedule{})
		if err := errors.Join(l.Lock(t.Context(), nil), l.Unlock(t.Context(), nil)); err != nil {
			t.Errorf("the lock is stuck: %v", err)
		}
	})
}

// A context ends only with the lease of its own locker.
func TestContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newClient(t, memstore.New(), "a"), newClient(t, memstore.New(), "b")
		first, second := newLocker(t, a, nil), newLocker(t, b, nil)
		outer, cancelOuter := first.Context(t.Context())
		defer cancelOuter()
		inner, cancelInner := second.Context(outer)
		defer cancelInner()
		if err := errors.Join(first.Lock(outer, nil), second.Lock(inner, nil), b.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if outer.Err() != nil || !errors.Is(context.Cause(inner), lease.ErrClosed) {
			t.Errorf("got %v and %v", outer.Err(), context.Cause(inner))
		}
		cancelOuter()
		if !errors.Is(context.Cause(outer), context.Canceled) {
			t.Errorf("got %v", context.Cause(outer))
		}
		if err := first.Unlock(outer, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := faultstore.New(memstore.New(), faultstore.MustParse("* * drop"))
		l := newLocker(t, newClient(t, st, "a"), &gooselock.Options{LockTimeout: 10 * time.Second})
		if err := l.Lock(t.Context(), nil); !errors.Is(err, gooselock.ErrLockTimeout) || errors.Is(err, lease.ErrHeld) {
			t.Errorf("got %v", err)
		}
		st.Set(faultstore.Schedule{})
		if err := l.Lock(t.Context(), nil); err != nil {
			t.Error(err)
		}
		st.Set(faultstore.MustParse("* * drop"))
		if err := l.Unlock(t.Context(), nil); err == nil || errors.Is(err, lease.ErrLost) {
			t.Errorf("a release without a reply: %v", err)
		}
		st.Set(faultstore.Schedule{})
		if err := newLocker(t, newClient(t, st, "b"), &gooselock.Options{LockTimeout: 40 * time.Second}).Lock(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

// While requests and replies are lost, only one process works at a time, and no lock stays held for ever.
func TestFaults(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				var working, done atomic.Int32
				var all sync.WaitGroup
				for i := range 5 {
					st := faultstore.New(mem, faultstore.Random(seed*100+uint64(i)))
					defer st.Close()
					l := newLocker(t, newClient(t, st, fmt.Sprint(i)), nil)
					all.Go(func() {
						for range 4 {
							ctx, cancel := l.Context(t.Context())
							if err := l.Lock(ctx, nil); err != nil {
								cancel()
								continue
							}
							if n := working.Add(1); n != 1 {
								t.Errorf("%d holders", n)
							}
							select {
							case <-ctx.Done():
							case <-time.After(time.Second):
								done.Add(1)
							}
							working.Add(-1)
							_ = l.Unlock(ctx, nil)
							cancel()
						}
					})
				}
				all.Wait()
				if done.Load() == 0 {
					t.Error("no process worked")
				}
			})
		})
	}
}

func TestInvalid(t *testing.T) {
	client := newClient(t, memstore.New(), "a")
	for _, bad := range []string{"", "a//b", "/a", "a/", "..", "\xff", strings.Repeat("x", 1024)} {
		if _, err := gooselock.New(client, bad, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("name %.20q: got %v", bad, err)
		}
	}
	for _, o := range []gooselock.Options{{LockTimeout: -1}, {Fence: "oracle"}} {
		if _, err := gooselock.New(client, name, &o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: got %v", o, err)
		}
	}
	for _, good := range []string{"база/данных 1", "a\x00b\nc", strings.Repeat("x", 500)} {
		l, err := gooselock.New(client, good, &gooselock.Options{LockTimeout: math.MaxInt64})
		if err == nil {
			err = errors.Join(l.Lock(t.Context(), nil), l.Unlock(t.Context(), nil))
		}
		if err != nil {
			t.Errorf("name %.20q: %v", good, err)
		}
	}
}

// noDatabase is a database that is away.
type noDatabase struct{ driver.Connector }

func (noDatabase) Connect(context.Context) (driver.Conn, error) {
	return nil, errors.New("no database")
}
func (noDatabase) Driver() driver.Driver { return nil }

// If the fence cannot be announced, Lock fails and frees the lock.
func TestFenceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, memstore.New(), "a")
		l := newLocker(t, client, &gooselock.Options{Fence: sqlstore.PostgreSQL})
		db := sql.OpenDB(noDatabase{})
		defer db.Close()
		for range 2 {
			if err := l.Lock(t.Context(), db); err == nil || !strings.Contains(err.Error(), "no database") {
				t.Errorf("got %v", err)
			}
		}
		db.SetMaxOpenConns(1)
		if err := l.Lock(t.Context(), db); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("got %v", err)
		}
		guard, err := client.TryAcquire(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := guard.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// slowDatabase begins its transactions late: another holder's transaction has not ended.
type slowDatabase struct {
	driver.Connector
	driver.Conn
}

func (d slowDatabase) Connect(context.Context) (driver.Conn, error) { return d, nil }
func (d slowDatabase) Close() error                                 { return nil }
func (d slowDatabase) Begin() (driver.Tx, error) {
	time.Sleep(time.Minute)
	return d, nil
}
func (d slowDatabase) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), nil
}
func (d slowDatabase) Commit() error   { return nil }
func (d slowDatabase) Rollback() error { return nil }

// If the lease is lost while the fence is announced, Lock fails. Otherwise goose would run a migration, which some databases
// cannot roll back.
func TestLostBeforeTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := faultstore.New(memstore.New(), faultstore.Schedule{})
		l := newLocker(t, newClient(t, st, "a"), &gooselock.Options{Fence: sqlstore.PostgreSQL})
		db := sql.OpenDB(slowDatabase{})
		defer db.Close()
		time.AfterFunc(time.Second, func() { st.Set(faultstore.MustParse("* * drop")) })
		if err := l.Lock(t.Context(), db); !errors.Is(err, lease.ErrLost) {
			t.Errorf("got %v", err)
		}
		st.Set(faultstore.Schedule{})
		if err := errors.Join(l.Lock(t.Context(), db), l.Unlock(t.Context(), db)); err != nil {
			t.Errorf("the lock is stuck: %v", err)
		}
	})
}

// The store keeps the optional method of the inner store.
func TestTableExists(t *testing.T) {
	l := newLocker(t, newClient(t, memstore.New(), "a"), nil)
	postgres, err := database.NewStore(database.DialectPostgres, goose.DefaultTablename)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(noDatabase{})
	defer db.Close()
	for inner, want := range map[database.Store]string{&fakeVersions{}: errors.ErrUnsupported.Error(), postgres: "no database"} {
		_, err := l.Store(inner).(database.StoreExtender).TableExists(t.Context(), db)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: got %v, want %s", inner, err, want)
		}
	}
}
