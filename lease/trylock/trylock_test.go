package trylock_test

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
	"github.com/holdfast-go/holdfast/lease/trylock"
	"github.com/holdfast-go/holdfast/store"
)

// bubble runs a test in virtual time, on a server whose leases count from when a call is applied, and on one whose
// leases count from the clock of the caller. No goroutine may be left at the end.
func bubble(t *testing.T, f func(t *testing.T, s *server)) {
	for name, callers := range map[string]bool{"the store's clock": false, "the caller's clock": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, &server{callersClock: callers}) })
		})
	}
}

func wantHeld(t *testing.T, h *trylock.Handle) {
	t.Helper()
	if _, err := h.TryAcquire(t.Context()); !errors.Is(err, lease.ErrHeld) || store.OutcomeOf(err) != store.NotApplied {
		t.Fatalf("got %v, want that another holder has the lock", err)
	}
}

// wantLost checks that the lease of g has ended, and why.
func wantLost(t *testing.T, g *trylock.Guard, reason error) {
	t.Helper()
	var lost *lease.LostError
	if err := g.Err(); !errors.As(err, &lost) || !errors.Is(err, reason) || lost.Token != g.Token() || lost.Name != "job" {
		t.Fatalf("got %v, want a lease lost: %v", err, reason)
	}
	if g.Context().Err() == nil || context.Cause(g.Context()) != g.Err() || g.Remaining() != 0 {
		t.Errorf("the context has ended: %v, with the cause %v", g.Context().Err(), context.Cause(g.Context()))
	}
}

func TestExclusion(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		wantHeld(t, b)
		time.Sleep(time.Hour) // renewed meanwhile
		wantHeld(t, b)
		if err := g.Err(); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, g)
		if err := g.Err(); !errors.Is(err, lease.ErrReleased) || errors.Is(err, lease.ErrLost) {
			t.Errorf("got %v after the release", err)
		}
		time.Sleep(time.Millisecond) // equal to now is not free yet
		next := mustTry(t, b)
		if next.Token() <= g.Token() || g.Token() == 0 {
			t.Errorf("the tokens are %d and then %d", g.Token(), next.Token())
		}
		mustRelease(t, next)
	})
}

func TestRequests(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h := newHandle(t, s)
		mustRelease(t, mustTry(t, h))
		if got := len(s.all()); got != 2 {
			t.Errorf("an acquire and a release sent %d calls, want 2", got)
		}
	})
}

// The lease ends with the last guard.
func TestGuardsAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h := newHandle(t, s)
		type key struct{}
		first := mustTry(t, h)
		second, err := h.Acquire(context.WithValue(t.Context(), key{}, "mine"))
		if err != nil || second.Token() != first.Token() || len(s.all()) != 1 {
			t.Fatalf("got %v, and %d calls", err, len(s.all()))
		}
		if second.Context().Value(key{}) != "mine" || first.Context().Value(key{}) != nil {
			t.Error("the contexts have other values than those of their calls")
		}
		mustRelease(t, first)
		mustRelease(t, first) // counts once
		if first.Context().Err() == nil || second.Err() != nil || s.isFree("job") {
			t.Fatal("the release of one guard of two ended the lease, or did not end its own context")
		}
		time.Sleep(time.Minute)
		mustRelease(t, second)
		mustRelease(t, second)
		if !s.isFree("job") || s.count(call.frees) != 1 {
			t.Errorf("the lock is not free after the last release, or %d calls freed it", s.count(call.frees))
		}
	})
}

func TestManyGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h := newHandle(t, s)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for range 20 {
					g, err := h.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
					if err := errors.Join(g.Err(), g.Release(t.Context())); !errors.Is(err, lease.ErrReleased) && err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if !s.isFree("job") {
			t.Error("the lock is held")
		}
	})
}

// An expired holder releases after another has acquired: it sends nothing.
func TestExpiredHolderReleasesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		s.setFault(func(call) fault { return fault{fail: true} })
		time.Sleep(11 * time.Second)
		wantLost(t, g, lease.ErrExpired)
		if !errors.Is(g.Err(), errLost) {
			t.Errorf("got %v, want the error of the last renewal", g.Err())
		}
		s.setFault(nil)
		other := mustTry(t, b)
		before := len(s.all())
		for range 2 {
			if err := g.Release(t.Context()); !errors.Is(err, lease.ErrExpired) {
				t.Errorf("got %v from the release", err)
			}
		}
		if len(s.all()) != before {
			t.Error("the release of an expired lease sent a call")
		}
		if wantHeld(t, a); other.Err() != nil {
			t.Error(other.Err())
		}
		mustRelease(t, other)
	})
}

