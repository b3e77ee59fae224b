package cronlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast/adapters/cronlock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

type function = func(ctx context.Context, guard *lease.Guard) error

func nothing(context.Context, *lease.Guard) error { return nil }

// newLocker returns the Locker of a machine.
func newLocker(t *testing.T, st store.Store, period lease.Period, o *cronlock.Options) *cronlock.Locker {
	t.Helper()
	l, err := cronlock.New(st, "test", period, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil && !errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
	})
	return l
}

// runs counts the runs by their ticks.
type runs struct {
	mu     sync.Mutex
	of     map[time.Time]int
	starts []time.Time
	token  uint64 // the highest
	t      *testing.T
}

func newRuns(t *testing.T) *runs { return &runs{of: map[time.Time]int{}, t: t} }

// count returns a job that is done at once.
func (r *runs) count(tick func() time.Time) function {
	return func(_ context.Context, guard *lease.Guard) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.of[tick()]++
		r.starts = append(r.starts, time.Now())
		if guard != nil && guard.Token() <= r.token {
			r.t.Errorf("token %d after %d", guard.Token(), r.token)
		} else if guard != nil {
			r.token = guard.Token()
		}
		return nil
	}
}

// nearest returns the tick that is nearest to the present time.
func nearest(period time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Round(period).UTC() }
}

// wrong returns how many of the n ticks from the first have not run, and how many ran more than once.
func (r *runs) wrong(first time.Time, period time.Duration, n int) (skipped, twice int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range n {
		switch count := r.of[first.Add(time.Duration(i)*period).UTC()]; {
		case count == 0:
			skipped++
		case count > 1:
			twice++
		}
	}
	return skipped, twice
}

// logger keeps what it gets.
type logger struct {
	mu           sync.Mutex
	skips, fails []error
}

func (l *logger) Info(_ string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skips = append(l.skips, args[3].(error))
}

func (l *logger) Error(err error, _ string, _ ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = append(l.fails, err)
}

// last returns the last failure, and forgets all.
func (l *logger) last() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.fails) == 0 {
		return nil
	}
	err := l.fails[len(l.fails)-1]
	l.fails = nil
	return err
}

// plain is a lock without a period, as other libraries have.
func plain(st store.Store) cron.JobWrapper {
	client, err := lease.New(st, nil)
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			guard, held := client.TryAcquire(context.Background(), "test/tick", nil)
			if err != nil || held != nil {
				return
			}
			job.Run()
			_ = guard.Release(context.Background())
		})
	}
}

// Three machines have the same schedule, and their schedulers are late by different times. Each tick of a fast
// job runs on one of them. With a lock alone, it runs on each of them.
func TestFastJob(t *testing.T) {
	const ticks = 100
	for name, c := range map[string]struct {
		wrap   func(*testing.T, store.Store) cron.JobWrapper
		perSec int
	}{
		"Locker": {func(t *testing.T, st store.Store) cron.JobWrapper {
			return newLocker(t, st, lease.Every(time.Second), nil).Wrapper(t.Context(), "tick")
		}, 1},
		"a lock alone": {func(_ *testing.T, st store.Store) cron.JobWrapper { return plain(st) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, r := memstore.New(), newRuns(t)
				job := r.count(nearest(time.Second))
				for host := range 3 {
					late := cron.JobWrapper(func(j cron.Job) cron.Job {
						return cron.FuncJob(func() {
							time.Sleep(time.Duration(host) * 100 * time.Millisecond)
							j.Run()
						})
					})
					scheduler := cron.New(cron.WithSeconds(), cron.WithChain(late, c.wrap(t, st)))
					if _, err := scheduler.AddFunc("* * * * * *", func() { _ = job(nil, nil) }); err != nil {
						t.Fatal(err)
					}
					scheduler.Start()
					defer func() { <-scheduler.Stop().Done() }()
				}
				first := time.Now().Truncate(time.Second).Add(time.Second)
				time.Sleep(ticks*time.Second + 500*time.Millisecond)
				r.mu.Lock()
				defer r.mu.Unlock()
				for i := range ticks {
					if got := r.of[first.Add(time.Duration(i)*time.Second).UTC()]; got != c.perSec {
						t.Fatalf("tick %d ran %d times, want %d", i, got, c.perSec)
					}
				}
			})
		})
	}
}

