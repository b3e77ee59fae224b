package lease_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// What is left of a release or a claim is refused for certain, again and again: the lock is
// freed in the end although the session lives on.
func TestSessionLeftoverRefused(t *testing.T) {
	freesLeftovers(t, []leftover{
		{what: "release", first: fail, writes: fail, reads: pass},
		{what: "late claim", first: hangLate, writes: fail, reads: pass},
		{what: "late claim that cannot be read", first: hangLate, writes: fail, reads: drop},
	})
}

// Close says that all locks are free only if others can take them at once.
func TestSessionCloseWhereLocksAreRefused(t *testing.T) {
	for _, f := range []fault{fail, drop, hang, lose} {
		t.Run(string(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				c := client(t, w, nil)
				s := open(t, c)
				for i := range 40 {
					mustTry(t, s, fmt.Sprint(i))
				}
				w.set(only(func(op *store.Op) bool { return strings.HasPrefix(op.Key, "lock/") }, f))
				if err := s.Close(t.Context()); err != nil {
					t.Fatalf("Close: %v", err)
				}
				other := client(t, st, nil)
				for i := range 40 {
					mustTry(t, other, fmt.Sprint(i))
				}
			})
		})
	}
}

// The record of a lock is replaced by an older copy of itself. A lock without a session would
// expire; one under a session must not stay taken for as long as that lives.
func TestRestoredRecordIsFreedUnderALivingSession(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		s := open(t, c)
		g := mustTry(t, s, "job")
		old, _ := stored(t, st, "lock/job")
		must(t, g.SetData(t.Context(), []byte("data")))
		put(t, st, "job", old)
		t.Logf("Release: %v", g.Release(t.Context()))
		time.Sleep(3 * ttl)
		must(t, s.Err())
		mustTry(t, client(t, st, nil), "job")
	})
}

// A handle that keeps its grant listens to the store: a read that hangs costs no lease, and
// does not hold up a release.
func TestHangingReadCostsNoLingeringLease(t *testing.T) {
	for _, f := range []fault{hang, deaf} {
		t.Run(string(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				w.deafness = func() time.Duration { return 10 * ttl }
				c := client(t, w, nil)
				h := with(t, c, "job", lease.LockOptions{Linger: time.Hour})
				g := acquired(t, h)
				mustRelease(t, g) // it listens
				g = acquired(t, h)
				w.set(only(func(op *store.Op) bool { return op.Kind == store.OpGet }, f))
				time.Sleep(ttl / 3 * 89 / 100) // a renewal is due soon
				must(t, errOf(client(t, st, nil).RequestYield(t.Context(), "job", nil)))
				for range 20 {
					time.Sleep(ttl / 10)
					must(t, g.Err())
				}
				began := time.Now()
				mustRelease(t, g)
				if took := time.Since(began); took > lease.DefaultReleaseTimeout+time.Second {
					t.Errorf("the release took %v", took)
				}
			})
		})
	}
}

// A session whose record names a request to yield reads the record of the lock: a read that hangs does not
// hold up a release.
func TestHangingReadOfARequestDelaysNoRelease(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		s := open(t, client(t, w, nil))
		g := mustTry(t, s, "job")
		w.set(only(func(op *store.Op) bool { return op.Kind == store.OpGet && op.Key == "lock/job" }, hang))
		must(t, errOf(client(t, st, nil).RequestYield(t.Context(), "job", nil)))
		time.Sleep(ttl/3*11/10 + time.Second)
		began := time.Now()
		mustRelease(t, g)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the release took %v", took)
		}
	})
}

// A record that was restored names a grant that its session has released. It stands for as long as
// the session lives; a break frees it, and so does an ask.
func TestBreakOrRequestFreesARestoredRecord(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, what := range []string{"break", "ask"} {
			t.Run(fmt.Sprint(what, " shared ", shared), func(t *testing.T) {
				bubble(t, func(t *testing.T, st store.Store) {
					s := open(t, client(t, st, nil))
					h := with(t, s, "job", lease.LockOptions{Shared: shared})
					g := mustTake(t, h)
					old, _ := stored(t, st, "lock/job")
					mustRelease(t, g)
					put(t, st, "job", old)
					c := client(t, st, nil)
					time.Sleep(2 * ttl)
					wantHeld(t, c, "job") // the control
					if what == "ask" {
						mustAsk(t, c, "")
					} else {
						must(t, errOf(c.Break(t.Context(), "job", g.Token(), nil)))
					}
					time.Sleep(ttl / 2)
					must(t, s.Err())
					mustTry(t, c, "job")
				})
			})
		}
	}
}

// What still happens to the locks takes none of the time of Close twice: the session's own release
// may have used all of it up. It has freed nothing then, and does not say that it has.
func TestSessionCloseIsBounded(t *testing.T) {
	for what, late := range map[string]time.Duration{"a write hangs": 0, "a release begins later": 4 * time.Second} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				c := client(t, w, nil)
				s := open(t, c)
				g := mustTry(t, s, "job")
				w.set(everything(hang))
				over := make(chan error)
				go func() {
					if late == 0 {
						over <- g.SetData(context.Background(), []byte("data"))
						return
					}
					time.Sleep(late)
					over <- g.Release(context.Background())
				}()
				synctest.Wait()
				began := time.Now()
				if err := s.Close(t.Context()); err == nil {
					t.Error("Close says that all locks are free")
				}
				if took, most := time.Since(began), c.Options().ReleaseTimeout+2*time.Second; took > most {
					t.Errorf("Close took %v; at most %v are allowed", took, most)
				}
				<-over
				w.set(nil)
			})
		})
	}
}
