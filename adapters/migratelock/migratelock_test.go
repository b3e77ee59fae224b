package migratelock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	databasetest "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source"
	sourcestub "github.com/golang-migrate/migrate/v4/source/stub"

	"github.com/holdfast-go/holdfast/adapters/migratelock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
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

// hooked is a driver that calls a function in the middle of each change.
type hooked struct {
	database.Driver
	during func(call string)
}

func (h hooked) Run(r io.Reader) error {
	h.during("run")
	return h.Driver.Run(r)
}

func (h hooked) SetVersion(version int, dirty bool) error {
	h.during(fmt.Sprint("version ", version, " ", dirty))
	return h.Driver.SetVersion(version, dirty)
}

func (h hooked) Drop() error {
	h.during("drop")
	return h.Driver.Drop()
}

func newStub(t *testing.T) *stub.Stub {
	t.Helper()
	d, err := stub.WithInstance(nil, &stub.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return d.(*stub.Stub)
}

func newDriver(t *testing.T, inner database.Driver, client *lease.Client, wait time.Duration) *migratelock.Driver {
	t.Helper()
	d, err := migratelock.New(inner, client, name, &migratelock.Options{LockTimeout: wait})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newMigrate returns three migrations.
func newMigrate(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	src, err := sourcestub.WithInstance(nil, &sourcestub.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for v := range uint(3) {
		for _, direction := range []source.Direction{source.Up, source.Down} {
			src.(*sourcestub.Stub).Migrations.Append(&source.Migration{Version: v + 1, Identifier: fmt.Sprint(direction, v+1), Direction: direction})
		}
	}
	m, err := migrate.NewWithInstance("stub", src, "stub", d)
	if err != nil {
		t.Fatal(err)
	}
	m.LockTimeout = time.Hour
	return m
}

// The public tests of migrate.
func TestConformance(t *testing.T) {
	databasetest.Test(t, newDriver(t, newStub(t), newClient(t, memstore.New(), "a"), 0), []byte("CREATE"))
}

func TestExclusion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := newDriver(t, newStub(t), newClient(t, st, "host a"), 0)
		b := newDriver(t, newStub(t), newClient(t, st, "host b"), 0)
		if err := a.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := a.SetVersion(1, false); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := b.Lock()
		if !errors.Is(err, database.ErrLocked) || !errors.Is(err, migrate.ErrLockTimeout) || !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), "host a") {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited >= migrate.DefaultLockTimeout || waited < migrate.DefaultLockTimeout/2 {
			t.Errorf("waited for %v", waited)
		}
		if err := b.Unlock(); !errors.Is(err, database.ErrNotLocked) {
			t.Errorf("got %v", err)
		}
		if err := errors.Join(a.Unlock(), b.Lock(), b.Unlock()); err != nil {
			t.Error(err)
		}
	})
}