// A release takes no expired lease of another holder: it sends nothing after the end of its own trust.
func TestReleaseAtTheDeadlineTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		s.setFault(func(c call) fault { return fault{fail: c.n > 1 && c.holder == s.calls[0].holder} })
		time.Sleep(7 * time.Second)
		done := make(chan error)
		go func() { done <- g.Release(t.Context()) }() // each of its calls fails
		err := <-done
		if store.OutcomeOf(err) != store.Unknown || !strings.Contains(err.Error(), "10s") {
			t.Errorf("got %v, want an unknown outcome that says for how long the lock can be held", err)
		}
		for _, c := range s.all() {
			if c.frees() && c.at.Sub(s.all()[0].at) >= trylock.Trust(a) {
				t.Errorf("a release was sent %v after the last renewal", c.at.Sub(s.all()[0].at))
			}
		}
		time.Sleep(10*time.Second + time.Millisecond)
		mustRelease(t, mustTry(t, b))
	})
}

// A release is applied and its reply lost, another handle acquires, and the release is repeated.
func TestRepeatedReleaseAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		var acquired atomic.Bool
		s.setFault(func(c call) fault { return fault{lost: c.frees() && !acquired.Load()} })
		done := make(chan error)
		go func() { done <- g.Release(t.Context()) }()
		var other *trylock.Guard
		for other == nil {
			time.Sleep(time.Millisecond)
			other, _ = b.TryAcquire(t.Context())
		}
		acquired.Store(true)
		if err := <-done; err != nil {
			t.Errorf("got %v, want success: the first call was applied", err)
		}
		if other.Err() != nil {
			t.Error(other.Err())
		}
		wantHeld(t, a)
		mustRelease(t, other)
	})
}

// The same handle acquires again while a call that releases the earlier grant is delayed. The late call ends no
// later grant.
func TestLateReleaseEndsNoLaterGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		s.setFault(nth(2, fault{behind: 5 * time.Second}))
		mustRelease(t, g) // by its second call
		time.Sleep(time.Millisecond)
		g = mustTry(t, a)
		time.Sleep(6 * time.Second)
		wantHeld(t, b)
		mustRelease(t, g)
	})
}

func TestReleaseWithCancelledContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		ctx, cancel := context.WithCancel(t.Context())
		h := newHandle(t, s)
		g, err := h.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Minute)
		if g.Err() != nil {
			t.Errorf("the end of the context of Acquire ended the lease: %v", g.Err())
		}
		s.setFault(func(call) fault { return fault{before: 10 * time.Millisecond} })
		if err := g.Release(ctx); err != nil || !s.isFree("job") {
			t.Errorf("got %v; the lock is free: %t", err, s.isFree("job"))
		}
	})
}

// A release while a renewal is under way: the lock ends free, and no renewal follows.
func TestReleaseDuringARenewal(t *testing.T) {
	for name, f := range map[string]fault{
		"the renewal is applied first": {after: time.Second}, "the renewal is not applied": {before: time.Second}, "its reply is lost": {lost: true, after: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				h := newHandle(t, s)
				g := mustTry(t, h)
				s.setFault(nth(2, f))
				for len(s.all()) < 2 {
					time.Sleep(time.Millisecond)
				}
				mustRelease(t, g)
				time.Sleep(time.Minute)
				if n := len(s.all()); n != 3 || !s.isFree("job") {
					t.Errorf("%d calls; the lock is free: %t", n, s.isFree("job"))
				}
			})
		})
	}
}

func TestConcurrentReleases(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		g := mustTry(t, newHandle(t, s))
		s.setFault(func(c call) fault { return fault{before: time.Second} })
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := g.Release(t.Context()); err != nil || !s.isFree("job") {
					t.Errorf("got %v; the lock is free: %t", err, s.isFree("job"))
				}
			})
		}
		all.Wait()
		if s.count(call.frees) != 1 {
			t.Errorf("%d calls freed the lock", s.count(call.frees))
		}
	})
}

// An acquire during the release of the same handle gets another grant, and no earlier than the release is applied.
func TestAcquireDuringTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h := newHandle(t, s)
		g := mustTry(t, h)
		s.setFault(func(c call) fault {
			if c.frees() {
				return fault{before: time.Second}
			}
			return fault{}
		})
		done := make(chan error)
		go func() { done <- g.Release(t.Context()) }()
		synctest.Wait()
		wantHeld(t, h)
		next, err := h.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if next.Token() <= g.Token() {
			t.Errorf("the tokens are %d and then %d", g.Token(), next.Token())
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if g.Release(t.Context()); next.Err() != nil {
			t.Errorf("a late release of an old guard ended the next grant: %v", next.Err())
		}
		mustRelease(t, next)
	})
}

