package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

// daily is the period of most tests here.
var daily = lease.Daily(nil)

// succeeds is a job that is done at once.
func succeeds(context.Context, *lease.Guard) error { return nil }

// mustOnce runs the job "job" with f, and wants no error.
func mustOnce(t *testing.T, c *lease.Client, f func(context.Context, *lease.Guard) error, o *lease.LockOptions) lease.OnceResult {
	t.Helper()
	r, err := c.Once(t.Context(), "job", daily, f, o)
	if err != nil {
		t.Fatalf("Once: %v", err)
	}
	return r
}

func wantOutcome(t *testing.T, r lease.OnceResult, ran bool, outcome lease.RunOutcome, tries int) {
	t.Helper()
	if r.Ran != ran || r.Last.Outcome != outcome || r.Last.Attempts != tries {
		t.Errorf("ran %v: %s, try %d; want %v, %s, %d", r.Ran, r.Last.Outcome, r.Last.Attempts, ran, outcome, tries)
	}
}

// at returns a client on a machine whose wall clock is ahead by d.
func at(t *testing.T, st store.Store, holder string, d time.Duration) *lease.Client {
	t.Helper()
	c := client(t, st, &lease.Options{Holder: holder})
	lease.SetClock(c, func() lease.Reading {
		now := time.Now()
		return lease.Reading{Mono: now, Wall: now.Add(d).Round(0)}
	})
	return c
}

// sleepUntil sleeps until the next day begins, in UTC, and d more.
func sleepUntil(d time.Duration) {
	_, end := daily.At(time.Now())
	time.Sleep(time.Until(end) + d)
}

// A job runs once in each period, whichever machine asks, and the record says so. The
// requests are exact: three for a run, one for the finding that it ran already.
func TestOnceRunsOnceInAPeriod(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		w := newWire(st)
		a, b := client(t, w, &lease.Options{Holder: "a"}), client(t, w, &lease.Options{Holder: "b"})
		time.Sleep(2 * time.Hour)
		for day := range 3 {
			began := time.Now()
			first := mustOnce(t, a, func(ctx context.Context, g *lease.Guard) error {
				running := record(t, st, "job").Run
				if running == nil || running.Outcome != lease.RunRunning || !running.Began.Equal(began) || !running.Ended.IsZero() {
					t.Errorf("the record of a run in progress: %+v", running)
				}
				time.Sleep(5 * time.Second) // no renewal
				return nil
			}, nil)
			if n := w.requests(); n != 3 {
				t.Errorf("day %d: %d requests for a run, want 3", day, n)
			}
			wantOutcome(t, first, true, lease.RunDone, 1)
			second := mustOnce(t, b, succeeds, nil)
			if n := w.requests(); n != 1 {
				t.Errorf("day %d: %d requests to find that it ran already, want 1", day, n)
			}
			wantOutcome(t, second, false, lease.RunDone, 1)
			run := record(t, st, "job").Run
			_, end := daily.At(began)
			if run == nil || !run.Began.Equal(began) || !run.Ended.Equal(began.Add(5*time.Second)) || !run.PeriodEnd.Equal(end) ||
				run.Holder != "a" || run.Period != "day" || run.Grant != first.Last.Grant || run.Grant != second.Last.Grant {
				t.Errorf("the record tells %+v; the results %+v and %+v", run, first.Last, second.Last)
			}
			sleepUntil(2 * time.Hour)
		}
	})
}

// Machines with clocks that are off by up to a minute call Once all day, over a change to
// summer time, on a store that loses requests and replies. In each day of Zurich the job
// runs once, and no day is left out.
func TestOnceOnManyMachines(t *testing.T) {
	zurich := zone(t, "Europe/Zurich")
	for seed := range uint64(5) {
		bubbleFor(t, ages, func(t *testing.T, st store.Store) {
			random := rand.New(rand.NewPCG(seed, 1))
			time.Sleep(time.Until(time.Date(2000, 3, 24, 1, 0, 0, 0, zurich)))
			period := lease.Daily(zurich)
			var mu sync.Mutex
			runs := map[string]int{}
			var machines sync.WaitGroup
			for m := range 4 {
				schedule := faultstore.MustParse(fmt.Sprintf("seed %d; write * %%0.1 lose; write * %%0.1 drop; read * %%0.1 fail", seed*10+uint64(m)))
				c := at(t, faultstore.New(st, schedule), fmt.Sprint("machine ", m), time.Duration(random.IntN(120)-60)*time.Second)
				pauses := random.Perm(200)
				machines.Go(func() {
					for i := range 5 * 24 {
						time.Sleep(time.Hour + time.Duration(pauses[i]-100)*time.Second)
						now := time.Now().In(zurich)
						if now.Minute() >= 55 || now.Minute() < 5 {
							continue // where clocks may differ about the day
						}
						if _, err := c.Once(t.Context(), "job", period, func(context.Context, *lease.Guard) error {
							mu.Lock()
							defer mu.Unlock()
							runs[time.Now().In(zurich).Format(time.DateOnly)]++
							return nil
						}, nil); err != nil && !errors.Is(err, lease.ErrReleaseFailed) && !errors.Is(err, lease.ErrUnresolved) {
							t.Errorf("seed %d: %v", seed, err)
						}
					}
				})
			}
			machines.Wait()
			for day, n := range runs {
				if n != 1 {
					t.Errorf("seed %d: on %s it ran %d times", seed, day, n)
				}
			}
			if len(runs) < 5 {
				t.Errorf("seed %d: it ran on %v", seed, runs)
			}
		})
	}
}

