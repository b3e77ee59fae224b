package scale_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/engine"
)

var (
	table    = flag.Bool("table", false, "print what the cases cost")
	programs = flag.Int("programs", full, "how many programs the table is for")
)

const (
	// full is the number of programs for which the servers have their own limits.
	full = 10_000

	// quick is the number of programs of TestNoLeaseIsLost.
	quick = 200
)

// result is what a case has measured.
type result struct {
	start  counts          // until all programs have what they want, or in the first minute of a wait
	steady counts          // later, in the time window
	window time.Duration   // 0: nothing is sent later
	took   []time.Duration // until a program got what it wanted; of those that wait, since the release
	lost   int             // leases
	errs   []error
	notes  string
}

// world is one server with its programs, in virtual time.
type world struct {
	t       *testing.T
	srv     *server
	st      *engine.Store
	clients []*lease.Client

	mu sync.Mutex
	r  result
}

// failed notes an error that no program should get.
func (w *world) failed(err error) {
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.r.errs = append(w.r.errs, err)
	}
}

// each runs f for each program at the same time. It notes what the server was sent, and when each ended.
func (w *world) each(clients []*lease.Client, f func(i int, c *lease.Client)) {
	began, took := time.Now(), make([]time.Duration, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			f(i, c)
			took[i] = time.Since(began)
		})
	}
	all.Wait()
	w.r.start, w.r.took = w.srv.sent(), took
}

// during counts the requests of the next time d.
func (w *world) during(d time.Duration) counts {
	before := w.srv.sent()
	time.Sleep(d)
	return w.srv.sent().minus(before)
}

// holding lets time pass, and counts the leases that end in it.
func (w *world) holding(guards []*lease.Guard) {
	time.Sleep(time.Minute)
	w.r.window = 5 * time.Minute
	w.r.steady = w.during(w.r.window)
	for _, g := range guards {
		if g != nil && g.Err() != nil {
			w.r.lost++
		}
	}
}

// ownLocks: each program holds a lock of its own.
func ownLocks(w *world) {
	guards := make([]*lease.Guard, len(w.clients))
	w.each(w.clients, func(i int, c *lease.Client) {
		var err error
		guards[i], err = c.Acquire(w.t.Context(), fmt.Sprint("job-", i), nil)
		w.failed(err)
	})
	w.holding(guards)
}

// sessions: a program in a hundred holds a hundred locks under a session.
func sessions(w *world) {
	const locks = 100
	guards := make([]*lease.Guard, len(w.clients))
	w.each(w.clients[:len(w.clients)/locks], func(i int, c *lease.Client) {
		s, err := c.OpenSession(w.t.Context())
		for j := i * locks; err == nil && j < (i+1)*locks; j++ {
			guards[j], err = s.Acquire(w.t.Context(), fmt.Sprint("job-", j), nil)
		}
		w.failed(err)
	})
	w.holding(guards)
}

// oneLock: all programs wait for one lock, which is released after five minutes. The next holder keeps it.
func oneLock(w *world) { w.crowd(false) }

// fairQueue: the same in a fair queue. Each holder releases the lock at once.
func fairQueue(w *world) { w.crowd(true) }