// The reply of an acquire is lost. TryAcquire frees the lock. Acquire gets it, and counts from its last call.
func TestLostReplyOfAnAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		s.setFault(nth(1, fault{lost: true}))
		if _, err := a.TryAcquire(t.Context()); !errors.Is(err, errLost) || store.OutcomeOf(err) != store.NotApplied || !s.isFree("job") {
			t.Fatalf("got %v; the lock is free: %t", err, s.isFree("job"))
		}
		s.setFault(nth(3, fault{lost: true}))
		time.Sleep(time.Millisecond)
		g, err := a.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last := s.all()[len(s.all())-1]
		if got, want := g.Remaining(), trylock.Trust(a)-time.Since(last.at); got > want || got < want-time.Second || len(s.all()) != 4 {
			t.Errorf("trusted for %v after %d calls, want %v after 4", got, len(s.all()), want)
		}
		wantHeld(t, b)
		mustRelease(t, g)
	})
}

// The replies of all calls of an attempt are lost: the error says that the lock can stay held.
func TestUnknownOutcomeOfAnAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h := newHandle(t, s)
		s.setFault(func(call) fault { return fault{lost: true} })
		if _, err := h.TryAcquire(t.Context()); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("got %v, want an unknown outcome", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := h.Acquire(ctx)
		if store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errLost) {
			t.Errorf("got %v, want an unknown outcome", err)
		}
		s.setFault(nil)
		time.Sleep(10*time.Second + time.Millisecond)
		mustRelease(t, mustTry(t, h))
	})
}

// Single errors and lost replies cost no lease.
func TestRenewalSurvivesErrors(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		s.setFault(func(c call) fault {
			return []fault{{fail: true}, {lost: true}, {}, {lost: true}, {behind: time.Second}, {before: time.Hour}, {}}[c.n%7]
		})
		for range 50 {
			time.Sleep(time.Minute)
			if g.Err() != nil {
				t.Fatal(g.Err())
			}
		}
		s.setFault(nil)
		wantHeld(t, b)
		mustRelease(t, g)
	})
}

// The store refuses everything: the context ends on time with a cause, and no further guard is given out.
func TestLossIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h := newHandle(t, s)
		g := mustTry(t, h)
		began := time.Now()
		s.setFault(func(call) fault { return fault{lost: true, before: 100 * time.Millisecond} })
		work, cancel := context.WithCancel(g.Context())
		defer cancel()
		<-work.Done()
		if took := time.Since(began); took > trylock.Trust(h) {
			t.Errorf("the context ended after %v", took)
		}
		wantLost(t, g, lease.ErrExpired)
		if _, err := h.TryAcquire(t.Context()); err == nil {
			t.Error("an expired handle gave out another guard without the store")
		}
		if err := g.Release(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("got %v", err)
		}
	})
}

// Another holder has the lock, for example because the clock of the server jumped.
func TestTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		s.mu.Lock()
		s.jump = time.Hour
		s.mu.Unlock()
		other := mustTry(t, b)
		time.Sleep(4 * time.Second)
		wantLost(t, g, lease.ErrTakenOver)
		if err := g.Release(t.Context()); !errors.Is(err, lease.ErrTakenOver) || s.count(call.frees) != 0 {
			t.Errorf("got %v, and %d calls freed a lock", err, s.count(call.frees))
		}
		if other.Err() != nil {
			t.Error(other.Err())
		}
		mustRelease(t, other)
	})
}

// Another holder has had the lock and has left it before the next renewal: the generation shows this.
func TestTakenOverAndLeft(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		s.mu.Lock()
		s.jump = time.Hour
		s.mu.Unlock()
		mustRelease(t, mustTry(t, b))
		time.Sleep(4 * time.Second)
		wantLost(t, g, lease.ErrTakenOver)
		if !s.isFree("job") {
			t.Error("the renewal that took the lock again did not free it")
		}
		if err := g.Release(t.Context()); !errors.Is(err, lease.ErrTakenOver) {
			t.Errorf("got %v", err)
		}
	})
}

// The same is found by the release.
func TestReleaseFindsAnotherHolder(t *testing.T) {
	for name, left := range map[string]bool{"which has the lock": false, "which has left": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				a, b := newHandle(t, s), newHandle(t, s)
				g := mustTry(t, a)
				s.mu.Lock()
				s.jump = time.Hour
				s.mu.Unlock()
				other := mustTry(t, b)
				if left {
					mustRelease(t, other)
					time.Sleep(time.Millisecond)
				}
				if err := g.Release(t.Context()); !errors.Is(err, lease.ErrTakenOver) {
					t.Errorf("got %v", err)
				}
				if !left {
					mustRelease(t, other)
				}
			})
		})
	}
}