// The ticks of three machines come earlier and later than they should, by their clocks, by almost a quarter of
// the period. Each tick runs once. It does not with a lock that has only the period: without the wait for the
// next period, and without an interval between the runs.
func TestEarlyAndLateTicks(t *testing.T) {
	const ticks = 200
	day := 24 * time.Hour
	for _, c := range []struct {
		period lease.Period
		length time.Duration
		off    time.Duration // the ticks come at most so early or late
	}{
		{lease.Every(time.Second), time.Second, 240 * time.Millisecond},
		{lease.Every(time.Minute), time.Minute, 4900 * time.Millisecond},
		{lease.Hourly(nil), time.Hour, 4900 * time.Millisecond},
		{lease.Daily(nil), day, 4900 * time.Millisecond},
	} {
		for name, new := range map[string]func(*testing.T, store.Store) func(context.Context, function) error{
			"Locker": func(t *testing.T, st store.Store) func(context.Context, function) error {
				l := newLocker(t, st, c.period, nil)
				return func(ctx context.Context, f function) error { return l.Do(ctx, "tick", f) }
			},
			"the period alone": func(t *testing.T, st store.Store) func(context.Context, function) error {
				client, err := lease.New(st, nil)
				if err != nil {
					t.Fatal(err)
				}
				return func(ctx context.Context, f function) error {
					return client.Do(ctx, "test/tick", f, &lease.LockOptions{Period: c.period, NoWait: true})
				}
			},
		} {
			t.Run(fmt.Sprintf("%v/%s", c.period, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st, r := memstore.New(), newRuns(t)
					first := time.Now().Truncate(c.length).Add(2 * c.length)
					var machines sync.WaitGroup
					for host := range 3 {
						do, rnd := new(t, st), rand.New(rand.NewPCG(7, uint64(host)))
						machines.Go(func() {
							for i := range ticks {
								tick := first.Add(time.Duration(i) * c.length)
								off := time.Duration(rnd.Int64N(int64(2*c.off))) - c.off
								time.Sleep(time.Until(tick.Add(off)))
								err := do(t.Context(), r.count(func() time.Time { return tick.UTC() }))
								if err != nil && !errors.Is(err, lease.ErrAlreadyRan) && !errors.Is(err, lease.ErrHeld) {
									t.Error(err)
								}
							}
						})
					}
					machines.Wait()
					skipped, twice := r.wrong(first, c.length, ticks)
					if want := name != "Locker"; (skipped > 0 || twice > 0) != want {
						t.Errorf("%d ticks were skipped, and %d ran twice; faults wanted: %v", skipped, twice, want)
					}
				})
			})
		}
	}
}

// One machine alone skips no tick, wherever its ticks are in the periods.
func TestOneMachine(t *testing.T) {
	for phase := time.Duration(0); phase < time.Second; phase += 125 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			const ticks = 100
			l, r := newLocker(t, memstore.New(), lease.Every(time.Second), nil), newRuns(t)
			first, rnd := time.Now().Truncate(time.Second).Add(2*time.Second), rand.New(rand.NewPCG(7, uint64(phase)))
			for i := range ticks {
				tick := first.Add(time.Duration(i)*time.Second + phase)
				time.Sleep(time.Until(tick.Add(time.Duration(rnd.Int64N(int64(100 * time.Millisecond))))))
				if err := l.Do(t.Context(), "tick", r.count(func() time.Time { return tick.UTC() })); err != nil {
					t.Errorf("phase %v: %v", phase, err)
				}
			}
		})
	}
}

