package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// coordination compares many locks of one program, and many programs at one lock: plain
// leases, leases under a session, and what etcd and ZooKeeper have for that, in one run.
func coordination(ctx context.Context, w io.Writer, server servers.S3, r *run) error {
	dir, err := os.MkdirTemp(r.dir, "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	etcd, err := startEtcd(ctx, dir)
	if err != nil {
		return err
	}
	defer etcd.Kill()
	zoo := filepath.Join(dir, "zookeeper")
	if err := os.Mkdir(zoo, 0o700); err != nil {
		return err
	}
	address, end, err := servers.StartZooKeeper(ctx, zoo)
	if err != nil {
		return err
	}
	defer end()
	c := &comparison{dir: dir, servers: map[string]string{systemEtcd: etcd.Address(), systemZoo: address}, s3: server, r: r}
	fmt.Fprintf(w, "### Many locks, many programs (%s; etcd and ZooKeeper: one server on the same disk)\n\n", fileSystem(dir))
	for _, part := range []struct {
		name    string
		measure func(context.Context, io.Writer) error
	}{
		{"holding", c.holding}, {"takeover", c.takeover}, {"contention", c.contention}, {"readers", c.readers}, {"cycles", c.cycles},
	} {
		if r.part != "" && r.part != part.name {
			continue
		}
		if err := part.measure(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

type comparison struct {
	dir     string
	servers map[string]string // the address of a system's, if it has one
	s3      servers.S3
	r       *run
	n       int
}

func systems() []string { return []string{systemPlain, systemSession, systemEtcd, systemZoo} }

// place returns an empty one.
func (c *comparison) place(system string, ttl time.Duration) place {
	c.n++
	under := fmt.Sprint("place-", c.n)
	where, served := c.servers[system]
	if !served {
		where = filepath.Join(c.dir, under)
	}
	return place{System: system, Where: where, Under: under, TTL: ttl}
}

// holding measures what a program pays for the locks that it holds.
func (c *comparison) holding(_ context.Context, w io.Writer) error {
	const ttl = 30 * time.Second
	const window = 3 * (ttl / 3) // three beats
	t := table{head: []string{"one program that holds locks (TTL 30 s)", "locks", "beats a minute", "processor, of a core", "live memory", "resident memory, after a collection", "of the program before it", "requests to take all", "time to take all"}}
	type one struct {
		system string
		locks  int
	}
	// Those that cost little do not disturb each other.
	for _, group := range [][]one{
		{{systemPlain, 1}, {systemSession, 1}, {systemEtcd, 1}, {systemZoo, 1}, {systemPlain, 100}, {systemSession, 100}, {systemEtcd, 100}, {systemZoo, 100}},
		{{systemPlain, 10_000}}, {{systemSession, 10_000}}, {{systemEtcd, 10_000}, {systemZoo, 10_000}},
	} {
		members := make([]*process, len(group))
		for i, o := range group {
			var err error
			if members[i], err = (errand{Place: c.place(o.system, ttl), Locks: o.locks, Window: window}).start(); err != nil {
				return err
			}
			defer members[i].kill()
		}
		for i, o := range group {
			var h holding
			if err := members[i].result(&h); err != nil {
				return fmt.Errorf("%s: %w", o.system, err)
			}
			members[i].kill()
			t.row(o.system, fmt.Sprint(o.locks), fmt.Sprintf("%.0f", float64(h.Beats)*float64(time.Minute)/float64(window)), fmt.Sprintf("%.2f %%", 100*h.CPU.Seconds()/window.Seconds()),
				mib(h.Memory), "+ "+mib(h.Resident), mib(h.Before), fmt.Sprint(h.Requests), short(h.Took))
		}
	}
	t.print(w)
	return nil
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// takeover measures how a program takes the locks of one that was killed.
func (c *comparison) takeover(_ context.Context, w io.Writer) error {
	const ttl, locks = 15 * time.Second, 1000
	t := table{head: []string{fmt.Sprintf("takeover of %d locks after kill -9 (TTL %v), by one program that waits for all", locks, ttl), "the first after", "the last after", "requests from the kill on"}}
	for _, known := range []bool{false, true} {
		for _, system := range systems() {
			place := c.place(system, ttl)
			place.Presence = known
			title := system
			if known {
				if _, served := c.servers[system]; served {
					continue
				}
				title += "; the end of the process is known, as on one machine"
			}
			at, got, err := kill(place, locks)
			if err != nil {
				return fmt.Errorf("%s: %w", system, err)
			}
			if early := len(slices.DeleteFunc(slices.Clone(got.At), func(t int64) bool { return t >= at })); early > 0 {
				title += fmt.Sprintf("; %d were taken before: the holder did not renew them in time", early)
				got.At = slices.DeleteFunc(got.At, func(t int64) bool { return t < at })
			}
			t.row(title, short(time.Duration(slices.Min(got.At)-at)), short(time.Duration(slices.Max(got.At)-at)), fmt.Sprint(got.Requests))
		}
	}
	t.print(w)
	return nil
}

// kill lets one member hold locks and another wait for them, and kills the first.
func kill(place place, locks int) (at int64, got taken, err error) {
	holder, err := errand{Place: place, Locks: locks, Window: time.Millisecond}.start()
	if err != nil {
		return 0, got, err
	}
	defer holder.kill()
	if err := holder.result(&holding{}); err != nil {
		return 0, got, err
	}
	waiter, err := errand{Place: place, Locks: locks}.start()
	if err != nil {
		return 0, got, err
	}
	defer waiter.kill()
	time.Sleep(place.TTL) // until it waits for all
	if err := waiter.begin(); err != nil {
		return 0, got, err
	}
	at = holder.kill()
	err = waiter.result(&got)
	return at, got, err
}

// contention measures a lock that a hundred programs want all the time.
func (c *comparison) contention(ctx context.Context, w io.Writer) error {
	const members, ttl = 100, 30 * time.Second
	names := map[mode]string{fair: ", fair"}
	for _, kind := range []struct {
		title string
		modes map[string][]mode
	}{
		{fmt.Sprintf("%d programs want one lock again and again", members), map[string][]mode{systemPlain: {exclusive}, systemSession: {exclusive, fair}, systemEtcd: {fair}, systemZoo: {fair}}},
		{fmt.Sprintf("%d programs want one of %d slots again and again", members, semaphore), map[string][]mode{systemSession: {slots}, systemZoo: {slots}}},
	} {
		t := table{head: []string{kind.title, "grants a second", "requests for a grant", "grants of one program: least, median, most", "wait, median (99 %)"}}
		for _, system := range systems() {
			for _, mode := range kind.modes[system] {
				s, err := c.crowd(ctx, system, mode, members, ttl)
				if err != nil {
					return fmt.Errorf("%s: %w", system, err)
				}
				n := 0
				for _, k := range s.grants {
					n += k
				}
				slices.Sort(s.grants)
				t.row(system+names[mode], fmt.Sprintf("%.0f", float64(n)/c.r.window.Seconds()), fmt.Sprintf("%.3g", float64(s.requests)/float64(max(n, 1))),
					fmt.Sprintf("%d, %d, %d", s.grants[0], s.grants[len(s.grants)/2], s.grants[len(s.grants)-1]), fmt.Sprintf("%s (%s)", short(s.waits.median()), short(s.waits.at(0.99))))
			}
		}
		t.print(w)
	}
	return nil
}

// rounds is how a lock went round.
type rounds struct {
	grants   []int // of each member
	requests int64
	waits    samples
}

// crowd lets members take and free one lock for the window, and hold it for a millisecond.
func (c *comparison) crowd(ctx context.Context, system string, mode mode, members int, ttl time.Duration) (*rounds, error) {
	place := c.place(system, ttl)
	place.count()
	all, leave, err := place.joinAll(ctx, members)
	if err != nil {
		return nil, err
	}
	defer leave()
	name := strings.ReplaceAll(fmt.Sprint("crowd-", system, mode), " ", "-")
	s := &rounds{grants: make([]int, members)}
	var mu sync.Mutex
	var running sync.WaitGroup
	var errs []error
	always := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
		cancel()
	}
	holders := 0
	most := 1
	if mode == slots {
		most = semaphore
	}
	before := place.wanted()
	for i, m := range all {
		running.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				l, err := m.lock(ctx, name, mode)
				if ctx.Err() != nil {
					if err == nil {
						_ = l.Release(always)
					}
					return
				}
				if err != nil {
					fail(err)
					return
				}
				mu.Lock()
				s.waits = append(s.waits, time.Since(began))
				s.grants[i]++
				if holders++; holders > most {
					errs = append(errs, fmt.Errorf("%d holders, at most %d are allowed", holders, most))
				}
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				holders--
				mu.Unlock()
				if err := l.Release(always); err != nil {
					fail(err)
				}
			}
		})
	}
	select {
	case <-time.After(c.r.window):
	case <-ctx.Done():
	}
	s.requests = place.wanted() - before
	cancel()
	running.Wait()
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return s, nil
}

// readers measures a hundred programs that read at the same time, each time another lock.
func (c *comparison) readers(ctx context.Context, w io.Writer) error {
	const members, rounds, ttl = 100, 9, 30 * time.Second
	t := table{head: []string{fmt.Sprintf("%d readers of one lock, medians of %d locks", members, rounds), "all of them read after", "requests of a reader, to begin and to end", "all have ended after"}}
	for _, system := range systems() {
		place := c.place(system, ttl)
		place.count()
		row, err := func() ([]string, error) {
			all, leave, err := place.joinAll(ctx, members)
			if err != nil {
				return nil, err
			}
			defer leave()
			before := place.wanted()
			var began, ended samples
			for round := range rounds {
				held := make([]lock, members)
				took, err := together(members, func(i int) (err error) {
					held[i], err = all[i].lock(ctx, lockName(round), shared)
					return err
				})
				if err != nil {
					return nil, err
				}
				began = append(began, took)
				if took, err = together(members, func(i int) error { return held[i].Release(ctx) }); err != nil {
					return nil, err
				}
				ended = append(ended, took)
			}
			n := place.wanted() - before
			return []string{system, short(began.median()), fmt.Sprintf("%.3g", float64(n)/members/rounds), short(ended.median())}, nil
		}()
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", system, err)
		}
		t.row(row...)
	}
	t.print(w)
	return nil
}

