package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// mode is how a lock is wanted.
type mode int

const (
	exclusive mode = iota
	fair
	shared
	slots
	linger
	once // as exclusive, of a lock that the member takes only once
)

// semaphore is how many hold a lock at once in the mode slots.
const semaphore = 10

var errAbsent = errors.New("this system has no such lock")

// member is one program that coordinates with others.
type member interface {
	lock(ctx context.Context, name string, mode mode) (lock, error)
	leave() error
}

// lock is a lock that is held. It is what the library itself gives out: with closures of this program
// around 10,000 locks, their memory would count as the library's.
type lock interface {
	Release(ctx context.Context) error
}

// unlock is the lock of a library that gives out only a function.
type unlock func() error

func (u unlock) Release(context.Context) error { return u() }

// The systems that are compared.
const (
	systemPlain   = "holdfast, plain leases"
	systemSession = "holdfast, a session"
	systemEtcd    = "etcd, concurrency"
	systemZoo     = "ZooKeeper"
)

// place is where the members of a system meet.
type place struct {
	System string
	Where  string // a directory, or the address of the server
	Under  string // what the names of the locks begin with on a server that all places share
	TTL    time.Duration

	// Presence lets members know at once that another process of the machine has ended, as
	// on one host. Without it they are as on several.
	Presence bool

	store           store.Store   // where the members meet, if it is no directory
	requests, beats *atomic.Int64 // all, and those that only keep what is held
}

func (p *place) count() { p.requests, p.beats = &atomic.Int64{}, &atomic.Int64{} }

// wanted is how many requests did more than keep what is held.
func (p *place) wanted() int64 { return p.requests.Load() - p.beats.Load() }

// join makes another member.
func (p *place) join(ctx context.Context) (member, error) {
	switch p.System {
	case systemEtcd:
		return joinEtcd(ctx, p.Where, p.Under, p.TTL, p.requests, p.beats)
	case systemZoo:
		return joinZoo(ctx, p.Where, p.Under, p.TTL, p.requests, p.beats)
	}
	st := p.store
	if st == nil {
		var err error
		if st, err = filestore.Open(p.Where, nil); err != nil {
			return nil, err
		}
	}
	st = store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		switch op.Kind {
		case store.OpPutUnsynced: // what only has to survive the program: a renewal
			p.beats.Add(1)
			p.requests.Add(1)
		case store.OpWatch:
		default:
			p.requests.Add(1)
		}
		return next(ctx, op)
	})
	c, err := lease.New(st, &lease.Options{TTL: p.TTL, NoPresence: !p.Presence})
	if err != nil {
		return nil, err
	}
	m := &leaseMember{c: c, handles: map[string]*lease.Handle{}}
	if p.System == systemSession {
		if m.s, err = c.OpenSession(ctx); err != nil {
			_ = c.Close(ctx)
			return nil, err
		}
	}
	return m, nil
}

// joinAll makes n members, which leave together. If one cannot join, the others have left.
func (p *place) joinAll(ctx context.Context, n int) (all []member, leave func(), err error) {
	leave = func() {
		for _, m := range all {
			_ = m.leave()
		}
	}
	for range n {
		m, err := p.join(ctx)
		if err != nil {
			leave()
			return nil, nil, err
		}
		all = append(all, m)
	}
	return all, leave, nil
}

// leaseMember is a program that coordinates by leases, under a session if it has one.
type leaseMember struct {
	c *lease.Client
	s *lease.Session

	mu      sync.Mutex
	handles map[string]*lease.Handle // of the locks that are taken again and again
}

