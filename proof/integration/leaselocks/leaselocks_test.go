package leaselocks_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/compat/leaselocks"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/trylock"
	"github.com/holdfast-go/holdfast/store"
)

// A row is what matrix-sdk-sqlite writes: a real number of whole milliseconds, and a generation.
func TestRow(t *testing.T) {
	dir := t.TempDir()
	table := openTable(t, dir, &leaselocks.Options{Create: true})
	before := time.Now().UnixMilli()
	generation, obtained, err := table.TryLock(t.Context(), "job", "me", 1500*time.Millisecond)
	if err != nil || !obtained || generation != 1 {
		t.Fatalf("got generation %d, %t, %v", generation, obtained, err)
	}
	var holder, kind string
	var expiration float64
	var n int
	row := open(t, dir, 5000).QueryRow(`SELECT holder, expiration, typeof(expiration), generation FROM lease_locks WHERE key = 'job'`)
	if err := row.Scan(&holder, &expiration, &kind, &n); err != nil {
		t.Fatal(err)
	}
	end := int64(expiration)
	if holder != "me" || kind != "real" || float64(end) != expiration || end < before+1500 || end > time.Now().UnixMilli()+1500 || n != 1 {
		t.Errorf("got %q, %v (%s), %d", holder, expiration, kind, n)
	}
}