func (w *world) crowd(fair bool) {
	held, err := w.clients[0].Acquire(w.t.Context(), "job", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	var (
		released time.Time
		next     []*lease.Guard
		noRoom   int
		all      sync.WaitGroup
	)
	wait := func(c *lease.Client) (*lease.Guard, error) {
		if !fair {
			return c.Acquire(ctx, "job", nil)
		}
		s, err := c.OpenSession(ctx)
		if err != nil {
			return nil, err
		}
		return s.Acquire(ctx, "job", &lease.LockOptions{Fair: true})
	}
	for _, c := range w.clients[1:] {
		all.Go(func() {
			g, err := wait(c)
			w.mu.Lock()
			switch {
			case errors.Is(err, lease.ErrFull):
				noRoom++
			case err == nil:
				next, w.r.took = append(next, g), append(w.r.took, time.Since(released))
				released = time.Now()
			}
			w.mu.Unlock()
			switch {
			case err == nil && fair:
				w.failed(g.Release(w.t.Context()))
			case errors.Is(err, lease.ErrFull):
				w.failed(c.Close(w.t.Context()))
			case ctx.Err() == nil:
				w.failed(err)
			}
		})
	}
	w.r.start, w.r.window = w.during(time.Minute), time.Minute
	time.Sleep(3 * time.Minute)
	w.r.steady = w.during(w.r.window)
	w.mu.Lock()
	released = time.Now()
	w.mu.Unlock()
	before := w.srv.sent()
	w.failed(held.Release(w.t.Context())) // it fails if the lease was lost
	time.Sleep(time.Minute)
	after := w.srv.sent().minus(before)
	cancel()
	all.Wait()
	w.r.notes = fmt.Sprintf("in the minute after the release: %d grants, %d requests, %d refused; %d programs had no room", len(next), after.reads+after.writes, after.refused, noRoom)
	for _, g := range next {
		if !fair && g.Err() != nil {
			w.r.lost++
		}
	}
}

// cronTick: all programs begin at the same instant to run one job of a period. The job takes 5 s.
func cronTick(w *world) {
	var ran atomic.Int32
	w.each(w.clients, func(_ int, c *lease.Client) {
		result, err := c.Once(w.t.Context(), "report", lease.Every(24*time.Hour), func(ctx context.Context, _ *lease.Guard) error {
			time.Sleep(5 * time.Second)
			return ctx.Err()
		}, nil)
		w.failed(err)
		if result.Ran {
			ran.Add(1)
		}
	})
	if n := ran.Load(); n != 1 {
		w.failed(fmt.Errorf("the job ran %d times", n))
	}
}

const (
	waitCase  = "all wait for one lock"
	queueCase = "a fair queue"
)

// cases are what the programs do.
var cases = []struct {
	name string
	run  func(w *world)
}{
	{"each holds a lock", ownLocks},
	{"a hundred locks in each session", sessions},
	{waitCase, oneLock},
	{queueCase, fairQueue},
	{"all begin one job of a period", cronTick},
}

// size returns how many of n programs a case has, and the factor of the limits. It returns no programs for a
// queue where the server takes one write of a key in a second: such a queue has no use.
func size(k kind, name string, n int) (programs int, factor float64) {
	switch {
	case name != queueCase:
		return n, float64(n) / full
	case k.perKey > 0:
		return 0, 1
	}
	return min(n, lease.MaxMembers+100), 1 // the record does not become shorter by that factor
}

// run runs a case with n programs on a new server, whose limits are lower by a factor.
func run(t *testing.T, k kind, n int, factor float64, f func(w *world)) (r result) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{kind: k, factor: factor, rows: map[string]engine.Stored{}, buckets: map[string]*bucket{}}
		w := &world{t: t, srv: srv, st: srv.store()}
		for range n {
			c, err := lease.New(w.st, k.client)
			if err != nil {
				t.Fatal(err)
			}
			w.clients = append(w.clients, c)
		}
		f(w)
		r = w.r
		w.each(w.clients, func(_ int, c *lease.Client) { _ = c.Close(context.Background()) })
	})
	return r
}

// last returns the longest of the times.
func last(took []time.Duration) time.Duration {
	return slices.Max(append(took, 0)).Round(10 * time.Millisecond)
}

// TestTableOfCosts prints what the cases cost.
func TestTableOfCosts(t *testing.T) {
	if !*table {
		return
	}
	fmt.Println("| store | programs | case | at first: writes, reads, refused | later, in a second: writes, reads, refused | the last one after | leases lost | dollars in 30 days | |")
	for _, k := range kinds {
		for _, c := range cases {
			n, factor := size(k, c.name, *programs)
			if n == 0 {
				continue
			}
			r := run(t, k, n, factor, c.run)
			if err := errors.Join(r.errs...); err != nil {
				t.Errorf("%s, %s: %v", k.name, c.name, err)
			}
			price, later := fmt.Sprintf("%.3f each time", k.dollars(r.start)), ""
			if s := r.window.Seconds(); s > 0 {
				price = fmt.Sprintf("%.0f", 30*24*3600/s*k.dollars(r.steady))
				later = fmt.Sprintf("%.0f, %.0f, %.0f", float64(r.steady.writes)/s, float64(r.steady.reads)/s, float64(r.steady.refused)/s)
			}
			fmt.Printf("| %s | %d | %s | %d, %d, %d | %s | %v | %d | %s | %s |\n", k.name, n, c.name,
				r.start.writes, r.start.reads, r.start.refused, later, last(r.took), r.lost, price, r.notes)
		}
	}
}