// A run that failed is tried again in the same period, up to the number of retries, by any
// machine; in the next period the count begins again.
func TestOnceTriesAgain(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		o := &lease.LockOptions{Retries: 2}
		for range 2 {
			for try := range 3 {
				r, err := client(t, st, nil).Once(t.Context(), "job", daily, func(context.Context, *lease.Guard) error { return errWork }, o)
				if err != errWork || r.Last.Error != errWork.Error() {
					t.Errorf("try %d: %v, %q", try, err, r.Last.Error)
				}
				wantOutcome(t, r, true, lease.RunFailed, try+1)
				time.Sleep(time.Minute)
			}
			wantOutcome(t, mustOnce(t, client(t, st, nil), succeeds, o), false, lease.RunFailed, 3)
			wantOutcome(t, mustOnce(t, client(t, st, nil), succeeds, nil), false, lease.RunFailed, 3)
			sleepUntil(time.Hour)
		}
		_, err := client(t, st, nil).Once(t.Context(), "job", daily, func(context.Context, *lease.Guard) error { return errWork }, o)
		if err != errWork {
			t.Error(err)
		}
		wantOutcome(t, mustOnce(t, client(t, st, nil), succeeds, o), true, lease.RunDone, 2)
		wantOutcome(t, mustOnce(t, client(t, st, nil), succeeds, o), false, lease.RunDone, 2)
	})
}

// Once waits while the job runs elsewhere. With NoWait it returns an error that says so. A second one that
// waited finds that it ran.
func TestOnceWhileItRuns(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		a, b := client(t, st, &lease.Options{Holder: "a"}), client(t, st, nil)
		var waited lease.OnceResult
		done := make(chan error)
		wantOutcome(t, mustOnce(t, a, func(context.Context, *lease.Guard) error {
			_, err := b.Once(t.Context(), "job", daily, succeeds, &lease.LockOptions{NoWait: true})
			var held *lease.HeldError
			if !errors.As(err, &held) || held.Record.Run == nil || held.Record.Run.Holder != "a" {
				t.Errorf("Once with NoWait: %v", err)
			}
			go func() {
				var err error
				waited, err = b.Once(t.Context(), "job", daily, succeeds, &lease.LockOptions{Retries: 5})
				done <- err
			}()
			time.Sleep(10 * ttl)
			return nil
		}, nil), true, lease.RunDone, 1)
		report(t, <-done)
		wantOutcome(t, waited, false, lease.RunDone, 1)
		// Of the lock as such nothing is left but the record.
		mustRelease(t, mustTry(t, b, "job"))
		wantOutcome(t, mustOnce(t, b, succeeds, nil), false, lease.RunDone, 1)
	})
}

