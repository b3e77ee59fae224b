package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/dashboard"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// serve returns the address of a server with a page of a store.
func serve(t *testing.T, st store.Store, o *dashboard.Options) string {
	t.Helper()
	page, err := dashboard.New(st, o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(page)
	t.Cleanup(func() {
		if err := page.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return server.URL
}

func get(t *testing.T, url string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// await reads a page until it has a text.
func await(t *testing.T, url string, texts ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, _, body := get(t, url)
		missing := ""
		for _, text := range texts {
			if !strings.Contains(body, text) {
				missing = text
			}
		}
		if missing == "" {
			return body
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s never has %q:\n%s", url, missing, body)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// event is what the script of the page receives.
type event struct {
	Set   map[string]string `json:"set"`
	Rows  map[string]string `json:"rows"`
	Order []string          `json:"order"`
}

// events returns the updates of a page, until the context ends.
func events(ctx context.Context, t *testing.T, url string) <-chan event {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, resp.Status)
	}
	out := make(chan event)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			var e event
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(text), &e) == nil {
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

func client(t *testing.T, st store.Store, holder string) *lease.Client {
	t.Helper()
	c, err := lease.New(st, &lease.Options{Holder: holder, History: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	return c
}

func acquire(t *testing.T, c *lease.Client, name string) *lease.Guard {
	t.Helper()
	g, err := c.TryAcquire(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var quick = dashboard.Options{Interval: 20 * time.Millisecond, RequestsPerMinute: 60_000}

// TestPage: the page shows a lock, its changes, and the command lines to copy. Nothing of it can change a lock.
func TestPage(t *testing.T) {
	st := memstore.New()
	c := client(t, st, "ada@db1 pid 4711")
	g := acquire(t, c, "jobs/nightly")
	o := quick
	o.StoreURL = "s3://bucket/app"
	base := serve(t, st, &o)
	await(t, base+"/", "jobs/nightly", "ada@db1 pid 4711", `class="s-held"`)
	body := await(t, base+"/lock?name=jobs/nightly", "holdfast --store s3://bucket/app ask --reason &#39;...&#39; jobs/nightly")
	if want := "break --token"; !strings.Contains(body, want) {
		t.Errorf("the page of the lock has no %q:\n%s", want, body)
	}

	updates := events(t.Context(), t, base+"/events?kind=locks")
	first := <-updates
	if len(first.Rows) != 1 || len(first.Order) != 1 {
		t.Fatalf("the first update has the rows %v in the order %v, want one", first.Rows, first.Order)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for u := range updates {
		if row := u.Rows[first.Order[0]]; strings.Contains(row, "s-free") {
			break
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		req, err := http.NewRequestWithContext(t.Context(), method, base+"/lock?name=jobs/nightly", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: got status %d, want 405", method, resp.StatusCode)
		}
	}
}

// TestHostileNames: texts of other programs are escaped, also in the updates, and command lines with them are one
// line of visible characters.
func TestHostileNames(t *testing.T) {
	st := memstore.New()
	const name = "x/<script>alert(1)</script>\u202e'\"&\n$(reboot)"
	acquire(t, client(t, st, "<img src=x onerror=alert(2)>\x1b[2J"), name)
	base := serve(t, st, &quick)
	bodies := []string{await(t, base+"/", "&lt;script&gt;", "&lt;img"), await(t, base+"/lock?"+url.Values{"name": {name}}.Encode(), "&lt;script&gt;", "&lt;img")}
	update := <-events(t.Context(), t, base+"/events?kind=locks")
	for _, row := range update.Rows {
		bodies = append(bodies, row)
	}
	_, _, echoed := get(t, base+"/?q="+url.QueryEscape(`"><script>alert(3)</script>`))
	for _, body := range append(bodies, echoed) {
		for _, bad := range []string{"<script>alert", "<img src=x", "\x1b", "\u202e", "$(reboot)\n"} {
			if strings.Contains(body, bad) {
				t.Errorf("the page has %q:\n%s", bad, body)
			}
		}
	}
	const want = `$&#39;x/&lt;script&gt;alert(1)&lt;/script&gt;\u202e\&#39;&#34;&amp;\n$(reboot)&#39;`
	if !strings.Contains(bodies[1], want) {
		t.Errorf("the command lines do not have %s:\n%s", want, bodies[1])
	}
}

// TestPolicy: a browser may load only the files of the page, which are all there.
func TestPolicy(t *testing.T) {
	base := serve(t, memstore.New(), &quick)
	for path, want := range map[string]int{"/": 200, "/lock?name=a": 200, "/checkpoints": 200, "/logs": 200, "/reports": 200, "/store": 200, "/app.js": 200, "/app.css": 200, "/icon.svg": 200, "/healthz": 200, "/metrics": 404, "/web/page.html": 404, "/events?kind=other": 400} {
		status, header, body := get(t, base+path)
		if status != want {
			t.Errorf("%s: got status %d, want %d", path, status, want)
		}
		policy := header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		for _, bad := range []string{" style=", " onclick=", "<style", "http://", "https://"} {
			if strings.HasPrefix(header.Get("Content-Type"), "text/html") && strings.Contains(body, bad) {
				t.Errorf("%s has %q:\n%s", path, bad, body)
			}
		}
	}
}

// TestHistory: the time line of a lock has its entries, also if a part of the history is damaged.
func TestHistory(t *testing.T) {
	st := memstore.New()
	ada, eve := client(t, st, "ada"), client(t, st, "<eve>")
	g := acquire(t, ada, "job")
	if _, err := eve.Break(t.Context(), "job", g.Token(), &lease.BreakOptions{Immediate: true}); err != nil {
		t.Fatal(err)
	}
	acquire(t, eve, "job")
	page := serve(t, st, &quick) + "/lock?name=job"
	await(t, page, "broken", "&lt;eve&gt;", "granted")
	for _, c := range []*lease.Client{ada, eve} {
		_ = c.Close(t.Context()) // ada has lost the lock; this ends the moves of entries
	}
	if _, err := store.Update(t.Context(), st, ".holdfast/history/lock/job", func([]byte) ([]byte, error) { return []byte("no history"), nil }); err != nil {
		t.Fatal(err)
	}
	await(t, page, "cannot be read completely")
}

// TestHolderThatReleases: a holder releases its lock and closes its session while the page reads. The page does not
// show a dead holder.
func TestHolderThatReleases(t *testing.T) {
	st := memstore.New()
	s, err := client(t, st, "the holder").OpenSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Acquire(t.Context(), "job", nil)
	if err != nil {
		t.Fatal(err)
	}
	releases := sync.OnceFunc(func() {
		if err := errors.Join(g.Release(t.Context()), s.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
	at := serve(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Key == "lock.session/"+s.ID() {
			releases()
		}
		return next(ctx, op)
	}), &dashboard.Options{Interval: 50 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for event := range events(ctx, t, at+"/events?kind=lock&name=job") {
		switch body := event.Set["body"]; {
		case strings.Contains(body, "is dead"):
			t.Fatalf("the page shows a dead holder:\n%s", body)
		case strings.Contains(body, `"state">free`):
			return
		}
	}
	t.Error("the page never shows that the lock is free")
}

// TestOrder: each column sorts both ways, in the page and in its updates.
func TestOrder(t *testing.T) {
	st := memstore.New()
	acquire(t, client(t, st, "zoe"), "a")
	acquire(t, client(t, st, "ada"), "b")
	base := serve(t, st, &quick)
	await(t, base+"/", "zoe", "ada")
	for sort, want := range map[string]string{"name": "a", "-name": "b", "holder": "b", "-holder": "a", "token": "a", "-token": "b", "other": "a"} {
		first := (<-events(t.Context(), t, base+"/events?kind=locks&sort="+sort))
		if got := first.Rows[first.Order[0]]; !strings.Contains(got, "lock?name="+want+`"`) {
			t.Errorf("sort=%s: the first row is %s, want %s", sort, got, want)
		}
	}
}

// TestOptions: what New refuses matches ErrInvalid.
func TestOptions(t *testing.T) {
	for _, o := range []dashboard.Options{
		{RequestsPerMinute: -1}, {RequestsPerMinute: 60_001}, {Interval: -1}, {Interval: 2 * time.Hour}, {MaxPages: -1}, {MaxPages: 10_001},
		{Prefix: "a//b"}, {KeyPrefix: "/"}, {CheckpointPrefix: ".."}, {MaxClockDrift: -1},
	} {
		if _, err := dashboard.New(memstore.New(), &o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: got error %v, want ErrInvalid", o, err)
		}
	}
}