// oneLimit is a server that counts reads and writes together, and refuses both: the waiters could keep a
// holder from its renewals. It refuses about half of all requests. So one release in a hundred is not answered within
// the default of 5 s: the lease then expires, which is no loss, but the test demands that each release succeeds.
var oneLimit = kind{
	client: &lease.Options{Tuning: lease.Tuning{ReleaseTimeout: 20 * time.Second}},
	name:   "one limit", reads: 3000, writes: 3000, partition: whole, shared: true, latency: 10 * time.Millisecond,
	options: engine.Options{ReadTries: engine.DefaultTries},
}

// refusals is how many requests a server refuses at most in the first minute of TestNoLeaseIsLost. Ten
// thousand waiters read more often than a partition of DynamoDB answers.
func refusals(k kind) int {
	switch {
	case k.waits:
		return 0
	case k.reads < full/3:
		return 100 * quick
	}
	return 25 * quick
}

// TestNoLeaseIsLost: no holder loses its lease because a server refuses the requests of many programs, and
// the programs repeat few of the refused requests.
func TestNoLeaseIsLost(t *testing.T) {
	for _, k := range append(slices.Clone(kinds), oneLimit) {
		for _, c := range cases {
			n, factor := size(k, c.name, quick)
			if c.name == queueCase {
				n /= 4
			}
			if n == 0 || k.shared && c.name != waitCase {
				continue
			}
			t.Run(k.name+", "+c.name, func(t *testing.T) {
				r := run(t, k, n, factor, c.run)
				t.Logf("at first %+v, later %+v in %v; the last one after %v; %s", r.start, r.steady, r.window, last(r.took), r.notes)
				if r.lost > 0 || len(r.errs) > 0 {
					t.Errorf("%d leases were lost; errors of programs: %v", r.lost, errors.Join(r.errs...))
				}
				if r.start.refused > refusals(k) {
					t.Errorf("%d requests were refused; want at most %d", r.start.refused, refusals(k))
				}
				if len(r.took) == 0 || last(r.took) > time.Minute {
					t.Errorf("%d programs got what they wanted, the last one after %v; want at most a minute", len(r.took), last(r.took))
				}
			})
		}
	}
}

// TestWithoutBackOff is the control: waiters that read again 50 ms after each answer have more refused
// reads. On a server with one limit, the holder loses its lease, in most runs within a minute.
func TestWithoutBackOff(t *testing.T) {
	for _, k := range []kind{kinds[0], oneLimit} {
		r := run(t, k, quick, float64(quick)/full, func(w *world) {
			held, err := w.clients[0].Acquire(w.t.Context(), "job", nil)
			if err != nil {
				w.t.Fatal(err)
			}
			w.each(w.clients[1:], func(int, *lease.Client) {
				began, took := time.Now(), time.Duration(0)
				for ; took < time.Minute || k.shared && held.Err() == nil && took < 10*time.Minute; took = time.Since(began) {
					time.Sleep(50 * time.Millisecond)
					_, _ = w.srv.Read(w.t.Context(), "lock/job", "")
				}
			})
			if held.Err() != nil {
				w.r.lost++
			}
		})
		if r.start.refused <= refusals(k) || k.shared && r.lost == 0 {
			t.Errorf("%s: %d leases were lost, and %d requests were refused; want more than %d", k.name, r.lost, r.start.refused, refusals(k))
		}
	}
}
