package lease_test

// Each test is named after a failure that was found in real lock libraries.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

const ttl = 30 * time.Second

// An expired holder releases after another has acquired.
func TestReleaseAfterTakeoverTouchesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		cut := newWire(st)
		a, b := client(t, cut, nil), client(t, st, nil)
		old := mustTry(t, a, "job")
		cut.set(everything(drop))
		won, err := b.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		wantLost(t, old, lease.ErrExpired)
		cut.set(nil)
		if err := old.Release(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Release of a lost lease = %v; want ErrLost", err)
		}
		time.Sleep(time.Hour)
		if err := won.Err(); err != nil {
			t.Errorf("the new holder lost its lease: %v", err)
		}
		mustRelease(t, won)
	})
}

// Another acquires in the middle of a release.
func TestTakeoverInTheMiddleOfARelease(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		a, b := client(t, w, nil), client(t, st, nil)
		old := mustTry(t, a, "job")
		var won *lease.Guard
		w.set(func(op *store.Op) fault {
			if op.Kind == store.OpPut && won == nil {
				rec := wantState(t, b, "job", lease.Held)
				if _, err := b.Break(t.Context(), "job", rec.Token, &lease.BreakOptions{Now: true}); err != nil {
					t.Error(err)
				}
				won = mustTry(t, b, "job")
			}
			return pass
		})
		if err := old.Release(t.Context()); !errors.Is(err, lease.ErrStolen) {
			t.Errorf("Release = %v; want ErrStolen", err)
		}
		if err := won.Err(); err != nil {
			t.Error(err)
		}
		wantState(t, b, "job", lease.Held)
		mustRelease(t, won)
	})
}

// A release is applied and its reply lost; the lock is acquired anew, and the
// old handle repeats its release.
func TestLostReplyOfAReleaseAndANewGrant(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		a, b := client(t, w, nil), client(t, st, nil)
		g := mustTry(t, a, "job")
		var won *lease.Guard
		w.set(func(op *store.Op) fault {
			switch op.Kind {
			case store.OpPut:
				return lose
			case store.OpGet, store.OpSettle:
				if won == nil {
					won = mustTry(t, b, "job")
				}
			}
			return pass
		})
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("Release = %v; it was applied", err)
		}
		if err := won.Err(); err != nil {
			t.Error(err)
		}
		rec := wantState(t, b, "job", lease.Held)
		if rec.Token != won.Token() {
			t.Errorf("token %d; want %d", rec.Token, won.Token())
		}
	})
}

// A release with an already cancelled context still releases.
func TestReleaseWithACancelledContext(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		g := mustTry(t, c, "job")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Release(ctx); err != nil {
			t.Fatal(err)
		}
		wantState(t, c, "job", lease.Free)
	})
}

// A release ends within its own time.
func TestReleaseIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		g := mustTry(t, c, "job")
		w.set(everything(hang))
		began := time.Now()
		err := g.Release(t.Context())
		if !errors.Is(err, lease.ErrUnresolved) {
			t.Errorf("Release = %v; want ErrUnresolved", err)
		}
		if took := time.Since(began); took > 2*lease.DefaultReleaseTimeout {
			t.Errorf("Release took %v", took)
		}
		w.set(nil)
		if g.Err() == nil {
			t.Error("the lease is still trusted after its release")
		}
	})
}

// A release races a renewal in flight, in both orders.
func TestReleaseRacesARenewal(t *testing.T) {
	for _, f := range []fault{pass, lose, drop, hangLate, fail} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				c := client(t, w, nil)
				g := mustTry(t, c, "job")
				inFlight := make(chan struct{})
				var once sync.Once
				w.set(func(op *store.Op) fault {
					if op.Kind == store.OpPutVolatile {
						once.Do(func() { close(inFlight) })
						return f
					}
					return pass
				})
				<-inFlight
				if err := g.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
				w.set(nil)
				w.requests()
				time.Sleep(10 * ttl)
				w.after.Wait()
				if n := w.requests(); n != 0 {
					t.Errorf("%d requests followed the release", n)
				}
				wantState(t, c, "job", lease.Free)
			})
		})
	}
}

