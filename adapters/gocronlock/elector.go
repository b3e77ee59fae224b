package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// ErrNotLeader: this machine does not lead, so gocron skips the tick.
var ErrNotLeader = errors.New("another machine leads, or no machine")

// Elector is a [gocron.Elector]: of all machines with an Elector of the same name, one runs the jobs. It has one
// goroutine until Close.
type Elector struct {
	client *lease.Client
	name   string
	cancel context.CancelFunc
	ended  chan struct{}

	mu   sync.Mutex
	term *term // nil if this machine does not lead
	err  error // why it does not
}

// term is the time during which this machine leads.
type term struct {
	ctx   context.Context
	guard *lease.Guard
	tasks sync.WaitGroup // of Elector.Task
}

// NewElector returns a candidate, and begins its campaign. If the name is not a valid store key, the error
// matches [store.ErrKey]. If an option is not valid, the error matches [store.ErrInvalid].
func NewElector(st store.Store, name string, o *lease.Options) (*Elector, error) {
	client, err := lease.New(st, o)
	if err != nil {
		return nil, err
	}
	if _, err := client.Election(name, nil); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Elector{client: client, name: name, cancel: cancel, ended: make(chan struct{})}
	go e.campaign(ctx)
	return e, nil
}

// campaign leads again and again, until ctx ends.
func (e *Elector) campaign(ctx context.Context) {
	defer close(e.ended)
	for ctx.Err() == nil {
		err := e.client.Lead(ctx, e.name, nil, e.lead, nil)
		e.set(nil, err)
		_ = backoff.Sleep(ctx, e.client.Options().MaxPoll) // after a permanent error, such as a missing right
	}
}

// lead is one term. It lasts until the leadership and all tasks have ended.
func (e *Elector) lead(ctx context.Context, guard *lease.Guard) error {
	t := &term{ctx: ctx, guard: guard}
	e.set(t, nil)
	<-ctx.Done()
	e.set(nil, context.Cause(ctx))
	t.tasks.Wait()
	return nil
}

func (e *Elector) set(t *term, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term, e.err = t, err
}

// leads returns the present term, or an error that matches [ErrNotLeader]. With a task, the term waits for a
// call of tasks.Done.
func (e *Elector) leads(task bool) (*term, error) {
	e.mu.Lock()
	t, err := e.term, e.err
	if t != nil && task {
		t.tasks.Add(1)
	}
	e.mu.Unlock()
	if t != nil {
		err = t.guard.Err() // by the clocks, before a timer has noticed
		if err == nil {
			return t, nil
		}
		if task {
			t.tasks.Done()
		}
	}
	if err == nil {
		return nil, fmt.Errorf("%w: election %q", ErrNotLeader, e.name)
	}
	return nil, fmt.Errorf("%w: election %q: %w", ErrNotLeader, e.name, err)
}

// IsLeader returns nil while this machine leads. It sends no request. If ctx has ended, the error is its cause.
// Otherwise the error matches [ErrNotLeader], and also the reason why the leadership ended or the campaign failed, if
// there is one. After a lost lease IsLeader returns an error before another machine leads; see package lease.
func (e *Elector) IsLeader(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := e.leads(false)
	return err
}

// Task returns a task that learns of the end of the leadership. The context of f ends with the job, or with the
// leadership. The guard has the token of the term. If this machine does not lead any more when f should begin, f
// does not run, and the error matches [ErrNoLock] and [ErrNotLeader]. A machine that is asked to yield, or
// closes its Elector, frees the leadership when all these tasks have returned. After a lost lease, too, a machine is
// a candidate again only when they have returned.
func (e *Elector) Task(f func(ctx context.Context, guard *lease.Guard) error) gocron.Task {
	return newTask(f, func(job context.Context) (context.Context, *lease.Guard, func(error), error) {
		t, err := e.leads(true)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%w: %w", ErrNoLock, err)
		}
		ctx, cancel := context.WithCancelCause(job)
		stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
		return ctx, t.guard, func(error) {
			stop()
			cancel(nil)
			t.tasks.Done()
		}, nil
	})
}

// Close ends the campaign or the leadership. It waits for the tasks of [Elector.Task] until ctx ends. Then it
// frees the leadership. So shut down the scheduler first.
func (e *Elector) Close(ctx context.Context) error {
	e.cancel()
	select {
	case <-e.ended:
	case <-ctx.Done():
	}
	return e.client.Close(ctx)
}