// cycles measures a program that takes one lock a thousand times, each time for a moment.
func (c *comparison) cycles(ctx context.Context, w io.Writer) error {
	const cycles, ttl = 1000, 30 * time.Second
	bucket := servers.Unique("cycles")
	if err := c.s3.CreateBucket(ctx, bucket, false); err != nil {
		return err
	}
	t := table{head: []string{fmt.Sprintf("one lock taken and freed %d times", cycles), "requests, those of the session included", "one time, median"}}
	measure := func(name string, cycle, leave func() error, requests func() int64) error {
		var took samples
		for range cycles {
			d, err := timed(cycle)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			took = append(took, d)
		}
		if err := leave(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.row(name, fmt.Sprint(requests()), short(took.median()))
		return nil
	}
	for _, o := range []struct {
		system, title string
		mode          mode
	}{{systemPlain, "", exclusive}, {systemPlain, ", linger", linger}, {systemSession, ", linger", linger}, {systemEtcd, "", exclusive}, {systemZoo, "", exclusive}} {
		place, on := c.place(o.system, ttl), ""
		if _, served := c.servers[o.system]; !served {
			// Known to honour conditions, as AWS is.
			st, err := openS3(c.s3.Client(), bucket, strings.ReplaceAll(o.system+o.title, " ", "-"), &s3store.Options{Trusted: true})
			if err != nil {
				return err
			}
			place.store = st
			on = ", on S3 (" + c.s3.Name + ")"
		}
		place.count()
		m, err := place.join(ctx)
		if err != nil {
			return err
		}
		err = measure(o.system+o.title+on, func() error {
			l, err := m.lock(ctx, "cycle", o.mode)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		}, m.leave, place.requests.Load)
		if err != nil {
			return err
		}
	}
	peer := litestreamOn(c.s3, bucket)
	l, err := peer.claimant("cycle")
	if err != nil {
		return err
	}
	err = measure("litestream's leases, on S3 ("+c.s3.Name+")", func() error {
		if err := must(l.try(ctx)); err != nil {
			return err
		}
		return l.release(ctx)
	}, func() error { return nil }, peer.requests.n.Load)
	t.print(w)
	return err
}