// A process that dies at any step counts as a try if the grant was written, and costs
// nothing before. The next one learns of it from the record, after the lease has expired. The
// machine dies before or after its n-th write is applied; nothing of it reaches the store
// later.
func TestOnceProcessThatDies(t *testing.T) {
	for _, retries := range []int{0, 1} {
		for n := 1; n <= 3; n++ {
			for _, last := range []fault{lose, drop} {
				t.Run(fmt.Sprintf("%d retries, at write %d, %s", retries, n, last), func(t *testing.T) {
					bubbleFor(t, ages, func(t *testing.T, st store.Store) {
						w := newWire(st)
						writes, began := 0, 0
						w.set(func(op *store.Op) fault {
							if op.Kind.Write() {
								writes++
							}
							switch {
							case writes < n:
								return pass
							case writes == n && op.Kind.Write():
								return last
							}
							return drop
						})
						o := &lease.LockOptions{Retries: retries}
						ctx, cancel := context.WithTimeout(t.Context(), 20*ttl)
						defer cancel()
						// Its first write is the grant, its second a renewal, its third the release.
						_, err := client(t, w, &lease.Options{Holder: "dead"}).Once(ctx, "job", daily, func(ctx context.Context, g *lease.Guard) error {
							began++
							if n > 1 {
								_ = g.Renew(ctx)
							}
							return g.Err()
						}, o)
						if err == nil {
							t.Fatal("the machine did not die")
						}
						claimed := n > 1 || last == lose
						released := n == 3 && last == lose
						r := mustOnce(t, client(t, st, nil), func(context.Context, *lease.Guard) error { began++; return nil }, o)
						switch {
						case !claimed:
							wantOutcome(t, r, true, lease.RunDone, 1)
						case released:
							wantOutcome(t, r, false, lease.RunDone, 1)
						case retries == 0:
							wantOutcome(t, r, false, lease.RunDied, 1)
							if r.Last.Holder != "dead" || !r.Last.Ended.IsZero() {
								t.Errorf("%+v", r.Last)
							}
						default:
							wantOutcome(t, r, true, lease.RunDone, 2)
						}
						if began > 1+retries {
							t.Errorf("it began %d times", began)
						}
					})
				})
			}
		}
	}
}

// Each single request that is lost, refused, repeated or late: the function runs once. The
// record says its end, unless the release hangs for its whole time, which the error says.
func TestOnceLostReplies(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for _, f := range []fault{drop, fail, lose, repeat, hang, hangLate} {
			bubbleFor(t, ages, func(t *testing.T, st store.Store) {
				w := newWire(st)
				requests, began := 0, 0
				w.set(func(op *store.Op) fault {
					if op.Kind == store.OpWatch {
						return pass
					}
					if requests++; requests == n {
						return f
					}
					return pass
				})
				hangs := n == 3 && (f == hang || f == hangLate)
				r, err := client(t, w, nil).Once(t.Context(), "job", daily, func(context.Context, *lease.Guard) error { began++; return nil }, nil)
				if errors.Is(err, lease.ErrReleaseFailed) != hangs || err != nil && !hangs {
					t.Errorf("request %d, %s: %v", n, f, err)
				}
				wantOutcome(t, r, true, lease.RunDone, 1)
				w.after.Wait()
				again := mustOnce(t, client(t, st, nil), func(context.Context, *lease.Guard) error { began++; return nil }, nil)
				if began != 1 || again.Last.Outcome != lease.RunDone && !hangs {
					t.Errorf("request %d, %s: the function began %d times, %+v", n, f, began, again)
				}
			})
		}
	}
}

// A claim that is given up leaves the run before it, and no try.
func TestOnceThatIsGivenUp(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		mustOnce(t, client(t, st, &lease.Options{Holder: "before"}), succeeds, nil)
		sleepUntil(time.Hour)
		w := newWire(st)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.set(nth(1, hangLate)) // the claim lands when it was given up
		_, err := client(t, w, nil).Once(ctx, "job", daily, func(context.Context, *lease.Guard) error { t.Error("it runs"); return nil }, nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Once: %v", err)
		}
		w.after.Wait()
		if run := record(t, st, "job").Run; run == nil || run.Outcome != lease.RunDone || run.Holder != "before" {
			t.Errorf("the run before: %+v", run)
		}
		wantOutcome(t, mustOnce(t, client(t, st, nil), succeeds, nil), true, lease.RunDone, 1)
	})
}

// A grant whose reply comes when its time is over was no run: the function has not begun.
func TestOnceWithALateReply(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		slow := &lateReplies{Store: st}
		r := mustOnce(t, client(t, slow, nil), succeeds, nil)
		wantOutcome(t, r, true, lease.RunDone, 1)
		if slow.puts != 3 {
			t.Errorf("%d writes, want two grants and a release", slow.puts)
		}
	})
}

// lateReplies delays the reply to the first write, and the read that follows, for longer than
// a lease is trusted.
type lateReplies struct {
	store.Store
	puts, gets int
}

func (s *lateReplies) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := s.Store.Put(ctx, key, prev, value)
	if s.puts++; s.puts == 1 {
		time.Sleep(ttl / 2)
		return "", errNetwork
	}
	return v, err
}

func (s *lateReplies) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	value, v, err := s.Store.Get(ctx, key)
	if s.gets++; s.gets == 2 {
		time.Sleep(ttl / 3)
	}
	return value, v, err
}

