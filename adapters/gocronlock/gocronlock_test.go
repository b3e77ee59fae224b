package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/adapters/gocronlock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newLocker(t *testing.T, st store.Store, period lease.Period) *gocronlock.Locker {
	t.Helper()
	l, err := gocronlock.New(st, "test", period, nil)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close(context.Background())) })
	return l
}

func newElector(t *testing.T, st store.Store, o *lease.Options) *gocronlock.Elector {
	t.Helper()
	e, err := gocronlock.NewElector(st, "test", o)
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil && !errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
	})
	return e
}

// start returns a running scheduler of one machine. While gocron shuts down, time does not move in a bubble. So
// its jobs have to end before.
func start(t *testing.T, options ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(options...)
	must(t, err)
	s.Start()
	t.Cleanup(func() {
		for _, job := range s.Jobs() {
			must(t, s.RemoveJob(job.ID()))
		}
		time.Sleep(10 * time.Second)
		must(t, s.Shutdown())
	})
	return s
}

func add(t *testing.T, s gocron.Scheduler, definition gocron.JobDefinition, task gocron.Task, options ...gocron.JobOption) {
	t.Helper()
	if _, err := s.NewJob(definition, task, options...); err != nil {
		t.Fatal(err)
	}
}

// listen returns a listener that gets the error of a job, or its panic.
func listen[ID, V any](event func(func(ID, string, V)) gocron.EventListener, f func(V)) gocron.EventListener {
	return event(func(_ ID, _ string, v V) { f(v) })
}

// late is a locker of a machine that is late.
type late struct {
	gocron.Locker
	by time.Duration
}

func (l late) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	time.Sleep(l.by)
	return l.Locker.Lock(ctx, key)
}

// plain is a lock without a period, as other libraries have.
type plain struct{ *lease.Client }

type plainLock struct{ *lease.Guard }

func (p plain) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	guard, err := p.TryAcquire(ctx, key, nil)
	return plainLock{guard}, err
}

func (p plainLock) Unlock(ctx context.Context) error { return p.Release(ctx) }

// Three machines have the same fast job, with the same times or with times of their own. The job runs once in a
// period on all machines. With a lock alone, it runs once on each machine.
func TestFastJob(t *testing.T) {
	const periods = 100
	lockers := map[string]func(*testing.T, store.Store) gocron.Locker{
		"Locker": func(t *testing.T, st store.Store) gocron.Locker { return newLocker(t, st, lease.Every(10*time.Second)) },
		"a lock alone": func(t *testing.T, st store.Store) gocron.Locker {
			client, err := lease.New(st, nil)
			must(t, err)
			return plain{client}
		},
	}
	for name, definition := range map[string]func() gocron.JobDefinition{
		"the same times": func() gocron.JobDefinition { return gocron.CronJob("*/10 * * * * *", true) },
		"other times":    func() gocron.JobDefinition { return gocron.DurationJob(10 * time.Second) },
	} {
		for locker, new := range lockers {
			t.Run(name+"/"+locker, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					runs := map[time.Time]int{}
					st, first := memstore.New(), time.Now().Truncate(10*time.Second).Add(30*time.Second)
					for machine := range 3 {
						s := start(t, gocron.WithDistributedLocker(late{new(t, st), time.Duration(machine) * 100 * time.Millisecond}))
						add(t, s, definition(), gocron.NewTask(func() {
							mu.Lock()
							defer mu.Unlock()
							runs[time.Now().Truncate(10*time.Second)]++
						}), gocron.WithName("tick"))
						time.Sleep(3 * time.Second) // until the next machine starts
					}
					time.Sleep(time.Until(first.Add(periods * 10 * time.Second)))
					mu.Lock()
					defer mu.Unlock()
					want := 1
					if locker != "Locker" {
						want = 3
					}
					for i := range periods {
						if got := runs[first.Add(time.Duration(i)*10*time.Second)]; got != want {
							t.Fatalf("in period %d the job ran %d times, want %d", i, got, want)
						}
					}
				})
			})
		}
	}
}

