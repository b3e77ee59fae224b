package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// counter counts the requests that go through it.
type counter struct{ n atomic.Int64 }

// Do sends a request. It is the HTTP client of the SDKs.
func (c *counter) Do(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return http.DefaultClient.Do(r)
}

// dial makes a connection on which each request is one write.
func (c *counter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &counted{conn, func([]byte) { c.n.Add(1) }}, err
}

// counted is a connection that counts what its client writes.
type counted struct {
	net.Conn
	count func(message []byte)
}

func (c *counted) Write(message []byte) (int, error) {
	c.count(message)
	return c.Conn.Write(message)
}

// claimant is a client that wants one lock on a server.
type claimant interface {
	// try takes the lock if it is free, and reports whether it did.
	try(ctx context.Context) (bool, error)
	// wait takes the lock, waiting for it as the library does by default.
	wait(ctx context.Context) error
	renew(ctx context.Context) error
	release(ctx context.Context) error
}

// subject is a library on a server.
type subject struct {
	name string

	// claimant returns one that knows nothing of the lock yet.
	claimant claimants

	// holder returns one whose requests are not counted, and which keeps what it has
	// as the library does by default. Only waiting needs it.
	holder claimants

	requests *counter
}

// claimants returns another claimant of a lock.
type claimants func(lock string) (claimant, error)

// lock makes them the locks of a worker process.
func (f claimants) lock(ctx context.Context, name string) (func() error, error) {
	c, err := f(name)
	if err != nil {
		return nil, err
	}
	return func() error { return c.release(ctx) }, c.wait(ctx)
}

// take returns a claimant that has taken the lock.
func (f claimants) take(ctx context.Context, name string) (claimant, error) {
	c, err := f(name)
	if err != nil {
		return nil, err
	}
	return c, must(c.try(ctx))
}

// openClaimants opens locks of a kind on the server at an address, whose requests n counts. Claimants that are to keep
// what they have renew it by themselves, as the library does by default.
func openClaimants(kind, address string, n *counter, keep bool) (claimants, error) {
	switch kind {
	case kindSQLStore, kindAdvisory, kindPGLock:
		return openPostgres(kind, address, n, keep)
	case kindMySQLStore, kindGetLock:
		return openMySQL(kind, address, n, keep)
	case kindRedisStore, kindRedsync, kindRedislock:
		return openRedis(kind, address, n, keep)
	case kindAzblob, kindBlobLease:
		return openAzure(kind, address, n, keep)
	case kindEtcdStore, kindEtcdMutex, kindNATSStore, kindKVCreate:
		return openQuorum(kind, address, n, keep)
	}
	return nil, fmt.Errorf("no locks of kind %q", kind)
}

// count returns how many requests f sends.
func (s *subject) count(f func() error) (int, error) {
	before := s.requests.n.Load()
	err := f()
	return int(s.requests.n.Load() - before), err
}

// step is one operation of a lock's life, in the order in which they are measured.
type step struct {
	name string
	run  func(ctx context.Context, m *life) error
}

// life is the claimants of one lock.
type life struct {
	s    *subject
	lock string
	a, b claimant
}

func must(got bool, err error) error {
	if err == nil && !got {
		err = fmt.Errorf("the lock was not to be had")
	}
	return err
}

// renewed returns a claimant that renews its lock after each pause until it releases the lock. Without keep, it returns
// c. The library of c renews no lock by itself.
func renewed(c claimant, keep bool, pause time.Duration) claimant {
	if !keep {
		return c
	}
	return &renewer{claimant: c, pause: pause}
}

type renewer struct {
	claimant
	pause time.Duration
	stop  context.CancelFunc
}

func (r *renewer) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() {
		for ticker := time.NewTicker(r.pause); ; {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
				_ = r.renew(ctx)
			}
		}
	}()
}

func (r *renewer) try(ctx context.Context) (bool, error) {
	got, err := r.claimant.try(ctx)
	if got {
		r.keep()
	}
	return got, err
}

func (r *renewer) wait(ctx context.Context) error {
	err := r.claimant.wait(ctx)
	if err == nil {
		r.keep()
	}
	return err
}

func (r *renewer) release(ctx context.Context) error {
	r.stop()
	return r.claimant.release(ctx)
}

