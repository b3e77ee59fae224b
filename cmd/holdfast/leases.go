package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// leaseFlags are the flags of every command that takes leases.
type leaseFlags struct {
	ttl, margin, grace time.Duration
	rho                float64
	holder             string

	detached bool              // the lease outlives this process
	events   func(lease.Event) // told of each event
}

func (f *leaseFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.ttl, "ttl", 0, "how long a lease lasts without a renewal (default 30s)")
	flags.DurationVar(&f.margin, "margin", 0, "kept for timers that are late (default: a tenth of the TTL)")
	flags.DurationVar(&f.grace, "grace", 0, "time between TERM and KILL when the lease is lost; negative for none (default: TTL/4, at most 5s)")
	flags.Float64Var(&f.rho, "rho", 0, "assumed bound of the error of a clock's rate (default 0.01)")
	flags.StringVar(&f.holder, "holder", "", "who holds the lock, for people (default: user, host and process)")
}

// openClient is a client and the store that it is on.
type openClient struct {
	*lease.Client
	st opened
}

type clients []openClient

// close releases what is held and closes the stores.
func (c clients) close(ctx context.Context) {
	for _, client := range c {
		_ = client.Close(ctx) // the release has told
		_ = client.st.Close()
	}
}

// flush waits until people have been told of what happened.
func (c clients) flush() {
	for _, client := range c {
		client.st.flush()
	}
}

// client opens a store and a client of leases on it.
func (a *app) client(ctx context.Context, url string, f *leaseFlags) (*lease.Client, opened, error) {
	st, err := a.openURL(ctx, url)
	if err != nil {
		return nil, opened{}, err
	}
	options := &lease.Options{
		TTL: f.ttl, Margin: f.margin, Grace: f.grace, Rho: f.rho, Holder: f.holder,
		Patience: 30 * time.Second,
		Manual:   f.detached, NoPresence: f.detached,
		// Two reads more for a new lock are worth it where they cost nothing.
		Floor: store.TraitsOf(st.Store).Local,
	}
	teller := newTeller(a.waitingLine(), f.events)
	options.OnEvent = teller.tell
	if dir, err := defaultDir(); err == nil {
		options.Memory = lease.FileMemory(filepath.Join(dir, seenDir))
	}
	client, err := lease.New(st.Store, options)
	if err != nil {
		_ = teller.Close()
		_ = st.Close()
		return nil, opened{}, err
	}
	st.Closer, st.flush = closers{st.Closer, teller}, teller.flush
	return client, st, nil
}

// closers closes one after the other.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, closer := range c {
		errs = append(errs, closer.Close())
	}
	return errors.Join(errs...)
}

// teller tells people of events, apart from the goroutines in which they happen: a
// terminal or a pipe that takes nothing must not keep a lease from being renewed.
type teller struct {
	to   []func(lease.Event)
	jobs chan func()
	quit chan struct{}
	done chan struct{}
	once sync.Once
}

func newTeller(to ...func(lease.Event)) *teller {
	t := &teller{to: to, jobs: make(chan func(), 1000), quit: make(chan struct{}), done: make(chan struct{})}
	go t.run()
	return t
}

func (t *teller) run() {
	defer close(t.done)
	for {
		select {
		case job := <-t.jobs:
			job()
			continue
		default:
		}
		select {
		case job := <-t.jobs:
			job()
		case <-t.quit:
			return
		}
	}
}

// tell hands an event on. When nobody has taken a thousand, it is dropped.
func (t *teller) tell(e lease.Event) {
	job := func() {
		for _, f := range t.to {
			if f != nil {
				f(e)
			}
		}
	}
	select {
	case t.jobs <- job:
	default:
	}
}

// flush waits until what happened is told, but not for long.
func (t *teller) flush() {
	told := make(chan struct{})
	select {
	case t.jobs <- func() { close(told) }:
	default:
		return
	}
	select {
	case <-told:
	case <-t.done:
	case <-time.After(time.Second):
	}
}

// Close tells what is left, and ends.
func (t *teller) Close() error {
	t.flush()
	t.once.Do(func() { close(t.quit) })
	return nil
}