// Where machines have no common ticks, a job runs once in each period of the grid, and never twice within half
// a period.
func TestTicksOfDifferentMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period, minutes = 10 * time.Second, 30
		st, r := memstore.New(), newRuns(t)
		begin := time.Now().Truncate(period).Add(period)
		for _, phase := range []time.Duration{0, 4 * time.Second, 7 * time.Second, 9 * time.Second} {
			time.Sleep(time.Until(begin.Add(phase)))
			scheduler := cron.New()
			job := newLocker(t, st, lease.Every(period), nil).Job(t.Context(), "tick", r.count(func() time.Time { return time.Now().Truncate(period).UTC() }))
			if _, err := scheduler.AddJob("@every 10s", job); err != nil {
				t.Fatal(err)
			}
			scheduler.Start()
			defer func() { <-scheduler.Stop().Done() }()
		}
		time.Sleep(minutes * time.Minute)
		if skipped, twice := r.wrong(begin.Add(2*period), period, minutes*6-3); skipped+twice > 0 {
			t.Errorf("%d periods without a run, %d with two", skipped, twice)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := 1; i < len(r.starts); i++ {
			if apart := r.starts[i].Sub(r.starts[i-1]); apart < period/2 {
				t.Errorf("two runs began %v apart", apart)
			}
		}
	})
}

var instants = regexp.MustCompile(`"20\d\d-[^"]*Z"`)

// ahead returns the store as a machine sees it whose clock is ahead by so much.
func ahead(st store.Store, by time.Duration) store.Store {
	shift := func(value []byte, by time.Duration) []byte {
		return instants.ReplaceAllFunc(value, func(text []byte) []byte {
			var at time.Time
			if err := at.UnmarshalJSON(text); err != nil {
				panic(err)
			}
			text, _ = at.Add(by).MarshalJSON()
			return text
		})
	}
	return store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind == store.OpPut {
			op.Value = shift(op.Value, by)
		}
		err := next(ctx, op)
		var conflict *store.ConflictError
		if errors.As(err, &conflict) {
			return fmt.Errorf("%w", store.ErrConflict) // without its value
		}
		if op.Kind != store.OpPut {
			op.Value = shift(op.Value, -by)
		}
		return err
	})
}

// A machine died during a run. The next tick of another machine waits until the lease is over, and runs, also if its
// process has never seen the record.
func TestDeadHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, end := memstore.New(), make(chan struct{})
		dead := newLocker(t, st, lease.Daily(nil), &cronlock.Options{Lease: lease.Options{ManualRenewal: true}})
		var died sync.WaitGroup
		died.Go(func() {
			_ = dead.Do(t.Context(), "tick", func(context.Context, *lease.Guard) error {
				<-end
				return nil
			})
		})
		defer died.Wait()
		defer close(end)
		time.Sleep(24 * time.Hour)
		// A process that has just started has never seen the record.
		if err := newLocker(t, st, lease.Daily(nil), nil).Do(t.Context(), "tick", nothing); err != nil {
			t.Errorf("the tick of the next day: %v", err)
		}
		// A holder that lives is not waited for.
		lives := make(chan struct{})
		died.Go(func() {
			_ = newLocker(t, st, lease.Daily(nil), nil).Do(t.Context(), "other", func(context.Context, *lease.Guard) error {
				<-lives
				return nil
			})
		})
		defer close(lives)
		time.Sleep(time.Hour)
		before := time.Now()
		err := newLocker(t, st, lease.Daily(nil), nil).Do(t.Context(), "other", nothing)
		if took := time.Since(before); !errors.Is(err, lease.ErrHeld) || took > time.Second {
			t.Errorf("while the job runs: %v after %v", err, took)
		}
	})
}

// The clock of a machine is ahead by three periods. It runs each tick before the others. When it dies, the
// others skip those ticks that it has run, and no tick runs twice.
func TestClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const skew = 3 * time.Second
		st, r := memstore.New(), newRuns(t)
		first := time.Now().Truncate(time.Second).Add(10 * time.Second)
		machine := func(st store.Store, skew time.Duration, ticks int) {
			l := newLocker(t, st, lease.Every(time.Second), nil)
			for i := range ticks {
				tick := first.Add(time.Duration(i) * time.Second)
				time.Sleep(time.Until(tick.Add(-skew)))
				err := l.Do(t.Context(), "tick", r.count(func() time.Time { return tick.UTC() }))
				if err != nil && !errors.Is(err, lease.ErrAlreadyRan) && !errors.Is(err, lease.ErrHeld) {
					t.Error(err)
				}
			}
		}
		var machines sync.WaitGroup
		machines.Go(func() { machine(ahead(st, skew), skew, 50) })
		machines.Go(func() { machine(st, 0, 100) })
		machines.Go(func() { machine(st, 0, 100) })
		machines.Wait()
		if skipped, twice := r.wrong(first, time.Second, 100); skipped > 0 || twice > 0 {
			t.Errorf("%d ticks were skipped, and %d ran twice", skipped, twice)
		}
	})
}

