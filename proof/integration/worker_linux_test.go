package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// job is what a worker does: take the lock, hold it for a while, release it, for
// ever, until it is killed.
type job struct {
	Target target
	TTL    time.Duration
	Margin time.Duration
	Grace  time.Duration
	Seed   uint64

	// Sessions makes the worker take the lock under sessions, and now and then without one.
	Sessions bool
}

const (
	tortureLock    = "torture"
	tortureCounter = "counter"
)

// event is one line that a worker writes.
type event struct {
	Kind  string // held, believed, lost, released, counted, maybe, fenced, session, ended, error, violation
	At    int64  // CLOCK_MONOTONIC in nanoseconds, the same for all processes of the machine
	Token uint64
	N     int // the counter's value that this worker wrote
	Text  string
}

// counter is what the lock protects: a register that refuses a token below the
// highest that it has seen.
type counter struct {
	Token uint64
	N     int
}

var errFenced = errors.New("fenced")

// now reads the monotonic clock of the machine.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// worker is one process of the torture.
type worker struct {
	job
	mu  sync.Mutex // one event a line
	rnd *rand.Rand
	st  store.Store
}

// work runs a worker. It does not return.
func work(config string) {
	var w worker
	if err := json.Unmarshal([]byte(config), &w.job); err != nil {
		w.report(event{Kind: "error", Text: err.Error()})
		os.Exit(1)
	}
	w.rnd = rand.New(rand.NewPCG(w.Seed, 0))
	if err := w.run(context.Background()); err != nil {
		w.report(event{Kind: "error", Text: err.Error()})
	}
	os.Exit(1)
}

// report writes an event at once, so that it survives a kill.
func (w *worker) report(e event) {
	if e.At == 0 {
		e.At = now()
	}
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(1) // the parent no longer exists
	}
}

func (w *worker) run(ctx context.Context) error {
	st, err := w.Target.open(ctx)
	if err != nil {
		return err
	}
	w.st = st
	client, err := lease.New(st, &lease.Options{
		TTL:   w.TTL,
		Grace: w.Grace,
		OnEvent: func(e lease.Event) {
			if e.Kind == lease.EventLost {
				w.report(event{Kind: "lost", Token: e.Token, Text: fmt.Sprint(e.Err)})
			}
		},
		Tuning: lease.Tuning{Margin: w.Margin, MinPoll: 10 * time.Millisecond, MaxPoll: 300 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	claims := claims{client: client}
	for {
		if claims.handle == nil || w.rnd.IntN(2) == 0 { // a handle that knows nothing, or the one that remembers
			if err := claims.renew(ctx, w); err != nil {
				return err
			}
		}
		guard, err := claims.handle.Acquire(ctx)
		if err != nil {
			if errors.Is(err, lease.ErrLost) {
				w.report(event{Kind: "ended", Text: "the session: " + err.Error()})
				claims.handle = nil
			} else {
				w.report(event{Kind: "error", Text: "acquire: " + err.Error()})
			}
			time.Sleep(w.TTL / 10)
			continue
		}
		// A process that was stopped since, past its lease, has no belief to tell of.
		if at := now(); guard.Err() == nil {
			w.report(event{Kind: "held", At: at, Token: guard.Token()})
		}
		w.hold(ctx, guard)
		err = guard.Release(ctx)
		w.report(event{Kind: "released", Token: guard.Token(), Text: fmt.Sprint(err)})
		time.Sleep(time.Duration(w.rnd.IntN(20)) * time.Millisecond)
	}
}

// claims is what a worker takes the lock through.
type claims struct {
	client  *lease.Client
	session *lease.Session
	handle  *lease.Handle
}

// renew makes a new handle: of the client or, where the job wants that, of a session, which is
// the last one, or a new one.
func (c *claims) renew(ctx context.Context, w *worker) (err error) {
	if !w.Sessions || w.rnd.IntN(5) == 0 {
		c.handle, err = c.client.Handle(tortureLock, nil)
		return err
	}
	if c.session != nil && (c.session.Err() != nil || w.rnd.IntN(4) == 0) {
		_ = c.session.Close(ctx) // it may be lost
		c.session = nil
	}
	if c.session == nil {
		if c.session, err = c.client.OpenSession(ctx); err != nil {
			return err
		}
		w.report(event{Kind: "session", Text: c.session.ID()})
	}
	c.handle, err = c.session.Handle(tortureLock, nil)
	return err
}

// hold believes in a lease for a while, and says at every look that it does.
func (w *worker) hold(ctx context.Context, guard *lease.Guard) {
	until := time.Now().Add(time.Duration(w.rnd.Int64N(int64(w.TTL / 4))))
	if w.rnd.IntN(4) == 0 {
		until = until.Add(w.TTL) // needs renewals
	}
	for time.Now().Before(until) {
		// Belief that is found after this instant existed at it, too: nothing that
		// was over begins again.
		at := now()
		if guard.Err() != nil {
			break
		}
		w.report(event{Kind: "believed", At: at, Token: guard.Token()})
		if w.rnd.IntN(10) == 0 {
			w.count(ctx, guard)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if w.rnd.IntN(3) == 0 {
		// A last write without a look: a worker that was stopped before it writes with a
		// stale token, and must be refused.
		w.count(ctx, guard)
	}
}

// count raises the protected counter by one, with the token of the guard.
func (w *worker) count(ctx context.Context, guard *lease.Guard) {
	ctx, cancel := context.WithTimeout(ctx, w.TTL)
	defer cancel()
	token := guard.Token()
	var next counter
	_, err := store.Update(ctx, w.st, tortureCounter, func(value []byte) ([]byte, error) {
		next = counter{}
		if value != nil {
			if err := json.Unmarshal(value, &next); err != nil {
				return nil, err
			}
		}
		if next.Token > token {
			return nil, errFenced
		}
		next.Token, next.N = token, next.N+1
		return json.Marshal(next)
	})
	switch {
	case err == nil:
		w.report(event{Kind: "counted", Token: token, N: next.N})
	case errors.Is(err, errFenced):
		// A worker with a higher token wrote before this look.
		if guard.Err() == nil {
			w.report(event{Kind: "violation", Token: token, Text: fmt.Sprintf("believes in token %d, the counter has %d", token, next.Token)})
		}
		w.report(event{Kind: "fenced", Token: token})
	case store.OutcomeOf(err) == store.Unknown:
		w.report(event{Kind: "maybe", Token: token, N: next.N, Text: err.Error()})
	}
}
