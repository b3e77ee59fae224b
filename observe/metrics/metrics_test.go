package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/metrics"
	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// newClient returns a client whose events and requests m counts.
func newClient(t *testing.T, st store.Store, m *metrics.Metrics, change func(*lease.Options)) *lease.Client {
	t.Helper()
	o := &lease.Options{OnEvent: m.OnEvent, NoPresence: true}
	if change != nil {
		change(o)
	}
	c, err := lease.New(m.Store(st), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// want checks values, after the client has delivered its events.
func want(t *testing.T, c *lease.Client, m *metrics.Metrics, series map[string]float64) {
	t.Helper()
	if err := c.FlushEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := values(t, m)
	for name, n := range series {
		if v, ok := got[name]; !ok || math.Abs(v-n) > 1e-3 {
			t.Errorf("%s = %v (%t), want %v", name, v, ok, n)
		}
	}
}

// must returns a function that returns the value, or fails the test with the error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// The suite of stores runs on the decorator.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return metrics.New(nil).Store(memstore.New()) }, nil)
}

// TestCancelled: a call that its caller has given up is no failure of the store. A store can return the same error by
// itself, for example after its connection was closed.
func TestCancelled(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for ctx, want := range map[context.Context]string{ended: "cancelled", t.Context(): "failed"} {
		m := metrics.New(nil)
		st := m.Store(store.Intercept(memstore.New(), func(context.Context, *store.Op, store.Handler) error { return context.Canceled }))
		if _, _, err := st.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		var text strings.Builder
		if _, err := m.WriteTo(&text); err != nil {
			t.Fatal(err)
		}
		if line := `holdfast_requests_total{operation="get",outcome="` + want + `"} 1`; !strings.Contains(text.String(), line) {
			t.Errorf("there is no line %s in:\n%s", line, text.String())
		}
	}
}

func TestGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := metrics.New(nil), metrics.New(nil)
		holder, waiter := newClient(t, st, a, nil), newClient(t, st, b, nil)
		g := must(holder.Acquire(t.Context(), "team/x", nil))(t)
		free := must(holder.Acquire(t.Context(), "y", nil))(t)
		want(t, holder, a, map[string]float64{
			`holdfast_held{lock="team/*"}`: 1, `holdfast_held{lock="*"}`: 1, `holdfast_waiting{lock="*"}`: 0,
			`holdfast_shortest_lease_seconds{lock="*"}`: 22,
		})

		// Two goroutines wait. That one of them gives up ends no wait.
		short, cancel := context.WithCancel(t.Context())
		results := make(chan error, 2)
		go func() {
			_, err := waiter.Acquire(short, "team/x", nil)
			results <- err
		}()
		synctest.Wait()
		go func() {
			g, err := waiter.Acquire(t.Context(), "team/x", nil)
			if err == nil {
				err = g.Release(t.Context())
			}
			results <- err
		}()
		synctest.Wait()
		want(t, waiter, b, map[string]float64{`holdfast_waiting{lock="team/*"}`: 1, `holdfast_waits_total{lock="team/*"}`: 1})
		time.Sleep(4 * time.Second)
		cancel()
		if err := <-results; !errors.Is(err, lease.ErrHeld) {
			t.Errorf("got %v, want that the lock is held", err)
		}
		// The other goroutine sent no event of its own.
		want(t, waiter, b, map[string]float64{`holdfast_waiting{lock="team/*"}`: 1, `holdfast_busy_total{lock="team/*"}`: 1, `holdfast_wait_seconds_total{lock="team/*"}`: 4})
		if _, err := waiter.TryAcquire(t.Context(), "team/x", nil); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("got %v", err)
		}
		want(t, waiter, b, map[string]float64{`holdfast_waiting{lock="team/*"}`: 1, `holdfast_busy_total{lock="team/*"}`: 2})

		time.Sleep(2 * time.Second) // so that the wait is longer than five seconds, however fast the hand-over is
		if err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-results; err != nil {
			t.Error(err)
		}
		want(t, waiter, b, map[string]float64{
			`holdfast_waiting{lock="team/*"}`: 0, `holdfast_held{lock="team/*"}`: 0, `holdfast_acquired_total{lock="team/*"}`: 1,
			`holdfast_acquire_duration_seconds_bucket{lock="team/*",le="5"}`:  0,
			`holdfast_acquire_duration_seconds_bucket{lock="team/*",le="10"}`: 1,
			`holdfast_acquire_duration_seconds_count{lock="team/*"}`:          1,
			`holdfast_lost_total{lock="team/*",reason="expired"}`:             0, // exists before the first loss
		})
		// A waiter that comes when all others have given up waits, too.
		again, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := waiter.Acquire(again, "y", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		want(t, waiter, b, map[string]float64{`holdfast_waiting{lock="*"}`: 0})
		want(t, holder, a, map[string]float64{`holdfast_held{lock="team/*"}`: 0, `holdfast_held{lock="*"}`: 1, `holdfast_hold_duration_seconds_sum{lock="team/*"}`: 6})
		if err := free.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Locks under a session end with it, whatever readers share their tokens.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(nil)
		c := newClient(t, memstore.New(), m, nil)
		s := must(c.OpenSession(t.Context()))(t)
		for range 2 {
			must(s.Acquire(t.Context(), "r", &lease.LockOptions{Shared: true}))(t)
		}
		g := must(s.Acquire(t.Context(), "w", nil))(t)
		time.Sleep(100 * time.Second) // the session is renewed, and no lock
		want(t, c, m, map[string]float64{`holdfast_held{lock="*"}`: 3, `holdfast_sessions`: 1, `holdfast_acquired_total{lock="*"}`: 3})
		if n := values(t, m)[`holdfast_renewal_duration_seconds_count`]; n < 8 || n > 12 {
			t.Errorf("%v renewals in 100 s, want one in 10 s", n)
		}
		if err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, c, m, map[string]float64{`holdfast_held{lock="*"}`: 2})
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, c, m, map[string]float64{`holdfast_held{lock="*"}`: 0, `holdfast_sessions`: 0})
	})
}

