package cronlock

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// maxEarly is the longest time by which a tick may come early.
	maxEarly = 5 * time.Second

	// maxJobName is the longest name of a job inside the name of its lock, in bytes.
	maxJobName = 200
)

// Options configures a [Locker]. Nil and the zero value mean all defaults.
type Options struct {
	// Lease are the options of the leases. The default of MinInterval is half of the period, and at most
	// 10 s: the runs of a job begin at least so far apart.
	Lease lease.Options

	// Logger gets an error for each run that fails, and a message for each skipped tick. Default
	// [cron.DefaultLogger], which prints only errors. [Locker.Do] logs nothing.
	Logger cron.Logger
}

// Locker runs each tick of a job on one machine; see the package comment. Any number of goroutines may use
// it. It starts no goroutine, and its jobs run in the goroutines of their callers.
type Locker struct {
	client    *lease.Client
	namespace string
	period    lease.Period
	early     time.Duration // by how much a tick may come early
	log       cron.Logger
}

// New returns a Locker for the jobs of one application that have the same period. It sends no request.
//
// The namespace is a valid store key. It separates the jobs of this application from jobs with the same names
// in other applications. The period is the time from tick to tick, or the shortest time if the times
// differ: "0 9,17 * * *" has the period of 8 hours or less. All machines must pass the same namespace and
// period. If the namespace is not valid or too long, the error matches [store.ErrKey]. If the period or an
// option is not valid, the error matches [store.ErrInvalid].
func New(st store.Store, namespace string, period lease.Period, o *Options) (*Locker, error) {
	o = cmp.Or(o, &Options{})
	start, end := period.At(time.Now())
	l := &Locker{namespace: namespace, period: period, early: min(end.Sub(start)/4, maxEarly), log: cmp.Or(o.Logger, cron.DefaultLogger)}
	if err := store.CheckKey(namespace); err != nil {
		return nil, fmt.Errorf("namespace of jobs: %w", err)
	}
	if period == (lease.Period{}) {
		return nil, fmt.Errorf("%w: the jobs of %q have no period; pass the time from tick to tick", store.ErrInvalid, namespace)
	}
	leases := o.Lease
	leases.MinInterval = cmp.Or(leases.MinInterval, 2*l.early)
	var err error
	if l.client, err = lease.New(st, &leases); err != nil {
		return nil, err
	}
	// The options and the longest name, before the first tick.
	if _, err = l.client.Handle(namespace+"/"+strings.Repeat("x", maxJobName), &lease.LockOptions{Period: period}); err != nil {
		return nil, err
	}
	return l, nil
}

// Close releases all locks of the Locker; see [lease.Client.Close]. Before that, stop the scheduler and wait
// for its jobs.
func (l *Locker) Close(ctx context.Context) error { return l.client.Close(ctx) }

// Do is one tick of the job: it runs f under the lock of the job, unless the job has run in this period or
// runs now. It does the same as [lease.Client.Do], with [lease.LockOptions] Period and NoWait. If f did not
// run because another machine has run this tick, the error matches [lease.ErrAlreadyRan]. If the job still
// runs, or began too short a time ago, the error matches [lease.ErrHeld]. Do waits for the next period at
// most 5 s, and about one TTL if the holder seems dead, and otherwise only for the store.
//
// If the job has already run, Do sends one read, and after a wait for the next period a second one. If it
// runs f, it sends three requests and the renewals. If the name is empty, the error matches
// [store.ErrKey].
func (l *Locker) Do(ctx context.Context, job string, f func(ctx context.Context, guard *lease.Guard) error) error {
	name, err := l.lockName(job)
	if err != nil {
		return err
	}
	began := false
	try := func() error {
		return l.client.Do(ctx, name, func(ctx context.Context, guard *lease.Guard) error {
			began = true
			return f(ctx, guard)
		}, &lease.LockOptions{Period: l.period, NoWait: true})
	}
	_, next := l.period.At(time.Now())
	isEarly := time.Until(next) <= l.early
	err = try()
	var held *lease.HeldError
	if !began && errors.As(err, &held) && held.Record.State == lease.Held && held.Record.Renewed.Add(2*held.Record.TTL).Before(time.Now()) {
		// The holder seems dead. A holder that lives renews while this one waits.
		if backoff.Sleep(ctx, held.Wait) != nil {
			return fmt.Errorf("job %q: %w", job, store.Cause(ctx))
		}
		err = try()
	}
	if began || !isEarly || !errors.Is(err, lease.ErrAlreadyRan) {
		return err
	}
	// This was the tick of the next period.
	for wait := time.Until(next); wait > 0; wait = time.Until(next) {
		if wait > l.early { // the clock was set back
			return err
		}
		if backoff.Sleep(ctx, wait) != nil {
			return fmt.Errorf("job %q: %w", job, store.Cause(ctx))
		}
	}
	return try()
}

// lockName returns the name of the lock of a job; see the package comment. Two jobs never have the same
// lock.
func (l *Locker) lockName(job string) (string, error) {
	if job == "" {
		return "", fmt.Errorf("%w: the job has no name", store.ErrKey)
	}
	name := strings.NewReplacer("%", "%25", "/", "%2F").Replace(job)
	if len(name) > maxJobName || store.CheckKey(name) != nil {
		sum := sha256.Sum256([]byte(job))
		name = fmt.Sprintf("%%%%%x", sum[:16])
	}
	return l.namespace + "/" + name, nil
}

// Job returns a job for robfig/cron. At each tick it runs f as [Locker.Do] does, and logs the result. The
// context bounds all runs of the job: end it to stop the job when the program ends. To give a job several
// schedules, add the same Job several times.
func (l *Locker) Job(ctx context.Context, name string, f func(ctx context.Context, guard *lease.Guard) error) cron.Job {
	return cron.FuncJob(func() {
		began := false
		err := l.Do(ctx, name, func(ctx context.Context, guard *lease.Guard) error {
			began = true
			return f(ctx, guard)
		})
		switch skipped := errors.Is(err, lease.ErrAlreadyRan) || errors.Is(err, lease.ErrHeld); {
		case err == nil:
		case !began && skipped && !errors.Is(err, lease.ErrRunInFuture):
			l.log.Info("skip", "job", name, "reason", err)
		default:
			l.log.Error(err, "job failed", "job", name)
		}
	})
}

// Wrapper returns a wrapper for one job that exists already. The job gets no context, so it cannot learn of
// a lost lease. If the wrapper gets a second job, for example in [cron.WithChain], both would have one lock:
// so the second job never runs, and logs an error that matches [store.ErrInvalid].
func (l *Locker) Wrapper(ctx context.Context, name string) cron.JobWrapper {
	var used atomic.Bool
	return func(job cron.Job) cron.Job {
		if used.Swap(true) {
			return cron.FuncJob(func() {
				l.log.Error(fmt.Errorf("%w: the wrapper of the job %q got a second job", store.ErrInvalid, name), "job failed", "job", name)
			})
		}
		return l.Job(ctx, name, func(context.Context, *lease.Guard) error {
			job.Run()
			return nil
		})
	}
}