// A machine that slept, or whose wall clock jumped: the holder gives up early, never late.
func TestClockJumps(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*clocks)
		lost   bool
	}{
		"the boot-time clock counts a sleep": {func(c *clocks) { c.suspended += 10 * time.Minute }, true},
		"the wall clock jumps forward":       {func(c *clocks) { c.jumped += time.Hour }, true},
		"the wall clock jumps back":          {func(c *clocks) { c.jumped -= time.Hour }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				h, clock := newHandle(t, s), &clocks{}
				trylock.SetClock(h, clock.read)
				g := mustTry(t, h)
				time.Sleep(time.Second)
				clock.change(c.change)
				if (g.Err() != nil) != c.lost || (g.Context().Err() != nil) != c.lost {
					t.Errorf("after the jump: %v", g.Err())
				}
				if c.lost {
					wantLost(t, g, lease.ErrExpired)
				} else {
					time.Sleep(time.Minute)
				}
				if err := g.Release(t.Context()); (err != nil) != c.lost {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// A process that wakes up after its lease has expired hears of it without a call of its own.
func TestTimerReadsTheClocks(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h, clock := newHandle(t, s), &clocks{}
		trylock.SetClock(h, clock.read)
		g := mustTry(t, h)
		time.Sleep(3500 * time.Millisecond) // no renewal is due soon
		began := time.Now()
		clock.change(func(c *clocks) { c.jumped += time.Hour })
		inner, cancel := context.WithCancel(g.Context())
		defer cancel()
		<-inner.Done()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the context ended %v after the jump", took)
		}
		_ = g.Release(t.Context())
	})
}

// The trust counts from the sending of a call, not from its reply.
func TestTrustCountsFromTheSending(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h := newHandle(t, s)
		s.setFault(func(c call) fault {
			if c.n == 1 {
				return fault{after: 3 * time.Second}
			}
			return fault{after: 2 * time.Second} // the first renewal can begin before TryAcquire returns
		})
		g := mustTry(t, h)
		if got := g.Remaining(); got > 5*time.Second || got < 4*time.Second {
			t.Errorf("trusted for %v after a reply that took 3 s of 8 s", got)
		}
		time.Sleep(500 * time.Millisecond) // a renewal is due and under way
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			calls := s.all()
			for n := len(calls) - 1; n >= 0; n-- {
				if sent := time.Since(calls[n].at); sent >= 2*time.Second { // answered
					if most := trylock.Trust(h) - sent; g.Remaining() > most {
						t.Fatalf("trusted for %v, at most %v is left", g.Remaining(), most)
					}
					break
				}
			}
		}
		s.setFault(nil)
		mustRelease(t, g)
	})
}

// An acquire whose reply comes after the end of the trust gives no guard.
func TestReplyAfterTheEndOfTheTrust(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h, clock := newHandle(t, s), &clocks{}
		trylock.SetClock(h, clock.read)
		s.setFault(func(c call) fault {
			clock.change(func(c *clocks) { c.suspended += time.Hour }) // the machine sleeps during the call
			return fault{}
		})
		if g, err := h.TryAcquire(t.Context()); err == nil || store.OutcomeOf(err) != store.Unknown {
			t.Errorf("got a guard with %v left, and %v", g.Remaining(), err)
		}
		if s.count(call.frees) != 0 {
			t.Error("a lease that had ended was freed")
		}
	})
}

// The machine sleeps past the end of the trust during a renewal, and no timer has fired yet: the reply does not count.
func TestRenewalDuringASleep(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h, clock := newHandle(t, s), &clocks{}
		trylock.SetClock(h, clock.read)
		g := mustTry(t, h)
		s.setFault(func(call) fault {
			clock.change(func(c *clocks) { c.suspended += 6 * time.Second })
			s.fault = nil
			return fault{}
		})
		for len(s.all()) < 2 {
			time.Sleep(time.Millisecond)
		}
		wantLost(t, g, lease.ErrExpired)
		_ = g.Release(t.Context())
	})
}

// The machine sleeps between two calls of a release: no further call is sent.
func TestReleaseDuringASleep(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h, clock := newHandle(t, s), &clocks{}
		trylock.SetClock(h, clock.read)
		g := mustTry(t, h)
		s.setFault(func(call) fault {
			clock.change(func(c *clocks) { c.suspended += time.Hour })
			return fault{fail: true}
		})
		if err := g.Release(t.Context()); err == nil || s.count(call.frees) != 1 {
			t.Errorf("got %v after %d calls", err, s.count(call.frees))
		}
	})
}

