//go:build unix

package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4"
	databasetest "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/pressly/goose/v3"
	goosedb "github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"

	"github.com/holdfast-go/holdfast/adapters/gooselock"
	"github.com/holdfast-go/holdfast/adapters/migratelock"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	suite(t, newSQLite)
	t.Run("without the lock", func(t *testing.T) { testWithoutLock(t, newSQLite) })
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	suite(t, onPostgres(server))
	t.Run("lost replies", func(t *testing.T) {
		t.Parallel()
		testLostReplies(t, onPostgres(server), server.Address())
	})
	t.Run("pooler", func(t *testing.T) { testPooler(t, onPostgres(server)) })
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t)
	suite(t, onMariaDB(server))
	t.Run("without the lock", func(t *testing.T) { testWithoutLock(t, onMariaDB(server)) })
	t.Run("lost replies", func(t *testing.T) {
		t.Parallel()
		testLostReplies(t, onMariaDB(server), server.Address())
	})
}

func suite(t *testing.T, newTarget targetFunc) {
	for name, run := range map[string]func(*testing.T, targetFunc){
		"conformance of migrate": testMigrateConformance,
		"conformance of goose":   testGooseConformance,
		"killed":                 testKilled,
		"killed in a Run":        testKilledInRun,
		"fence":                  testFence,
		"stopped":                testStopped,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newTarget)
		})
	}
}

// The public tests of migrate. Drop removes all tables, so the lease is in another database.
func testMigrateConformance(t *testing.T, newTarget targetFunc) {
	at := newTarget(t)
	inner, err := openDriver(at.Kind, at.mustOpen(t))
	if err != nil {
		t.Fatal(err)
	}
	d, err := migratelock.New(inner, newTarget(t).mustClient(t), lockName, nil)
	if err != nil {
		t.Fatal(err)
	}
	databasetest.Test(t, d, []byte("CREATE TABLE conformance (x int)"))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// The public tests of goose.
func testGooseConformance(t *testing.T, newTarget targetFunc) {
	at := newTarget(t)
	client := at.mustClient(t)
	newLocker := func(t *testing.T) lock.Locker {
		l, err := gooselock.New(client, lockName, &gooselock.Options{Fence: at.dialect()})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	db, first := at.mustOpen(t), newLocker(t)
	if err := errors.Join(first.Lock(t.Context(), db), first.Unlock(t.Context(), db)); err != nil { // it examines the store
		t.Fatal(err)
	}
	locktesting.TestConcurrentLocking(t, db, newLocker, 2*time.Second) // all in all it has 7 s, of which a holder takes 4
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
		locker := newLocker(t).(*gooselock.Locker)
		inner, err := goosedb.NewStore(gooseDialect(at), goose.DefaultTablename)
		if err != nil {
			t.Fatal(err)
		}
		provider, err := goose.NewProvider(goose.DialectCustom, at.mustOpen(t), nil, goose.WithLocker(locker), goose.WithStore(locker.Store(inner)),
			goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(gooseMigrations(func(string) {})...))
		if err != nil {
			t.Fatal(err)
		}
		return provider
	})
	if got := at.applied(t); got != eachOnce {
		t.Errorf("applied %s", got)
	}
}

// Eight processes migrate one database at once. The first that reaches the third migration is killed. The others
// continue after its lease.
func testKilled(t *testing.T, newTarget targetFunc) {
	for tool, pause := range map[string]string{withMigrate: "before set 3 true", withGoose: "before run 3"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			at := newTarget(t)
			var all sync.WaitGroup
			var once sync.Once
			var mu sync.Mutex
			results := map[string]int{}
			for range 8 {
				p := start(t, job{Target: at, Tool: tool, Pause: pause})
				all.Go(func() {
					for line := range p.lines {
						if line == "paused" {
							killed := false
							once.Do(func() {
								killed = true
								time.Sleep(time.Second) // the others wait for the lock
								_ = p.Process.Kill()
							})
							if !killed {
								p.resume()
							}
						}
						if strings.Contains(line, "no change") {
							line = "ok"
						}
						mu.Lock()
						results[line]++
						mu.Unlock()
					}
				})
			}
			all.Wait()
			if results["paused"] != 2 || results["ok"] != 7 || len(results) != 2 {
				t.Errorf("got the results %v", results)
			}
			if got := at.applied(t); got != eachOnce {
				t.Errorf("applied %s", got)
			}
		})
	}
}