func (m *leaseMember) lock(ctx context.Context, name string, mode mode) (lock, error) {
	acquire := m.c.Acquire
	if m.s != nil {
		acquire = m.s.Acquire
	}
	if mode != once {
		h, err := m.handle(name, mode)
		if err != nil {
			return nil, err
		}
		acquire = func(ctx context.Context, _ string, _ *lease.LockOptions) (*lease.Guard, error) { return h.Acquire(ctx) }
	}
	g, err := acquire(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (m *leaseMember) handle(name string, mode mode) (*lease.Handle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.handles[name]; h != nil {
		return h, nil
	}
	o := &lease.LockOptions{Fair: mode == fair, Shared: mode == shared}
	switch {
	case mode == slots:
		o.Slots = semaphore
	case mode == linger:
		o.Linger = time.Minute
	}
	with := m.c.Handle
	if m.s != nil {
		with = m.s.Handle
	} else if mode != exclusive && mode != linger {
		return nil, errAbsent
	}
	h, err := with(name, o)
	if err != nil {
		return nil, err
	}
	m.handles[name] = h
	return h, err
}

func (m *leaseMember) leave() error { return m.c.Close(context.Background()) }

// errand is what a member does that is a process of its own.
type errand struct {
	Place place

	// Locks is how many locks it takes: those with the numbers below, in parallel.
	Locks int

	// Window is how long it measures the cost of holding the locks. 0: it reports when it
	// got each lock.
	Window time.Duration
}

// holding is what holding locks costs.
type holding struct {
	Took     time.Duration // to acquire all
	Memory   int64         // live objects and stacks, more than before
	Resident int64         // of the process, more than before
	Before   int64         // resident before the first lock
	CPU      time.Duration // in the window
	Beats    int64         // in the window
	Requests int64         // to acquire all
}

// taken is when locks were taken, by the clock that all processes of the machine share.
type taken struct {
	At       []int64
	Requests int64 // from a line on its input on until all were taken
}

func lockName(i int) string { return fmt.Sprint("lock-", i) }

// run does the errand and prints the result; then it waits until its input ends.
func (e *errand) run(in io.Reader, out io.Writer) error {
	ctx := context.Background()
	lines := bufio.NewReader(in)
	e.Place.count()
	m, err := e.Place.join(ctx)
	if err != nil {
		return err
	}
	var result any
	kept := make([]lock, e.Locks)
	if e.Window > 0 {
		result, err = e.hold(ctx, m, kept)
	} else {
		result, err = e.wait(ctx, m, kept, lines)
	}
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(result); err != nil {
		return err
	}
	err = untilEnd(lines)
	runtime.KeepAlive(kept)
	return err
}

func (e *errand) hold(ctx context.Context, m member, kept []lock) (*holding, error) {
	var h holding
	memory := func() (int64, int64) {
		runtime.GC()
		debug.FreeOSMemory()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc + s.StackInuse), rss()
	}
	inUse, resident := memory()
	requests := e.Place.requests.Load()
	var err error
	const parallel = 16
	h.Took, err = together(parallel, func(p int) (err error) {
		for i := p; i < e.Locks && err == nil; i += parallel {
			kept[i], err = m.lock(ctx, lockName(i), once)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	h.Requests = e.Place.requests.Load() - requests
	time.Sleep(e.Place.TTL / 3) // until everything is at rest
	now, nowResident := memory()
	h.Memory, h.Resident, h.Before = now-inUse, nowResident-resident, resident
	beats, cpu := e.Place.beats.Load(), processorTime()
	time.Sleep(e.Window)
	h.Beats, h.CPU = e.Place.beats.Load()-beats, processorTime()-cpu
	return &h, nil
}

func (e *errand) wait(ctx context.Context, m member, kept []lock, lines *bufio.Reader) (*taken, error) {
	t := &taken{At: make([]int64, e.Locks)}
	errs := make([]error, e.Locks)
	var all sync.WaitGroup
	for i := range e.Locks {
		all.Go(func() {
			kept[i], errs[i] = m.lock(ctx, lockName(i), once)
			t.At[i] = monotonic()
		})
	}
	if _, err := lines.ReadString('\n'); err != nil {
		return nil, err
	}
	before := e.Place.wanted()
	all.Wait()
	t.Requests = e.Place.wanted() - before
	return t, errors.Join(errs...)
}

func (e errand) start() (*process, error) { return startProcess("-errand", e) }