// What gocron's own tests expect of a Locker and of an Elector: of three schedulers that run a job at once, one
// does, and the others get an error.
func TestThreeSchedulers(t *testing.T) {
	for name, option := range map[string]func(t *testing.T, st store.Store) gocron.SchedulerOption{
		"Locker": func(t *testing.T, st store.Store) gocron.SchedulerOption {
			return gocron.WithDistributedLocker(newLocker(t, st, lease.Hourly(nil)))
		},
		"Elector": func(t *testing.T, st store.Store) gocron.SchedulerOption {
			return gocron.WithDistributedElector(newElector(t, st, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran, refused atomic.Int32
				st := memstore.New()
				options := make([]gocron.SchedulerOption, 3)
				for i := range options {
					options[i] = option(t, st)
				}
				time.Sleep(time.Second) // for the election
				for _, option := range options {
					add(t, start(t, option), gocron.DurationJob(time.Second), gocron.NewTask(func() {
						time.Sleep(100 * time.Millisecond)
						ran.Add(1)
					}), gocron.WithName("tick"), gocron.WithStartAt(gocron.WithStartImmediately()), gocron.WithLimitedRuns(1),
						gocron.WithEventListeners(listen(gocron.AfterLockError, func(err error) {
							if !errors.Is(err, lease.ErrHeld) && !errors.Is(err, lease.ErrAlreadyRan) {
								t.Error(err)
							}
							refused.Add(1)
						})))
				}
				time.Sleep(3500 * time.Millisecond)
				if ran.Load() != 1 || name == "Locker" && refused.Load() < 2 {
					t.Errorf("%d ran, and %d were refused", ran.Load(), refused.Load())
				}
			})
		})
	}
}

// gocron unlocks with a context that has ended. The lock is free all the same, also after a second Unlock.
func TestUnlockAfterItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		l := newLocker(t, st, lease.Every(time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		lock, err := l.Lock(ctx, "tick")
		must(t, err)
		if _, err := newLocker(t, st, lease.Every(time.Minute)).Lock(t.Context(), "tick"); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("a second machine: %v", err)
		}
		cancel()
		for range 2 {
			must(t, lock.Unlock(ctx))
		}
		client, err := lease.New(st, nil)
		must(t, err)
		info, err := client.Inspect(t.Context(), "test/tick")
		if err != nil || info.Record.State != lease.Free || info.Record.Run.Outcome != lease.RunDone {
			t.Errorf("the record is %+v, %v", info.Record, err)
		}
		if _, err := l.Lock(ctx, "tick"); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		time.Sleep(time.Minute)
		if lock, err = l.Lock(t.Context(), "tick"); err != nil || lock.Unlock(t.Context()) != nil {
			t.Errorf("the next tick: %v", err)
		}
		must(t, l.Close(t.Context()))
		if _, err := l.Lock(t.Context(), "tick"); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("a closed Locker: %v", err)
		}
	})
}

// gocron passes one context to all runs of a job. While an earlier run has not ended here, no run begins: its task would
// get the lock of the other one.
func TestRunAfterALostRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		l := newLocker(t, st, lease.Every(time.Minute))
		first, err := l.Lock(t.Context(), "tick")
		must(t, err)
		client, err := lease.New(st, nil)
		must(t, err)
		info, err := client.Inspect(t.Context(), "test/tick")
		must(t, err)
		_, err = client.Break(t.Context(), "test/tick", info.Record.Token, &lease.BreakOptions{Immediate: true})
		must(t, err)
		time.Sleep(5 * time.Minute)
		if _, err := l.Lock(t.Context(), "tick"); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("beside the first run: %v", err)
		}
		if err := first.Unlock(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("the first run: %v", err)
		}
		second, err := l.Lock(t.Context(), "tick")
		must(t, err)
		must(t, second.Unlock(t.Context()))
	})
}