// A renewal that ignores its context for a moment is awaited by the release.
func TestReleaseAwaitsTheRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h := newHandle(t, s)
		g := mustTry(t, h)
		hang := make(chan struct{})
		s.setFault(nth(2, fault{hang: hang}))
		for len(s.all()) < 2 {
			time.Sleep(time.Millisecond)
		}
		time.AfterFunc(100*time.Millisecond, func() { close(hang) })
		mustRelease(t, g)
		time.Sleep(time.Second)
		if !s.isFree("job") {
			t.Error("the renewal was applied after the release")
		}
	})
}

// An attempt hangs and ignores its context. Its caller gets an answer, and a late success is freed.
func TestAttemptThatHangs(t *testing.T) {
	for name, c := range map[string]struct {
		hangs time.Duration
		free  bool
	}{"for less than the trust": {7 * time.Second, true}, "for longer": {9 * time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				h := newHandle(t, s)
				hang := make(chan struct{})
				time.AfterFunc(c.hangs, func() { close(hang) })
				s.setFault(nth(1, fault{hang: hang}))
				began := time.Now()
				_, err := h.TryAcquire(t.Context())
				if took := time.Since(began); store.OutcomeOf(err) != store.Unknown || took > 5*time.Second {
					t.Errorf("got %v after %v", err, took)
				}
				time.Sleep(c.hangs)
				if n := s.count(call.frees); (n == 1) != c.free {
					t.Errorf("%d calls freed the lock", n)
				}
				time.Sleep(10 * time.Second)
				mustRelease(t, mustTry(t, h))
			})
		})
	}
}

// A call that hangs does not keep its handle from the next grant, and its late clean-up does not end that grant.
func TestGrantAfterAnAttemptThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		hang := make(chan struct{})
		s.setFault(nth(1, fault{hang: hang}))
		g, err := a.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		close(hang)
		time.Sleep(time.Millisecond)
		if s.isFree("job") {
			t.Error("the clean-up of the late call freed the lock")
		}
		time.Sleep(time.Minute)
		wantHeld(t, b)
		if g.Err() != nil {
			t.Fatal(g.Err())
		}
		mustRelease(t, g)
	})
}

// While a renewal hangs, no other is sent: a late one with an earlier clock could make the lease shorter. The lease
// ends on time. If the renewal returns in time, the lease continues.
func TestRenewalThatHangs(t *testing.T) {
	for name, c := range map[string]struct {
		hangs time.Duration
		kept  bool
	}{"for a while": {3 * time.Second, true}, "too long": {6 * time.Second, false}, "for ever": {time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				a, b := newHandle(t, s), newHandle(t, s)
				g := mustTry(t, a)
				hang := make(chan struct{})
				s.setFault(nth(2, fault{hang: hang}))
				for len(s.all()) < 2 {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(c.hangs)
				if n := len(s.all()); n != 2 {
					t.Errorf("%d calls were sent during the renewal that hangs", n-2)
				}
				if kept := g.Err() == nil; kept != c.kept {
					t.Errorf("the lease is kept: %t", kept)
				}
				close(hang)
				if c.kept {
					time.Sleep(time.Hour)
					mustRelease(t, g)
					return
				}
				wantLost(t, g, lease.ErrExpired)
				if err := g.Release(t.Context()); !errors.Is(err, lease.ErrExpired) {
					t.Error(err)
				}
				time.Sleep(11 * time.Second)
				mustRelease(t, mustTry(t, b))
			})
		})
	}
}

// The release says so if a renewal hangs, and the renewal frees the lock when it returns.
func TestReleaseDuringARenewalThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		g := mustTry(t, newHandle(t, s))
		hang := make(chan struct{})
		s.setFault(nth(2, fault{hang: hang}))
		for len(s.all()) < 2 {
			time.Sleep(time.Millisecond)
		}
		began := time.Now()
		if err := g.Release(t.Context()); store.OutcomeOf(err) != store.Unknown || time.Since(began) > time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		if !s.isFree("job") {
			t.Error("the release waits for the renewal that hangs")
		}
		close(hang)
		time.Sleep(time.Millisecond)
		if !s.isFree("job") {
			t.Error("the late renewal left the lock held")
		}
	})
}

