package integration_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/store"
)

// Processes fight over one lock on a real server, through a proxy that does every
// kind of fault, and are killed with -9 and stopped beyond their leases. At no
// instant of the machine's monotonic clock do two of them believe that they hold
// the lock; tokens rise; no write with a stale token reaches the counter behind the
// fence; and when the faults end, every worker that is left gets the lock.
func TestLeaseTorture(t *testing.T) {
	t.Parallel()
	tortureLeases(t, 12*time.Second, 4, false)
}

// The same with leases under sessions, and some without, which exclude each other. A process
// that takes a lock over has to fence the session of the last holder first, and the faults
// meet openings, beats, fences and closings, too.
func TestSessionTorture(t *testing.T) {
	t.Parallel()
	tortureLeases(t, 10*time.Second, 3, true)
}

func tortureLeases(t *testing.T, duration time.Duration, workers int, sessions bool) {
	stores := kinds()
	if !sessions || torture() { // every write waits there, so that few sessions take long
		stores = append(stores, versioned(400*time.Millisecond)...)
	}
	if torture() {
		duration, workers = 60*time.Second, 4
	}
	eachOf(t, stores, func(t *testing.T, k kind) {
		seed := uint64(time.Now().UnixNano())
		if s := os.Getenv("HOLDFAST_SEED"); s != "" {
			fmt.Sscan(s, &seed)
		}
		t.Logf("HOLDFAST_SEED=%d", seed)
		direct := k.target(t)
		proxy := faultproxy.New(t, direct.endpoint())
		f := newFight(t, job{
			Target: direct.at(proxy.URL), TTL: k.ttl, Margin: k.ttl / 10, Grace: -1, Seed: seed, Sessions: sessions,
		})
		proxy.Inject(faultproxy.Random(seed, 0.1, nil, anyFault(k.ttl)...))
		f.fight(workers, duration)
		proxy.Heal()
		f.lastRound()
		st, err := direct.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f.check(st)
		t.Logf("%d requests, %d of them with faults", proxy.Count(nil), proxy.Count(func(c *faultproxy.Call) bool { return c.Fault != "" }))
	})
}

// fight is the workers and what they said.
type fight struct {
	t   *testing.T
	job job
	rnd *rand.Rand

	mu     sync.Mutex
	events [][]event // of each process that ever ran, in its order
	wg     sync.WaitGroup
	alive  []*fighter
	stops  int
	kills  int
}

// fighter is one running worker.
type fighter struct {
	cmd    *exec.Cmd
	number int // in fight.events
}

func newFight(t *testing.T, j job) *fight {
	f := &fight{t: t, job: j, rnd: rand.New(rand.NewPCG(j.Seed, 1))}
	t.Cleanup(func() {
		for _, w := range f.alive {
			_ = w.cmd.Process.Kill() // it may have ended
			_ = w.cmd.Wait()
		}
		f.wg.Wait()
	})
	return f
}

// start runs one more worker.
func (f *fight) start() *fighter {
	f.t.Helper()
	f.mu.Lock()
	number := len(f.events)
	f.events = append(f.events, nil)
	f.mu.Unlock()
	j := f.job
	j.Seed = f.rnd.Uint64()
	config, err := json.Marshal(j)
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVar+"="+string(config))
	cmd.Stderr = os.Stderr
	out, w, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	w.Close()
	f.wg.Go(func() { f.read(number, out) })
	return &fighter{cmd, number}
}

// read collects what a worker says until it ends.
func (f *fight) read(number int, out io.ReadCloser) {
	defer out.Close()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // a line that a kill has cut
		}
		f.mu.Lock()
		f.events[number] = append(f.events[number], e)
		f.mu.Unlock()
	}
}

// fight lets so many workers fight for a time, killing and stopping them.
func (f *fight) fight(workers int, d time.Duration) {
	for range workers {
		f.alive = append(f.alive, f.start())
	}
	// On a machine under load it takes longer until there was a fight.
	end := time.Now().Add(d)
	for patience := end.Add(4 * time.Minute); time.Now().Before(end) || f.grants() < leastGrants && time.Now().Before(patience); {
		time.Sleep(time.Duration(f.rnd.Int64N(int64(f.job.TTL))))
		i := f.rnd.IntN(len(f.alive))
		w := f.alive[i]
		if f.rnd.IntN(3) == 0 {
			f.kills++
			_ = w.cmd.Process.Kill()
			_ = w.cmd.Wait() // killed
			f.alive[i] = f.start()
			continue
		}
		// Stopped for up to one and a half TTL, while the others continue.
		f.stops++
		stop := time.Duration(f.rnd.Int64N(int64(f.job.TTL * 3 / 2)))
		_ = w.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(stop)
		_ = w.cmd.Process.Signal(syscall.SIGCONT)
	}
}

// leastGrants is how many there must be for a fight to deserve the name.
const leastGrants = 10