// poll takes a lock whose server wakes no waiter.
func poll(ctx context.Context, try func(context.Context) (bool, error)) error {
	for {
		if got, err := try(ctx); got || err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
}

// unlessRefused is the result of a request that the server may refuse, as it should if another holds the lock.
func unlessRefused(refused bool, err error) (done bool, _ error) {
	if refused {
		return false, nil
	}
	return err == nil, err
}

// steps are the operations whose requests are counted.
func steps() []step {
	contended := func(ctx context.Context, m *life) error {
		got, err := m.b.try(ctx)
		if err == nil && got {
			err = fmt.Errorf("two holders")
		}
		return err
	}
	return []step{
		{"acquire, a new lock", func(ctx context.Context, m *life) error { return must(m.a.try(ctx)) }},
		{"renew", func(ctx context.Context, m *life) error { return m.a.renew(ctx) }},
		{"try, another holds, nothing known", contended},
		{"try, another holds, once more", contended},
		{"release", func(ctx context.Context, m *life) error { return m.a.release(ctx) }},
		{"acquire again, by the holder before", func(ctx context.Context, m *life) error { return must(m.a.try(ctx)) }},
		{"release again", func(ctx context.Context, m *life) error { return m.a.release(ctx) }},
		{"acquire, an old lock, nothing known", func(ctx context.Context, m *life) (err error) {
			m.b, err = m.s.claimant.take(ctx, m.lock)
			return err
		}},
	}
}

// counts returns the requests of each step. It runs all of them several times, and
// fails if they are not always the same.
func (s *subject) counts(ctx context.Context) (first []int, _ error) {
	for round := range 5 {
		m := &life{s: s, lock: "count-" + rand.Text()}
		var err error
		if m.a, err = s.claimant(m.lock); err != nil {
			return nil, err
		}
		if m.b, err = s.claimant(m.lock); err != nil {
			return nil, err
		}
		for i, st := range steps() {
			n, err := s.count(func() error { return st.run(ctx, m) })
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", s.name, st.name, err)
			}
			if round == 0 {
				first = append(first, n)
			} else if first[i] != n {
				return nil, fmt.Errorf("%s: %s: %d, then %d", s.name, st.name, first[i], n)
			}
		}
		if err := m.b.release(ctx); err != nil {
			return nil, err
		}
	}
	return first, nil
}

// on is what libraries are compared on.
type on struct {
	title string
	unit  string // what is counted: requests, or statements

	// raw sends one bare conditional write, about as long as a record.
	raw func(context.Context) error

	// spread is the time over which the locks are released for which others wait: more
	// than the pauses of any library.
	spread time.Duration

	// lateLocks is how many locks a holder has whose late writes are counted. 0: nothing shows these.
	lateLocks int
}

// onServer compares kinds of locks on the server at an address.
func onServer(ctx context.Context, w io.Writer, on on, address string, r *run, kinds ...string) error {
	subjects := make([]*subject, len(kinds))
	for i, kind := range kinds {
		s := &subject{name: kind, requests: &counter{}}
		var err error
		if s.claimant, err = openClaimants(kind, address, s.requests, false); err != nil {
			return err
		}
		if s.holder, err = openClaimants(kind, address, &counter{}, true); err != nil {
			return err
		}
		// The first operations make connections, read the settings of the server, and teach it scripts.
		c, err := s.claimant("first-" + rand.Text())
		if err != nil {
			return err
		}
		if err := errors.Join(must(c.try(ctx)), c.renew(ctx), c.release(ctx)); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		subjects[i] = s
	}
	if err := remoteAndWaiting(ctx, w, on, subjects, r); err != nil {
		return err
	}
	r.later(func(w io.Writer) error { return dead(w, on.title, address, kinds) })
	if on.lateLocks > 0 {
		r.later(func(w io.Writer) error { return late(w, on.title, address, on.lateLocks, kinds) })
	}
	return nil
}

// remoteAndWaiting compares libraries on one server, and later how they wait.
func remoteAndWaiting(ctx context.Context, w io.Writer, on on, subjects []*subject, r *run) error {
	if !r.waitOnly {
		if err := remote(ctx, w, on, subjects, r); err != nil {
			return err
		}
	}
	r.later(func(w io.Writer) error { return waiting(ctx, w, on, subjects, r) })
	return nil
}

// remote compares libraries on one server.
func remote(ctx context.Context, w io.Writer, on on, subjects []*subject, r *run) error {
	fmt.Fprintf(w, "### On %s\n\n", on.title)
	t := table{head: []string{on.unit}}
	for _, st := range steps() {
		t.row(st.name)
	}
	cycle := []string{"**acquire again + release**"}
	for _, s := range subjects {
		t.head = append(t.head, s.name)
		counts, err := s.counts(ctx)
		if err != nil {
			return err
		}
		for i, n := range counts {
			t.rows[i] = append(t.rows[i], fmt.Sprint(n))
		}
		cycle = append(cycle, fmt.Sprintf("**%d**", counts[5]+counts[6]))
	}
	t.row(cycle...)
	t.print(w)
	return times(ctx, w, subjects, on.raw, r.each)
}

