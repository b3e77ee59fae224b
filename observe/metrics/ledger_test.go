package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/metrics"
	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// ledger counts what really happens: writes as the store below all faults applies them, and results
// as callers get them. It uses no event.
type ledger struct {
	mu        sync.Mutex
	records   map[string]lease.Record    // by lock
	takeovers map[string]map[uint64]bool // the tokens of grants that ended an unreleased grant, by lock
}

func newLedger() *ledger {
	return &ledger{records: map[string]lease.Record{}, takeovers: map[string]map[uint64]bool{}}
}

// under returns the store that all clients share. The ledger sees the writes that it applies.
func (l *ledger) under(inner store.Store) store.Store {
	return store.Intercept(inner, func(ctx context.Context, op *store.Op, next store.Handler) error {
		name, isLock := strings.CutPrefix(op.Key, "lock/")
		if !op.Kind.Write() || !isLock {
			return next(ctx, op)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if err := next(ctx, op); err != nil {
			return err
		}
		rec, err := lockrec.Decode("", name, op.Value)
		if err != nil {
			return err
		}
		was := l.records[name]
		if rec.State == lease.Held && rec.Grant != was.Grant && (was.State == lease.Held || was.State == lease.Broken) {
			if l.takeovers[name] == nil {
				l.takeovers[name] = map[uint64]bool{}
			}
			l.takeovers[name][rec.Token] = true
		}
		l.records[name] = *rec
		return nil
	})
}

// tookOver reports whether the grant with that token ended a grant that was not released.
func (l *ledger) tookOver(name string, token uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takeovers[name][token]
}

// program is one client with metrics, over a network with faults. It counts what its calls return.
type program struct {
	l      *ledger
	m      *metrics.Metrics
	net    *faultstore.Store
	client *lease.Client

	mu   sync.Mutex
	down chan struct{} // while requests hang: closed when they do no longer
	dead bool          // they hang for good
	want map[string]float64
}

func (l *ledger) start(t *testing.T, st store.Store, seed uint64) *program {
	p := &program{l: l, m: metrics.New(&metrics.Options{Label: metrics.ByName}), want: map[string]float64{}}
	p.net = faultstore.New(st, faultstore.Random(seed))
	hang := store.Intercept(p.net, func(ctx context.Context, op *store.Op, next store.Handler) error {
		p.mu.Lock()
		down := p.down
		p.mu.Unlock()
		if down != nil {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-down:
			}
		}
		return next(ctx, op)
	})
	counted := store.Intercept(p.m.Store(hang), func(ctx context.Context, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		p.count(resultOf(ctx, op.Kind, err), 1)
		return err
	})
	c, err := lease.New(counted, &lease.Options{
		TTL: 10 * time.Second, OnEvent: p.m.OnEvent, StoreTimeout: 20 * time.Second, NoPresence: true,
		Tuning: lease.Tuning{MinPoll: 20 * time.Millisecond, MaxPoll: 500 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.client = c
	return p
}

// resultOf is the series of a call of the store, as the documentation states it.
func resultOf(ctx context.Context, kind store.Kind, err error) string {
	outcome := "failed"
	switch {
	case kind == store.OpWatch && ctx.Err() != nil:
		outcome = "cancelled"
	case err == nil:
		outcome = "ok"
	case kind.Write() && store.OutcomeOf(err) == store.Unknown:
		outcome = "unknown"
	case errors.Is(err, store.ErrConflict):
		outcome = "conflict"
	case errors.Is(err, store.ErrNotFound):
		outcome = "not_found"
	case errors.Is(err, context.Canceled):
		outcome = "cancelled"
	}
	return fmt.Sprintf(`holdfast_requests_total{operation=%q,outcome=%q}`, kind, outcome)
}

func (p *program) count(series string, by float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want[series] += by
}

// work takes one lock once.
func (p *program) work(t *testing.T, name string, rnd *rand.Rand) {
	label := func(metric string) string { return fmt.Sprintf("%s{lock=%q}", metric, name) }
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rnd.IntN(45))*time.Second)
	defer cancel()
	var g *lease.Guard
	var err error
	if rnd.IntN(3) == 0 {
		g, err = p.client.TryAcquire(ctx, name, nil)
	} else {
		g, err = p.client.Acquire(ctx, name, nil)
	}
	switch {
	case errors.Is(err, lease.ErrUnresponsive) || err != nil && !errors.Is(err, lease.ErrHeld):
		p.count("failed "+name, 1)
		return
	case err != nil:
		p.count(label("holdfast_busy_total"), 1)
		return
	}
	p.count(label("holdfast_acquired_total"), 1)
	if p.l.tookOver(name, g.Token()) {
		p.count("takeovers "+name, 1)
	}
	work := time.Duration(rnd.IntN(15000)) * time.Millisecond
	switch rnd.IntN(10) {
	case 0: // to the others it dies
		p.hang(true, 0)
		<-g.Context().Done()
	case 1: // its network is cut for a time, often until it has lost the lease
		p.hang(false, 2*work)
	case 2: // and here it cannot release the lock
		p.hang(false, 30*time.Second)
		work = 0
	case 3:
		_, _ = p.client.Break(ctx, name, g.Token(), nil) // may fail
	}
	select {
	case <-g.Context().Done():
	case <-time.After(work):
	}
	err = g.Release(context.WithoutCancel(ctx))
	switch lost := g.Err(); {
	case errors.Is(lost, lease.ErrLost):
		p.count("lost "+name, 1)
	case err == nil:
		p.count(fmt.Sprintf(`holdfast_released_total{lock=%q,result="ok"}`, name), 1)
	default:
		p.count(fmt.Sprintf(`holdfast_released_total{lock=%q,result="unconfirmed"}`, name), 1)
	}
}

// hang makes all requests of the program hang, for good or for a time.
func (p *program) hang(forGood bool, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = p.dead || forGood
	if p.down == nil {
		down := make(chan struct{})
		p.down = down
		time.AfterFunc(d, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.dead {
				close(down)
				p.down = nil
			}
		})
	}
}

