package gocronlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/adapters/cronlock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// ErrNoLock: gocron runs a task of [Locker.Task] without this Locker, or a task of [Elector.Task] after the end
// of the leadership. The function of the task did not run.
var ErrNoLock = errors.New("this task runs without its lock")

// Locker is a [gocron.Locker] that also has the period of its jobs. Any number of schedulers may use it.
type Locker struct {
	jobs *cronlock.Locker

	mu   sync.Mutex
	held map[context.Context]*lock // by the context of the job, which gocron passes to Lock and to the task
}

// New returns a Locker for the jobs of one application that have the same period. It sends no request. The
// namespace separates these jobs from jobs with the same names in other applications. The default of
// MinInterval is half of the period, and at most 10 s. The errors are those of [cronlock.New].
func New(st store.Store, namespace string, period lease.Period, o *lease.Options) (*Locker, error) {
	leases := *cmp.Or(o, &lease.Options{})
	jobs, err := cronlock.New(st, namespace, period, &cronlock.Options{Lease: leases})
	if err != nil {
		return nil, err
	}
	return &Locker{jobs: jobs, held: map[context.Context]*lock{}}, nil
}

// Close releases all locks of the Locker; see [lease.Client.Close]. Shut down the schedulers first.
func (l *Locker) Close(ctx context.Context) error { return l.jobs.Close(ctx) }

// lock is one run of a job. It implements [gocron.Lock].
type lock struct {
	ctx   context.Context // of the run: ends with the context of the job, or with the lease
	guard *lease.Guard
	err   error // of the task

	unlock func() error
}

// Lock begins a run of the job with this name. It waits for the next period at most 5 s, about one TTL if the
// holder seems dead, and otherwise only for the store. gocron passes the error to the listener of
// [gocron.AfterLockError], and skips the tick. The errors are those of [cronlock.Locker.Do]:
// [lease.ErrAlreadyRan] if another machine has run this tick, or [lease.ErrHeld] if the job still runs.
//
// The lock has one goroutine until its Unlock.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if key == unnamed {
		return nil, fmt.Errorf("%w: give the job a name with gocron.WithName; all tasks of this package have the same function", store.ErrInvalid)
	}
	k := &lock{}
	l.mu.Lock()
	_, runs := l.held[ctx]
	if !runs {
		l.held[ctx] = k
	}
	l.mu.Unlock()
	if runs { // otherwise the task of the earlier run would get the lock of this one
		return nil, fmt.Errorf("%w: a run of the job %q has not ended here", lease.ErrHeld, key)
	}
	forget := func() {
		l.mu.Lock()
		delete(l.held, ctx)
		l.mu.Unlock()
	}
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- l.jobs.Do(ctx, key, func(ctx context.Context, guard *lease.Guard) error {
			k.ctx, k.guard = ctx, guard
			close(begun)
			<-end
			return k.err
		})
	}()
	select {
	case err := <-ended:
		forget()
		return nil, err
	case <-begun:
	}
	k.unlock = sync.OnceValue(func() error {
		forget()
		close(end)
		return <-ended
	})
	return k, nil
}

// Unlock frees the lock, even if ctx has ended. A second call returns the same error. The error is that of
// [lease.Client.Do]: for example, it matches [lease.ErrLost] if the lease was lost, or the error of the task.
// gocron ignores it. If the task was not made by [Locker.Task], or gocron did not call it, the record of
// the lock says that the run was done, because gocron does not say how it ended.
func (k *lock) Unlock(context.Context) error { return k.unlock() }

// Task returns a task that learns of a lost lease. The context of f ends with the job, when the lease is lost,
// or when a waiter asks the holder to yield; see [lease.Client.Do]. The guard has the token of the run. The
// result of f is the result of the run. If the job does not use this Locker, f does not run, and the error
// matches [ErrNoLock]; see [gocron.AfterJobRunsWithError].
func (l *Locker) Task(f func(ctx context.Context, guard *lease.Guard) error) gocron.Task {
	return newTask(f, func(ctx context.Context) (context.Context, *lease.Guard, func(error), error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		k := l.held[ctx]
		if k == nil {
			return nil, nil, nil, fmt.Errorf("%w: pass its Locker to gocron.WithDistributedLocker or gocron.WithDistributedJobLocker", ErrNoLock)
		}
		return k.ctx, k.guard, func(err error) { k.err = err }, nil
	})
}

// task is what gocron runs. It is a method, so that gocron sees one name for all tasks.
type task struct {
	f     func(context.Context, *lease.Guard) error
	begin func(ctx context.Context) (_ context.Context, _ *lease.Guard, end func(error), _ error)
}

// unnamed is the name that gocron gives a job with a task of this package and no name.
const unnamed = "github.com/holdfast-go/holdfast/adapters/gocronlock.(*task).run-fm"

// errNotReturned is the error of a task that has not returned.
var errNotReturned = errors.New("the task did not return, because it panicked or its goroutine ended")

func newTask(f func(context.Context, *lease.Guard) error, begin func(context.Context) (context.Context, *lease.Guard, func(error), error)) gocron.Task {
	return gocron.NewTask((&task{f: f, begin: begin}).run)
}

func (t *task) run(ctx context.Context) error {
	ctx, guard, end, err := t.begin(ctx)
	if err != nil {
		return err
	}
	err = errNotReturned
	defer func() { end(err) }()
	err = t.f(ctx, guard)
	return err
}