// times measures the one-request operations in turns with bare conditional writes.
func times(ctx context.Context, w io.Writer, subjects []*subject, raw func(context.Context) error, d time.Duration) error {
	operations := []struct {
		name string
		run  func(c claimant) error
	}{
		{"acquire again", func(c claimant) error { return must(c.try(ctx)) }},
		{"renew", func(c claimant) error { return c.renew(ctx) }},
		{"release", func(c claimant) error { return c.release(ctx) }},
	}
	got := map[string]samples{}
	claimants := map[*subject]claimant{}
	for _, s := range subjects {
		// Once before, so that the next acquire is "again".
		c, err := s.claimant.take(ctx, "time-"+rand.Text())
		if err != nil {
			return err
		}
		if err := c.release(ctx); err != nil {
			return err
		}
		claimants[s] = c
	}
	add := func(key string, f func() error) error {
		took, err := timed(f)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		got[key] = append(got[key], took)
		return nil
	}
	for end := time.Now().Add(4 * d); time.Now().Before(end); {
		for _, s := range subjects {
			c := claimants[s]
			for _, op := range operations {
				if err := add("raw", func() error { return raw(ctx) }); err != nil {
					return err
				}
				if err := add(s.name+op.name, func() error { return op.run(c) }); err != nil {
					return err
				}
			}
		}
	}
	base := got["raw"].at(0.25)
	t := table{head: []string{"time, lower quartile; ratio to one bare conditional write (" + short(base) + ")"}}
	for _, s := range subjects {
		t.head = append(t.head, s.name)
	}
	for _, op := range operations {
		row := []string{op.name}
		for _, s := range subjects {
			took := got[s.name+op.name].at(0.25)
			row = append(row, fmt.Sprintf("%s; %s", short(took), ratio(took, base)))
		}
		t.row(row...)
	}
	t.print(w)
	return nil
}

// waiting measures what waiting costs and how long a hand-over takes, with the default
// settings of each library, at the same time: for short waits and for long ones.
func waiting(ctx context.Context, w io.Writer, on on, subjects []*subject, r *run) error {
	t := table{head: []string{"on " + on.title + ": waiting, default settings"}}
	waits := []time.Duration{25 * time.Second, r.wait}
	for _, d := range waits {
		t.head = append(t.head, fmt.Sprintf("%s of a wait of %v", on.unit, d), fmt.Sprintf("hand-over after %v, median (90 %%)", d))
	}
	names := make([]string, len(subjects))
	for i, s := range subjects {
		names[i] = s.name
	}
	return t.rowsTogether(w, names, func(i int) (row []string, err error) {
		for _, d := range waits {
			requests, handover, err := subjects[i].waiting(ctx, r.waiters, d, on.spread)
			if err != nil {
				return nil, err
			}
			row = append(row, fmt.Sprintf("%.1f", requests), fmt.Sprintf("%s (%s)", short(handover.median()), short(handover.at(0.9))))
		}
		return row, nil
	})
}

// waiting starts a waiter for each of many locks, counts the requests of all the waiters for some
// time, and then releases the locks one by one.
func (s *subject) waiting(ctx context.Context, waiters int, wait, spread time.Duration) (requests float64, handover samples, err error) {
	type pair struct {
		holder, waiter claimant
		released, got  time.Time
		err            error
	}
	pairs := make([]pair, waiters)
	for i := range pairs {
		p, lock := &pairs[i], "wait-"+rand.Text()
		if p.holder, err = s.holder.take(ctx, lock); err != nil {
			return 0, nil, err
		}
		if p.waiter, err = s.claimant(lock); err != nil {
			return 0, nil, err
		}
	}
	var wg sync.WaitGroup
	n, _ := s.count(func() error {
		for i := range pairs {
			p := &pairs[i]
			wg.Go(func() {
				p.err = p.waiter.wait(ctx)
				p.got = time.Now()
			})
		}
		time.Sleep(wait)
		return nil
	})
	for i := range pairs {
		p := &pairs[i]
		p.released = time.Now()
		if err := p.holder.release(ctx); err != nil {
			return 0, nil, err
		}
		time.Sleep(spread / time.Duration(waiters))
	}
	wg.Wait()
	for i := range pairs {
		if pairs[i].err != nil {
			return 0, nil, pairs[i].err
		}
		handover = append(handover, pairs[i].got.Sub(pairs[i].released))
		if err := pairs[i].waiter.release(ctx); err != nil {
			return 0, nil, err
		}
	}
	return float64(n) / float64(waiters), handover, nil
}