// A wall clock that jumps back never runs a job twice in a period, by an hour or a year; one
// that is ahead runs it too early, and then the other machines say so, instead of being
// silent until that time comes. An operator's break lets the job run again.
func TestOnceWithClocksThatJump(t *testing.T) {
	const year = 366 * 24 * time.Hour
	for _, back := range []time.Duration{time.Second, time.Minute, time.Hour, 25 * time.Hour, year} {
		bubbleFor(t, ages, func(t *testing.T, st store.Store) {
			sleepUntil(10 * time.Second)
			mustOnce(t, client(t, st, nil), succeeds, nil)
			r, err := at(t, st, "slow", -back).Once(t.Context(), "job", daily, succeeds, &lease.LockOptions{Retries: 3})
			if r.Ran || (err == nil) != (back <= lease.MaxClockSkew) || err != nil && !errors.Is(err, lease.ErrRunInFuture) {
				t.Errorf("%v back: %+v, %v", back, r, err)
			}
		})
	}
	for _, ahead := range []time.Duration{time.Hour, 25 * time.Hour, year} {
		bubbleFor(t, ages, func(t *testing.T, st store.Store) {
			sleepUntil(30 * time.Minute)
			ok := client(t, st, nil)
			mustOnce(t, ok, succeeds, nil)
			early := mustOnce(t, at(t, st, "fast", ahead), succeeds, nil)
			if early.Ran != (ahead > 24*time.Hour) {
				t.Errorf("%v ahead: %+v", ahead, early)
			}
			r, err := ok.Once(t.Context(), "job", daily, succeeds, nil)
			if !early.Ran {
				wantOutcome(t, r, false, lease.RunDone, 1)
				return
			}
			var ran *lease.AlreadyRanError
			if r.Ran || !errors.As(err, &ran) || !errors.Is(err, lease.ErrAlreadyRan) || !errors.Is(err, lease.ErrRunInFuture) || ran.Ahead < ahead-time.Hour ||
				!strings.Contains(err.Error(), "fast") || r.Last.Holder != "fast" || !store.Permanent(err) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%v ahead: %+v, %v", ahead, r, err)
			}
			rec := record(t, st, "job")
			must(t, errOf(ok.Break(t.Context(), "job", rec.Token, nil)))
			wantOutcome(t, mustOnce(t, ok, succeeds, nil), true, lease.RunDone, 1)
			wantOutcome(t, mustOnce(t, ok, succeeds, nil), false, lease.RunDone, 1)
		})
	}
}

// A run counts for the period in which it was decided, although the grant takes until the
// next one; two machines on the two sides of a boundary run it once.
func TestOnceAtTheBoundary(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		sleepUntil(-2 * time.Second)
		w := newWire(st)
		w.set(nth(1, hang)) // for half a TTL
		wantOutcome(t, mustOnce(t, client(t, w, nil), succeeds, nil), true, lease.RunDone, 1)
		run := record(t, st, "job").Run
		if start, _ := daily.At(time.Now()); !run.Began.Before(start) || !run.Ended.After(start) {
			t.Errorf("%+v", run)
		}
		wantOutcome(t, mustOnce(t, client(t, st, nil), succeeds, nil), true, lease.RunDone, 1)
		// By this machine's clock it is still the day before.
		wantOutcome(t, mustOnce(t, at(t, st, "slow", -time.Minute), succeeds, &lease.LockOptions{Retries: 3}), false, lease.RunDone, 1)
	})
}

// A run whose caller's context has a timeout counts as failed when it stops for that. A function
// that ignores its context keeps the lock.
func TestOnceThatHangs(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		o := &lease.LockOptions{Retries: 1}
		began := time.Now()
		limited, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r, err := client(t, st, nil).Once(limited, "job", daily, func(ctx context.Context, g *lease.Guard) error {
			<-ctx.Done()
			if time.Since(began) != time.Hour || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				t.Errorf("after %v: %v", time.Since(began), context.Cause(ctx))
			}
			for range 100 {
				time.Sleep(ttl)
				wantHeld(t, client(t, st, nil), "job")
			}
			return ctx.Err()
		}, o)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lease.ErrLost) {
			t.Errorf("Once: %v", err)
		}
		wantOutcome(t, r, true, lease.RunFailed, 1)
		wantOutcome(t, mustOnce(t, client(t, st, nil), succeeds, o), true, lease.RunDone, 2)
	})
}

