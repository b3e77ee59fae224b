package lease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// Take a lock, work under it, and release it.
func Example() {
	ctx := context.Background()
	client, err := lease.New(&memstore.Store{}, nil)
	if err != nil {
		panic(err)
	}
	defer client.Close(ctx)

	// The work ends when the lease or ctx does, and hands the token on to every store
	// that can refuse an old one.
	work := func(ctx context.Context, token uint64) error { return ctx.Err() }
	err = client.Do(ctx, "nightly", func(ctx context.Context, guard *lease.Guard) error {
		return work(ctx, guard.Token())
	}, nil)
	fmt.Println(err)
	// Output: <nil>
}

// The cases of the error that Do returns.
func ExampleClient_Do() {
	client, _ := lease.New(&memstore.Store{}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := client.Do(ctx, "nightly", func(ctx context.Context, guard *lease.Guard) error {
		<-ctx.Done() // the lock is held until the function returns
		return fmt.Errorf("half of the report: %w", ctx.Err())
	}, nil)
	switch {
	case err == nil:
		fmt.Println("done, and the lock is free")
	case errors.Is(err, lease.ErrLost):
		fmt.Println("another may have worked at the same time:", err)
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Println("not in time:", err)
	default:
		fmt.Println(err)
	}
	// Output: not in time: half of the report: context deadline exceeded
}

// A program that wants the lock requests its holder to yield. The function of the holder is
// stopped, and the error names the program and its reason.
func ExampleClient_RequestYield() {
	var st memstore.Store
	worker, _ := lease.New(&st, &lease.Options{TTL: lease.MinLocalTTL})
	operator, _ := lease.New(&st, &lease.Options{Holder: "ada"})
	ctx := context.Background()
	started := make(chan struct{})
	go func() {
		<-started
		asked, err := operator.RequestYield(ctx, "nightly", &lease.YieldOptions{Reason: "the machine is needed"})
		if err != nil {
			fmt.Println("not asked:", asked, err)
		}
	}()
	err := worker.Do(ctx, "nightly", func(ctx context.Context, guard *lease.Guard) error {
		close(started)
		<-ctx.Done() // the lock is held until the function returns
		return context.Cause(ctx)
	}, nil)
	fmt.Println(errors.Is(err, lease.ErrYieldRequested), err)
	// Output: true lock "nightly": another client asks the holder to release the lock (client ada): the machine is needed
}

// A holder can refuse to yield.
func ExampleGuard_RefuseYield() {
	var st memstore.Store
	worker, _ := lease.New(&st, nil)
	operator, _ := lease.New(&st, nil)
	ctx := context.Background()
	guard, _ := worker.TryAcquire(ctx, "nightly", nil)
	defer guard.Release(ctx)
	_, _ = operator.RequestYield(ctx, "nightly", nil)
	_ = guard.Renew(ctx) // the holder reads the request with its next renewal, by itself or like this
	<-guard.YieldRequested()
	_ = guard.RefuseYield(ctx, "it is done in a minute")
	asked, err := operator.RequestYield(ctx, "nightly", &lease.YieldOptions{Wait: true})
	fmt.Println(errors.Is(err, lease.ErrYieldRefused), asked.RefusalReason)
	// Output: true it is done in a minute
}

// A handle that takes its lock often keeps it for a while, until another program waits for it.
func ExampleLockOptions_linger() {
	client, _ := lease.New(&memstore.Store{}, nil)
	ctx := context.Background()
	defer client.Close(ctx) // frees what is kept
	handle, err := client.Handle("accounts", &lease.LockOptions{Linger: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens := map[uint64]bool{}
	for range 1000 { // two requests for all of them
		guard, err := handle.Acquire(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		tokens[guard.Token()] = true
		_ = guard.Release(ctx)
	}
	fmt.Println(len(tokens))
	// Output: 1
}

// The holder continues after a request to yield, and decides by itself when it yields.
func ExampleLockOptions_onYieldRequest() {
	client, _ := lease.New(&memstore.Store{}, nil)
	handle, err := client.Handle("nightly", &lease.LockOptions{OnYieldRequest: lease.IgnoreYieldRequests})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = handle.Do(context.Background(), func(ctx context.Context, guard *lease.Guard) error {
		for range 3 { // rounds
			select {
			case <-guard.YieldRequested():
				return nil // between two rounds it is easy to stop
			default:
			}
		}
		return nil
	})
	fmt.Println(err)
	// Output: <nil>
}

// A handle holds its lock for a function and for what that calls.
func ExampleHandle_Do() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	handle, _ := client.Handle("accounts", nil)
	book := func(ctx context.Context, guard *lease.Guard) error { return guard.Err() }
	err := handle.Do(ctx, func(ctx context.Context, guard *lease.Guard) error {
		return handle.Do(ctx, book) // joins the grant
	})
	fmt.Println(err)
	// Output: <nil>
}

// One renewal keeps all locks of a session.
func ExampleClient_OpenSession() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	defer client.Close(ctx)
	session, err := client.OpenSession(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"shard-1", "shard-2"} {
		if _, err := session.Acquire(ctx, name, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	_, err = client.TryAcquire(ctx, "shard-2", nil)
	fmt.Println(errors.Is(err, lease.ErrHeld))
	fmt.Println(session.Close(ctx)) // gives both back
	guard, err := client.TryAcquire(ctx, "shard-2", nil)
	fmt.Println(err, guard.Err())
	// Output:
	// true
	// <nil>
	// <nil> <nil>
}

// Work that is skipped while another process does it.
func ExampleLockOptions_noWait() {
	ctx := context.Background()
	st := &memstore.Store{}
	here, _ := lease.New(st, &lease.Options{Holder: "here"})
	there, _ := lease.New(st, nil)
	err := here.Do(ctx, "sweep", func(ctx context.Context, _ *lease.Guard) error {
		return there.Do(ctx, "sweep", func(context.Context, *lease.Guard) error {
			panic("two sweep at once")
		}, &lease.LockOptions{NoWait: true})
	}, nil)
	var held *lease.HeldError
	if errors.As(err, &held) {
		fmt.Println("busy:", held.Record.Holder)
	}
	// Output: busy: here
}

// Without Do: the guard is released by the caller.
func ExampleClient_Acquire_guard() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	guard, err := client.Acquire(ctx, "nightly", nil)
	if err != nil {
		panic(err)
	}
	defer guard.Release(ctx)
	fmt.Println(guard.Context().Err(), guard.Token() > 0)
	// Output: <nil> true
}

// Another client holds the lock.
func ExampleClient_TryAcquire() {
	ctx := context.Background()
	st := &memstore.Store{}
	first, _ := lease.New(st, &lease.Options{Holder: "worker-1"})
	second, _ := lease.New(st, nil)
	guard, _ := first.TryAcquire(ctx, "nightly", nil)

	_, err := second.TryAcquire(ctx, "nightly", nil)
	var held *lease.HeldError
	if errors.As(err, &held) {
		fmt.Println("busy:", held.Record.Holder)
	}
	_ = guard.Release(ctx)
	_, err = second.TryAcquire(ctx, "nightly", nil)
	fmt.Println(err)
	// Output:
	// busy: worker-1
	// <nil>
}

// Wait for a lock, but not for ever.
func ExampleClient_Acquire() {
	st := &memstore.Store{}
	first, _ := lease.New(st, nil)
	second, _ := lease.New(st, nil)
	guard, _ := first.TryAcquire(context.Background(), "nightly", nil)
	defer guard.Release(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := second.Acquire(ctx, "nightly", nil)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, lease.ErrHeld))
	// Output: true true
}

// A handle is re-entrant, and knows whether a cache is still good.
func ExampleHandle() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	handle, _ := client.Handle("cache", nil)

	outer, _ := handle.Acquire(ctx)
	inner, _ := handle.Acquire(ctx) // at once: the handle holds the lock
	fmt.Println(inner.Token() == outer.Token())
	_ = inner.Release(ctx)
	fmt.Println(outer.Err())
	_ = outer.Release(ctx)

	again, _ := handle.Acquire(ctx)
	fmt.Println("no other holder in between:", again.WasLastHolder())
	_ = again.Release(ctx)
	// Output:
	// true
	// <nil>
	// no other holder in between: true
}

// Several locks, or none, also across stores.
func ExampleAcquireAll() {
	ctx := context.Background()
	here, _ := lease.New(&memstore.Store{}, nil)
	there, _ := lease.New(&memstore.Store{}, nil)
	a, _ := here.Handle("old", nil)
	b, _ := there.Handle("new", nil)

	set, err := lease.AcquireAll(ctx, a, b)
	if err != nil {
		panic(err)
	}
	fmt.Println(set.Err(), len(set.Guards()))
	_ = set.Release(ctx)
	// Output: <nil> 2
}

// Every client can read the data in the record while the lock is held.
func ExampleGuard_SetData() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	guard, _ := client.Acquire(ctx, "import", nil)
	defer guard.Release(ctx)
	if err := guard.SetData(ctx, []byte("file 3 of 7")); err != nil {
		panic(err)
	}
	info, _ := client.Inspect(ctx, "import")
	fmt.Printf("%s: %s\n", info.Record.State, info.Record.Data)
	// Output: held: file 3 of 7
}