// A task learns of a lost lease, of the end of its scheduler, and of a request to yield. It gets the token of its
// run, and its result is in the record. The next tick runs elsewhere.
func TestTask(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*testing.T, *lease.Client, gocron.Scheduler, uint64)
		want error
	}{
		"lost": {func(t *testing.T, client *lease.Client, _ gocron.Scheduler, token uint64) {
			_, err := client.Break(t.Context(), "test/tick", token, &lease.BreakOptions{Immediate: true})
			must(t, err)
		}, lease.ErrLost},
		"shut down": {func(t *testing.T, _ *lease.Client, s gocron.Scheduler, _ uint64) { must(t, s.StopJobs()) }, context.Canceled},
		"yield": {func(t *testing.T, client *lease.Client, _ gocron.Scheduler, _ uint64) {
			_, err := client.RequestYield(t.Context(), "test/tick", nil)
			must(t, err)
		}, lease.ErrYieldRequested},
		"panic": {nil, nil},
		"error": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				client, err := lease.New(st, nil)
				must(t, err)
				l, tokens, failed := newLocker(t, st, lease.Every(time.Minute)), make(chan uint64, 1), make(chan error, 1)
				s := start(t, gocron.WithDistributedLocker(l))
				add(t, s, gocron.CronJob("* * * * *", false), l.Task(func(ctx context.Context, guard *lease.Guard) error {
					tokens <- guard.Token()
					if c.end == nil {
						if name == "panic" {
							panic("the task panics")
						}
						return errors.New("the task fails")
					}
					<-ctx.Done()
					return context.Cause(ctx)
				}), gocron.WithName("tick"), gocron.WithLimitedRuns(1), gocron.WithEventListeners(
					listen(gocron.AfterJobRunsWithError, func(err error) { failed <- err }),
					listen(gocron.AfterJobRunsWithPanic, func(any) {})))
				token := <-tokens
				if c.end != nil {
					time.Sleep(time.Second)
					c.end(t, client, s, token)
				}
				if err := <-failed; c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("the task ended with %v", err)
				}
				time.Sleep(time.Second)
				info, err := client.Inspect(t.Context(), "test/tick")
				must(t, err)
				if run := info.Record.Run; info.Record.Token < token || run == nil || run.Outcome != lease.RunFailed {
					t.Errorf("the record of the run with token %d is %+v, %+v", token, info.Record, run)
				}
				time.Sleep(time.Minute)
				lock, err := newLocker(t, st, lease.Every(time.Minute)).Lock(t.Context(), "tick")
				must(t, err)
				must(t, lock.Unlock(t.Context()))
			})
		})
	}
}

// A task that runs without its Locker, or without a name, does not run its function, and gocron gets the reason.
func TestTaskWithoutItsLock(t *testing.T) {
	for name, want := range map[string]error{"without a Locker": gocronlock.ErrNoLock, "without a name": store.ErrInvalid} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, reason := newLocker(t, memstore.New(), lease.Every(time.Second)), make(chan error, 100)
				options := []gocron.JobOption{gocron.WithEventListeners(
					listen(gocron.AfterLockError, func(err error) { reason <- err }),
					listen(gocron.AfterJobRunsWithError, func(err error) { reason <- err }))}
				if want == store.ErrInvalid {
					options = append(options, gocron.WithDistributedJobLocker(l))
				}
				s := start(t)
				add(t, s, gocron.DurationJob(time.Second), l.Task(func(context.Context, *lease.Guard) error {
					t.Error("the function ran")
					return nil
				}), options...)
				select {
				case err := <-reason:
					if !errors.Is(err, want) {
						t.Errorf("the reason is %v, want %v", err, want)
					}
				case <-time.After(10 * time.Second):
					t.Error("gocron got no reason")
				}
			})
		})
	}
}