// Cancelling a waiter leaves no lock, and sends no more calls.
func TestCancelledWaiter(t *testing.T) {
	for name, f := range map[string]fault{"while others hold": {}, "during a call that is applied": {after: time.Hour}, "during a call that is not": {before: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				a, b := newHandle(t, s), newHandle(t, s)
				var g *trylock.Guard
				if f == (fault{}) {
					g = mustTry(t, a)
				}
				s.setFault(nth(1, f))
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("no time"))
				defer cancel()
				_, err := b.Acquire(ctx)
				if err == nil || !strings.Contains(err.Error(), "no time") || errors.Is(err, lease.ErrHeld) != (g != nil) || store.OutcomeOf(err) != store.NotApplied {
					t.Errorf("got %v", err)
				}
				s.setFault(nil)
				if g != nil {
					mustRelease(t, g)
				}
				if !s.isFree("job") {
					t.Error("the lock is held")
				}
				before := len(s.all())
				time.Sleep(time.Minute)
				if len(s.all()) != before {
					t.Error("calls were sent after the end")
				}
			})
		})
	}
}

// The cause of the caller's context can be the error of another call. It says nothing about the call that it ends: the
// handle frees the lock. An error of the backend that matches lease.ErrHeld says nothing about earlier calls either.
func TestCauseIsNoAnswer(t *testing.T) {
	const try, wait = "TryAcquire", "Acquire"
	errStopped := errors.New("the program stops")
	for _, c := range []struct {
		method string
		cause  error
		first  fault
	}{
		{try, lease.ErrHeld, fault{after: time.Hour}},
		{try, store.ErrDenied, fault{after: time.Hour}},
		{try, errStopped, fault{after: time.Hour}},
		{wait, lease.ErrHeld, fault{after: time.Hour}},
		{wait, store.ErrDenied, fault{after: time.Hour}},
		{wait, errStopped, fault{lost: true}}, // then the backend refuses further calls
	} {
		bubble(t, func(t *testing.T, s *server) {
			h := newHandle(t, s)
			s.setFault(func(call call) fault {
				switch {
				case call.n == 1:
					return c.first
				case call.frees():
					return fault{}
				}
				return fault{err: lease.ErrHeld}
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(c.cause) })
			take := h.TryAcquire
			if c.method == wait {
				take = h.Acquire
			}
			_, err := take(ctx)
			if store.OutcomeOf(err) != store.NotApplied || !s.isFree("job") {
				t.Errorf("%s that ended with %q: it is free: %v, and the error is %v (%v)", c.method, c.cause, s.isFree("job"), err, store.OutcomeOf(err))
			}
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), c.cause.Error()) || errors.Is(err, c.cause) != (c.cause == errStopped) {
				t.Errorf("%s that ended with %q: got %v", c.method, c.cause, err)
			}
		})
	}
}

// A call of the backend ends its goroutine, as a test does that fails: the call may have been applied, and the handle frees
// the lock, also if the handle has left the call behind.
func TestGoexit(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		bubble(t, func(t *testing.T, s *server) {
			h, f := newHandle(t, s), fault{exit: true}
			if hangs {
				f.hang = make(chan struct{})
				time.AfterFunc(6*time.Second, func() { close(f.hang) }) // the handle waits for 4 s
			}
			s.setFault(nth(1, f))
			_, err := h.TryAcquire(t.Context())
			want := store.NotApplied
			if hangs {
				want = store.Unknown
				time.Sleep(3 * time.Second)
			}
			if err == nil || store.OutcomeOf(err) != want || !s.isFree("job") {
				t.Errorf("it hangs: %v; it is free: %v, and the error is %v (%v)", hangs, s.isFree("job"), err, store.OutcomeOf(err))
			}
			time.Sleep(time.Millisecond)
			mustRelease(t, mustTry(t, h))
		})
	}
}

// After a wait that timed out, and after a success, the next wait begins with short pauses. Each waiter has its own
// time, and a TryAcquire does not wait for a waiter that pauses.
func TestBackOffStartsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			before := len(s.all())
			began := time.Now()
			if _, err := b.Acquire(ctx); !errors.Is(err, lease.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) < 20*time.Second {
				t.Fatalf("got %v after %v, want a wait of 20 s", err, time.Since(began))
			}
			cancel()
			first := time.Time{}
			n := 0
			for _, c := range s.all()[before:] {
				if c.duration == 10*time.Second && c.holder != s.all()[0].holder {
					if n++; n == 3 {
						first = c.at
					}
				}
			}
			if first.IsZero() || first.Sub(began) > 150*time.Millisecond {
				t.Errorf("the third call was sent %v after the beginning", first.Sub(began))
			}
		}
		waiting, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _, _ = b.Acquire(waiting) })
		time.Sleep(30 * time.Second)
		time.AfterFunc(time.Minute, cancel)
		began := time.Now()
		if wantHeld(t, b); time.Since(began) > 0 {
			t.Errorf("TryAcquire waited %v", time.Since(began))
		}
		all.Wait()
		mustRelease(t, g)
	})
}