// Release twice, and release of a record that somebody removed.
func TestReleaseTwiceAndOfNothing(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		g := mustTry(t, c, "job")
		mustRelease(t, g)
		w.requests()
		mustRelease(t, g)
		if n := w.requests(); n != 0 {
			t.Errorf("the second release sent %d requests", n)
		}
		g = mustTry(t, c, "job")
		_, v, err := st.Get(t.Context(), "lock/job")
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Delete(t.Context(), "lock/job", v); err != nil {
			t.Fatal(err)
		}
		if err := g.Release(t.Context()); !errors.Is(err, lease.ErrRemoved) {
			t.Errorf("Release of a removed record = %v; want ErrRemoved", err)
		}
		if _, _, err := st.Get(t.Context(), "lock/job"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the release made a record: %v", err)
		}
	})
}

// Closing with three leases, of which the first can't be released.
func TestCloseReleasesEachByItself(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		for _, name := range []string{"a", "b", "c"} {
			mustTry(t, c, name)
		}
		other := client(t, st, nil)
		stranger := mustTry(t, other, "d")
		waiter := make(chan error)
		go func() {
			_, err := c.Acquire(context.Background(), "d")
			waiter <- err
		}()
		synctest.Wait()
		w.set(func(op *store.Op) fault {
			if op.Key == "lock/a" {
				return drop
			}
			return pass
		})
		if err := c.Close(t.Context()); !errors.Is(err, lease.ErrUnresolved) {
			t.Errorf("Close = %v; want it to tell of the one", err)
		}
		wantState(t, other, "a", lease.Held)
		wantState(t, other, "b", lease.Free)
		wantState(t, other, "c", lease.Free)
		if err := <-waiter; !errors.Is(err, lease.ErrClosed) {
			t.Errorf("a waiting Acquire = %v; want ErrClosed", err)
		}
		if _, err := c.TryAcquire(t.Context(), "e"); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("TryAcquire after Close = %v; want ErrClosed", err)
		}
		mustRelease(t, stranger)
	})
}

// The reply of an acquire is lost.
func TestLostReplyOfAnAcquire(t *testing.T) {
	for _, f := range []fault{lose, drop, repeat, fail} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				c := client(t, w, nil)
				w.set(nth(1, f))
				began := time.Now()
				g, err := c.Acquire(t.Context(), "job")
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v: a deadlock on oneself", took)
				}
				if g.Deadline().After(time.Now().Add(ttl)) {
					t.Errorf("the deadline %v is too late", g.Deadline())
				}
				mustRelease(t, g)
				wantState(t, c, "job", lease.Free)
			})
		})
	}
}

// An acquire that is given up while its write is unresolved leaves nothing.
func TestGivenUpAcquireCannotLandLater(t *testing.T) {
	for _, f := range []fault{lose, drop, hangLate} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				c, other := client(t, w, nil), client(t, st, nil)
				first := true
				w.set(func(op *store.Op) fault {
					if op.Kind == store.OpPut && first {
						first = false
						return f
					}
					if reads(op) {
						return drop // nothing can be read back in time
					}
					return pass
				})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				g, err := c.Acquire(ctx, "job")
				if err == nil {
					t.Fatalf("acquired, token %d", g.Token())
				}
				w.set(nil)
				w.after.Wait()
				won, err := other.TryAcquire(t.Context(), "job")
				if err != nil {
					t.Fatalf("the lock leaked: %v", err)
				}
				mustRelease(t, won)
			})
		})
	}
}

// The reply of a renewal is lost, applied or not; the transport repeats it.
func TestLostReplyOfARenewal(t *testing.T) {
	for _, f := range []fault{lose, drop, repeat, fail} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				c := client(t, w, nil)
				g := mustTry(t, c, "job")
				for n := range 5 {
					w.set(nth(1+n%2, f))
					time.Sleep(ttl)
				}
				if err := g.Err(); err != nil {
					t.Fatal(err)
				}
				mustRelease(t, g)
			})
		})
	}
}

