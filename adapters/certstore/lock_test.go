package certstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/adapters/certstore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

const (
	issue = "issue_cert_Example.com" // as certmagic names its lock
	site  = "certificates/ca/example.com/example.com"
)

// Goroutines of several servers exclude each other, and those of one server, too.
func TestLocksExclude(t *testing.T) {
	eachStore(t, func(t *testing.T, st store.Store) {
		storages := []*certstore.Storage{open(t, st), open(t, st)}
		var all sync.WaitGroup
		var holders [2]atomic.Int32
		for n := range 8 {
			s, i := storages[n%2], n/2%2
			name := fmt.Sprint("lock", i)
			all.Go(func() {
				for try := range 10 {
					ok, err := false, error(nil)
					if try%3 == 0 {
						ok, err = s.TryLock(t.Context(), name)
					}
					if !ok && err == nil {
						err = s.Lock(t.Context(), name)
					}
					if err != nil {
						t.Errorf("Lock: %v", err)
						return
					}
					if holders[i].Add(1) != 1 {
						t.Error("two holders")
					}
					if ok, err := s.TryLock(t.Context(), name); ok || err != nil {
						t.Errorf("TryLock of a held lock: got %t, %v", ok, err)
					}
					holders[i].Add(-1)
					if err := s.Unlock(t.Context(), name); err != nil {
						t.Errorf("Unlock: %v", err)
					}
				}
			})
		}
		all.Wait()
		for _, s := range storages {
			if err := s.Unlock(t.Context(), "lock0"); !errors.Is(err, lease.ErrNotHeld) {
				t.Errorf("Unlock of a lock that is not held: got %v", err)
			}
			if err := s.RenewLockLease(t.Context(), "lock0", time.Minute); !errors.Is(err, lease.ErrNotHeld) {
				t.Errorf("RenewLockLease of a lock that is not held: got %v", err)
			}
		}
	})
}

// A wait ends with its context, in the server that has the lock and in another.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var st memstore.Store
		mine, theirs := open(t, &st), open(t, &st)
		if err := mine.Lock(t.Context(), "l"); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, s := range []*certstore.Storage{mine, theirs, theirs} {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				if err := s.Lock(ctx, "l"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(start); took < time.Hour || took > time.Hour+10*time.Second {
					t.Errorf("the wait took %v", took)
				}
			})
		}
		all.Wait()
		if err := mine.Unlock(t.Context(), "l"); err != nil {
			t.Error(err) // the lease was renewed for an hour
		}
		if err := theirs.Lock(t.Context(), "l"); err != nil {
			t.Error(err)
		}
		if err := theirs.Unlock(t.Context(), "l"); err != nil {
			t.Error(err)
		}
	})
}

// breakLock ends the grant of a lock as an operator does.
func breakLock(t *testing.T, st store.Store, name string) {
	t.Helper()
	client, err := lease.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	info, err := client.Inspect(t.Context(), "certmagic/"+name)
	if err == nil {
		_, err = client.Break(t.Context(), "certmagic/"+name, info.Record.Token, &lease.BreakOptions{Immediate: true})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The lease is lost while certmagic works. Unlock returns an error. Until then, no other goroutine of the server gets
// the lock, because Unlock could not distinguish them.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var st memstore.Store
		mine, theirs := open(t, &st), open(t, &st)
		if err := mine.Lock(t.Context(), "l"); err != nil {
			t.Fatal(err)
		}
		breakLock(t, &st, "l")
		if err := theirs.Lock(t.Context(), "l"); err != nil {
			t.Fatal(err)
		}
		if err := theirs.Unlock(t.Context(), "l"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if ok, err := mine.TryLock(t.Context(), "l"); ok || err != nil {
			t.Errorf("TryLock before Unlock: got %t, %v", ok, err)
			_ = mine.Unlock(t.Context(), "l")
			return
		}
		var second sync.WaitGroup
		second.Go(func() {
			if err := mine.Lock(t.Context(), "l"); err != nil {
				t.Errorf("Lock after Unlock: %v", err)
			}
		})
		synctest.Wait()
		var lost *lease.LostError
		if err := mine.Unlock(t.Context(), "l"); !errors.As(err, &lost) {
			t.Errorf("Unlock: got %v, want that the lease was lost", err)
		}
		second.Wait()
		if ok, err := theirs.TryLock(t.Context(), "l"); ok || err != nil {
			t.Errorf("the second goroutine has not the lock: %t, %v", ok, err)
		}
		if err := mine.Unlock(t.Context(), "l"); err != nil {
			t.Errorf("Unlock of the second goroutine: %v", err)
		}
	})
}