// Goroutines that wait through one handle send the calls of one waiter, and get their guards together.
func TestWaitersOfAHandleShareCalls(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		var all sync.WaitGroup
		var mu sync.Mutex
		var tokens []uint64
		for range 100 {
			all.Go(func() {
				g, err := b.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				tokens = append(tokens, g.Token())
				mu.Unlock()
				time.Sleep(time.Second)
				_ = g.Release(t.Context())
			})
		}
		time.Sleep(time.Minute)
		// The pauses are half a second on average, and the holder renews every 3 s.
		if n := len(s.all()); n > 60*2+60/3+60 {
			t.Errorf("100 waiters and a holder sent %d calls in a minute", n)
		}
		mustRelease(t, g)
		all.Wait()
		for _, token := range tokens {
			if token != g.Token()+1 {
				t.Fatalf("got the tokens %v, want one grant for all", tokens)
			}
		}
	})
}

// The first of the waiters of a handle is cancelled: the others continue.
func TestCancelledWaiterOfMany(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		g := mustTry(t, a)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := b.Acquire(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		time.Sleep(time.Second)
		all.Go(func() {
			g, err := b.Acquire(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			mustRelease(t, g)
		})
		time.Sleep(time.Second)
		cancel()
		time.Sleep(time.Second)
		mustRelease(t, g)
		all.Wait()
	})
}

// Handles with one name in a process exclude each other.
func TestEqualHolders(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := trylock.Options{Holder: "host 17"}
		a, b := newHandleWith(t, s, o), newHandleWith(t, s, o)
		g := mustTry(t, a)
		wantHeld(t, b)
		if holder := s.all()[0].holder; !strings.HasPrefix(holder, "host 17 ") {
			t.Errorf("the holder is %q", holder)
		}
		mustRelease(t, g)
	})
}

func TestWasLastHolder(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := newHandle(t, s), newHandle(t, s)
		try := func(h *trylock.Handle, want bool) {
			t.Helper()
			time.Sleep(time.Millisecond)
			g := mustTry(t, h)
			if g.WasLastHolder() != want {
				t.Errorf("WasLastHolder is %t with token %d", !want, g.Token())
			}
			mustRelease(t, g)
		}
		try(a, false)
		try(a, true)
		try(a, true)
		try(b, false)
		try(a, false)
		try(a, true)
		s.setFault(nth(len(s.all())+1, fault{lost: true}))
		time.Sleep(time.Millisecond)
		if _, err := a.TryAcquire(t.Context()); err == nil {
			t.Error("a lost reply gave a guard")
		}
		try(a, false) // not certain
		try(a, true)
	})
}

// A store without a generation has no tokens, and no certainty about other holders.
func TestNoGeneration(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.plain = true
		a, b := newHandle(t, s), newHandle(t, s)
		for range 2 {
			time.Sleep(time.Millisecond)
			g := mustTry(t, a)
			wantHeld(t, b)
			time.Sleep(time.Minute)
			if g.Token() != 0 || g.WasLastHolder() || g.Err() != nil {
				t.Errorf("token %d, WasLastHolder %t, %v", g.Token(), g.WasLastHolder(), g.Err())
			}
			mustRelease(t, g)
		}
	})
}

// A record that was removed begins with generation 1 again. That is no token, so the handle refuses it.
func TestGenerationThatReturns(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		h := newHandle(t, s)
		mustRelease(t, mustTry(t, h))
		s.mu.Lock()
		clear(s.rows)
		s.mu.Unlock()
		for _, acquire := range []func(context.Context) (*trylock.Guard, error){h.TryAcquire, h.Acquire} {
			s.mu.Lock()
			clear(s.rows)
			s.mu.Unlock()
			if _, err := acquire(t.Context()); !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied || !s.isFree("job") {
				t.Errorf("got %v; the lock is free: %t", err, s.isFree("job"))
			}
		}
		time.Sleep(time.Millisecond)
		mustRelease(t, mustTry(t, newHandle(t, s)))
	})
}