// grants counts the grants so far.
func (f *fight) grants() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, events := range f.events {
		for _, e := range events {
			if e.Kind == "held" {
				n++
			}
		}
	}
	return n
}

// lastRound lets every worker take the lock once more, one after the other: the
// holder is killed, so that the next worker has to take the lock over.
func (f *fight) lastRound() {
	f.t.Helper()
	for len(f.alive) > 0 {
		since := now()
		i := f.holder(since, time.Now().Add(5*f.job.TTL+20*time.Second))
		if i < 0 {
			f.t.Errorf("none of %d workers got the lock after the faults had ended", len(f.alive))
			i = 0
		}
		_ = f.alive[i].cmd.Process.Kill()
		_ = f.alive[i].cmd.Wait() // killed
		f.alive = slices.Delete(f.alive, i, i+1)
	}
	f.wg.Wait()
}

// holder waits for a worker that believes in a lease after since, and returns its
// place in f.alive; -1 if there is none until the deadline.
func (f *fight) holder(since int64, deadline time.Time) int {
	for time.Now().Before(deadline) {
		f.mu.Lock()
		i := slices.IndexFunc(f.alive, func(w *fighter) bool {
			return slices.ContainsFunc(f.events[w.number], func(e event) bool {
				return e.At > since && (e.Kind == "held" || e.Kind == "believed")
			})
		})
		f.mu.Unlock()
		if i >= 0 {
			return i
		}
		time.Sleep(10 * time.Millisecond)
	}
	return -1
}

// belief is a time for which a worker certainly believed.
type belief struct {
	worker     int
	token      uint64
	begin, end int64
}

// check reports whether what the workers said can be.
func (f *fight) check(st store.Store) {
	f.t.Helper()
	var beliefs []belief
	var counted []event
	kinds, errs := map[string]int{}, map[string]int{}
	maybe := 0
	for n, events := range f.events {
		for _, e := range events {
			kinds[e.Kind]++
			switch e.Kind {
			case "held":
				beliefs = append(beliefs, belief{n, e.Token, e.At, e.At})
			case "believed":
				beliefs[len(beliefs)-1].end = e.At
			case "counted":
				counted = append(counted, e)
			case "maybe":
				maybe++
			case "violation":
				f.t.Errorf("worker %d: %s", n, e.Text)
			case "error":
				errs[e.Text]++
			}
		}
	}
	for text, n := range errs {
		f.t.Logf("%d times: %s", n, text)
	}
	slices.SortFunc(beliefs, func(a, b belief) int { return cmp.Compare(a.begin, b.begin) })
	for i := 1; i < len(beliefs); i++ {
		a, b := beliefs[i-1], beliefs[i]
		if b.begin <= a.end {
			f.t.Errorf("two holders: worker %d with token %d from %d to %d, worker %d with token %d from %d", a.worker, a.token, a.begin, a.end, b.worker, b.token, b.begin)
		}
		if b.token <= a.token {
			f.t.Errorf("worker %d got token %d after worker %d had %d", b.worker, b.token, a.worker, a.token)
		}
	}
	// Faults and stops make PUTs take effect later than a bucket with versions may be
	// reported. Its register promises nothing then; its leases do all the same.
	if f.job.Target.Kind != "s3versioned" {
		f.checkCounter(st, counted, maybe)
	}
	if f.job.Sessions && kinds["session"] == 0 {
		f.t.Error("no session was opened")
	}
	if len(beliefs) < leastGrants {
		f.t.Errorf("only %d grants: this was no fight", len(beliefs))
	}
	f.t.Logf("%d grants to %d processes, %d kills, %d stops, said: %v", len(beliefs), len(f.events), f.kills, f.stops, kinds)
}

// checkCounter reports whether every acknowledged increment is in the counter, each
// with a token that is not below that of the one before.
func (f *fight) checkCounter(st store.Store, counted []event, maybe int) {
	f.t.Helper()
	slices.SortFunc(counted, func(a, b event) int { return cmp.Compare(a.N, b.N) })
	for i := 1; i < len(counted); i++ {
		if a, b := counted[i-1], counted[i]; a.N == b.N || a.Token > b.Token {
			f.t.Errorf("the counter went from %d with token %d to %d with token %d", a.N, a.Token, b.N, b.Token)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	value, _, err := st.Get(ctx, tortureCounter)
	if errors.Is(err, store.ErrNotFound) && len(counted) == 0 {
		return
	}
	if err != nil {
		f.t.Errorf("read the counter: %v", err)
		return
	}
	var c counter
	if err := json.Unmarshal(value, &c); err != nil {
		f.t.Errorf("the counter is %q: %v", value, err)
		return
	}
	// A worker that was killed in the middle of a write did not get to say "maybe".
	if most := len(counted) + maybe + len(f.events); c.N < len(counted) || c.N > most {
		f.t.Errorf("the counter is %d; %d increments were acknowledged and at most %d sent", c.N, len(counted), most)
	}
}
