package gocronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/adapters/gocronlock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

type reporter func(ctx context.Context, token uint64) error

func schedule(st store.Store, report reporter) (gocron.Scheduler, error) {
	locker, err := gocronlock.New(st, "billing", lease.Every(time.Minute), nil)
	if err != nil {
		return nil, err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return nil, err
	}
	_, err = scheduler.NewJob(gocron.CronJob("* * * * *", false),
		locker.Task(func(ctx context.Context, guard *lease.Guard) error {
			return report(ctx, guard.Token())
		}), gocron.WithName("report"))
	return scheduler, err
}

func newScheduler(st store.Store) (gocron.Scheduler, error) {
	// Before: gocron.WithDistributedLocker(redislock.NewRedisLocker(...))
	locker, err := gocronlock.New(st, "billing", lease.Every(time.Minute), nil)
	if err != nil {
		return nil, err
	}
	return gocron.NewScheduler(gocron.WithDistributedLocker(locker))
}

// Two schedulers run a job at once, and the job runs once.
func ExampleNew() {
	st := memstore.New()
	ran := make(chan string, 2)
	for range 2 {
		scheduler, err := newScheduler(st)
		if err != nil {
			panic(err)
		}
		_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			gocron.NewTask(func() { ran <- "the report is ready" }), gocron.WithName("report"))
		if err != nil {
			panic(err)
		}
		scheduler.Start()
		defer func() {
			if err := scheduler.Shutdown(); err != nil {
				panic(err)
			}
		}()
	}
	fmt.Println(<-ran)
	// Output: the report is ready
}

// The task gets the token of its run, and a context that ends when the lease is lost.
func ExampleLocker_Task() {
	done := make(chan bool)
	scheduler, err := schedule(memstore.New(), func(_ context.Context, token uint64) error {
		done <- token > 0
		return nil
	})
	if err != nil {
		panic(err)
	}
	scheduler.Start()
	if err := scheduler.Jobs()[0].RunNow(); err != nil {
		panic(err)
	}
	fmt.Println("a run with a token:", <-done)
	if err := scheduler.Shutdown(); err != nil {
		panic(err)
	}
	// Output: a run with a token: true
}

// With an Elector all jobs run on one machine.
func ExampleNewElector() {
	elector, err := gocronlock.NewElector(memstore.New(), "billing", nil)
	if err != nil {
		panic(err)
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		panic(err)
	}
	done := make(chan bool)
	_, err = scheduler.NewJob(gocron.DurationJob(100*time.Millisecond), elector.Task(func(_ context.Context, guard *lease.Guard) error {
		done <- guard.Token() > 0
		return nil
	}), gocron.WithLimitedRuns(1))
	if err != nil {
		panic(err)
	}
	scheduler.Start()
	fmt.Println("the leader runs the job:", <-done)
	if err := scheduler.Shutdown(); err != nil {
		panic(err)
	}
	if err := elector.Close(context.Background()); err != nil {
		panic(err)
	}
	// Output: the leader runs the job: true
}
