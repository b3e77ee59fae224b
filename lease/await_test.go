package lease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// The lock is taken in time, at whatever times the renewals of the session and the reads of a
// waiter come.
func TestWaiterOfADeadSessionIsNotLate(t *testing.T) {
	for phase := range 40 {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(st)
			mustTry(t, open(t, client(t, w, nil)), "job")
			dead := 5*time.Minute + time.Duration(phase)*250*time.Millisecond
			time.AfterFunc(dead, func() { w.set(everything(drop)) })
			began := time.Now()
			mustAcquire(t, client(t, st, nil), "job")
			late := time.Since(began) - dead - expiry
			if late > lease.DefaultMaxPoll+time.Second {
				t.Errorf("taken %v later than it had to be", late)
			}
		})
	}
}

// Where the store reports changes, waiters get changes of the lock's record, and not the renewals
// of the session that holds it. They read these together: a dead session is taken over when its TTL
// has passed after the last read, and thirty waiters for its locks send no more requests than one
// does.
func TestPushedWaitersShareReadsOfASession(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		const locks = 30
		holder := newWire(st)
		s := open(t, client(t, holder, nil))
		names := make([]string, locks)
		for i := range names {
			names[i] = "lock-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			mustTry(t, s, names[i])
		}
		w := newWire(st)
		c := client(t, w, nil)
		var all sync.WaitGroup
		var mu sync.Mutex
		var last time.Time // when the last lock was taken
		for _, name := range names {
			all.Go(func() {
				report(t, errOf(c.Acquire(t.Context(), name, nil)))
				mu.Lock()
				last = time.Now()
				mu.Unlock()
			})
		}
		time.Sleep(5 * time.Minute)
		w.requests()
		time.Sleep(time.Minute)
		// The session every 2.5 s; each lock every 10 s, since a watcher may miss a change.
		if n := w.requests(); n > 25+locks*7 {
			t.Errorf("%d requests in a minute", n)
		}
		holder.set(everything(drop))
		silent := time.Now()
		all.Wait()
		if took := last.Sub(silent); took > expiry+lease.DefaultMaxPoll+time.Second {
			t.Errorf("taken over after %v; want %v and a read at most", took, expiry)
		}
	})
}

// A waiter for a plain lease does not want grants of others that begin, while the lock changes hands all
// the time. A waiter wants all other changes.
func TestWaiterPassesOverGrants(t *testing.T) {
	for name, session := range map[string]bool{"leases": false, "sessions": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				var watch atomic.Value // the last context
				seen := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
					if op.Kind == store.OpWatch && op.Key == "lock/job" {
						watch.Store(context.WithoutCancel(ctx))
					}
					return next(ctx, op)
				})
				var holder, waiter locker = client(t, st, nil), client(t, seen, nil)
				if session {
					holder, waiter = open(t, client(t, st, nil)), open(t, client(t, seen, nil))
				}
				g := mustTry(t, holder, "job")
				var all sync.WaitGroup
				all.Go(func() { report(t, errOf(waiter.Acquire(t.Context(), "job", nil))) })
				time.Sleep(time.Second)
				value := func() []byte {
					b, _, err := st.Get(t.Context(), "lock/job")
					must(t, err)
					return b
				}
				wants := watch.Load().(context.Context)
				if got := store.Wanted(wants, value()); got != session {
					t.Errorf("the waiter wants a grant: %v; want %v", got, session)
				}
				must(t, g.Release(t.Context()))
				synctest.Wait()
				for _, other := range []string{"", "{}", strings.Replace(string(value()), `"held"`, `"free"`, 1), strings.Replace(string(value()), `"held"`, `"broken"`, 1)} {
					if !store.Wanted(wants, []byte(other)) {
						t.Errorf("the waiter does not want %s", other)
					}
				}
				all.Wait()
			})
		})
	}
}

// A handle that leaves the lock to others after its grant, and sees a change, reads the record before it
// writes. Otherwise its write would conflict.
func TestHandleReadsAfterRest(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		conflicts := 0
		counted := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if op.Kind == store.OpPut && errors.Is(err, store.ErrConflict) {
				conflicts++
			}
			return err
		})
		other, own := client(t, st, nil), client(t, counted, nil)
		h, err := own.Handle("job", nil)
		must(t, err)
		g := mustTry(t, other, "job")
		time.AfterFunc(time.Second, func() { report(t, g.Release(t.Context())) })
		mine, err := h.Acquire(t.Context())
		must(t, err)
		conflicts = 0                        // the first write tried to create the record
		time.AfterFunc(time.Second, func() { // while the other waits
			report(t, mine.Release(t.Context()))
			again, err := h.Acquire(t.Context())
			report(t, err)
			report(t, again.Release(t.Context()))
		})
		g, err = other.Acquire(t.Context(), "job", nil)
		must(t, err)
		time.Sleep(time.Second)
		must(t, g.Release(t.Context()))
		time.Sleep(time.Second)
		if conflicts > 0 {
			t.Errorf("%d writes met a conflict", conflicts)
		}
	})
}