// End the grant of a holder that is known to be dead.
func ExampleClient_Break() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	guard, _ := client.Acquire(ctx, "deploy", nil)

	info, _ := client.Inspect(ctx, "deploy")
	if _, err := client.Break(ctx, "deploy", info.Record.Token, &lease.BreakOptions{Immediate: true}); err != nil {
		panic(err)
	}
	next, err := client.TryAcquire(ctx, "deploy", nil)
	fmt.Println(err, next.Token() > guard.Token())
	fmt.Println(errors.Is(guard.Release(ctx), lease.ErrLost))
	_ = next.Release(ctx)
	// Output:
	// <nil> true
	// true
}

// Hand a lease to another process: the ticket can be stored as JSON.
func ExampleGuard_Detach() {
	ctx := context.Background()
	st := &memstore.Store{}
	o := &lease.Options{TTL: time.Hour, ManualRenewal: true, NoPresence: true}
	first, _ := lease.New(st, o)
	guard, _ := first.Acquire(ctx, "pipeline", nil)
	ticket, err := guard.Detach(ctx)
	if err != nil {
		panic(err)
	}

	second, _ := lease.New(st, o) // in another process
	guard, err = second.Attach(ctx, ticket)
	if err != nil {
		panic(err)
	}
	fmt.Println(guard.Renew(ctx), guard.Release(ctx))
	// Output: <nil> <nil>
}