// A process dies in the middle of a migration. Migrate lets no process continue before a person has decided.
func testKilledInRun(t *testing.T, newTarget targetFunc) {
	at := newTarget(t)
	p := start(t, job{Target: at, Tool: withMigrate, Pause: "after run 3"})
	p.expect(t, "paused")
	_ = p.Process.Kill()
	m, err := newMigrate(t.Context(), at, at.mustOpen(t), at.mustClient(t), true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	dirty := migrate.ErrDirty{}
	if err := m.Up(); !errors.As(err, &dirty) || dirty.Version != 3 {
		t.Fatalf("got %v", err)
	}
	if err := errors.Join(m.Force(3), m.Up()); err != nil {
		t.Error(err)
	}
	if got := at.applied(t); got != eachOnce {
		t.Errorf("applied %s", got)
	}
}

// The connections of the leases break again and again, before a request or before its reply.
func testLostReplies(t *testing.T, newTarget targetFunc, address string) {
	for _, tool := range []string{withMigrate, withGoose} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			at := newTarget(t)
			var pieces atomic.Int64
			proxy := servers.NewTCPProxy(t, func() string { return address }, func() (before, after bool) {
				n := rand.IntN(20)
				return n == 0, pieces.Add(1) == 9 || n == 1
			})
			at.LeaseURL = strings.ReplaceAll(at.URL, address, proxy.Address)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					var errs []error
					for range 10 { // a release without a reply is an error, for example
						err := job{Target: at, Tool: tool}.run(t.Context(), func(string) { time.Sleep(20 * time.Millisecond) })
						if err == nil || errors.Is(err, migrate.ErrNoChange) {
							return
						}
						errs = append(errs, err)
					}
					t.Error(errors.Join(errs...))
				})
			}
			all.Wait()
			if got := at.applied(t); got != eachOnce {
				t.Errorf("applied %s", got)
			}
			if n := pieces.Load(); n < 9 {
				t.Errorf("%d requests, so no connection was broken", n)
			}
		})
	}
}

// Control: without the adapter, migrate has no lock in SQLite and with the option NoLock, and another process works
// at the same time. In PostgreSQL the driver has a lock of its own: see testPooler.
func testWithoutLock(t *testing.T, newTarget targetFunc) {
	at := newTarget(t)
	p := start(t, job{Target: at, Tool: migrateNoLease, Pause: "after version"})
	p.expect(t, "paused")
	if err := (job{Target: at, Tool: migrateNoLease}).run(t.Context(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	p.resume()
	p.expect(t, "error:")
	m, err := newMigrate(t.Context(), at, at.mustOpen(t), at.mustClient(t), false, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if version, dirty, err := m.Version(); version != 1 || !dirty || err != nil {
		t.Errorf("got version %d, dirty %t, %v: the second process did not disturb the first", version, dirty, err)
	}
}

// The fence alone refuses a former holder that still trusts its lease, in its transaction. Here the two holders have
// leases in different stores.
func testFence(t *testing.T, newTarget targetFunc) {
	at, elsewhere := newTarget(t), newSQLite(t)
	db := at.mustOpen(t)
	inner, err := goosedb.NewStore(gooseDialect(at), goose.DefaultTablename)
	if err != nil {
		t.Fatal(err)
	}
	if err := inner.CreateVersionTable(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	former := newFenced(t, at, at.dialect())
	if err := former.Lock(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	next := newFenced(t, elsewhere, at.dialect())

	// A transaction that has passed the fence commits before the next holder has the lock.
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := former.Store(inner).Insert(t.Context(), tx, goosedb.InsertRequest{Version: 1}); err != nil {
		t.Fatal(err)
	}
	var committed, locked time.Time
	done := make(chan error)
	go func() {
		err := next.Lock(context.WithoutCancel(t.Context()), db)
		locked = time.Now()
		done <- err
	}()
	time.Sleep(500 * time.Millisecond)
	committed = time.Now()
	if err := errors.Join(tx.Commit(), <-done); err != nil {
		t.Fatal(err)
	}
	if locked.Before(committed) {
		t.Error("the next holder did not wait for the transaction")
	}
	// A later transaction is refused, with everything in it. Control: without the fence, it is not.
	unfenced := newFenced(t, newTarget(t), "")
	if err := unfenced.Lock(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for version, l := range map[int64]*gooselock.Locker{2: former, 3: unfenced} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO applied (version) VALUES (%d)", version)); err != nil {
			t.Fatal(err)
		}
		err = l.Store(inner).Insert(t.Context(), tx, goosedb.InsertRequest{Version: version})
		if fenced := errors.Is(err, sqlstore.ErrFenced); fenced != (l == former) || !fenced && err != nil {
			t.Errorf("version %d: got %v", version, err)
		}
		end := tx.Commit
		if err != nil {
			end = tx.Rollback
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	if got := at.applied(t); got != "3:1 " {
		t.Errorf("applied %s", got)
	}
	for _, l := range []*gooselock.Locker{former, next, unfenced} {
		if err := l.Unlock(t.Context(), db); err != nil {
			t.Error(err)
		}
	}
}

// newFenced returns a locker with a lease in a target.
func newFenced(t *testing.T, lease target, fence sqlstore.Dialect) *gooselock.Locker {
	t.Helper()
	l, err := gooselock.New(lease.mustClient(t), lockName, &gooselock.Options{Fence: fence})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