// A job without a name has the name of its function. The same function in two applications has two locks.
func TestFunctionNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ran := memstore.New(), map[string]int{}
		var mu sync.Mutex
		job := func(application string) {
			mu.Lock()
			defer mu.Unlock()
			ran[application]++
		}
		for _, application := range []string{"billing", "billing", "mail"} {
			l, err := gocronlock.New(st, application, lease.Hourly(nil), nil)
			must(t, err)
			add(t, start(t), gocron.DurationJob(time.Second), gocron.NewTask(job, application), gocron.WithDistributedJobLocker(l))
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if ran["billing"] != 1 || ran["mail"] != 1 {
			t.Errorf("the jobs ran %v", ran)
		}
	})
}

// A store that is away costs the ticks of that time, and gocron gets the error of the store.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		var away atomic.Bool
		st := faultstore.New(memstore.New(), faultstore.MustParse("* * fail"))
		away.Store(true)
		add(t, start(t, gocron.WithDistributedLocker(newLocker(t, st, lease.Every(time.Minute)))), gocron.CronJob("* * * * *", false),
			gocron.NewTask(func() { ran.Add(1) }), gocron.WithName("tick"),
			gocron.WithEventListeners(listen(gocron.AfterLockError, func(err error) {
				if !away.Load() || !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("the error is %v", err)
				}
			})))
		time.Sleep(30 * time.Second) // so that no phase begins at a tick
		for range 2 {
			before := ran.Load()
			time.Sleep(5 * time.Minute)
			if got := ran.Load(); got != before {
				t.Errorf("the job ran %d times without a store", got-before)
			}
			st.Set(faultstore.Schedule{})
			away.Store(false)
			time.Sleep(5 * time.Minute)
			if got := ran.Load(); got != before+5 {
				t.Errorf("the job ran %d times, want 5", got-before)
			}
			away.Store(true)
			st.Set(faultstore.MustParse("* * fail"))
		}
	})
}

// Of three machines at most one leads at any time, also while the stores of the machines fail one after the
// other, hang, and lose replies. In the end one leads. IsLeader sends no request.
func TestElector(t *testing.T) {
	for _, fault := range []string{"* * fail", "* * delay 1h", "* * %0.8 lose; * * %0.8 drop; seed 7"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int64
				inner := store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
					requests.Add(1)
					return next(ctx, op)
				})
				var stores []*faultstore.Store
				var electors []*gocronlock.Elector
				for range 3 {
					st := faultstore.New(inner, faultstore.Schedule{})
					stores, electors = append(stores, st), append(electors, newElector(t, st, nil))
				}
				terms, last := 0, -1
				watch := func(d time.Duration) (leader int) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
						synctest.Wait() // until the electors do nothing
						leader = -1
						for i, e := range electors {
							before := requests.Load()
							err := e.IsLeader(t.Context())
							if requests.Load() != before {
								t.Fatal("IsLeader sent a request")
							}
							switch {
							case err != nil && !errors.Is(err, gocronlock.ErrNotLeader):
								t.Fatal(err)
							case err == nil && leader >= 0:
								t.Fatalf("machines %d and %d lead", leader, i)
							case err == nil:
								leader = i
							}
						}
						if leader >= 0 && leader != last {
							terms, last = terms+1, leader
						}
					}
					return leader
				}
				for range 5 {
					leader := watch(30 * time.Second)
					if leader < 0 {
						t.Fatal("no machine leads")
					}
					stores[leader].Set(faultstore.MustParse(fault))
					watch(90 * time.Second)
					stores[leader].Set(faultstore.Schedule{})
				}
				if terms < 2 {
					t.Errorf("%d terms", terms)
				}
			})
		})
	}
}