// The steps of a script renew a lease that no process holds, and release it in the end.
// What announce stores is good if the step dies before it stores the next ticket.
func ExampleClient_RenewTicket() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, &lease.Options{TTL: time.Hour, ManualRenewal: true, NoPresence: true})
	guard, _ := client.Acquire(ctx, "pipeline", nil)
	file, _ := guard.Detach(ctx)

	next, err := client.RenewTicket(ctx, file, func(t lease.Ticket) error {
		file = t // durably
		return nil
	})
	if err != nil {
		panic(err)
	}
	copied := file
	file = next
	fmt.Println(client.ReleaseTicket(ctx, file))
	fmt.Println(errors.Is(client.ReleaseTicket(ctx, copied), lease.ErrReleased))
	// Output:
	// <nil>
	// true
}

// A process that is restarted under the same name takes its own old lock at once.
func ExampleOptions_reclaimOwn() {
	host, _ := os.Hostname()
	_, err := lease.New(&memstore.Store{}, &lease.Options{Holder: host + "/ingest-0", ReclaimOwn: true})
	fmt.Println(err)
	// Output: <nil>
}

// A report that runs once a day, although every machine tries every hour. A run that failed
// is tried again, twice at most.
func ExampleClient_Once() {
	ctx := context.Background()
	st := &memstore.Store{}
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		panic(err)
	}
	options := &lease.LockOptions{Retries: 2}
	for _, machine := range []string{"db1", "db2"} {
		client, _ := lease.New(st, &lease.Options{Holder: machine})
		result, err := client.Once(ctx, "report", lease.Daily(zurich), func(ctx context.Context, guard *lease.Guard) error {
			return ctx.Err() // the work
		}, options)
		fmt.Printf("%s ran: %v (%s by %s) %v\n", machine, result.Ran, result.Last.Outcome, result.Last.Holder, err)
	}
	// Output:
	// db1 ran: true (done by db1) <nil>
	// db2 ran: false (done by db1) <nil>
}

// A job that is skipped while it runs elsewhere.
func ExampleClient_Once_noWait() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	work := func(context.Context, *lease.Guard) error { return nil }
	err := client.Do(ctx, "sweep", func(ctx context.Context, _ *lease.Guard) error {
		_, err := client.Once(ctx, "sweep", lease.Every(6*time.Hour), work, &lease.LockOptions{NoWait: true})
		return err
	}, nil)
	fmt.Println(errors.Is(err, lease.ErrHeld))
	// Output: true
}