// How else a function can end, and what the record then says.
func TestOnceReportsTheOutcome(t *testing.T) {
	for _, c := range []struct {
		name    string
		f       func(t *testing.T, st store.Store, ctx context.Context, g *lease.Guard) error
		is      error
		outcome lease.RunOutcome
		text    string
	}{
		{"a long error", func(*testing.T, store.Store, context.Context, *lease.Guard) error {
			return errors.New(strings.Repeat("ö", 200) + "\xff")
		}, nil, lease.RunFailed, strings.Repeat("ö", 126) + "..."},
		{"a text that is none", func(*testing.T, store.Store, context.Context, *lease.Guard) error { return errors.New("\xff\x00") }, nil, lease.RunFailed, "\ufffd\x00"},
		{"a lost lease", func(t *testing.T, st store.Store, ctx context.Context, g *lease.Guard) error {
			breaks(t, st, g)
			mustRelease(t, mustTry(t, client(t, st, nil), "job"))
			return nil
		}, lease.ErrLost, lease.RunDied, ""},
		{"a guard that it releases", func(t *testing.T, st store.Store, ctx context.Context, g *lease.Guard) error {
			return g.Release(ctx)
		}, lease.ErrReleased, lease.RunDied, ""},
		{"a guard that it detaches", func(t *testing.T, st store.Store, ctx context.Context, g *lease.Guard) error {
			ticket, err := g.Detach(ctx)
			return errors.Join(err, client(t, st, nil).ReleaseTicket(t.Context(), ticket))
		}, lease.ErrDetached, lease.RunDied, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubbleFor(t, ages, func(t *testing.T, st store.Store) {
				r, err := client(t, st, nil).Once(t.Context(), "job", daily, func(ctx context.Context, g *lease.Guard) error { return c.f(t, st, ctx, g) }, nil)
				if !r.Ran || err == nil || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("Once: %+v, %v", r, err)
				}
				run := record(t, st, "job").Run
				if run == nil || run.Outcome != c.outcome || run.Error != c.text || run.Ended.IsZero() != (c.outcome == lease.RunDied) {
					t.Errorf("the record tells %+v", run)
				}
			})
		})
	}
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		func() {
			defer func() { _ = recover() }()
			_, _ = client(t, st, nil).Once(t.Context(), "job", daily, func(context.Context, *lease.Guard) error { panic("no") }, nil)
		}()
		if run := record(t, st, "job").Run; run == nil || run.Outcome != lease.RunFailed || !strings.Contains(run.Error, "panic") {
			t.Errorf("after a panic: %+v", run)
		}
	})
}

// Work that was not done is no try, and the run before it stays.
func TestOnceThatWasNotDone(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		for range 2 {
			r := mustOnce(t, c, func(_ context.Context, g *lease.Guard) error { g.AllowRerun(); return nil }, nil)
			if !r.Ran || r.Last.Outcome != "" || record(t, st, "job").Run != nil {
				t.Errorf("%+v; the record tells %+v", r, record(t, st, "job").Run)
			}
		}
		wantOutcome(t, mustOnce(t, c, succeeds, nil), true, lease.RunDone, 1)
		sleepUntil(time.Hour)
		_ = mustOnce(t, c, func(_ context.Context, g *lease.Guard) error { g.AllowRerun(); return nil }, nil)
		if run := record(t, st, "job").Run; run == nil || run.Outcome != lease.RunDone {
			t.Errorf("the run before: %+v", run)
		}
	})
}

// The run stays in the record when the lock is used as a plain one, also one whose process
// died; a sweep leaves the record alone until the period is over.
func TestRunOutlivesOtherGrants(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		monthly := lease.Monthly(nil)
		o := &lease.LockOptions{Retries: 1}
		h := with(t, client(t, st, &lease.Options{ManualRenewal: true, Holder: "dead"}), "job", lease.LockOptions{Period: monthly, Retries: o.Retries})
		acquired(t, h)
		c := client(t, st, nil)
		g := mustAcquire(t, c, "job")
		for _, end := range []func(){func() {}, func() { mustRelease(t, g) }} {
			end()
			if run := record(t, st, "job").Run; run == nil || run.Outcome != lease.RunDied || run.Holder != "dead" {
				t.Errorf("the run: %+v", run)
			}
		}
		r, err := c.Once(t.Context(), "job", monthly, succeeds, o)
		must(t, err)
		wantOutcome(t, r, true, lease.RunDone, 2)
		collect := &lease.SweepOptions{OlderThan: time.Hour}
		time.Sleep(5 * 24 * time.Hour)
		if n, err := c.Sweep(t.Context(), collect); n != 0 || err != nil {
			t.Errorf("%d removed in the period, %v", n, err)
		}
		time.Sleep(31 * 24 * time.Hour)
		if n, err := c.Sweep(t.Context(), collect); n != 1 || err != nil {
			t.Errorf("%d removed after the period, %v", n, err)
		}
	})
}