// The two programs exclude each other, and the generation rises with each change of the holder.
func TestExclusion(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, start func(string) (peer, error)) {
		dir := t.TempDir()
		p := mustStart(t, start, dir)
		table := openTable(t, dir, nil)
		h := newHandle(t, table)
		guard, err := h.TryAcquire(t.Context())
		if err != nil || guard.Token() != 1 {
			t.Fatalf("got %v", err)
		}
		for range 20 {
			if generation, err := p.try("job", "theirs", ttl); generation != 0 || err != nil {
				t.Fatalf("the other program got generation %d, %v; our guard says %v", generation, err, guard.Err())
			}
			time.Sleep(ttl / 10)
		}
		if err := guard.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // equal to now is not free yet
		for _, want := range []uint64{2, 2} {
			if generation, err := p.try("job", "theirs", ttl); generation != want || err != nil {
				t.Fatalf("the other program got generation %d, %v, want %d", generation, err, want)
			}
		}
		if _, err := h.TryAcquire(t.Context()); !errors.Is(err, lease.ErrHeld) {
			t.Fatalf("got %v, want that the other program has the lock", err)
		}
		guard, err = h.Acquire(t.Context()) // after the lease of the other program
		if err != nil || guard.Token() != 3 || guard.WasLastHolder() {
			t.Fatalf("got %v", err)
		}
		// Their release of an expired lease does nothing.
		if generation, err := p.try("job", "theirs", 0); generation != 0 || err != nil || guard.Err() != nil {
			t.Errorf("got generation %d, %v, and the guard %v", generation, err, guard.Err())
		}
		if err := guard.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
		if guard, err = h.TryAcquire(t.Context()); err != nil || !guard.WasLastHolder() || guard.Token() != 4 {
			t.Fatalf("got %v", err)
		}
		if err := guard.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Many holders of both programs change a number that only the lock protects.
func TestContention(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, start func(string) (peer, error)) {
		dir := t.TempDir()
		p := mustStart(t, start, dir)
		var holders atomic.Int32
		var mu sync.Mutex
		var tokens []uint64
		work := func(token uint64) {
			if n := holders.Add(1); n != 1 {
				t.Errorf("%d holders at a time", n)
			}
			mu.Lock()
			tokens = append(tokens, token)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			holders.Add(-1)
		}
		const each = 15
		var all sync.WaitGroup
		for n := range 3 {
			table := openTable(t, dir, nil)
			all.Go(func() {
				h := newHandle(t, table)
				for range each {
					guard, err := h.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					work(guard.Token())
					if err := guard.Release(t.Context()); err != nil && !errors.Is(err, lease.ErrLost) && store.OutcomeOf(err) != store.Unknown {
						t.Error(err)
					}
				}
			})
			all.Go(func() {
				holder := fmt.Sprint("theirs-", n)
				for done := 0; done < each; {
					generation, err := p.try("job", holder, 10*time.Second)
					if err != nil {
						t.Error(err)
						return
					}
					if generation == 0 {
						time.Sleep(5 * time.Millisecond)
						continue
					}
					work(generation)
					done++
					if _, err := p.try("job", holder, 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for i := 1; i < len(tokens); i++ {
			if tokens[i] < tokens[i-1] {
				t.Fatalf("the tokens are %v", tokens)
			}
		}
		if len(tokens) != 6*each {
			t.Errorf("%d grants, want %d", len(tokens), 6*each)
		}
	})
}

// A program is killed while it has the lock: the other one gets it after the lease, with a higher token.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, start func(string) (peer, error)) {
		dir := t.TempDir()
		p := mustStart(t, start, dir)
		ours, lines := startHolder(t, dir)
		if line := <-lines; line != "1" {
			t.Fatalf("got %q from our process", line)
		}
		time.Sleep(ttl * 3 / 2)
		if generation, err := p.try("job", "theirs", ttl); generation != 0 || err != nil {
			t.Fatalf("got generation %d, %v under a living holder", generation, err)
		}
		if err := ours.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = ours.Wait()
		killed := time.Now()
		for generation := uint64(0); generation == 0; time.Sleep(5 * time.Millisecond) {
			var err error
			if generation, err = p.try("job", "theirs", ttl); err != nil || generation > 2 || time.Since(killed) > 5*ttl {
				t.Fatalf("got generation %d, %v after %v", generation, err, time.Since(killed))
			}
		}
		if theirs, ok := p.(*crate); ok {
			if err := theirs.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		guard, err := newHandle(t, openTable(t, dir, nil)).Acquire(t.Context())
		if err != nil || guard.Token() != 3 {
			t.Fatalf("got %v", err)
		}
		if err := guard.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// old are files of earlier releases: their tables, the version, and the version after the upgrade.
var old = map[string]struct {
	tables, column string
	version, after byte
}{
	"media":              {"media", "expiration", 1, 2},
	"event cache":        {"event_chunks", "expiration", 12, 13},
	"crypto":             {"inbound_group_session", "expiration_ts", 12, 13},
	"an old crypto":      {"inbound_group_session", "expiration_ts", 11, 0},
	"an old event cache": {"event_chunks", "expiration", 5, 0},
	"not of the crate":   {"", "expiration", 0, 0},
}

func makeOld(t *testing.T, dir, table, column string, version byte) *sql.DB {
	t.Helper()
	db := open(t, dir, 5000)
	exec := func(text string, args ...any) {
		t.Helper()
		if _, err := db.Exec(text, args...); err != nil {
			t.Fatal(err)
		}
	}
	if table != "" {
		exec(`CREATE TABLE "` + table + `" (id INTEGER PRIMARY KEY)`)
		exec(`CREATE TABLE "kv" ("key" TEXT PRIMARY KEY NOT NULL, "value" BLOB NOT NULL)`)
		exec(`INSERT INTO kv VALUES ('version', ?1)`, []byte{version})
	}
	exec(`CREATE TABLE "lease_locks" ("key" TEXT PRIMARY KEY NOT NULL, "holder" TEXT NOT NULL, "` + column + `" REAL NOT NULL)`)
	exec(`INSERT INTO lease_locks VALUES ('job', 'theirs', ?1)`, time.Now().Add(time.Hour).UnixMilli())
	return db
}

// Files without a generation are refused, or upgraded as the crate does. A lease in the file stays.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for name, c := range old {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := makeOld(t, dir, c.tables, c.column, c.version)
			if _, err := leaselocks.Open(t.Context(), db, nil); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "Options.Upgrade") {
				t.Fatalf("without the option, got %v", err)
			}
			var tables []*leaselocks.Table
			var errs []error
			var all sync.WaitGroup
			var mu sync.Mutex
			for range 4 { // at the same time
				other := open(t, dir, 5000)
				all.Go(func() {
					table, err := leaselocks.Open(t.Context(), other, &leaselocks.Options{Upgrade: true})
					mu.Lock()
					defer mu.Unlock()
					tables, errs = append(tables, table), append(errs, err)
				})
			}
			all.Wait()
			var version []byte
			if c.tables != "" {
				if err := db.QueryRow(`SELECT value FROM kv WHERE key = 'version'`).Scan(&version); err != nil {
					t.Fatal(err)
				}
			}
			if c.tables != "" && c.after == 0 {
				for _, err := range errs {
					if !errors.Is(err, store.ErrMisconfigured) || version[0] != c.version {
						t.Errorf("got %v; the version is %d", err, version[0])
					}
				}
				return
			}
			if err := errors.Join(errs...); err != nil || c.tables != "" && version[0] != c.after {
				t.Fatalf("got %v; the version is %v, want %d", err, version, c.after)
			}
			table := tables[0]
			if _, obtained, err := table.TryLock(t.Context(), "job", "me", ttl); obtained || err != nil {
				t.Errorf("the lease in the file was not kept: %t, %v", obtained, err)
			}
			if generation, obtained, err := table.TryLock(t.Context(), "job", "theirs", ttl); !obtained || err != nil || generation != 1 {
				t.Errorf("got generation %d, %t, %v", generation, obtained, err)
			}
		})
	}
}