// The parts of Once, for work that is no function.
func ExampleLockOptions_period() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	handle, err := client.Handle("report", &lease.LockOptions{Period: lease.Weekly(nil)})
	if err != nil {
		panic(err)
	}
	guard, err := handle.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	guard.SetRunResult(errors.New("no paper")) // nil: it is done
	fmt.Println(guard.Release(ctx))

	_, err = handle.Acquire(ctx)
	var ran *lease.AlreadyRanError
	if errors.As(err, &ran) {
		fmt.Println(ran.Last.Outcome, ran.Last.Error)
	}
	// Output:
	// <nil>
	// failed no paper
}

// What the last run of a job has come to, without a lease.
func ExampleRun() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, &lease.Options{Holder: "db1"})
	_, _ = client.Once(ctx, "report", lease.Monthly(nil), func(context.Context, *lease.Guard) error { return nil }, nil)

	info, err := client.Inspect(ctx, "report")
	if err != nil {
		panic(err)
	}
	run := info.Record.Run
	fmt.Println(run.Outcome, run.Holder, run.Period, !run.Ended.Before(run.Began))
	// Output: done db1 month true
}

// The periods of a calendar follow a time zone.
func ExampleParsePeriod() {
	period, err := lease.ParsePeriod("day Europe/Zurich")
	if err != nil {
		panic(err)
	}
	start, end := period.At(time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC))
	fmt.Println(start, end.Sub(start))
	_, err = lease.ParsePeriod("day Europe/Zurch")
	fmt.Println(err != nil)
	// Output:
	// 2026-03-29 00:00:00 +0100 CET 23h0m0s
	// true
}

// A service that has to run on one machine at a time: it runs here while this machine
// leads, and again after each loss, until ctx ends.
func ExampleClient_Lead() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	err := client.Lead(ctx, "scheduler", []byte("10.0.0.7:8080"), func(ctx context.Context, guard *lease.Guard) error {
		leader, err := client.Leader(ctx, "scheduler")
		fmt.Printf("the leader is %s, %t\n", leader.Value, leader.Token == guard.Token())
		return err // while it leads: it resigns
	}, nil)
	fmt.Println(err)
	// Output:
	// the leader is 10.0.0.7:8080, true
	// <nil>
}

// The parts of Lead, for a program that also has other work.
func ExampleElection() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	candidate, _ := client.Election("scheduler", nil)
	guard, err := candidate.Campaign(ctx, []byte("10.0.0.7:8080"))
	if err != nil {
		panic(err)
	}
	fmt.Println(candidate.Name(), guard.Err())
	fmt.Println(candidate.Proclaim(ctx, []byte("10.0.0.7:9090")))
	fmt.Println(candidate.Resign(ctx))
	// Output:
	// scheduler <nil>
	// <nil>
	// <nil>
}

// Followers get each leader and its value.
func ExampleClient_Observe() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	st := &memstore.Store{}
	machine, _ := lease.New(st, nil)
	follower, _ := lease.New(st, nil)
	candidate, _ := machine.Election("scheduler", nil)
	for leader, err := range follower.Observe(ctx, "scheduler") {
		switch {
		case errors.Is(err, lease.ErrNoLeader):
			fmt.Println("no leader")
			_, _ = candidate.Campaign(ctx, []byte("10.0.0.7:8080"))
		case err != nil:
			fmt.Println("not known:", err)
		default:
			fmt.Printf("%s leads\n", leader.Value)
			stop()
		}
	}
	// Output:
	// no leader
	// 10.0.0.7:8080 leads
	// not known: lock "scheduler": context canceled
}

// A program can look up the present leader at any time.
func ExampleClient_Leader() {
	client, _ := lease.New(&memstore.Store{}, nil)
	_, err := client.Leader(context.Background(), "scheduler")
	fmt.Println(errors.Is(err, lease.ErrNoLeader))
	// Output: true
}

// A program that has a session leads under it, without a renewal more.
func ExampleSession_Lead() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	session, _ := client.OpenSession(ctx)
	defer session.Close(ctx)
	err := session.Lead(ctx, "scheduler", []byte("10.0.0.7:8080"), func(ctx context.Context, guard *lease.Guard) error {
		fmt.Println(guard.Err())
		return nil // while it leads: it resigns
	}, nil)
	candidate, _ := session.Election("backups", nil)
	_, err2 := candidate.Campaign(ctx, []byte("10.0.0.7:8080"))
	fmt.Println(err, err2)
	// Output:
	// <nil>
	// <nil> <nil>
}