// One's own conflict at an acquire, but by now another holds.
func TestOwnConflictWhileAnotherHolds(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		a, b := client(t, w, nil), client(t, st, nil)
		var won *lease.Guard
		first := true
		w.set(func(op *store.Op) fault {
			if op.Kind.Write() && first {
				first = false
				return lose
			}
			if reads(op) && won == nil {
				// Our claim was applied; somebody breaks it and takes the lock.
				rec := wantState(t, b, "job", lease.Held)
				if _, err := b.Break(t.Context(), "job", rec.Token, &lease.BreakOptions{Now: true}); err != nil {
					t.Error(err)
				}
				won = mustTry(t, b, "job")
			}
			return pass
		})
		if g, err := a.TryAcquire(t.Context(), "job"); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("TryAcquire = %v, %v; want it held", g, err)
		}
		if err := won.Err(); err != nil {
			t.Error(err)
		}
		mustRelease(t, won)
	})
}

// An error of reading is not "absent", and what can't be read is not taken.
func TestUnreadableIsNotAbsent(t *testing.T) {
	for name, value := range map[string]string{
		"torn":    `{"holdfast":1,"kind":"lease","name":"job","sta`,
		"empty":   ``,
		"foreign": `{"ID":"x","Operation":"OperationTypeApply"}`,
		"array":   `[1]`,
		"other":   `{"holdfast":1,"kind":"lease","name":"other","state":"free","token":1,"nonce":"x"}`,
		"state":   `{"holdfast":1,"kind":"lease","name":"job","state":"gone","token":1,"nonce":"x","ttl_ms":1}`,
		"token":   `{"holdfast":1,"kind":"lease","name":"job","state":"free","token":-1,"nonce":"x"}`,
		"year":    `{"holdfast":1,"kind":"lease","name":"job","state":"held","token":1,"nonce":"x","grant":"g","ttl_ms":31536000000}`,
		"future":  `{"holdfast":2,"kind":"lease","shape":"unheard of"}`,
		"case":    `{"holdfast":1,"kind":"lease","name":"job","NAME":"x","state":"free","token":1,"nonce":"x"}`,
		"max":     `{"holdfast":1,"kind":"lease","name":"job","state":"free","token":18446744073709551615,"nonce":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				v, err := st.Put(t.Context(), "lock/job", "", []byte(value))
				if err != nil {
					t.Fatal(err)
				}
				c := client(t, st, nil)
				for _, acquire := range []func() (*lease.Guard, error){
					func() (*lease.Guard, error) { return c.TryAcquire(t.Context(), "job") },
					func() (*lease.Guard, error) { return c.Acquire(t.Context(), "job") },
				} {
					if g, err := acquire(); !errors.Is(err, store.ErrCorrupt) {
						t.Errorf("got %v, %v; want an unreadable register", g, err)
					} else if name == "future" && !errors.Is(err, lease.ErrFormat) {
						t.Errorf("got %v; want it to name the format", err)
					}
				}
				if _, now, _ := st.Get(t.Context(), "lock/job"); now != v {
					t.Error("the record was changed")
				}
			})
		})
	}
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		w.set(everything(fail))
		c := client(t, w, nil)
		if g, err := c.TryAcquire(t.Context(), "job"); err == nil || errors.Is(err, lease.ErrHeld) {
			t.Errorf("TryAcquire on a store that fails = %v, %v", g, err)
		}
	})
}

// The monotonic clock stands still while the machine sleeps.
func TestSuspendedMachine(t *testing.T) {
	for name, sleep := range map[string]func(*clocks){
		"wall clock tells":      func(c *clocks) { c.jumped += 10 * time.Minute },
		"boot-time clock tells": func(c *clocks) { c.suspended += 10 * time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				c := client(t, st, nil)
				clock := newClocks()
				lease.SetClock(c, clock.read)
				g := mustTry(t, c, "job")
				clock.change(sleep)
				wantLost(t, g, lease.ErrExpired)
			})
		})
	}
}

// The control: with the monotonic clock alone the holder would go on.
func TestSuspendedMachineByTheMonotonicClockAlone(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		clock := newClocks()
		lease.SetClock(c, func() lease.Reading {
			r := clock.read()
			return lease.Reading{Mono: r.Mono, Wall: r.Mono}
		})
		g := mustTry(t, c, "job")
		clock.change(func(c *clocks) { c.jumped += 10 * time.Minute })
		if err := g.Err(); err != nil {
			t.Fatalf("the control noticed the sleep: %v", err)
		}
	})
}

// The wall clock jumps, at the holder or at the waiter.
func TestWallClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				a, b := client(t, st, nil), client(t, st, nil)
				clockA, clockB := newClocks(), newClocks()
				lease.SetClock(a, clockA.read)
				lease.SetClock(b, clockB.read)
				g := mustTry(t, a, "job")
				wantHeld(t, b, "job")
				clockB.change(func(c *clocks) { c.jumped += jump })
				wantHeld(t, b, "job")
				time.Sleep(5 * time.Minute)
				wantHeld(t, b, "job")
				clockA.change(func(c *clocks) { c.jumped += jump })
				if err := g.Err(); (jump < 0) != (err == nil) {
					t.Errorf("after a jump of %v: %v; a holder may give up early, never late", jump, err)
				}
				if jump < 0 {
					time.Sleep(5 * time.Minute)
					if err := g.Err(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A waiter of 2 s meets a record that says 60 s.
func TestTheTTLInTheRecordCounts(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		a := client(t, w, &lease.Options{TTL: time.Minute})
		b := client(t, st, &lease.Options{TTL: 2 * time.Second})
		old := mustTry(t, a, "job")
		w.set(everything(hang))
		began := time.Now()
		g, err := b.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < time.Minute*101/100 || waited > 65*time.Second {
			t.Errorf("waited %v; want a minute and the allowance for clocks", waited)
		}
		wantLost(t, old, lease.ErrExpired)
		w.set(nil)
		mustRelease(t, g)
	})
}

// A reply takes 0.9 TTL: the deadline counts from the sending.
func TestDeadlineCountsFromTheSending(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var delay atomic.Int64
		slow := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			time.Sleep(time.Duration(delay.Load()))
			return err
		})
		c := client(t, slow, &lease.Options{Manual: true})
		g := mustTry(t, c, "job")
		delay.Store(int64(15 * time.Second))
		sent := time.Now()
		if err := g.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := c.Options()
		trust := o.TTL - o.Margin - o.Grace
		if want := sent.Add(trust); g.Deadline().Sub(want).Abs() > time.Millisecond {
			t.Errorf("the deadline is %v after the sending; want %v", g.Deadline().Sub(sent), trust)
		}
		delay.Store(int64(o.TTL * 9 / 10))
		if err := g.Renew(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Renew with a reply after the deadline = %v; want ErrLost", err)
		}
		wantLost(t, g, lease.ErrExpired)

		// The same for an acquire: nothing is left to trust in, so that a further
		// grant has to follow, which the handle makes over its own.
		delay.Store(int64(0))
		w := newWire(slow)
		w.set(func(op *store.Op) fault {
			delay.Store(int64(0))
			switch {
			case op.Kind == store.OpPut && w.counts[store.OpPut] == 1:
				delay.Store(int64(o.TTL * 9 / 10))
			case op.Kind == store.OpSettle && w.counts[store.OpSettle] == 1: // that shows what became of it
				delay.Store(int64(o.TTL * 3 / 10))
			}
			return pass
		})
		c2 := client(t, w, nil)
		g2, err := c2.TryAcquire(t.Context(), "slow")
		if err != nil {
			t.Fatal(err)
		}
		if g2.Trust() < trust-time.Second {
			t.Errorf("trust of %v is left; want %v", g2.Trust(), trust)
		}
		w.set(nil)
		mustRelease(t, g2)
	})
}

// Many short tries, in separate processes, against a dead holder.
func TestShortTriesWinInTheEnd(t *testing.T) {
	st := named(t)
	memory := lease.FileMemory(filepath.Join(t.TempDir(), "seen"))
	dead := client(t, st, &lease.Options{Manual: true, TTL: 600 * time.Millisecond})
	mustTry(t, dead, "job")
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := lease.New(st, &lease.Options{Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		g, err := c.TryAcquire(t.Context(), "job")
		if err == nil {
			if waited := time.Since(began); waited < 500*time.Millisecond {
				t.Errorf("taken over after %v", waited)
			}
			mustRelease(t, g)
			break
		}
		if !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		if time.Since(began) > 30*time.Second {
			t.Fatal("none of the tries won")
		}
		_ = c.Close(t.Context())
	}
}

// A process that wakes up already expired still hears of it.
func TestWakingUpExpired(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		heard := make(chan lease.Event, 100)
		c := client(t, st, &lease.Options{OnEvent: func(e lease.Event) { heard <- e }})
		clock := newClocks()
		lease.SetClock(c, clock.read)
		g := mustTry(t, c, "job")
		clock.change(func(c *clocks) { c.jumped += time.Hour })
		<-g.Context().Done() // by the timer, without anybody asking
		wantLost(t, g, lease.ErrExpired)
		synctest.Wait()
		close(heard)
		var kinds []lease.EventKind
		for e := range heard {
			kinds = append(kinds, e.Kind)
		}
		if !slices.Contains(kinds, lease.EventLost) {
			t.Errorf("the events were %v; want one that it was lost", kinds)
		}
	})
}

// Transient errors are not a loss.
func TestTransientErrorsAreNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		var kinds []lease.EventKind
		var mu sync.Mutex
		c := client(t, w, &lease.Options{OnEvent: func(e lease.Event) {
			mu.Lock()
			defer mu.Unlock()
			kinds = append(kinds, e.Kind)
		}})
		g := mustTry(t, c, "job")
		for _, f := range []fault{drop, fail, hang, lose} {
			w.set(everything(f))
			time.Sleep(10 * time.Second)
			w.set(nil)
			time.Sleep(ttl)
			if err := g.Err(); err != nil {
				t.Fatalf("lost by %v: %v", f, err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if slices.Contains(kinds, lease.EventLost) {
			t.Errorf("lost: %v", kinds)
		}
	})
}

// An outage that lasts is told before the end.
func TestAtRiskThenLost(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		var events []lease.Event
		var mu sync.Mutex
		c := client(t, w, &lease.Options{OnEvent: func(e lease.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}})
		g := mustTry(t, c, "job")
		w.set(everything(drop))
		<-g.Context().Done()
		wantLost(t, g, lease.ErrExpired)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		var kinds []lease.EventKind
		for _, e := range events {
			kinds = append(kinds, e.Kind)
		}
		if want := []lease.EventKind{lease.EventAcquired, lease.EventAtRisk, lease.EventLost}; !slices.Equal(kinds, want) {
			t.Errorf("events %v; want %v", kinds, want)
		}
		if last := events[len(events)-1]; !errors.Is(last.Err, errNetwork) {
			t.Errorf("the loss says %v; want the store's error in it", last.Err)
		}
	})
}

// There are 500 leases and one slow key.
func TestOneSlowKeyAmongMany(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		guards := map[string]*lease.Guard{}
		for i := range 500 {
			name := fmt.Sprintf("job-%d", i)
			guards[name] = mustTry(t, c, name)
		}
		w.set(func(op *store.Op) fault {
			if strings.HasSuffix(op.Key, "/job-7") {
				return hang
			}
			return pass
		})
		time.Sleep(10 * ttl)
		for name, g := range guards {
			if err := g.Err(); (err == nil) == (name == "job-7") {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.set(nil)
	})
}

// Cancelling the context of an acquire, after it and while waiting.
func TestCancelTheAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		a, b := client(t, st, nil), client(t, st, nil)
		ctx, cancel := context.WithCancel(t.Context())
		g, err := a.Acquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(10 * ttl)
		if err := g.Err(); err != nil {
			t.Fatalf("cancelling the wait ended the lease: %v", err)
		}
		before := wantState(t, a, "job", lease.Held)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.Acquire(ctx, "job"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrHeld) {
			t.Errorf("Acquire = %v; want the context's end and who holds it", err)
		}
		if after := wantState(t, a, "job", lease.Held); after.Token != before.Token {
			t.Errorf("the waiter left token %d behind %d", after.Token, before.Token)
		}
		mustRelease(t, g)
	})
}

// Tokens rise, whatever happens to the lock. (A popular lease on S3 deletes
// its object at release, and its generation starts at 1 again.)
func TestTokensRise(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var last uint64
		next := func(how string, token uint64) {
			t.Helper()
			if token <= last {
				t.Fatalf("%s: token %d after %d", how, token, last)
			}
			last = token
		}
		w := newWire(st)
		a, b := client(t, w, nil), client(t, st, nil)
		g := mustTry(t, a, "job")
		next("new", g.Token())
		mustRelease(t, g)
		g = mustTry(t, b, "job")
		next("released", g.Token())
		mustRelease(t, g)
		g = mustTry(t, a, "job")
		next("again", g.Token())
		w.set(everything(drop))
		g, err := b.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		next("expired", g.Token())
		w.set(nil)
		broken, err := a.Break(t.Context(), "job", g.Token(), &lease.BreakOptions{Now: true})
		if err != nil {
			t.Fatal(err)
		}
		next("broken", broken.Token)
		g = mustTry(t, a, "job")
		next("after the break", g.Token())
		time.Sleep(time.Minute)
		_, v, err := st.Get(t.Context(), "lock/job")
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Delete(t.Context(), "lock/job", v); err != nil {
			t.Fatal(err)
		}
		g = mustTry(t, b, "job")
		next("deleted by hand", g.Token())
		mustRelease(t, g)
	})
}

// Equal names of holders say nothing.
func TestEqualHoldersExcludeEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		same := &lease.Options{Holder: "worker"}
		a, b := client(t, st, same), client(t, st, same)
		g := mustTry(t, a, "job")
		wantHeld(t, a, "job") // another handle of the same client
		wantHeld(t, b, "job")
		mustRelease(t, g)
		longer := client(t, st, &lease.Options{Holder: "worker-2", ReclaimOwn: true})
		g = mustTry(t, a, "job")
		wantHeld(t, longer, "job")
		mustRelease(t, g)
	})
}

// One time-out does not spoil the next wait, and waiters do not share one
// budget.
func TestWaitsAreIndependent(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		a, b := client(t, st, nil), client(t, st, nil)
		g := mustTry(t, a, "job")
		h := handle(t, b, "job")
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			began := time.Now()
			_, err := h.Acquire(ctx)
			if took := time.Since(began); err == nil || took < 10*time.Second {
				t.Errorf("gave up after %v: %v", took, err)
			}
			cancel()
		}
		var wg sync.WaitGroup
		for i := range 5 {
			wait := time.Duration(i+1) * time.Second
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				began := time.Now()
				_, err := h.Acquire(ctx)
				if took := time.Since(began); err == nil || took != wait {
					t.Errorf("a wait of %v took %v: %v", wait, took, err)
				}
			})
		}
		wg.Wait()
		mustRelease(t, g)
		mustRelease(t, mustTry(t, b, "job"))
	})
}

// A failed renewal is told, and no further guards are handed out on it.
func TestNoGuardsOfALostGrant(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		a, b := client(t, w, nil), client(t, st, nil)
		h := handle(t, a, "job")
		g, err := h.TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.set(everything(drop))
		won, err := b.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		wantLost(t, g, lease.ErrExpired)
		w.set(nil)
		if again, err := h.TryAcquire(t.Context()); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("TryAcquire on the handle = %v, %v; want it held", again, err)
		}
		mustRelease(t, won)
		again, err := h.TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again.Continuous() {
			t.Error("another has held the lock, and the handle says nobody has")
		}
		_ = g.Release(t.Context()) // late, of the lost grant
		if err := again.Err(); err != nil {
			t.Errorf("releasing the old guard ended the new grant: %v", err)
		}
		mustRelease(t, again)
	})
}