// TestLedger compares the metrics of programs that lose replies, die, and take over each other's
// locks, with a ledger of what they did. At the end of each life they must agree exactly.
func TestLedger(t *testing.T) {
	total := map[string]float64{}
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			l := newLedger()
			mem := memstore.New()
			shared := l.under(mem)
			var all []*program
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, uint64(i)))
					for life := range 3 {
						p := l.start(t, shared, seed<<8|uint64(i)<<4|uint64(life))
						var workers sync.WaitGroup
						for range 2 {
							r := rand.New(rand.NewPCG(rnd.Uint64(), 1))
							workers.Go(func() {
								for range 12 {
									p.mu.Lock()
									dead := p.dead
									p.mu.Unlock()
									if dead {
										return
									}
									p.work(t, fmt.Sprintf("job-%d", r.IntN(2)), r)
								}
							})
						}
						workers.Wait()
						l.mu.Lock()
						all = append(all, p)
						l.mu.Unlock()
					}
				})
			}
			wg.Wait()
			for _, p := range all {
				time.Sleep(time.Minute)
				if err := p.client.FlushEvents(t.Context()); err != nil {
					t.Fatal(err)
				}
				p.check(t, total)
				if err := p.client.Close(context.WithoutCancel(t.Context())); err != nil && !p.dead {
					t.Error(err)
				}
				p.net.Close()
			}
		})
	}
	t.Logf("%v", total)
	for _, series := range []string{"holdfast_acquired_total", "holdfast_busy_total", "lost", "takeovers", "failed", `outcome="unknown"`, "unconfirmed"} {
		n := 0.0
		for name, v := range total {
			if strings.Contains(name, series) {
				n += v
			}
		}
		if n == 0 {
			t.Errorf("no program had %s: the test checks less than it says", series)
		}
	}
}

// check compares the metrics with what the program counted.
func (p *program) check(t *testing.T, total map[string]float64) {
	t.Helper()
	got := values(t, p.m)
	for _, gauge := range []string{"holdfast_held", "holdfast_waiting", "holdfast_sessions"} {
		if n := sum(got, gauge, ""); n != 0 {
			t.Errorf("%s = %v at the end, want 0", gauge, n)
		}
	}
	for name, n := range got {
		if strings.HasPrefix(name, promtext.ShortestLease) {
			t.Errorf("%s = %v, and nothing is held", name, n)
		}
	}
	for series, want := range p.want {
		total[series] += want
		name, lock, isSum := strings.Cut(series, " ")
		n := got[series]
		if isSum { // over all reasons
			n = sum(got, "holdfast_"+name+"_total", fmt.Sprintf("lock=%q", lock))
		}
		if n != want {
			t.Errorf("%s = %v, the ledger has %v", series, n, want)
		}
	}
	// And the other way round: nothing is counted that the ledger does not have.
	for _, name := range []string{promtext.Acquired, promtext.Busy, promtext.Released, promtext.Requests} {
		for series, n := range got {
			if strings.HasPrefix(series, name+"{") && p.want[series] != n {
				t.Errorf("%s = %v, the ledger has %v", series, n, p.want[series])
			}
		}
	}
	for _, name := range []string{"lost", "takeovers", "failed"} {
		want := 0.0
		for series, n := range p.want {
			if strings.HasPrefix(series, name+" ") {
				want += n
			}
		}
		if n := sum(got, "holdfast_"+name+"_total", ""); n != want {
			t.Errorf("holdfast_%s_total = %v, the ledger has %v", name, n, want)
		}
	}
	acquired, ended := sum(got, promtext.Acquired, ""), sum(got, promtext.Lost, "")+sum(got, promtext.Released, "")
	if acquired != ended {
		t.Errorf("%v grants began, and %v ended", acquired, ended)
	}
	if n := sum(got, promtext.HoldDuration+"_count", ""); n != acquired {
		t.Errorf("the histogram has %v grants of %v", n, acquired)
	}
	if held, n := sum(got, promtext.HeldSeconds, ""), sum(got, promtext.HoldDuration+"_sum", ""); math.Abs(held-n) > 1e-6 {
		t.Errorf("the counter has %v seconds of holding, the histogram %v", held, n)
	}
}