// A break of the run in progress takes it back, too: when its holder has ended, the next one
// may run.
func TestBreakTakesTheRunBack(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		r, err := c.Once(t.Context(), "job", daily, func(ctx context.Context, g *lease.Guard) error { breaks(t, st, g); return ctx.Err() }, nil)
		if !errors.Is(err, lease.ErrBroken) || !r.Ran {
			t.Errorf("%+v, %v", r, err)
		}
		if run := record(t, st, "job").Run; run == nil || !run.RerunAllowed {
			t.Errorf("the run: %+v", run)
		}
		wantOutcome(t, mustOnce(t, c, succeeds, nil), true, lease.RunDone, 1)
		rec := record(t, st, "job")
		broken, err := c.Break(t.Context(), "job", rec.Token, nil)
		if err != nil || broken.State != lease.Free || !broken.Run.RerunAllowed {
			t.Errorf("a break of what is over: %+v, %v", broken, err)
		}
		if _, err := c.Break(t.Context(), "job", broken.Token, nil); !errors.Is(err, lease.ErrNotHeld) {
			t.Errorf("a second one: %v", err)
		}
	})
}

// A run in a record that cannot be believed is an error of the whole record, and fields that
// are not known are kept while the run is in the record.
func TestRunInTheRecord(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		mustOnce(t, c, succeeds, nil)
		value, _ := stored(t, st, "lock/job")
		for old, bad := range map[string]string{
			`"run":{`:             `"run":7,"other":{`,
			`"outcome":"done"`:    `"outcome":"skipped"`,
			`"tries":1`:           `"tries":0`,
			`"began":"2000`:       `"began":"0000-99`,
			`"until":"2000-01-02`: `"until":"1999-01-02`,
			`"holder":`:           `"Grant":"x","holder":`,
			`"holdfast":1`:        `"holdfast":3`,
		} {
			text := strings.Replace(string(value), old, bad, 2)
			if text == string(value) {
				t.Fatalf("%s is not in %s", old, value)
			}
			put(t, st, "job", []byte(text))
			if r, err := c.Once(t.Context(), "job", daily, succeeds, nil); r.Ran || !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: %+v, %v", bad, r, err)
			}
		}
		text := strings.Replace(string(value), `"tries":1`, `"tries":1,"later":[1,2]`, 1)
		put(t, st, "job", []byte(text))
		mustRelease(t, mustTry(t, c, "job"))
		if value, _ := stored(t, st, "lock/job"); !strings.Contains(string(value), `"later":[1,2]`) {
			t.Errorf("the field is gone: %s", value)
		}
	})
}

// Of several locks none counts as run, and none is kept for later, when one of them could
// not be had.
func TestFailedAcquireAllCountsNoRun(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		g := mustTry(t, client(t, st, nil), "other")
		c := client(t, st, &lease.Options{MinInterval: time.Hour})
		h := with(t, c, "job", lease.LockOptions{Period: daily})
		if _, err := lease.TryAcquireAll(t.Context(), h, handle(t, c, "other")); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("TryAcquireAll: %v", err)
		}
		if rec := record(t, st, "job"); rec.Run != nil || !rec.NotBefore.IsZero() || rec.State != lease.Free {
			t.Errorf("the record: %+v", rec)
		}
		mustRelease(t, g)
		set, err := lease.TryAcquireAll(t.Context(), h, handle(t, c, "other"))
		must(t, err)
		for _, g := range set.Guards() {
			g.SetRunResult(nil)
		}
		report(t, set.Release(t.Context()))
		if _, err := h.TryAcquire(t.Context()); !errors.Is(err, lease.ErrAlreadyRan) || errors.Is(err, lease.ErrHeld) {
			t.Errorf("TryAcquire: %v", err)
		}
	})
}

// Programs that name different periods agree on what ran in which: what counts is when it
// began.
func TestOnceWithDifferentPeriods(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		time.Sleep(90 * time.Minute)
		c := client(t, st, nil)
		ran := []bool{}
		for _, p := range []lease.Period{lease.Every(time.Hour), daily, lease.Every(time.Hour), lease.Monthly(nil)} {
			r, err := c.Once(t.Context(), "job", p, succeeds, nil)
			must(t, err)
			ran = append(ran, r.Ran)
		}
		if want := []bool{true, false, false, false}; !slices.Equal(ran, want) {
			t.Errorf("ran: %v, want %v", ran, want)
		}
		time.Sleep(time.Hour)
		if r, err := c.Once(t.Context(), "job", lease.Every(time.Hour), succeeds, nil); err != nil || !r.Ran {
			t.Errorf("an hour later: %+v, %v", r, err)
		}
	})
}