// A permanent error ends a wait at once.
func TestPermanentError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := trylock.New(refusing{}, "job", nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := h.Acquire(t.Context()); !errors.Is(err, store.ErrDenied) || store.OutcomeOf(err) != store.NotApplied || time.Since(began) > 0 {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

type refusing struct{}

func (refusing) TryLock(context.Context, string, string, time.Duration) (uint64, bool, error) {
	return 0, false, store.ErrDenied
}

// Calls that hang do not pile up.
func TestHangingCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, hang := &server{}, make(chan struct{})
		h := newHandle(t, s)
		s.setFault(func(call) fault { return fault{hang: hang} })
		for range 100 {
			if _, err := h.TryAcquire(t.Context()); err == nil {
				t.Fatal("a call that hangs gave a guard")
			}
		}
		if n := len(s.all()); n > 20 {
			t.Errorf("%d calls hang", n)
		}
		s.setFault(nil)
		close(hang)
		time.Sleep(time.Minute)
		mustRelease(t, mustTry(t, h))
	})
}

func TestOptions(t *testing.T) {
	const ms = time.Millisecond
	for what, c := range map[string]struct {
		key string
		o   trylock.Options
		ok  bool
	}{
		"defaults":              {"a", trylock.Options{}, true},
		"the shortest TTL":      {"a", trylock.Options{TTL: trylock.MinTTL}, true},
		"the longest TTL":       {"a", trylock.Options{TTL: trylock.MaxTTL}, true},
		"a shorter TTL":         {"a", trylock.Options{TTL: trylock.MinTTL - ms}, false},
		"a longer TTL":          {"a", trylock.Options{TTL: trylock.MaxTTL + ms}, false},
		"a negative TTL":        {"a", trylock.Options{TTL: -time.Second}, false},
		"no whole milliseconds": {"a", trylock.Options{TTL: time.Second + 1}, false},
		"no margin":             {"a", trylock.Options{TTL: 10 * time.Second, Margin: time.Second - 1}, false},
		"a large margin":        {"a", trylock.Options{TTL: 10 * time.Second, Margin: 5 * time.Second}, false},
		"rare renewals":         {"a", trylock.Options{TTL: 10 * time.Second, Margin: 4 * time.Second, RenewInterval: 5 * time.Second}, false},
		"very rare renewals":    {"a", trylock.Options{TTL: 10 * time.Second, RenewInterval: 6 * time.Second}, false},
		"frequent renewals":     {"a", trylock.Options{RenewInterval: 49 * ms}, false},
		"MinPoll above MaxPoll": {"a", trylock.Options{MinPoll: 2 * time.Second, MaxPoll: time.Second}, false},
		"a long MinPoll":        {"a", trylock.Options{MinPoll: time.Minute}, true},
		"a negative MinPoll":    {"a", trylock.Options{MinPoll: -1}, false},
		"a long MaxPoll":        {"a", trylock.Options{MaxPoll: time.Hour + 1}, false},
		"a long release":        {"a", trylock.Options{TTL: time.Second, ReleaseTimeout: 2 * time.Second}, false},
		"a negative release":    {"a", trylock.Options{ReleaseTimeout: -1}, false},
		"the longest holder":    {"a", trylock.Options{Holder: strings.Repeat("h", trylock.MaxHolder)}, true},
		"a longer holder":       {"a", trylock.Options{Holder: strings.Repeat("h", trylock.MaxHolder+1)}, false},
		"no UTF-8 in a holder":  {"a", trylock.Options{Holder: "\xff"}, false},
		"no key":                {"", trylock.Options{}, false},
		"the longest key":       {strings.Repeat("k", trylock.MaxKey), trylock.Options{}, true},
		"a longer key":          {strings.Repeat("k", trylock.MaxKey+1), trylock.Options{}, false},
		"a zero byte in a key":  {"a\x00b", trylock.Options{}, false},
		"no UTF-8 in a key":     {"\xff", trylock.Options{}, false},
	} {
		_, err := trylock.New(&server{}, c.key, &c.o)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// With the options at their bounds, no lease is lost on a store that takes almost a tenth of the TTL for each call,
// but at most 20 s.
func TestAcceptedOptionsLoseNothing(t *testing.T) {
	for _, o := range []trylock.Options{
		{TTL: trylock.MinTTL}, {TTL: trylock.MaxTTL}, {TTL: 10 * time.Second, Margin: time.Second, RenewInterval: 5 * time.Second},
		{TTL: 10 * time.Second, Margin: 4999 * time.Millisecond, RenewInterval: 3600 * time.Millisecond},
	} {
		bubble(t, func(t *testing.T, s *server) {
			h := newHandleWith(t, s, o)
			if h.Name() != "job" {
				t.Errorf("the name is %q", h.Name())
			}
			half := min(o.TTL/25, 10*time.Second)
			s.setFault(func(call) fault { return fault{before: half, after: half} })
			g := mustTry(t, h)
			time.Sleep(min(100*o.TTL, 25*time.Hour))
			s.setFault(nil)
			mustRelease(t, g)
		})
	}
}