// The other program opens a file that was upgraded here. Without the version it could not: this is the control.
func TestOtherProgramOpensUpgradedFile(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, start func(string) (peer, error)) {
		for _, raised := range []bool{true, false} {
			dir := t.TempDir()
			mustStart(t, start, dir)
			db := open(t, dir, 5000)
			exec := func(text string) {
				t.Helper()
				if _, err := db.Exec(text); err != nil {
					t.Fatal(err)
				}
			}
			const oldVersion = `UPDATE kv SET value = x'01' WHERE key = 'version'`
			exec(`ALTER TABLE lease_locks DROP COLUMN generation`)
			exec(oldVersion)
			table := openTable(t, dir, &leaselocks.Options{Upgrade: true})
			if _, _, err := table.TryLock(t.Context(), "job", "me", time.Hour); err != nil {
				t.Fatal(err)
			}
			if !raised {
				exec(oldVersion)
			}
			p, err := start(dir)
			if (err == nil) != raised {
				t.Fatalf("with the version raised %t, the other program says %v", raised, err)
			}
			if raised {
				if generation, err := p.try("job", "theirs", ttl); generation != 0 || err != nil {
					t.Errorf("got generation %d, %v", generation, err)
				}
			}
		}
	})
}

// The table that Create makes is the one that the crate makes.
func TestCreate(t *testing.T) {
	columns := func(dir string) (all string) {
		err := open(t, dir, 5000).QueryRow(`SELECT group_concat(name || ' ' || type || ' ' || "notnull" || ' ' || coalesce(dflt_value, '-') || ' ' || pk, ', ') FROM pragma_table_info('lease_locks')`).Scan(&all)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	eachPeer(t, func(t *testing.T, start func(string) (peer, error)) {
		ours, theirs := t.TempDir(), t.TempDir()
		for range 2 {
			openTable(t, ours, &leaselocks.Options{Create: true})
		}
		mustStart(t, start, theirs)
		if got, want := columns(ours), columns(theirs); got != want {
			t.Errorf("got the columns\n%s, want\n%s", got, want)
		}
	})
}

// What cannot be used is refused with a line that says what to do.
func TestRefusedDatabases(t *testing.T) {
	for name, c := range map[string]struct {
		text, url string
		is        error
		says      string
	}{
		"no table":             {"", "", store.ErrMisconfigured, "Options.Create"},
		"no primary key":       {`CREATE TABLE lease_locks (key TEXT, holder TEXT, expiration REAL, generation INTEGER)`, "", store.ErrMisconfigured, "other columns"},
		"other columns":        {`CREATE TABLE lease_locks (key TEXT PRIMARY KEY, owner TEXT)`, "", store.ErrMisconfigured, "other columns"},
		"more columns":         {`CREATE TABLE lease_locks (key TEXT PRIMARY KEY, holder TEXT, expiration REAL, generation INTEGER, e TEXT, f TEXT)`, "", store.ErrMisconfigured, "other columns"},
		"a commit can be lost": {"", "&_pragma=synchronous(OFF)", store.ErrUnsafe, "synchronous = FULL"},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := sql.Open("sqlite", url(t.TempDir(), 100)+c.url)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if c.text != "" {
				if _, err := db.Exec(c.text); err != nil {
					t.Fatal(err)
				}
			}
			_, err = leaselocks.Open(t.Context(), db, nil)
			if !errors.Is(err, c.is) || !store.Permanent(err) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %v", err, c.is)
			}
		})
	}
}