// What a handler of the program's own drops leaves no lease behind, and the metrics say how much they lack.
func TestDroppedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(nil)
		blocked := make(chan struct{})
		c := newClient(t, memstore.New(), m, func(o *lease.Options) {
			o.OnEvent = func(e lease.Event) {
				<-blocked
				m.OnEvent(e)
			}
		})
		var guards []*lease.Guard
		for i := range 400 {
			guards = append(guards, must(c.Acquire(t.Context(), fmt.Sprint("n", i), nil))(t))
		}
		for _, g := range guards {
			if err := g.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		dropped := float64(c.Stats().DroppedEvents) // they are all of releases
		if dropped < 280 {
			t.Errorf("%v events were dropped of 800", dropped)
		}
		close(blocked)
		want(t, c, m, map[string]float64{`holdfast_acquired_total{lock="*"}`: 400, `holdfast_held{lock="*"}`: dropped})
		// The next event has the number of the dropped events.
		last := must(c.Acquire(t.Context(), "last", nil))(t)
		want(t, c, m, map[string]float64{`holdfast_events_dropped_total`: dropped, `holdfast_held{lock="*"}`: dropped + 1})
		time.Sleep(25 * time.Second) // the deadlines of the others
		want(t, c, m, map[string]float64{`holdfast_held{lock="*"}`: 1})
		time.Sleep(2 * time.Minute)
		want(t, c, m, map[string]float64{`holdfast_held{lock="*"}`: 1, `holdfast_acquired_total{lock="*"}`: 401})
		if err := last.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A lease whose acquisition was dropped counts from its next renewal, and a wait whose end was dropped ends.
func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(nil)
		now := time.Now()
		m.OnEvent(lease.Event{Kind: lease.EventWaiting, Name: "a", Time: now})
		m.OnEvent(lease.Event{Kind: lease.EventRenewed, Name: "b", Token: 1, Time: now, Deadline: now.Add(20 * time.Second)})
		if got := values(t, m); got[`holdfast_waiting{lock="*"}`] != 1 || got[`holdfast_held{lock="*"}`] != 1 {
			t.Errorf("got %v", got)
		}
		time.Sleep(30 * time.Second) // a renewal is late, or its event was dropped
		if got := values(t, m); got[`holdfast_held{lock="*"}`] != 0 {
			t.Errorf("a lease is held after its deadline: %v", got)
		}
		now = time.Now()
		m.OnEvent(lease.Event{Kind: lease.EventRenewed, Name: "b", Token: 1, Time: now, Deadline: now.Add(20 * time.Second), Dropped: 3})
		if got := values(t, m); got[`holdfast_waiting{lock="*"}`] != 0 || got[`holdfast_held{lock="*"}`] != 1 || got["holdfast_events_dropped_total"] != 3 {
			t.Errorf("got %v", got)
		}
		m.OnEvent(lease.Event{Kind: lease.EventReleased, Name: "b", Token: 1, Time: now})
		m.OnEvent(lease.Event{Kind: lease.EventReleased, Name: "b", Token: 1, Time: now}) // twice
		if got := values(t, m); got[`holdfast_held{lock="*"}`] != 0 || got[`holdfast_hold_duration_seconds_count{lock="*"}`] != 0 {
			t.Errorf("got %v", got)
		}
	})
}

