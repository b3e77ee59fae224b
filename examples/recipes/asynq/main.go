// Asynq runs the scheduler of asynq on one machine at a time. Start it on several machines.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hibiken/asynq"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/filestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "/shared/locks", asynq.RedisClientOpt{Addr: "localhost:6379"}); err != nil {
		log.Fatal(err)
	}
}

// run schedules tasks while this machine leads, until ctx ends.
func run(ctx context.Context, dir string, redis asynq.RedisConnOpt) error {
	st, err := filestore.Open(dir, nil) // or another shared store
	if err != nil {
		return err
	}
	defer st.Close()
	client, err := lease.New(st, nil)
	if err != nil {
		return err
	}
	defer client.Close(context.Background())

	return client.Lead(ctx, "scheduler", nil, func(ctx context.Context, _ *lease.Guard) error {
		scheduler := asynq.NewScheduler(redis, nil)
		// asynq refuses a late task of an earlier leader while an equal task waits or runs.
		_, err := scheduler.Register("0 2 * * *", asynq.NewTask("report", nil), asynq.Unique(12*time.Hour))
		if err != nil {
			return err
		}
		if err := scheduler.Start(); err != nil {
			return err
		}
		<-ctx.Done() // the leadership was lost, or the program ends
		scheduler.Shutdown()
		return nil
	}, nil)
}
