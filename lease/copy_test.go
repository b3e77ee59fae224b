package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// After a copy, each grant in the new store has a higher token than all grants before in the old store,
// whichever store was used more.
func TestCopyLockRaisesTokens(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, from, to *lease.Client){
		"new lock": func(t *testing.T, from, _ *lease.Client) { mustRelease(t, mustTry(t, from, "a")) },
		"both exist": func(t *testing.T, from, to *lease.Client) {
			mustRelease(t, mustTry(t, to, "a"))
			mustRelease(t, mustTry(t, from, "a"))
		},
		"old store is ahead of the clock": func(t *testing.T, from, _ *lease.Client) {
			clock := newClocks()
			lease.SetClock(from, clock.read)
			clock.change(func(c *clocks) { c.jumped += 24 * time.Hour })
			mustRelease(t, mustTry(t, from, "a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				from, to := client(t, st, nil), client(t, &memstore.Store{}, nil)
				before(t, from, to)
				last := mustTry(t, from, "a")
				mustRelease(t, last)
				if r, err := to.CopyLock(t.Context(), from, "a", &lease.CopyOptions{DryRun: true}); err != nil || !r.Changed {
					t.Errorf("dry run = %+v, %v", r, err)
				}
				if now, err := to.Inspect(t.Context(), "a"); err == nil && now.Record.Token > last.Token() {
					t.Errorf("the dry run wrote the token %d", now.Record.Token)
				}
				first, err := to.CopyLock(t.Context(), from, "a", nil)
				if err != nil || !first.Changed {
					t.Errorf("CopyLock = %+v, %v", first, err)
				}
				second, err := to.CopyLock(t.Context(), from, "a", nil)
				if err != nil || second.Changed || second.Record.Token != first.Record.Token || second.From != first.From {
					t.Errorf("the second CopyLock = %+v, %v", second, err)
				}
				g := mustTry(t, to, "a")
				if g.Token() <= last.Token() {
					t.Errorf("token %d after %d", g.Token(), last.Token())
				}
				mustRelease(t, g)
			})
		})
	}
}

// A lock that is not free is not copied, on either side; nor is an absent lock, nor a lock to itself.
func TestCopyLockRefuses(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		from, to := client(t, st, nil), client(t, &memstore.Store{}, nil)
		var held *lease.HeldError
		g := mustTry(t, from, "a")
		if _, err := to.CopyLock(t.Context(), from, "a", nil); !errors.As(err, &held) || held.Record.Token != g.Token() {
			t.Errorf("CopyLock of a held lock = %v", err)
		}
		if _, err := to.Inspect(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a refused copy wrote: %v", err)
		}
		mustRelease(t, g)
		g = mustTry(t, to, "a")
		if _, err := to.CopyLock(t.Context(), from, "a", nil); !errors.As(err, &held) || held.Record.Token != g.Token() {
			t.Errorf("CopyLock over a held lock = %v", err)
		}
		if err := g.Err(); err != nil {
			t.Errorf("the copy ended the grant: %v", err)
		}
		mustRelease(t, g)
		if _, err := to.CopyLock(t.Context(), from, "absent", nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("CopyLock of an absent lock = %v", err)
		}
		if _, err := from.CopyLock(t.Context(), client(t, st, nil), "a", nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("CopyLock of a lock to itself = %v", err)
		}
		_, err := st.Put(t.Context(), "lock/bad", "", []byte("no record"))
		must(t, err)
		if _, err := to.CopyLock(t.Context(), from, "bad", nil); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("CopyLock of an unreadable lock = %v", err)
		}
	})
}

// While copies of one lock run, from several clients and with lost replies, clients take the lock in the
// new store. Tokens rise, and the last copy needs no change.
func TestCopyLockUnderFaults(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		from := client(t, st, nil)
		mustRelease(t, mustTry(t, from, "a"))
		var target memstore.Store
		var copies sync.WaitGroup
		for i := range 4 {
			faulty := faultstore.New(&target, faultstore.MustParse(fmt.Sprintf("seed %d; write * %%0.3 lose; write * %%0.1 drop", i+1)))
			to := client(t, faulty, nil)
			copies.Go(func() {
				for range 20 {
					_, err := to.CopyLock(t.Context(), from, "a", nil)
					if err != nil && !errors.Is(err, lease.ErrHeld) && !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("CopyLock = %v", err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		taker, last := client(t, &target, nil), uint64(0)
		for range 50 {
			g, err := taker.Acquire(t.Context(), "a", nil)
			must(t, err)
			if g.Token() <= last {
				t.Errorf("token %d after %d", g.Token(), last)
			}
			last = g.Token()
			mustRelease(t, g)
			time.Sleep(time.Millisecond)
		}
		copies.Wait()
		if r, err := taker.CopyLock(t.Context(), from, "a", nil); err != nil || r.Changed {
			t.Errorf("the last CopyLock = %+v, %v", r, err)
		}
	})
}

// A job that has run in the old store does not run again in the new store in the same period.
func TestCopyLockKeepsRuns(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		from, to, control := client(t, st, nil), client(t, &memstore.Store{}, nil), client(t, &memstore.Store{}, nil)
		ran := 0
		once := func(c *lease.Client) {
			if _, err := c.Once(t.Context(), "a", lease.Every(24*time.Hour), func(context.Context, *lease.Guard) error { ran++; return nil }, nil); err != nil && !errors.Is(err, lease.ErrAlreadyRan) {
				t.Error(err)
			}
		}
		once(from)
		if _, err := to.CopyLock(t.Context(), from, "a", nil); err != nil {
			t.Error(err)
		}
		once(to)
		if ran != 1 {
			t.Errorf("the job ran %d times", ran)
		}
		if once(control); ran != 2 { // without a copy it runs again
			t.Errorf("with the control, the job ran %d times", ran)
		}
	})
}

// The floor of a sweep in the old store counts in the new store.
func TestCopyFloor(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		from, to := client(t, st, nil), client(t, &memstore.Store{}, &lease.Options{CheckTokenFloor: true})
		must(t, to.CopyFloor(t.Context(), from)) // there is none
		old := mustTry(t, from, "a")
		mustRelease(t, old)
		time.Sleep(2 * time.Hour)
		if n, err := from.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		must(t, to.CopyFloor(t.Context(), from))
		must(t, to.CopyFloor(t.Context(), from))
		clock := newClocks()
		lease.SetClock(to, clock.read)
		clock.change(func(c *clocks) { c.jumped -= 24 * time.Hour })
		if g := mustTry(t, to, "a"); g.Token() <= old.Token() {
			t.Errorf("token %d after %d", g.Token(), old.Token())
		} else {
			mustRelease(t, g)
		}
	})
}