// When an Elector is asked to yield or closes, its tasks learn of it, and the next machine leads when they have
// returned.
func TestElectorTask(t *testing.T) {
	for name, end := range map[string]func(*testing.T, store.Store, *gocronlock.Elector){
		"yield": func(t *testing.T, st store.Store, _ *gocronlock.Elector) {
			client, err := lease.New(st, nil)
			must(t, err)
			_, err = client.RequestYield(t.Context(), "test", nil)
			must(t, err)
		},
		"close": func(t *testing.T, _ store.Store, e *gocronlock.Elector) { must(t, e.Close(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				first := newElector(t, st, nil)
				time.Sleep(time.Second)
				second := newElector(t, st, nil)
				var ended, ran atomic.Int32
				for _, e := range []*gocronlock.Elector{first, second} {
					add(t, start(t, gocron.WithDistributedElector(e)), gocron.DurationJob(10*time.Second), e.Task(func(ctx context.Context, guard *lease.Guard) error {
						if ran.Add(1); guard.Err() != nil || e == second {
							return guard.Err()
						}
						<-ctx.Done()
						time.Sleep(5 * time.Second) // to stop
						if second.IsLeader(t.Context()) == nil {
							t.Error("the second machine leads before the task of the first has returned")
						}
						ended.Add(1)
						return context.Cause(ctx)
					}))
				}
				time.Sleep(15 * time.Second)
				end(t, st, first)
				time.Sleep(20 * time.Second) // the leader renews, and its task stops
				if err := second.IsLeader(t.Context()); err != nil || ended.Load() == 0 || first.IsLeader(t.Context()) == nil {
					t.Errorf("after the task, which ended %d times, the second machine: %v", ended.Load(), err)
				}
				before := ran.Load()
				time.Sleep(20 * time.Second)
				if ran.Load() == before {
					t.Error("the second machine runs no job")
				}
			})
		})
	}
}

// While the record of an election cannot be read, IsLeader says so. Afterwards a machine leads.
func TestElectorUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		version, err := st.Put(t.Context(), "lock/test", "", []byte("unreadable"))
		must(t, err)
		e := newElector(t, st, nil)
		time.Sleep(10 * time.Second)
		if err := e.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("the error is %v", err)
		}
		must(t, st.Delete(t.Context(), "lock/test", version))
		time.Sleep(10 * time.Second)
		must(t, e.IsLeader(t.Context()))
	})
}

// An Elector with a bad name, or bad options, is refused; one whose context has ended, too.
func TestElectorBadArguments(t *testing.T) {
	for _, name := range []string{"", "a//b", "\xff", strings.Repeat("n", 600)} {
		if _, err := gocronlock.NewElector(memstore.New(), name, nil); !errors.Is(err, store.ErrKey) {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	if _, err := gocronlock.NewElector(memstore.New(), "test", &lease.Options{TTL: 1}); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
	if _, err := gocronlock.New(memstore.New(), "", lease.Hourly(nil), nil); !errors.Is(err, store.ErrKey) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newElector(t, memstore.New(), nil).IsLeader(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The documents show the code of the examples. That on redsync is in proof/bench, which has its library.
func TestDocumentedCode(t *testing.T) {
	for _, c := range []struct{ page, section, file string }{
		{"docs/adapters.md", "gocron", "example_test.go"},
		{"docs/migrating.md", "gocron", "example_test.go"},
		{"docs/migrating.md", "redsync", "../../proof/bench/redsync_test.go"},
	} {
		page, err := os.ReadFile("../../" + c.page)
		must(t, err)
		code, err := os.ReadFile(c.file)
		must(t, err)
		_, section, _ := strings.Cut(string(page), fmt.Sprintf("## %s\n", c.section))
		section, _, _ = strings.Cut(section, "\n## ")
		blocks := strings.Split(section, "```")
		if len(blocks) < 3 {
			t.Errorf("%s has no code on %s", c.page, c.section)
		}
		for i := 1; i < len(blocks); i += 2 {
			if block, isGo := strings.CutPrefix(blocks[i], "go\n"); !isGo || !strings.Contains(string(code), block) {
				t.Errorf("%s shows code that is not in %s:\n%s", c.page, c.file, block)
			}
		}
	}
}