// A generation that is not positive, or that cannot rise any more, is an error and takes nothing.
func TestDamagedGeneration(t *testing.T) {
	for name, value := range map[string]any{"zero": -1, "the largest number": int64(1<<63 - 1)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			table, db := openTable(t, dir, &leaselocks.Options{Create: true}), open(t, dir, 5000)
			if _, err := db.Exec(`INSERT INTO lease_locks VALUES ('job', 'theirs', 1, ?1)`, value); err != nil {
				t.Fatal(err)
			}
			_, err := newHandle(t, table).Acquire(t.Context())
			var holder string
			if err := db.QueryRow(`SELECT holder FROM lease_locks`).Scan(&holder); err != nil {
				t.Fatal(err)
			}
			if !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied || holder != "theirs" {
				t.Errorf("got %v; the holder is %q", err, holder)
			}
		})
	}
}

// Another program keeps SQLite's write lock. TryLock takes nothing, and a lease that cannot be renewed ends in time.
func TestLongTransaction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	openTable(t, dir, &leaselocks.Options{Create: true})
	table, err := leaselocks.Open(t.Context(), open(t, dir, 50), nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := newHandle(t, table).TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := open(t, dir, 5000).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, _, err := table.TryLock(t.Context(), "other", "me", ttl); store.OutcomeOf(err) != store.NotApplied || store.Permanent(err) {
		t.Errorf("got %v, want that nothing was done", err)
	}
	<-guard.Context().Done()
	if took := time.Since(began); took > ttl || !errors.Is(guard.Err(), lease.ErrExpired) {
		t.Errorf("the lease ended after %v: %v", took, guard.Err())
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	_ = guard.Release(t.Context())
	next, err := newHandle(t, table).Acquire(t.Context())
	if err != nil || next.Token() <= guard.Token() {
		t.Fatalf("got %v", err)
	}
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The clock is read before SQLite's write lock is waited for, so a lease can be over when it is obtained. Without a
// handle, the caller does not see this: this is the control.
func TestLeaseThatIsOverWhenObtained(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, start func(string) (peer, error)) {
		dir := t.TempDir()
		p := mustStart(t, start, dir)
		table := openTable(t, dir, nil)
		conn, err := open(t, dir, 5000).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(ttl*5/4, func() { _, _ = conn.ExecContext(context.Background(), "ROLLBACK") })
		var both sync.WaitGroup
		both.Go(func() {
			began := time.Now()
			generation, err := p.try("control", "theirs", ttl)
			if generation != 1 || err != nil || time.Since(began) < ttl {
				t.Errorf("the control got generation %d, %v after %v", generation, err, time.Since(began))
			}
		})
		both.Go(func() {
			guard, err := newHandle(t, table).Acquire(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if left := guard.Remaining(); left <= 0 && guard.Err() == nil {
				t.Errorf("got a guard with %v left", left)
			}
			if err := guard.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if generation, err := p.try("control", "another", ttl); generation != 2 || err != nil {
			t.Errorf("the lease of the control is not over: %d, %v", generation, err)
		}
	})
}

// The end of a context during the wait for SQLite's write lock takes nothing.
func TestContextEndsDuringTheWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := openTable(t, dir, &leaselocks.Options{Create: true})
	db := open(t, dir, 5000)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	h, err := trylock.New(table, "job", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	time.Sleep(200 * time.Millisecond)
	// What was left behind has returned by now, and has freed what it took.
	var n int
	if err := db.QueryRow(`SELECT count(*) FROM lease_locks WHERE expiration > ?1`, time.Now().UnixMilli()).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d leases are left, %v", n, err)
	}
}
