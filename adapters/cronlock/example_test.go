package cronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast/adapters/cronlock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

type reporter func(ctx context.Context, token uint64) error

func schedule(ctx context.Context, st store.Store, report reporter) error {
	locker, err := cronlock.New(st, "billing", lease.Daily(time.UTC), nil)
	if err != nil {
		return err
	}
	scheduler := cron.New(cron.WithLocation(time.UTC))
	_, err = scheduler.AddJob("30 4 * * *", locker.Job(ctx, "report", func(ctx context.Context, guard *lease.Guard) error {
		return report(ctx, guard.Token())
	}))
	if err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done()
	<-scheduler.Stop().Done()
	return locker.Close(ctx)
}

// schedule runs until its context ends.
func ExampleNew() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err := schedule(ctx, memstore.New(), func(context.Context, uint64) error { return nil })
	fmt.Println(err)
	// Output: <nil>
}

// Two machines have the same job. The first one frees the lock before the second one tries.
func ExampleLocker_Do() {
	ctx, st := context.Background(), memstore.New()
	for _, machine := range []string{"one", "two"} {
		locker, err := cronlock.New(st, "billing", lease.Daily(nil), nil)
		if err != nil {
			panic(err)
		}
		err = locker.Do(ctx, "report", func(context.Context, *lease.Guard) error {
			fmt.Println("machine", machine, "runs the job")
			return nil
		})
		fmt.Println(err == nil)
		if err := locker.Close(ctx); err != nil {
			panic(err)
		}
	}
	// Output:
	// machine one runs the job
	// true
	// false
}

// The wrapper is for a job that exists already.
func ExampleLocker_Wrapper() {
	ctx := context.Background()
	locker, err := cronlock.New(memstore.New(), "billing", lease.Every(time.Hour), nil)
	if err != nil {
		panic(err)
	}
	job := cron.NewChain(locker.Wrapper(ctx, "clean")).Then(cron.FuncJob(func() { fmt.Println("clean") }))
	job.Run()
	job.Run()
	// Output: clean
}