func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		dead := metrics.New(nil)
		holder := newClient(t, st, dead, func(o *lease.Options) { o.ManualRenewal = true })
		m := metrics.New(&metrics.Options{Label: metrics.ByName})
		c := newClient(t, st, m, func(o *lease.Options) { o.Holder, o.ReclaimOwn = "me", true })
		must(holder.Acquire(t.Context(), "expired", nil))(t)
		g := must(holder.Acquire(t.Context(), "broken", nil))(t)
		must(c.Break(t.Context(), "broken", g.Token(), &lease.BreakOptions{Immediate: true}))(t)
		for _, name := range []string{"expired", "broken"} {
			g := must(c.Acquire(t.Context(), name, nil))(t)
			if err := g.Release(t.Context()); err != nil {
				t.Error(err)
			}
			want(t, c, m, map[string]float64{fmt.Sprintf("holdfast_takeovers_total{lock=%q,reason=%q}", name, name): 1})
		}
		want(t, holder, dead, map[string]float64{`holdfast_lost_total{lock="*",reason="expired"}`: 2})
		run := func() error {
			_, err := c.Once(t.Context(), "daily", lease.Every(24*time.Hour), func(context.Context, *lease.Guard) error { return nil }, nil)
			return err
		}
		if err := errors.Join(run(), run()); err != nil {
			t.Log(err)
		}
		want(t, c, m, map[string]float64{`holdfast_acquired_total{lock="daily"}`: 1, `holdfast_ran_already_total{lock="daily"}`: 1})
	})
}

// Names of locks come from others: none of them may break the text.
func TestHostileNames(t *testing.T) {
	m := metrics.New(&metrics.Options{Label: metrics.ByName, Store: "s\xff\"}\n"})
	for _, name := range hostile {
		m.OnEvent(lease.Event{Kind: lease.EventWaiting, Name: name})
	}
	got := map[string]float64{}
	for series, n := range values(t, m) {
		if match := waits.FindStringSubmatch(series); match != nil {
			got[unescape.Replace(match[1])+unescape.Replace(match[2])] += n
		}
	}
	for _, name := range hostile {
		if len(name) > 256 {
			name = metrics.Other
		}
		if n := got["s\ufffd\"}\n"+name]; n != 1 {
			t.Errorf("%q was counted %v times", name, n)
		}
	}
	if len(got) != len(hostile) {
		t.Errorf("%d labels %v, want %d", len(got), got, len(hostile))
	}
}

// waits finds the labels in a line of a metric, as Prometheus reads it.
var (
	waits    = regexp.MustCompile(`^holdfast_waits_total\{store="((?:[^"\\\n]|\\["\\n])*)",lock="((?:[^"\\\n]|\\["\\n])*)"\}$`)
	unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
)

var hostile = []string{
	`a"} 1`, "b\nholdfast_held 77", `c\`, `d\"`, "e{}", "f\r\n# TYPE x counter", "g\x00", "h\u2028\u202e", `i\n`, strings.Repeat("j", 500), "k,l=\"", "é\ufffd",
}