// After a lost lease, the next retry of certmagic takes the lock again, as soon as it is free.
func TestRenewTakesTheLockAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner memstore.Store
		faulty := faultstore.New(&inner, faultstore.Schedule{})
		mine, theirs := open(t, faulty), open(t, &inner)
		ctx := t.Context()
		renew := func() error { return mine.RenewLockLease(ctx, issue, time.Hour) }
		if err := errors.Join(mine.Lock(ctx, issue), renew()); err != nil {
			t.Fatal(err)
		}
		faulty.Set(faultstore.MustParse("write * #1 late 1s; write * #2 fail"))
		if err := renew(); err != nil || len(faulty.Unmatched().Rules) > 0 {
			t.Errorf("after lost replies: %v, %v", err, faulty.Unmatched())
		}
		faulty.Set(faultstore.Schedule{})
		breakLock(t, &inner, issue)
		if err := theirs.Lock(ctx, issue); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Minute)
			if err := renew(); !errors.Is(err, lease.ErrHeld) {
				t.Fatalf("got %v, want that another server has the lock", err)
			}
		}
		if err := theirs.Unlock(ctx, issue); err != nil {
			t.Fatal(err)
		}
		if err := renew(); err != nil {
			t.Fatalf("the lock is free, but: %v", err)
		}
		if ok, err := theirs.TryLock(ctx, issue); ok || err != nil {
			t.Errorf("two servers have the lock: %t, %v", ok, err)
		}
		put(t, mine, site+".crt")

		// The store is away for longer than the lease: no other server has the lock.
		faulty.Set(faultstore.MustParse("* * fail"))
		time.Sleep(2 * time.Minute)
		if err := renew(); err == nil || errors.Is(err, lease.ErrNotHeld) {
			t.Errorf("got %v", err)
		}
		faulty.Set(faultstore.Schedule{})
		if err := renew(); err != nil {
			t.Errorf("after an outage: %v", err)
		}
		if err := mine.Unlock(ctx, issue); err != nil {
			t.Error(err)
		}
		if err := renew(); !errors.Is(err, lease.ErrNotHeld) {
			t.Errorf("after Unlock: got %v", err)
		}
		if ok, err := theirs.TryLock(ctx, issue); !ok || err != nil {
			t.Errorf("got %t, %v", ok, err)
		}
	})
}

// Two servers issue one certificate, because the first lost its lease. The first changes nothing any more: the private
// key and the certificate belong together.
func TestLateWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, name := range []string{issue, "another_lock"} {
			var st memstore.Store
			mine, theirs := open(t, &st), open(t, &st)
			ctx := t.Context()
			if err := mine.Lock(ctx, name); err != nil {
				t.Fatal(err)
			}
			write := func(s *certstore.Storage, ext, value string) error { return s.Store(ctx, site+ext, []byte(value)) }
			if err := write(mine, ".key", "mine"); err != nil {
				t.Fatal(err)
			}
			breakLock(t, &st, name)
			if err := theirs.Lock(ctx, name); err != nil {
				t.Fatal(err)
			}
			for _, ext := range []string{".key", ".crt", ".json"} {
				if err := write(theirs, ext, "theirs"); err != nil {
					t.Fatal(err)
				}
			}
			// At first the server has not noticed: the token refuses its write. Later the lease does.
			for _, wait := range []time.Duration{0, time.Minute} {
				time.Sleep(wait)
				start := time.Now()
				late := map[string]error{"Store": write(mine, ".crt", "mine"), "Delete": mine.Delete(ctx, site+".key")}
				if took := time.Since(start); took > 0 {
					t.Errorf("the refusals took %v", took)
				}
				if name == issue {
					for what, err := range late {
						if !errors.Is(err, lease.ErrLost) || store.OutcomeOf(err) != store.NotApplied {
							t.Errorf("a late %s after %v: got %v", what, wait, err)
						}
					}
					if err := mine.Delete(ctx, "certificates/ca/example.com"); !errors.Is(err, lease.ErrLost) {
						t.Errorf("a late Delete of the directory: got %v", err)
					}
				} else if errors.Join(late["Store"], late["Delete"]) != nil { // the control
					t.Errorf("no lock belongs to the key, but %v", late)
				}
			}
			if err := write(mine, ".new", "mine"); name == issue && !errors.Is(err, lease.ErrLost) {
				t.Errorf("a late Store of a key that the other server has not written: got %v", err)
			}
			if name == issue {
				wantValue(t, theirs, site+".crt", "theirs")
				wantValue(t, theirs, site+".key", "theirs")
			} else {
				wantValue(t, theirs, site+".crt", "mine")
			}
			// Other keys have no lock. Nor has this key one after Unlock.
			put(t, mine, "certificates/ca/other.com/other.com.crt", "acme/ca/example.com")
			if err := mine.Unlock(ctx, name); !errors.Is(err, lease.ErrLost) {
				t.Errorf("Unlock: got %v", err)
			}
			put(t, mine, site+".json")
			if err := theirs.Unlock(ctx, name); err != nil {
				t.Error(err)
			}
			// The next holder can write again.
			if err := mine.Lock(ctx, name); err != nil {
				t.Fatal(err)
			}
			put(t, mine, site+".crt")
			if err := mine.Unlock(ctx, name); err != nil {
				t.Error(err)
			}
		}
	})
}

// The names Example.com and EXAMPLE.com have one directory and two locks, whose tokens say nothing about each other.
func TestTwoLocksOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var st memstore.Store
		s := open(t, &st)
		for _, name := range []string{issue, "issue_cert_EXAMPLE.com", issue} {
			if err := s.Lock(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			put(t, s, site+".crt")
			if err := s.Unlock(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
	})
}

// Replies are lost while servers take and free locks.
func TestLocksUnderFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner memstore.Store
		var all sync.WaitGroup
		var holders atomic.Int32
		for n := range 3 {
			faulty := faultstore.New(&inner, faultstore.Random(uint64(n)))
			s := open(t, faulty)
			all.Go(func() {
				defer faulty.Close()
				for range 30 {
					if err := s.Lock(t.Context(), "l"); err != nil {
						t.Errorf("Lock: %v", err)
						continue
					}
					if holders.Add(1) != 1 {
						t.Error("two holders")
					}
					time.Sleep(time.Second)
					holders.Add(-1)
					_ = s.Unlock(t.Context(), "l") // with an error, the lock is free after the TTL
				}
			})
		}
		all.Wait()
	})
}