// The names of locks are part of what is stored: machines with different versions of this package must use the
// same.
func TestLockNames(t *testing.T) {
	long := strings.Repeat("long/", 500)
	for job, lock := range map[string]string{
		"report":                 "test/report",
		"main.(*Jobs).Run-fm":    "test/main.(*Jobs).Run-fm",
		"github.com/x/y.f":       "test/github.com%2Fx%2Fy.f",
		"100%2F":                 "test/100%252F",
		"夜间 ü\x00\n":             "test/夜间 ü\x00\n",
		".":                      "test/%%cdb4ee2aea69cc6a83331bbe96dc2caa",
		"..":                     "test/%%5ec1f7e700f37c3d0b2981d04855fc34",
		"\xff":                   "test/%%a8100ae6aa1940d0b663bb31cd466142",
		long:                     "test/%%6d705db8019d4d0adf2bb3b490e25d89",
		long + "x":               "test/%%16301533fbe1c763b06f8b7e1436cb06",
		strings.Repeat("y", 200): "test/" + strings.Repeat("y", 200),
		strings.Repeat("/", 66):  "test/" + strings.Repeat("%2F", 66),
		strings.Repeat("/", 67):  "test/%%3eb1349aab9dc074e2028d6801ffe27e",
	} {
		l, ran := newLocker(t, memstore.New(), lease.Yearly(nil), nil), 0
		run := func() error {
			return l.Do(t.Context(), job, func(_ context.Context, guard *lease.Guard) error {
				ran++
				if guard.Name() != lock {
					t.Errorf("job %.60q has the lock %q, want %q", job, guard.Name(), lock)
				}
				return nil
			})
		}
		if err := run(); err != nil {
			t.Errorf("job %.60q: %v", job, err)
		}
		if err := run(); !errors.Is(err, lease.ErrAlreadyRan) || ran != 1 {
			t.Errorf("job %.60q: ran %d times, %v", job, ran, err)
		}
	}
}

// Jobs with one name in different namespaces do not exclude each other, however the names are made.
func TestNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ran := memstore.New(), 0
		for _, c := range []struct{ namespace, job string }{{"a", "b/c"}, {"a/b", "c"}, {"a", "b%2Fc"}, {"b", "b/c"}, {"a", "b"}} {
			l, err := cronlock.New(st, c.namespace, lease.Daily(nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Do(t.Context(), c.job, func(context.Context, *lease.Guard) error { ran++; return nil }); err != nil {
				t.Errorf("%v: %v", c, err)
			}
		}
		if ran != 5 {
			t.Errorf("%d jobs ran, want 5", ran)
		}
	})
}

// New refuses what no tick could use.
func TestBadArguments(t *testing.T) {
	second := lease.Every(time.Second)
	for name, c := range map[string]struct {
		namespace string
		period    lease.Period
		o         lease.Options
		want      error
	}{
		"no namespace":      {"", second, lease.Options{}, store.ErrKey},
		"a bad namespace":   {"a//b", second, lease.Options{}, store.ErrKey},
		"a long namespace":  {strings.Repeat("n", 310), second, lease.Options{}, store.ErrKey},
		"no period":         {"test", lease.Period{}, lease.Options{}, store.ErrInvalid},
		"a short period":    {"test", lease.Every(time.Millisecond), lease.Options{}, store.ErrInvalid},
		"a negative period": {"test", lease.Every(-time.Hour), lease.Options{}, store.ErrInvalid},
		"a long period":     {"test", lease.Every(400 * 24 * time.Hour), lease.Options{}, store.ErrInvalid},
		"a bad option":      {"test", second, lease.Options{TTL: 1}, store.ErrInvalid},
	} {
		l, err := cronlock.New(memstore.New(), c.namespace, c.period, &cronlock.Options{Lease: c.o})
		if l != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	l := newLocker(t, memstore.New(), second, nil)
	if err := l.Do(t.Context(), "", nothing); !errors.Is(err, store.ErrKey) {
		t.Errorf("a job without a name: %v", err)
	}
}

// A store that is away at the start, and again later, costs the ticks of that time, and no more. A request that
// hangs does not hang the job for ever.
func TestStoreAway(t *testing.T) {
	for _, fault := range []string{"* * fail", "* * drop", "* * delay 1h"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, log, ran := faultstore.New(memstore.New(), faultstore.MustParse(fault)), &logger{}, atomic.Int32{}
				job := newLocker(t, st, lease.Every(time.Minute), &cronlock.Options{Logger: log}).Job(t.Context(), "tick",
					func(context.Context, *lease.Guard) error { ran.Add(1); return nil })
				scheduler := cron.New()
				if _, err := scheduler.AddJob("* * * * *", job); err != nil {
					t.Fatal(err)
				}
				scheduler.Start()
				defer func() { <-scheduler.Stop().Done() }()
				time.Sleep(30 * time.Second) // so that no phase begins at a tick
				for range 2 {
					before := ran.Load()
					st.Set(faultstore.MustParse(fault))
					time.Sleep(5 * time.Minute)
					if err := log.last(); ran.Load() != before || store.OutcomeOf(err) == store.Applied || err == nil {
						t.Errorf("while the store was away, the job ran %d times; %v", ran.Load()-before, err)
					}
					st.Set(faultstore.Schedule{})
					time.Sleep(5 * time.Minute)
					if ran.Load() != before+5 {
						t.Errorf("after that, the job ran %d times", ran.Load()-before)
					}
					_ = log.last()
				}
			})
		})
	}
}

