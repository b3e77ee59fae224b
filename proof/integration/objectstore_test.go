package integration_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/compat/reservation"
	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// shared is a bucket on versitygw and a table on DynamoDB Local, on one address, as
// object_store wants them.
type shared struct {
	url    string
	s3     servers.S3
	dynamo servers.Dynamo
	bucket string
	table  string

	heads, writes, rows atomic.Int64 // requests through the address
}

func newShared(t *testing.T) *shared {
	t.Helper()
	s := &shared{s3: set.VersityGW(t), dynamo: set.DynamoDB(t), table: servers.Unique("reservations")}
	s.bucket = s.s3.NewBucket(t, false)
	if err := reservation.CreateTable(t.Context(), s.dynamo.Client(), s.table, nil); err != nil {
		t.Fatal(err)
	}
	parse := func(raw string) *url.URL {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	toS3, toDynamo := parse(s.s3.Endpoint), parse(s.dynamo.Endpoint)
	// The Host header stays: it is signed.
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to := toS3
		switch {
		case r.In.Header.Get("X-Amz-Target") != "":
			to = toDynamo
			s.rows.Add(1)
		case r.In.Method == http.MethodHead:
			s.heads.Add(1)
		case r.In.Method == http.MethodPut || r.In.Method == http.MethodDelete:
			s.writes.Add(1)
		}
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, r.In.Host
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// count returns the requests since the last count: checks, writes of objects and of rows.
func (s *shared) count() [3]int64 {
	return [3]int64{s.heads.Swap(0), s.writes.Swap(0), s.rows.Swap(0)}
}

// setting is what object_store and the command take.
func (s *shared) setting(timeout time.Duration) string {
	return reservation.Config{Table: s.table, Timeout: timeout}.String()
}

// result is what a program says of an operation.
type result struct {
	word string // "ok", "exists", "precondition", "notfound" or "error"
	etag string
	body string
	took time.Duration
}

// committer is a program that makes conditional writes: ours, or one with object_store.
type committer interface {
	// do carries out one operation of the program in testdata/objectstore.
	do(words ...string) result
}

// peer is a running program with object_store.
type peer struct {
	t   *testing.T
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Scanner
}

// newPeer starts a program with this release of object_store: "v0.11" or "v0.12".
func (s *shared) newPeer(t *testing.T, release, put, copying string) *peer {
	t.Helper()
	root := filepath.Join("testdata", "objectstore")
	bin := servers.CargoBinary(t, root, filepath.Join(root, release), "objectstore")
	cmd := exec.Command(bin, s.url, s.bucket, put, copying)
	cmd.Env = append(os.Environ(), s.s3.Env()...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return &peer{t: t, in: in, out: bufio.NewScanner(out)}
}

func (p *peer) do(words ...string) result {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintln(p.in, strings.Join(words, "\t")); err != nil {
		return result{word: "error", body: err.Error()}
	}
	if !p.out.Scan() {
		return result{word: "error", body: "the program has ended"}
	}
	answer := append(strings.Split(p.out.Text(), "\t"), "", "")
	ms, err := strconv.Atoi(answer[0])
	if err != nil {
		return result{word: "error", body: p.out.Text()}
	}
	r := result{word: answer[1], etag: answer[2], body: answer[3], took: time.Duration(ms) * time.Millisecond}
	if r.word == "error" {
		r.body = answer[2]
	}
	return r
}

// ours is this library, used as the program with object_store is.
type ours struct {
	t      *testing.T
	client *object.Client
}

// newOurs returns a client with a reserver of its own, as another process would have it.
// Without conditions, the reservations alone decide. A timeout of 0 means that nothing is
// reserved.
func (s *shared) newOurs(t *testing.T, timeout time.Duration, conditions bool) *ours {
	t.Helper()
	onS3, err := s3bucket.New(s.s3.At(s.url).Client(), s.bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b object.Bucket = onS3
	opts := &object.Options{}
	if !conditions {
		b = bare{b}
		opts.Abilities = make(map[object.Ability]bool)
		for _, a := range object.Abilities() {
			opts.Abilities[a] = false
		}
	}
	if timeout > 0 {
		opts.Reserver = s.reserver(t, timeout)
	}
	c, err := object.New(b, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &ours{t, c}
}

func (s *shared) reserver(t *testing.T, timeout time.Duration) *reserve.Reserver {
	t.Helper()
	table, err := reservation.New(s.dynamo.At(s.url).Client(), s.table, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := reserve.New(table, &reserve.Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bare is a bucket that knows no conditions.
type bare struct{ object.Bucket }

func (o *ours) do(words ...string) result {
	ctx, start := o.t.Context(), time.Now()
	var info object.Info
	var body []byte
	var err error
	put := func(key, text string, opts *object.WriteOptions) {
		info, err = o.client.Put(ctx, key, strings.NewReader(text), opts)
	}
	switch words[0] {
	case "get":
		var r *object.Reader
		if r, err = o.client.Get(ctx, words[1], nil); err == nil {
			info = r.Info
			body, err = io.ReadAll(r)
			err = errors.Join(err, r.Close())
		}
	case "create":
		put(words[1], words[2], &object.WriteOptions{IfAbsent: true})
	case "update":
		put(words[1], words[3], &object.WriteOptions{IfMatch: object.Version(words[2])})
	case "copy":
		info, err = o.client.Copy(ctx, words[1], words[2], &object.WriteOptions{IfAbsent: true})
	case "rename":
		_, err = o.client.Rename(ctx, words[1], words[2], &object.WriteOptions{IfAbsent: true})
	}
	r := result{word: "ok", etag: string(info.Version), body: string(body), took: time.Since(start)}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrNotFound):
		r.word = "notfound"
	case errors.Is(err, store.ErrConflict) && words[0] == "update":
		r.word = "precondition"
	case errors.Is(err, store.ErrConflict):
		r.word = "exists"
	default:
		r.word, r.body = "error", err.Error()
	}
	return r
}

// tally is the outcome of increments.
type tally struct {
	mu       sync.Mutex
	won      map[int]int // how often a number was written with success
	refused  int
	unknown  map[int]bool // numbers of writes whose outcome is not known
	longest  time.Duration
	problems []string
}

// increment increments the number in an object n times.
func (w *tally) increment(c committer, name, key string, n int) {
	for done, try := 0, 0; done < n; try++ {
		now := c.do("get", key)
		number, _, _ := strings.Cut(now.body, " ")
		value, err := strconv.Atoi(number)
		if now.word != "ok" || err != nil {
			w.problem("%s reads %+v", name, now)
			if try > 10*n {
				return
			}
			continue
		}
		r := c.do("update", key, now.etag, fmt.Sprintf("%d %s %d", value+1, name, try))
		w.mu.Lock()
		w.longest = max(w.longest, r.took)
		switch r.word {
		case "ok":
			w.won[value+1]++
			done++
		case "precondition":
			w.refused++
		default:
			w.unknown[value+1] = true
		}
		w.mu.Unlock()
		if r.word == "error" {
			w.problem("%s: %s", name, r.body)
		}
	}
}

func (w *tally) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// check compares the number with the increments that were acknowledged.
func (w *tally) check(t *testing.T, c committer, key string) (lost int) {
	t.Helper()
	r := c.do("get", key)
	number, _, _ := strings.Cut(r.body, " ")
	last, err := strconv.Atoi(number)
	if r.word != "ok" || err != nil {
		t.Fatalf("at the end: %+v", r)
	}
	won := 0
	for value, times := range w.won {
		won += times
		if times > 1 {
			t.Errorf("%d was written %d times: %d updates are lost", value, times, times-1)
			lost += times - 1
		}
	}
	for value := 1; value <= last; value++ {
		if w.won[value] == 0 && !w.unknown[value] {
			t.Errorf("%d was written by an operation that was refused", value)
		}
	}
	for _, p := range w.problems[:min(len(w.problems), 5)] {
		t.Log(p)
	}
	if won > last {
		t.Errorf("%d increments were acknowledged, the number is %d", won, last)
	}
	t.Logf("%d increments: %d acknowledged, %d refused, %d unknown; the longest took %v", last, won, w.refused, len(w.unknown), w.longest)
	return lost
}

func newTally() *tally { return &tally{won: make(map[int]int), unknown: make(map[int]bool)} }

// needsPublished leaves a test to the long campaigns: published programs are fetched, and two
// take minutes to build. make test plays their requests instead (TestReservationsOnDynamoDB)
// and checks the names that they write (largeitem.TestMateNames).
func needsPublished(t *testing.T) {
	t.Helper()
	if !torture() {
		t.Skip("it fetches published programs, and builds some for minutes: set HOLDFAST_TORTURE=1")
	}
}

// TestReservationsWithObjectStore: the published programs and ours increment one number,
// on one table and one bucket, then create, copy and rename to the same names.
func TestReservationsWithObjectStore(t *testing.T) {
	needsPublished(t)
	s := newShared(t)
	const timeout = 5 * time.Second
	setting := s.setting(timeout)
	other := &awstest.ObjectStore{Client: http.DefaultClient, Endpoint: s.url, Table: s.table}
	writers := map[string]committer{
		"object_store 0.11":       s.newPeer(t, "v0.11", setting, setting),
		"object_store 0.12":       s.newPeer(t, "v0.12", setting, setting),
		"Holdfast":                s.newOurs(t, timeout, true),
		"Holdfast, no conditions": s.newOurs(t, timeout, false),
	}
	t.Run("increments", func(t *testing.T) {
		const each, deaths = 150, 5
		w := newTally()
		if r := writers["Holdfast"].do("create", "n", "0"); r.word != "ok" {
			t.Fatalf("%+v", r)
		}
		start := time.Now()
		var all sync.WaitGroup
		for name, c := range writers {
			all.Go(func() { w.increment(c, name, "n", each) })
		}
		// Other writers die with their reservations: all wait, and one takes over.
		died := 0
		for died < deaths {
			now := writers["Holdfast"].do("get", "n")
			if _, err := other.Acquire(t.Context(), "n", now.etag, time.Second, nil); err == nil {
				died++
				time.Sleep(4 * time.Second)
			}
		}
		all.Wait()
		w.check(t, writers["Holdfast"], "n")
		t.Logf("%d rounds in %v, %d writers died", each*len(writers), time.Since(start), died)
	})
	for _, kind := range []string{"create", "copy", "rename"} {
		t.Run(kind, func(t *testing.T) {
			const rounds = 100
			wins := make(map[string]int)
			for round := range rounds {
				key := fmt.Sprintf("%s/%d", kind, round)
				results := make(map[string]result)
				var mu sync.Mutex
				var all sync.WaitGroup
				for name, c := range writers {
					source := fmt.Sprintf("%s/%d from %s", kind, round, name)
					if kind != "create" {
						if r := c.do("create", source, name); r.word != "ok" {
							t.Fatalf("%s: %+v", name, r)
						}
					}
					all.Go(func() {
						words := []string{"create", key, name}
						if kind != "create" {
							words = []string{kind, source, key}
						}
						r := c.do(words...)
						mu.Lock()
						defer mu.Unlock()
						results[name] = r
					})
				}
				all.Wait()
				var won []string
				for name, r := range results {
					switch r.word {
					case "ok":
						won = append(won, name)
					case "exists":
					default:
						t.Errorf("round %d: %s: %+v", round, name, r)
					}
				}
				at := writers["Holdfast"].do("get", key)
				if len(won) != 1 || at.body != won[0] {
					t.Fatalf("round %d: %q won, and the object is that of %q", round, won, at.body)
				}
				wins[won[0]]++
			}
			t.Logf("%d rounds: %v", rounds, wins)
		})
	}
}

// TestWaitWithObjectStore: the holder of a reservation has died. How long do the
// programs wait, and what does it cost?
func TestWaitWithObjectStore(t *testing.T) {
	needsPublished(t)
	s := newShared(t)
	const timeout = time.Second
	setting := s.setting(timeout)
	other := &awstest.ObjectStore{Client: http.DefaultClient, Endpoint: s.url, Table: s.table}
	writers := map[string]committer{
		"object_store 0.11": s.newPeer(t, "v0.11", setting, setting),
		"object_store 0.12": s.newPeer(t, "v0.12", setting, setting),
		"Holdfast":          s.newOurs(t, timeout, true),
	}
	for name, c := range writers {
		const rounds = 10
		var waits []time.Duration
		var cost [3]int64
		c.do("create", "warm/"+name, "x") // what a client does once
		for round := range rounds {
			key := fmt.Sprintf("%s/%d", name, round)
			if _, err := other.Acquire(t.Context(), reservation.Key(key), "*", timeout, nil); err != nil {
				t.Fatal(err)
			}
			s.count()
			r := c.do("create", reservation.Key(key), "x")
			for i, n := range s.count() {
				cost[i] += n
			}
			if r.word != "ok" || r.took <= 3*timeout {
				t.Errorf("%s: %+v", name, r)
			}
			waits = append(waits, r.took)
		}
		slices.Sort(waits)
		t.Logf("%s waits %v to %v, median %v, for a row of %v; a round costs %.1f checks, %.1f writes of objects and %.1f of rows", name,
			waits[0], waits[rounds-1], waits[rounds/2], timeout, float64(cost[0])/rounds, float64(cost[1])/rounds, float64(cost[2])/rounds)
		if most := 3*timeout + 2*reserve.TestInterval + 300*time.Millisecond; waits[rounds/2] > most {
			t.Errorf("%s waits %v", name, waits[rounds/2])
		}
	}
}

// TestMoveFromReservationsToConditions is the bridge for a table that is written to all
// the time. First the programs that know only reservations are replaced, one by one, by
// programs that reserve and send conditions; only then those by programs that only send
// conditions. As a control the programs of the first kind and of the last one write at
// the same time.
func TestMoveFromReservationsToConditions(t *testing.T) {
	needsPublished(t)
	s := newShared(t)
	const timeout, each = 5 * time.Second, 60
	setting := s.setting(timeout)
	start := map[string]func() committer{
		"reservations": func() committer { return s.newPeer(t, "v0.12", setting, setting) },
		"both":         func() committer { return s.newOurs(t, timeout, true) },
		"conditions":   func() committer { return s.newPeer(t, "v0.12", "etag", "multipart") },
		"our own":      func() committer { return s.newOurs(t, 0, true) },
	}
	writers := []committer{start["reservations"](), start["reservations"](), start["reservations"]()}
	phase := func(key string, kinds ...string) *tally {
		t.Helper()
		w := newTally()
		var all sync.WaitGroup
		for i, c := range writers {
			all.Go(func() { w.increment(c, fmt.Sprint(kinds, i), key, each) })
		}
		all.Wait()
		return w
	}
	t.Run("bridge", func(t *testing.T) {
		if r := writers[0].do("create", "n", "0"); r.word != "ok" {
			t.Fatalf("%+v", r)
		}
		whole := newTally()
		replace := []struct {
			place int
			kind  string
		}{{0, "both"}, {1, "both"}, {2, "both"}, {0, "conditions"}, {1, "our own"}, {2, "conditions"}}
		for step := range len(replace) + 1 {
			w := phase("n", fmt.Sprint("step ", step))
			for value, times := range w.won {
				whole.won[value] += times
			}
			for value := range w.unknown {
				whole.unknown[value] = true
			}
			whole.refused += w.refused
			whole.longest = max(whole.longest, w.longest)
			whole.problems = append(whole.problems, w.problems...)
			if step < len(replace) {
				writers[replace[step].place] = start[replace[step].kind]()
			}
		}
		whole.check(t, writers[0], "n")
	})
	t.Run("without the bridge", func(t *testing.T) {
		writers = []committer{start["reservations"](), start["conditions"](), start["our own"]()}
		if r := writers[1].do("create", "m", "0"); r.word != "ok" {
			t.Fatalf("%+v", r)
		}
		w := phase("m", "control")
		won, last := 0, 0
		for _, times := range w.won {
			won += times
		}
		number, _, _ := strings.Cut(writers[2].do("get", "m").body, " ")
		last, _ = strconv.Atoi(number)
		t.Logf("%d increments were acknowledged, the number is %d: %d are lost", won, last, won-last)
		if won == last {
			t.Error("the control lost nothing: this test would not notice a bridge that does not hold")
		}
	})
}