// That a job ran is decided on what the store has now, and not on what the handle has seen
// last: an operator may have taken the run back.
func TestOnceReadsBeforeItReportsARun(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		h := with(t, client(t, st, nil), "job", lease.LockOptions{Period: daily})
		for range 2 {
			g := mustTake(t, h)
			g.SetRunResult(nil)
			mustRelease(t, g)
			for what, acquire := range map[string]func(context.Context) (*lease.Guard, error){"Acquire": h.Acquire, "TryAcquire": h.TryAcquire} {
				if _, err := acquire(t.Context()); !errors.Is(err, lease.ErrAlreadyRan) || errors.Is(err, lease.ErrHeld) {
					t.Errorf("%s: %v", what, err)
				}
			}
			must(t, errOf(client(t, st, nil).Break(t.Context(), "job", g.Token(), nil)))
		}
	})
}

// A holder ends its run and then its process, while another client reads the record: the run has not
// died.
func TestOnceOfAHolderThatEnds(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		var g *lease.Guard
		p := whenAsked(st, func() {
			g.SetRunResult(nil)
			mustRelease(t, g)
		})
		g = mustTake(t, with(t, client(t, p, nil), "job", lease.LockOptions{Period: daily}))
		wantOutcome(t, mustOnce(t, client(t, p, nil), succeeds, nil), false, lease.RunDone, 1)
	})
}

// A store that can be read without waiting may show a state that never takes effect. That the
// job ran does not rest on that.
func TestOnceTrustsNoUncommittedState(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		mustOnce(t, client(t, st, nil), succeeds, nil)
		value, version := stored(t, st, "lock/job")
		must(t, errOf(client(t, st, nil).Break(t.Context(), "job", record(t, st, "job").Token, nil)))
		p := &peeking{delayed: delayed{st}, value: value, version: version}
		wantOutcome(t, mustOnce(t, client(t, p, nil), succeeds, nil), true, lease.RunDone, 1)
		if !p.peeked {
			t.Error("nothing was peeked at")
		}
	})
}

// peeking shows a state that does not stand, at the first peek.
type peeking struct {
	delayed
	value   []byte
	version store.Version
	peeked  bool
}

func (p *peeking) GetUncommitted(ctx context.Context, key string) ([]byte, store.Version, error) {
	if p.peeked {
		return p.Get(ctx, key)
	}
	p.peeked = true
	return p.value, p.version, nil
}

// A process that has taken up a run with a ticket says its end, or takes it back.
func TestOnceInAnotherProcess(t *testing.T) {
	for _, again := range []bool{false, true} {
		bubbleFor(t, ages, func(t *testing.T, st store.Store) {
			o := &lease.Options{NoPresence: true, TTL: ttl}
			ticket := mustDetach(t, mustTake(t, with(t, client(t, st, o), "job", lease.LockOptions{Period: daily})))
			g := mustAttach(t, client(t, st, o), ticket)
			g.SetRunResult(nil)
			if again {
				g.AllowRerun()
			}
			mustRelease(t, g)
			if run := record(t, st, "job").Run; run == nil || run.Outcome != lease.RunDone || run.RerunAllowed != again {
				t.Errorf("the record tells %+v", run)
			}
			wantOutcome(t, mustOnce(t, client(t, st, nil), succeeds, nil), again, lease.RunDone, 1)
		})
	}
}

// Machines that die and come back, whose wall clocks jump by hours, days and a year, whose runs
// hang and fail, on a store that loses requests and replies, and an operator who takes back
// the runs of clocks that were ahead: no try of a period begins twice, no two runs are under
// way at one time, and in the end a healthy machine runs the job. HOLDFAST_TORTURE=1 runs more
// of it.
func TestOnceCampaign(t *testing.T) {
	seeds := uint64(4)
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		seeds = 2000
	}
	var sum campaign
	for seed := range seeds {
		bubbleFor(t, ages, func(t *testing.T, st store.Store) {
			period := []lease.Period{daily, lease.Hourly(zone(t, "Australia/Lord_Howe")), lease.Weekly(zone(t, "America/Havana")), lease.Every(5 * time.Hour)}[seed%4]
			c := &campaign{t: t, st: st, seed: seed, period: period, begun: map[string]bool{}}
			c.o = &lease.LockOptions{Retries: int(seed % 3)}
			var machines sync.WaitGroup
			for m := range uint64(3) {
				machines.Go(func() { c.machine(rand.New(rand.NewPCG(seed, m))) })
			}
			machines.Wait()
			time.Sleep(2 * 366 * 24 * time.Hour) // beyond all clocks that were ahead
			for _, ran := range []bool{true, false} {
				r, err := client(t, st, nil).Once(t.Context(), "job", period, succeeds, c.o)
				if err != nil || r.Ran != ran || r.Last.Outcome != lease.RunDone {
					t.Errorf("seed %d: in the end: %+v, %v", seed, r, err)
				}
			}
			sum.runs, sum.found, sum.died, sum.ahead, sum.unclear = sum.runs+c.runs, sum.found+c.found, sum.died+c.died, sum.ahead+c.ahead, sum.unclear+c.unclear
		})
	}
	t.Logf("%d runs, %d calls that found one, %d one that died, %d one that was ahead; %d ends unclear or lost", sum.runs, sum.found, sum.died, sum.ahead, sum.unclear)
	if sum.runs == 0 || sum.found == 0 || sum.died == 0 || sum.ahead == 0 || sum.unclear == 0 {
		t.Error("not all of it happened")
	}
}