// With 100,000 different names, the memory stays bounded, and so does the text.
func TestManyNames(t *testing.T) {
	m := metrics.New(&metrics.Options{Label: metrics.ByName, MaxLabels: 20})
	size := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := size()
	const names = 100_000
	for i := range names {
		e := lease.Event{Name: fmt.Sprintf("build/%d/%s", i, strings.Repeat("x", 100)), Token: uint64(i), Time: time.Now(), Deadline: time.Now().Add(time.Minute)}
		for _, e.Kind = range []lease.EventKind{lease.EventWaiting, lease.EventTakenOver, lease.EventAcquired, lease.EventRenewed, lease.EventLost} {
			m.OnEvent(e)
		}
	}
	if after := size(); after > before+1<<20 {
		t.Fatalf("%d names take %d bytes", names, after-before)
	}
	got := values(t, m)
	if n := got[`holdfast_acquired_total{lock="other"}`]; n != names-20 {
		t.Errorf("%v locks are others, want %d", n, names-20)
	}
	if n := sum(got, promtext.Acquired, ""); n != names {
		t.Errorf("%v grants, want %d", n, names)
	}
	if len(got) > 2500 {
		t.Errorf("%d series", len(got))
	}
}

// The output replaces bytes that are not UTF-8: locks that differ in them have one label, and count together.
func TestLabelsThatLookEqual(t *testing.T) {
	m := metrics.New(&metrics.Options{Label: func(name string) string { return name[:4] }}) // cuts a character
	for _, name := range []string{"jobä", "jobж"} {
		m.OnEvent(lease.Event{Kind: lease.EventAcquired, Name: name, Token: 1, Time: time.Now(), Deadline: time.Now().Add(time.Minute)})
	}
	got := values(t, m)
	for _, name := range []string{promtext.Acquired, promtext.Held} {
		if n := got[name+"{lock=\"job\ufffd\"}"]; n != 2 {
			t.Errorf("%s is %v, want 2", name, n)
		}
	}
}

// If the events of all ends are dropped, the leases do not stay in memory, even without a scrape.
func TestForgetsGhosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(nil)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 100_000 {
			m.OnEvent(lease.Event{Kind: lease.EventAcquired, Name: fmt.Sprint("n", i), Token: 1, Time: time.Now(), Deadline: time.Now().Add(time.Second)})
			time.Sleep(time.Second)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(m)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2<<20 {
			t.Errorf("100,000 leases that ended unseen take %d bytes", grown)
		}
	})
}

// blockedWriter does not take what is written until it is released.
type blockedWriter struct {
	began   chan struct{}
	release chan struct{}
}

func (w *blockedWriter) Write(b []byte) (int, error) {
	close(w.began)
	<-w.release
	return len(b), nil
}

// A reader of the metrics that blocks delays no lease, no request and no other reader.
func TestBlockedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(nil)
		c := newClient(t, memstore.New(), m, nil)
		w := &blockedWriter{make(chan struct{}), make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = m.WriteTo(w)
		}()
		<-w.began
		for range 100 {
			g := must(c.Acquire(t.Context(), "x", nil))(t)
			if err := g.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want(t, c, m, map[string]float64{`holdfast_acquired_total{lock="*"}`: 100})
		close(w.release)
		<-done
	})
}

// A function that a reader calls may use the metrics.
func TestSeen(t *testing.T) {
	m := metrics.New(&metrics.Options{Store: "s3://b"})
	known := false
	m.AddSeen(func() (metrics.Seen, bool) {
		m.OnEvent(lease.Event{Kind: lease.EventUnresponsive})
		return metrics.Seen{Held: 3, Waiting: 2, Unreadable: 1, Shortest: 1500 * time.Millisecond, Age: 2 * time.Second}, known
	})
	if n := sum(values(t, m), promtext.SeenHeld, ""); n != 0 {
		t.Errorf("%v locks are held, and nothing was read yet", n)
	}
	known = true
	got := values(t, m)
	for name, n := range map[string]float64{"held": 3, "waiting": 2, "unreadable": 1, "shortest_lease_seconds": 1.5, "age_seconds": 2} {
		if series := "holdfast_seen_" + name + `{store="s3://b"}`; got[series] != n {
			t.Errorf("%s = %v, want %v", series, got[series], n)
		}
	}
}