// A context that ends before, in or after a run leaves nothing locked, and ends the run.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		l := newLocker(t, st, lease.Every(time.Minute), nil)
		reason := errors.New("the program ends")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := l.Do(ctx, "tick", func(ctx context.Context, _ *lease.Guard) error {
			cancel(reason)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, reason) {
			t.Errorf("a context that ends in the run: %v", err)
		}
		time.Sleep(time.Minute)
		if err := l.Do(ctx, "tick", nothing); !errors.Is(err, reason) {
			t.Errorf("a context that has ended: %v", err)
		}
		if err := l.Do(t.Context(), "tick", nothing); err != nil {
			t.Errorf("the next run: %v", err)
		}
		// In the wait for the next period.
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(58 * time.Second)))
		short, stop := context.WithTimeoutCause(t.Context(), time.Second, reason)
		defer stop()
		began := time.Now()
		if err := l.Do(short, "tick", nothing); !errors.Is(err, reason) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(2 * time.Second)
		if err := newLocker(t, st, lease.Every(time.Minute), nil).Do(t.Context(), "tick", nothing); err != nil {
			t.Errorf("another machine: %v", err)
		}
	})
}

// If the lease is lost during a run, the context of the run ends with the reason, the logger gets it, and the
// next tick runs on another machine.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, log := memstore.New(), &logger{}
		client, err := lease.New(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		newLocker(t, st, lease.Every(time.Minute), &cronlock.Options{Logger: log}).Job(t.Context(), "tick", func(ctx context.Context, guard *lease.Guard) error {
			if _, err := client.Break(t.Context(), "test/tick", guard.Token(), &lease.BreakOptions{Immediate: true}); err != nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
				t.Error("the context did not end")
			}
			if err := context.Cause(ctx); !errors.Is(err, lease.ErrBroken) {
				t.Errorf("the cause is %v", err)
			}
			return ctx.Err()
		}).Run()
		if err := log.last(); !errors.Is(err, lease.ErrLost) || errors.Is(err, context.Canceled) {
			t.Errorf("the logger got %v", err)
		}
		time.Sleep(time.Minute)
		if err := newLocker(t, st, lease.Every(time.Minute), nil).Do(t.Context(), "tick", nothing); err != nil {
			t.Errorf("the next tick: %v", err)
		}
	})
}