// The lease is lost in the middle of a migration, or between two. Nothing is changed after that, and a new
// Up of the same migrate.Migrate does not find itself locked. Migrate leaves goroutines when it stops, so the
// test is not in a bubble.
func TestLostLease(t *testing.T) {
	for at, want := range map[string]struct {
		version    int
		dirty      bool
		migrations string
	}{
		"version 1 true":  {1, true, ""}, // this write was on its way
		"run":             {1, true, "up1"},
		"version 1 false": {1, false, "up1"},
		"version 2 true":  {2, true, "up1"},
		"version 3 false": {3, false, "up1 up2 up3"}, // the last write: the loss is reported
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			st := memstore.New()
			operator := newClient(t, st, "operator")
			lost := make(chan struct{})
			client, err := lease.New(st, &lease.Options{TTL: 3 * time.Second, OnEvent: func(e lease.Event) {
				if e.Kind == lease.EventLost {
					close(lost)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close(context.Background())
			inner := newStub(t)
			var once sync.Once
			m := newMigrate(t, newDriver(t, hooked{inner, func(call string) {
				if call != at {
					return
				}
				once.Do(func() {
					info, err := operator.Inspect(t.Context(), name)
					if err == nil {
						_, err = operator.Break(t.Context(), name, info.Record.Token, &lease.BreakOptions{Immediate: true})
					}
					if err != nil {
						t.Error(err)
					}
					<-lost
				})
			}}, client, time.Minute))
			if err := m.Up(); !errors.Is(err, lease.ErrLost) {
				t.Errorf("got %v", err)
			}
			if inner.CurrentVersion != want.version || inner.IsDirty != want.dirty || strings.Join(inner.MigrationSequence, " ") != want.migrations {
				t.Errorf("got version %d, dirty %t, %q", inner.CurrentVersion, inner.IsDirty, inner.MigrationSequence)
			}
			err = m.Up()
			if dirty := (migrate.ErrDirty{}); want.dirty != errors.As(err, &dirty) || !want.dirty && err != nil && err != migrate.ErrNoChange {
				t.Errorf("the second Up: %v", err)
			}
		})
	}
}

// Control: without the check, the same loss does not stop migrate.
func TestLostLeaseControl(t *testing.T) {
	inner := newStub(t)
	m := newMigrate(t, hooked{inner, func(string) {}})
	if err := m.Up(); err != nil || inner.CurrentVersion != 3 {
		t.Errorf("got %v, version %d", err, inner.CurrentVersion)
	}
}

// A lost lease also refuses Drop and Force.
func TestLostBeforeDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, memstore.New(), "a")
		inner := newStub(t)
		d := newDriver(t, inner, client, time.Minute)
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := client.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for call, err := range map[string]error{"drop": d.Drop(), "force": d.SetVersion(7, false), "run": d.Run(strings.NewReader("x"))} {
			if !errors.Is(err, lease.ErrClosed) {
				t.Errorf("%s: got %v", call, err)
			}
		}
		if inner.CurrentVersion != database.NilVersion || len(inner.MigrationSequence) != 0 {
			t.Errorf("got version %d, %q", inner.CurrentVersion, inner.MigrationSequence)
		}
		if err := d.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// The store does not answer when Lock begins, and later during a migration and a release.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = "* * drop"
		mem := memstore.New()
		st := faultstore.New(mem, faultstore.MustParse(away))
		inner := newStub(t)
		hook := func(string) {}
		d := newDriver(t, hooked{inner, func(call string) { hook(call) }}, newClient(t, st, "a"), 20*time.Second)
		m := newMigrate(t, d)
		if err := m.Up(); !errors.Is(err, migrate.ErrLockTimeout) || errors.Is(err, database.ErrLocked) || inner.CurrentVersion != database.NilVersion {
			t.Errorf("got %v, version %d", err, inner.CurrentVersion)
		}
		st.Set(faultstore.Schedule{})
		// A short outage is no loss.
		hook = func(call string) {
			if call == "version 1 true" {
				st.Set(faultstore.MustParse(away))
				time.Sleep(11 * time.Second)
				st.Set(faultstore.Schedule{})
			}
		}
		if err := m.Steps(1); err != nil {
			t.Error(err)
		}
		hook = func(call string) {
			if call == "run" {
				st.Set(faultstore.MustParse(away))
				time.Sleep(time.Minute)
			}
		}
		if err := m.Steps(1); !errors.Is(err, lease.ErrExpired) || inner.CurrentVersion != 2 || !inner.IsDirty {
			t.Errorf("got %v, version %d, dirty %t", err, inner.CurrentVersion, inner.IsDirty)
		}
		// The release was lost. The next holder waits for no longer than the TTL.
		began := time.Now()
		other := newMigrate(t, newDriver(t, inner, newClient(t, mem, "b"), time.Hour))
		if err := other.Force(2); err != nil || time.Since(began) > 35*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// Migrate gives up before Lock does. The lock that Lock takes later is freed.
func TestMigrateGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		holder := newDriver(t, newStub(t), newClient(t, st, "holder"), time.Minute)
		if err := holder.Lock(); err != nil {
			t.Fatal(err)
		}
		d := newDriver(t, newStub(t), newClient(t, st, "late"), time.Minute)
		late := newMigrate(t, d)
		late.LockTimeout = time.Second
		if err := late.Up(); !errors.Is(err, migrate.ErrLockTimeout) {
			t.Fatalf("got %v", err)
		}
		if err := d.Lock(); !errors.Is(err, database.ErrLocked) {
			t.Errorf("a second Lock beside the first: got %v", err)
		}
		if err := holder.Unlock(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(migratelock.UnusedTimeout / 2)
		next := newClient(t, st, "next")
		if _, err := next.TryAcquire(t.Context(), name, nil); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("the late Lock did not take the lock: %v", err)
		}
		_, _, _ = d.Version() // which programs call without a lock
		time.Sleep(migratelock.UnusedTimeout)
		guard, err := next.TryAcquire(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		// What such a Lock would have guarded is refused.
		if err := d.Run(strings.NewReader("x")); !errors.Is(err, lease.ErrReleased) {
			t.Errorf("got %v", err)
		}
		if err := errors.Join(guard.Release(t.Context()), d.Unlock()); err != nil {
			t.Error(err)
		}
		// The same migrate.Migrate can be used again. A lock that is used lasts.
		late.LockTimeout = time.Hour
		d2 := hooked{newStub(t), func(string) { time.Sleep(3 * migratelock.UnusedTimeout) }}
		if err := errors.Join(late.Up(), newMigrate(t, newDriver(t, d2, newClient(t, st, "slow"), time.Minute)).Up()); err != nil {
			t.Error(err)
		}
	})
}

func TestGivenUpLockIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, newStub(t), newClient(t, memstore.New(), "a"), time.Minute)
		if err := d.Lock(); err != nil { // and migrate has given up
			t.Fatal(err)
		}
		if err := d.Lock(); !errors.Is(err, database.ErrLocked) {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * migratelock.UnusedTimeout)
		if err := newMigrate(t, d).Up(); err != nil {
			t.Error(err)
		}
	})
}

// Close ends a Lock that waits, and frees a lock. No Lock succeeds after it.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		holder := newDriver(t, newStub(t), newClient(t, st, "holder"), time.Minute)
		if err := holder.Lock(); err != nil {
			t.Fatal(err)
		}
		waiting := newDriver(t, newStub(t), newClient(t, st, "waiting"), time.Hour)
		ended := make(chan error, 1)
		go func() { ended <- waiting.Lock() }()
		time.Sleep(time.Second)
		if err := waiting.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		for range 2 { // while the lock is held, and when it is free
			began := time.Now()
			if err := waiting.Lock(); err == nil || time.Since(began) != 0 {
				t.Errorf("Lock after Close: got %v after %v", err, time.Since(began))
			}
			if err := holder.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := newClient(t, st, "next").TryAcquire(t.Context(), name, nil); err != nil {
			t.Error(err)
		}
	})
}

// Close comes just when Lock gets the lock.
func TestCloseDuringLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		var d *migratelock.Driver
		var once sync.Once
		client, err := lease.New(st, &lease.Options{Trace: func(ctx context.Context, _ string, _ *lease.Guard) (context.Context, func(*lease.Guard, error)) {
			return ctx, func(*lease.Guard, error) { once.Do(func() { _ = d.Close() }) }
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(context.Background())
		d = newDriver(t, newStub(t), client, time.Minute)
		if err := d.Lock(); err == nil || errors.Is(err, database.ErrLocked) {
			t.Errorf("got %v", err)
		}
		if _, err := newClient(t, st, "next").TryAcquire(t.Context(), name, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestInvalid(t *testing.T) {
	client := newClient(t, memstore.New(), "a")
	for _, bad := range []string{"", "a//b", "/a", "a/", "..", "\xff", strings.Repeat("x", 1024), "postgres://db/shop"} {
		if _, err := migratelock.New(newStub(t), client, bad, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("name %.20q: got %v", bad, err)
		}
	}
	if _, err := migratelock.New(newStub(t), client, name, &migratelock.Options{LockTimeout: -1}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	for _, good := range []string{"база/данных 1", "a\x00b\nc", strings.Repeat("x", 500)} {
		d, err := migratelock.New(newStub(t), client, good, &migratelock.Options{LockTimeout: math.MaxInt64})
		if err != nil {
			t.Errorf("name %.20q: %v", good, err)
			continue
		}
		if err := errors.Join(d.Lock(), d.Unlock()); err != nil {
			t.Errorf("name %.20q: %v", good, err)
		}
	}
}

// A program that opens databases by URLs registers a Driver.
func TestOpen(t *testing.T) {
	client := newClient(t, memstore.New(), "a")
	d, err := migratelock.New(&stub.Stub{}, client, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	scheme := "stub" + strings.ToLower(rand.Text()) // a scheme cannot be registered twice, also if the test runs again
	database.Register(migratelock.SchemePrefix+scheme, d)
	opened, err := database.Open(migratelock.SchemePrefix + scheme + "://host/shop")
	if err != nil {
		t.Fatal(err)
	}
	if inner := opened.(*migratelock.Driver).Driver.(*stub.Stub); inner.Url != scheme+"://host/shop" {
		t.Errorf("the inner driver got %q", inner.Url)
	}
	if err := opened.Lock(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.TryAcquire(t.Context(), name, nil); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(opened.Unlock(), opened.Close()); err != nil {
		t.Error(err)
	}
}

// While requests and replies are lost, only one process works at a time, every lost lease is reported, and no
// lock stays held for ever.
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
					d := newDriver(t, hooked{newStub(t), func(string) {
						if n := working.Add(1); n != 1 {
							t.Errorf("%d holders", n)
						}
						time.Sleep(time.Second)
						working.Add(-1)
					}}, newClient(t, st, fmt.Sprint(i)), 10*time.Minute)
					all.Go(func() {
						for range 4 {
							if err := d.Lock(); err != nil {
								if !errors.Is(err, migrate.ErrLockTimeout) && !errors.Is(err, store.ErrUnavailable) {
									t.Error(err)
								}
								continue
							}
							err := errors.Join(d.SetVersion(1, true), d.Run(strings.NewReader("x")), d.SetVersion(1, false))
							switch {
							case err == nil:
								done.Add(1)
							case !errors.Is(err, lease.ErrLost):
								t.Error(err)
							}
							if err := d.Unlock(); err != nil {
								t.Error(err)
							}
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