// campaign is what the machines of one seed share.
type campaign struct {
	t      *testing.T
	st     store.Store
	seed   uint64
	period lease.Period
	o      *lease.LockOptions

	mu    sync.Mutex
	begun map[string]bool
	busy  int

	runs, found, died, ahead, unclear int
}

// machine asks for the job, again and again, in processes that die.
func (c *campaign) machine(random *rand.Rand) {
	clk := newClocks()
	for range 4 {
		schedule := faultstore.MustParse(fmt.Sprintf("seed %d; write * %%0.05 lose; write * %%0.05 drop; read * %%0.05 fail", random.Uint64()>>1))
		w := newWire(faultstore.New(c.st, schedule))
		process, err := lease.New(w, nil)
		if err != nil {
			c.t.Error(err)
			return
		}
		lease.SetClock(process, clk.read)
		dead := false
		for i := 0; i < 30 && !dead; i++ {
			time.Sleep(time.Duration(random.IntN(3*3600)) * time.Second)
			if random.IntN(20) == 0 {
				jump := []time.Duration{time.Hour, 30 * time.Hour, 366 * 24 * time.Hour}[random.IntN(3)]
				jump *= time.Duration(random.IntN(3) - 1)
				clk.change(func(c *clocks) { c.jumped = jump })
			}
			takes, end := time.Duration(random.IntN(300))*time.Second, random.IntN(10)
			dead = random.IntN(15) == 0
			ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(random.IntN(1200))*time.Second)
			r, err := process.Once(ctx, "job", c.period, func(ctx context.Context, g *lease.Guard) error {
				if !c.begins(g) {
					return g.Err()
				}
				defer c.ends()
				if dead {
					w.set(everything(drop))
				}
				if end == 0 {
					takes = time.Hour // it hangs
				}
				select {
				case <-time.After(takes):
				case <-ctx.Done():
					return ctx.Err()
				}
				if end < 4 {
					return errWork
				}
				return nil
			}, c.o)
			cancel()
			c.hears(r, err, random)
		}
		w.set(everything(drop))
		end(process)
	}
}

// begins notes a run that begins.
func (c *campaign) begins(g *lease.Guard) bool {
	run := record(c.t, c.st, "job").Run
	if g.Err() != nil {
		return false
	}
	start, _ := c.period.At(run.Began)
	try := fmt.Sprintf("try %d of %v", run.Attempts, start.UTC())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	if c.begun[try] || run.Attempts > c.o.Retries+1 {
		c.t.Errorf("seed %d: %s begins, with %d retries; begun before: %v", c.seed, try, c.o.Retries, c.begun[try])
	}
	c.begun[try] = true
	if c.busy++; c.busy > 1 {
		c.t.Errorf("seed %d: %d run at a time", c.seed, c.busy)
	}
	return true
}

func (c *campaign) ends() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
}

// hears notes the result of a call. Of a run that was ahead an operator may take it back.
func (c *campaign) hears(r lease.OnceResult, err error, random *rand.Rand) {
	c.mu.Lock()
	ahead := errors.Is(err, lease.ErrRunInFuture)
	switch {
	case ahead:
		c.ahead++
	case errors.Is(err, lease.ErrReleaseFailed), errors.Is(err, lease.ErrLost):
		c.unclear++
	case err == nil && !r.Ran && r.Last.Outcome == lease.RunDied:
		c.died++
	case err == nil && !r.Ran:
		c.found++
	}
	c.mu.Unlock()
	if !ahead || random.IntN(4) != 0 {
		return
	}
	rec := record(c.t, c.st, "job")
	if rec.State != lease.Free {
		return
	}
	// A run that begins from here on changes the token, and the break is refused.
	c.mu.Lock()
	clear(c.begun)
	c.mu.Unlock()
	_, _ = client(c.t, c.st, nil).Break(c.t.Context(), "job", rec.Token, nil)
}