// With lost requests, lost replies, late writes and outages, no tick runs twice, tokens rise, and afterwards
// each tick runs again.
func TestFaults(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			const ticks = 100
			inner, r := memstore.New(), newRuns(t)
			first := time.Now().Truncate(10 * time.Second).Add(20 * time.Second)
			var machines sync.WaitGroup
			for host := range uint64(3) {
				st := faultstore.New(inner, faultstore.Random(seed*3+host))
				l := newLocker(t, st, lease.Every(10*time.Second), &cronlock.Options{Lease: lease.Options{TTL: 3 * time.Second}})
				machines.Go(func() {
					for i := range 2 * ticks {
						if i == ticks {
							st.Set(faultstore.Schedule{})
						}
						tick := first.Add(time.Duration(i) * 10 * time.Second)
						time.Sleep(time.Until(tick.Add(time.Duration(host) * 100 * time.Millisecond)))
						_ = l.Do(t.Context(), "tick", r.count(func() time.Time { return tick.UTC() }))
					}
				})
			}
			machines.Wait()
			if _, twice := r.wrong(first, 10*time.Second, ticks); twice > 0 || len(r.starts) < ticks*3/2 {
				t.Errorf("seed %d: %d ticks ran twice; %d runs", seed, twice, len(r.starts))
			}
			if skipped, twice := r.wrong(first.Add((ticks+1)*10*time.Second), 10*time.Second, ticks-1); skipped > 0 || twice > 0 {
				t.Errorf("seed %d: after the faults, %d ticks were skipped, and %d ran twice", seed, skipped, twice)
			}
		})
	}
}

// A job that panics, or still runs at the next tick, behaves as with the wrappers of cron: the panic arrives,
// the tick is skipped, and the job runs later.
func TestChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, ran := &logger{}, 0
		l := newLocker(t, memstore.New(), lease.Every(time.Second), &cronlock.Options{Logger: log})
		scheduler := cron.New(cron.WithSeconds(), cron.WithChain(cron.Recover(log), l.Wrapper(t.Context(), "tick")))
		if _, err := scheduler.AddFunc("* * * * * *", func() {
			if ran++; ran == 1 {
				panic("this job panics")
			}
			time.Sleep(1900 * time.Millisecond)
		}); err != nil {
			t.Fatal(err)
		}
		scheduler.Start()
		time.Sleep(10 * time.Second)
		<-scheduler.Stop().Done()
		if ran < 5 || len(log.skips) < 4 || !errors.Is(log.skips[0], lease.ErrHeld) {
			t.Errorf("%d runs, skipped: %v", ran, log.skips)
		}
		if len(log.fails) != 1 || log.fails[0].Error() != "this job panics" {
			t.Errorf("the errors are %v", log.fails)
		}
	})
}

// Two jobs in one wrapper would share a lock, and one of them would starve. So the second one says so.
func TestWrapperOfTwoJobs(t *testing.T) {
	log, ran := &logger{}, ""
	wrapper := newLocker(t, memstore.New(), lease.Yearly(nil), &cronlock.Options{Logger: log}).Wrapper(t.Context(), "tick")
	for _, name := range []string{"first", "second"} {
		wrapper(cron.FuncJob(func() { ran += name })).Run()
	}
	if ran != "first" || len(log.fails) != 1 || !errors.Is(log.fails[0], store.ErrInvalid) {
		t.Errorf("ran %s, logged %v", ran, log.fails)
	}
}

// What a later version has added to the record survives a run of this version.
func TestUnknownFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		l := newLocker(t, st, lease.Every(time.Minute), nil)
		run := func() []byte {
			if err := l.Do(t.Context(), "tick", nothing); err != nil {
				t.Fatal(err)
			}
			value, version, err := st.Get(t.Context(), "lock/test/tick")
			if err != nil {
				t.Fatal(err)
			}
			value = slices.Concat([]byte(`{"later":{"a":[1]},`), bytes.TrimPrefix(value, []byte("{")))
			if _, err := st.Put(t.Context(), "lock/test/tick", version, value); err != nil {
				t.Fatal(err)
			}
			return value
		}
		run()
		time.Sleep(time.Minute)
		if got := run(); bytes.Count(got, []byte(`"later":{"a":[1]}`)) != 2 { // ours, and that of the run before
			t.Errorf("the record is %s", got)
		}
	})
}

// The page of the adapters shows the code of the example.
func TestDocumentedCode(t *testing.T) {
	page, err := os.ReadFile("../../docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## robfig/cron\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "```")
	if len(blocks) != 3 || !strings.Contains(string(code), strings.TrimPrefix(blocks[1], "go\n")) {
		t.Error("docs/adapters.md does not show a function of example_test.go as it is")
	}
}