func TestHandler(t *testing.T) {
	a, b := metrics.New(&metrics.Options{Store: "a"}), metrics.New(&metrics.Options{Store: "b"})
	for _, m := range []*metrics.Metrics{a, b} {
		newClient(t, memstore.New(), m, nil)
		m.OnEvent(lease.Event{Kind: lease.EventWaiting, Name: "x"})
	}
	server := httptest.NewServer(metrics.Handler(a, b, b))
	defer server.Close()
	response := must(http.Get(server.URL))(t)
	defer response.Body.Close()
	var body strings.Builder
	if err := response.Write(&body); err != nil {
		t.Fatal(err)
	}
	text := body.String()
	for _, part := range []string{
		"\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n", "\nX-Content-Type-Options: nosniff\r\n",
		"\nholdfast_waits_total{store=\"a\",lock=\"*\"} 1\n", "\nholdfast_waits_total{store=\"b\",lock=\"*\"} 2\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the answer lacks %q:\n%s", part, text)
		}
	}
	if n := strings.Count(text, "# TYPE holdfast_waits_total counter"); n != 1 {
		t.Errorf("%d lines of type for one metric", n)
	}
	post := must(http.Post(server.URL, "text/plain", nil))(t)
	post.Body.Close()
	if post.StatusCode != http.StatusMethodNotAllowed || post.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %v", post)
	}
	head := must(http.Head(server.URL))(t)
	head.Body.Close()
	if head.StatusCode != http.StatusOK || head.ContentLength <= 0 {
		t.Errorf("HEAD: %v", head)
	}
}

// A scraper that connects and never reads keeps neither a goroutine nor the answer.
func TestScraperThatDoesNotRead(t *testing.T) {
	m := metrics.New(&metrics.Options{Label: metrics.ByName, MaxLabels: 2000})
	for i := range 2000 { // more than the buffers of a connection take
		m.OnEvent(lease.Event{Kind: lease.EventAcquired, Name: fmt.Sprint(strings.Repeat("n", 200), i), Time: time.Now(), Deadline: time.Now().Add(time.Hour)})
	}
	returned := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		m.ServeHTTP(shortDeadline{w}, r)
	}))
	defer server.Close()
	conn := must(net.Dial("tcp", server.Listener.Addr().String()))(t)
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-returned:
	case <-time.After(time.Minute):
		t.Error("the handler waits for a scraper that does not read")
	}
}

// shortDeadline makes the deadline of an answer come at once.
type shortDeadline struct{ http.ResponseWriter }

func (w shortDeadline) SetWriteDeadline(at time.Time) error {
	if d := time.Until(at); d < time.Second || d > time.Minute {
		return fmt.Errorf("the deadline comes in %v", d)
	}
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
}

func BenchmarkStore(b *testing.B) {
	ctx := b.Context()
	raw := memstore.New()
	if _, err := raw.Put(ctx, "k", "", []byte("v")); err != nil {
		b.Fatal(err)
	}
	plain := store.Intercept(raw, func(ctx context.Context, op *store.Op, next store.Handler) error { return next(ctx, op) })
	for _, c := range []struct {
		name string
		st   store.Store
	}{{"raw", raw}, {"intercepted", plain}, {"counted", metrics.New(nil).Store(raw)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := c.st.Get(ctx, "k"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestNoAllocations: counting a call of the store allocates nothing beyond what every decorator does.
func TestNoAllocations(t *testing.T) {
	ctx, raw := t.Context(), memstore.New()
	must(raw.Put(ctx, "k", "", []byte("v")))(t)
	get := func(st store.Store) float64 {
		return testing.AllocsPerRun(100, func() { _, _, _ = st.Get(ctx, "k") })
	}
	plain := get(store.Intercept(raw, func(ctx context.Context, op *store.Op, next store.Handler) error { return next(ctx, op) }))
	if counted := get(metrics.New(nil).Store(raw)); counted > plain {
		t.Errorf("a counted call allocates %v times, a decorated call %v times", counted, plain)
	}
}

func BenchmarkEvents(b *testing.B) {
	m := metrics.New(nil)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		m.OnEvent(lease.Event{Kind: lease.EventAcquired, Name: "jobs/x", Token: 1, Time: now, Deadline: now.Add(time.Hour)})
		m.OnEvent(lease.Event{Kind: lease.EventReleased, Name: "jobs/x", Token: 1, Time: now})
	}
}

func BenchmarkScrape(b *testing.B) {
	m := metrics.New(nil)
	now := time.Now()
	for i := range 100_000 {
		m.OnEvent(lease.Event{Kind: lease.EventAcquired, Name: fmt.Sprintf("jobs-%d/x%d", i%100, i), Token: 1, Time: now, Deadline: now.Add(time.Hour)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.WriteTo(discard{}); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
