// Package dashboard tests the page of package observe/dashboard in Chromium.
package dashboard

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/observe/dashboard"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// shots is the directory of the pictures, which people look at.
func shots(t *testing.T) string {
	dir := os.Getenv("HOLDFAST_SCREENSHOTS")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "holdfast-screenshots")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// server serves a page, and can stop and start again on the same address.
type server struct {
	t       *testing.T
	st      store.Store
	o       *dashboard.Options
	address string
	page    *dashboard.Page
	http    *http.Server
}

func serve(t *testing.T, st store.Store, o *dashboard.Options) *server {
	t.Helper()
	if o == nil {
		o = &dashboard.Options{}
	}
	o.Interval, o.RequestsPerMinute = 100*time.Millisecond, 60_000
	if o.StoreURL == "" {
		o.StoreURL = "s3://bucket/app"
	}
	s := &server{t: t, st: st, o: o, address: "127.0.0.1:0"}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.t.Helper()
	var err error
	if s.page, err = dashboard.New(s.st, s.o); err != nil {
		s.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = listener.Addr().String()
	s.http = &http.Server{Handler: s.page}
	go func(h *http.Server) { _ = h.Serve(listener) }(s.http)
}

func (s *server) stop() {
	_ = s.page.Close()
	_ = s.http.Close()
}

func (s *server) url(path string) string { return "http://" + s.address + "/" + path }

func client(t *testing.T, st store.Store, holder string, o lease.Options) *lease.Client {
	t.Helper()
	o.Holder, o.History = holder, true
	c, err := lease.New(st, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	return c
}

func acquire(t *testing.T, c *lease.Client, name string) *lease.Guard {
	t.Helper()
	g, err := c.Acquire(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// scene is a store with one lock of each kind, and a page of everything.
func scene(t *testing.T, st store.Store) *server {
	t.Helper()
	ada, bob, eve := client(t, st, "ada@db1 pid 4711", lease.Options{}), client(t, st, "bob@db2 pid 812", lease.Options{}), client(t, st, "eve@ops pid 9", lease.Options{})
	for _, c := range []*lease.Client{bob, eve, bob, ada} {
		g := acquire(t, c, "jobs/nightly")
		if c == eve {
			if _, err := ada.Break(t.Context(), "jobs/nightly", g.Token(), &lease.BreakOptions{Immediate: true}); err != nil {
				t.Fatal(err)
			}
		} else if c == bob {
			if err := g.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := eve.RequestYield(t.Context(), "jobs/nightly", &lease.YieldOptions{Reason: "a deployment"}); err != nil {
		t.Fatal(err)
	}
	if err := acquire(t, bob, "jobs/hourly").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	broken := acquire(t, bob, "jobs/report")
	if _, err := eve.Break(t.Context(), "jobs/report", broken.Token(), nil); err != nil {
		t.Fatal(err)
	}
	for i, c := range []*lease.Client{ada, bob} {
		s, err := c.OpenSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.TryAcquire(t.Context(), "pool/gpu", &lease.LockOptions{Slots: 4}); err != nil {
			t.Fatal(err)
		}
		fair := lease.LockOptions{Fair: true}
		if i == 0 {
			if _, err := s.TryAcquire(t.Context(), "queue", &fair); err != nil {
				t.Fatal(err)
			}
			continue
		}
		waiting, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = s.Acquire(waiting, "queue", &fair)
		}()
		t.Cleanup(func() { cancel(); <-ended })
	}
	leader, err := ada.Election("scheduler", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leader.Campaign(t.Context(), []byte("http://10.0.0.5:8080/")); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Put(t.Context(), "lock/unreadable", "", []byte("no record")); err != nil {
		t.Fatal(err)
	}
	keeper, err := checkpoint.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, n := range map[string]uint64{"indexer": 2, "orders": 170_000} {
		if _, err := keeper.Advance(t.Context(), key, checkpoint.Position{Sequence: n, EventID: "event-" + key}, nil); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := object.New(membucket.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	commits, err := object.OpenLog(objects, "commits", nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(7) {
		if _, err := commits.Append(t.Context(), n, fmt.Appendf(nil, `{"add":"data/%d.parquet"}`, n)); err != nil {
			t.Fatal(err)
		}
	}
	return serve(t, st, &dashboard.Options{
		Logs: []dashboard.Log{{Name: "s3://bucket/commits", Log: commits, Followers: []string{"indexer", "absent"}}},
		Doctor: func(context.Context) (string, error) {
			return "create-if-absent twice   ok   the second was refused\nleases are safe on this store\n", nil
		},
		Panels: []dashboard.Panel{{Title: "verify.json", Read: func(context.Context) (dashboard.PanelTable, error) {
			return dashboard.PanelTable{Note: "Verification of 2026-11-24, complete: 812 references of 900 items; 1 object is missing.", Head: []string{"Problem", "Item", "Object"}, Rows: [][]string{{"missing", `{"id":"7"}`, "s3://bucket/items/7"}}}, nil
		}}},
	})
}

var paths = map[string]string{"locks": "", "lock": "lock?name=jobs/nightly", "queue": "lock?name=queue", "gpu": "lock?name=pool/gpu", "checkpoints": "checkpoints", "logs": "logs", "reports": "reports", "store": "store"}

const live = "document.getElementById('connection').textContent === 'live'"

// says is an expression: the page has a text.
func says(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }

// rowSays is an expression: the row of a lock has a text.
func rowSays(name, text string) string {
	return fmt.Sprintf("[...document.querySelectorAll('#rows tr')].some((r) => r.innerText.includes(%q) && r.innerText.includes(%q))", name, text)
}

// TestBrowser looks at the page in one browser.
func TestBrowser(t *testing.T) {
	b := servers.NewBrowser(t)
	dir := shots(t)
	t.Logf("pictures are in %s", dir)

	// All pages, in both colour schemes, and on a telephone: the checker finds nothing, and nothing is wider than the
	// screen.
	t.Run("looks", func(t *testing.T) {
		s := scene(t, memstore.New())
		for _, look := range []struct {
			name, scheme  string
			width, height int
		}{{"light", "light", 1200, 800}, {"dark", "dark", 1200, 800}, {"phone", "light", 360, 740}} {
			p := b.Page(t, look.width, look.height, look.scheme)
			for name, path := range paths {
				p.Goto(s.url(path))
				p.Wait(live)
				if name == "gpu" || name == "queue" {
					p.Wait(says("bob@db2 pid 812"))
				}
				if look.name == "light" || name == "locks" || name == "lock" { // the other pages have the same colours and parts
					p.Accessible()
				}
				p.Shot(filepath.Join(dir, name+"-"+look.name+".png"))
				var wide int
				p.Eval("document.documentElement.scrollWidth - window.innerWidth", &wide)
				if wide > 0 {
					t.Errorf("%s, %s: the page is %d pixels wider than the screen", name, look.name, wide)
				}
			}
		}
	})

	// A holder dies, and a waiter takes over. The bar shrinks meanwhile.
	t.Run("takeover", func(t *testing.T) {
		st := memstore.New()
		dead := client(t, st, "dead holder", lease.Options{TTL: 1500 * time.Millisecond, ManualRenewal: true})
		acquire(t, dead, "job")
		s := serve(t, st, nil)
		p := b.Page(t, 1000, 700, "light")
		p.Goto(s.url(""))
		p.Wait(rowSays("job", "dead holder"))
		p.Wait("document.querySelector('progress').value < 1000")
		p.Wait(rowSays("job", "expired?"))
		acquire(t, client(t, st, "new holder", lease.Options{}), "job")
		p.Wait(rowSays("job", "new holder") + " && " + rowSays("job", "held"))
	})

	t.Run("break", func(t *testing.T) {
		st := memstore.New()
		g := acquire(t, client(t, st, "ada", lease.Options{}), "job")
		s := serve(t, st, nil)
		p := b.Page(t, 1000, 700, "light")
		p.Goto(s.url("lock?name=job"))
		p.Wait(says(fmt.Sprintf("holdfast --store s3://bucket/app break --token %d job", g.Token())))
		if _, err := client(t, st, "eve", lease.Options{}).Break(t.Context(), "job", g.Token(), nil); err != nil {
			t.Fatal(err)
		}
		p.Wait("document.querySelector('.state').textContent === 'broken'")
		p.Wait(says(fmt.Sprintf("break --token %d --now job", g.Token()+1)))
	})

	// The store does not answer for a while, and one record cannot be read for longer.
	t.Run("lost store", func(t *testing.T) {
		st := faultstore.New(memstore.New(), faultstore.Schedule{})
		c := client(t, st, "ada", lease.Options{})
		acquire(t, c, "one")
		acquire(t, c, "two")
		s := serve(t, st, nil)
		p := b.Page(t, 1000, 700, "light")
		p.Goto(s.url(""))
		p.Wait(rowSays("one", "held") + " && " + rowSays("two", "held"))
		st.Set(faultstore.MustParse("* * fail"))
		p.Wait("document.querySelector('.banner') && " + says("cannot be listed") + " && " + rowSays("one", "held"))
		p.Accessible()
		p.Shot(filepath.Join(dir, "lost-store.png"))
		st.Set(faultstore.MustParse("get lock/one fail"))
		p.Wait("!document.querySelector('.banner') && " + rowSays("two", "held"))
		st.Set(faultstore.Schedule{})
	})

	t.Run("thousand locks", func(t *testing.T) {
		st := memstore.New()
		c := client(t, st, "ada", lease.Options{ManualRenewal: true, TTL: time.Hour})
		for i := range 1000 {
			acquire(t, c, fmt.Sprintf("jobs/%04d", i))
		}
		s := serve(t, st, nil)
		p := b.Page(t, 1200, 800, "light")
		p.Goto(s.url(""))
		p.Wait(says("1000 locks.") + " && " + rowSays("jobs/0049", "held") + " && " + says("page 1 of 20"))
		p.Accessible()
		p.Goto(s.url("?sort=-name"))
		p.Wait(rowSays("jobs/0999", "held"))
		p.Click("a[rel=next]")
		p.Wait(says("page 2 of 20") + " && " + rowSays("jobs/0949", "held"))
		p.Goto(s.url("?q=0777"))
		p.Wait(says("1 of 1000 locks match the filter.") + " && document.querySelectorAll('#rows tr').length === 1")
	})

	t.Run("hostile names", func(t *testing.T) {
		st := memstore.New()
		names := []string{
			"a/<img src=x onerror=alert(1)>", "b/</script><script>alert(2)</script>", "c/\u202egnp.exe\u2066", "d/javascript:alert(3)", `e/"onfocus="alert(4)" autofocus="`,
			"f/{{.}}${alert(5)}", "g/" + strings.Repeat("w", 400), "h/\x1b[2J\n\r\t'; rm -rf ~ #", "-n",
		}
		c := client(t, st, "<b>holder</b><script>alert(6)</script>\u202e\x07", lease.Options{})
		for _, name := range names {
			acquire(t, c, name)
		}
		s := serve(t, st, nil)
		p := b.Page(t, 360, 740, "dark")
		p.Goto(s.url(""))
		p.Wait(fmt.Sprintf("document.querySelectorAll('#rows tr').length === %d && %s", len(names), live))
		var count, wide int
		p.Eval("document.querySelectorAll('#main img, #main script, #main b, [autofocus], [onfocus]').length", &count)
		p.Eval("document.documentElement.scrollWidth - window.innerWidth", &wide)
		if count != 0 || wide > 0 {
			t.Errorf("the names have made %d elements, and the page is %d pixels too wide", count, wide)
		}
		p.Accessible()
		p.Shot(filepath.Join(dir, "hostile-phone.png"))
		for i := range names {
			p.Goto(s.url("?sort=name"))
			p.Wait(fmt.Sprintf("document.querySelectorAll('#rows tr').length === %d", len(names)))
			p.Eval(fmt.Sprintf("document.querySelectorAll('#rows a')[%d].click()", i), nil)
			p.Wait(says("Command lines") + " && " + live)
		}
		p.Shot(filepath.Join(dir, "hostile-lock-phone.png"))
	})

	t.Run("reconnect", func(t *testing.T) {
		st := memstore.New()
		c := client(t, st, "ada", lease.Options{})
		g := acquire(t, c, "job")
		s := serve(t, st, nil)
		p := b.Page(t, 1000, 700, "light")
		p.Goto(s.url(""))
		p.Wait(live + " && " + rowSays("job", "held"))
		s.stop()
		p.Wait(says("not connected: the page shows an old state"))
		if err := g.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.start()
		p.Wait(live + " && " + rowSays("job", "free"))
	})

	// A person without a mouse filters the locks, opens one, and copies the command line that asks its holder. An
	// update does not take the focus away.
	t.Run("keyboard", func(t *testing.T) {
		st := memstore.New()
		c := client(t, st, "ada", lease.Options{})
		acquire(t, c, "other")
		g := acquire(t, c, "job")
		s := serve(t, st, nil)
		p := b.Page(t, 1000, 700, "light")
		p.Goto(s.url(""))
		p.Wait(live)
		p.Press("Tab")
		p.Wait("document.activeElement.className === 'skip'")
		p.Press("Enter")
		p.Press("/")
		p.Wait("document.activeElement.id === 'q'")
		p.Type("job")
		p.Press("Enter")
		p.Wait(says("1 of 2 locks match the filter.") + " && location.search.includes('q=job') && " + live)
		tabTo(p, "document.activeElement.textContent === 'job'")
		if err := g.SetData(t.Context(), []byte("step 1")); err != nil {
			t.Fatal(err)
		}
		p.Wait(rowSays("job", "value") + " && document.activeElement.textContent === 'job'")
		p.Press("Enter")
		p.Wait("document.querySelector('h1').textContent === 'job' && " + live)
		tabTo(p, "document.activeElement.dataset.copy === 'c1'")
		p.Press("Enter")
		p.Wait("document.getElementById('copied').textContent !== ''")
		var copied string
		p.Eval("navigator.clipboard.readText()", &copied)
		if want := "holdfast --store s3://bucket/app ask --reason '...' job"; copied != want {
			t.Errorf("got %q in the clipboard, want %q", copied, want)
		}
	})
}

// tabTo presses Tab until an expression is true.
func tabTo(p *servers.BrowserPage, expression string) {
	for range 60 {
		var there bool
		if p.Eval("!!document.activeElement && "+expression, &there); there {
			return
		}
		p.Press("Tab")
	}
	p.Wait(expression)
}
