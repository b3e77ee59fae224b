package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/dashboard"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// look returns a page without a network, so that it works in a bubble.
func look(ctx context.Context, page http.Handler, path string) string {
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
	return answer.Body.String()
}

// heap returns the memory in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemory: at 100,000 locks, the page needs at most 64 MiB. The collector of garbage lets the memory double, so
// half of that may be in use. The test has a tenth of the locks.
func TestMemory(t *testing.T) {
	const locks, most = 10_000, 32 << 20 / 10
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		c, err := lease.New(st, &lease.Options{Holder: "ada@db1.example.org pid 4711"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range locks {
			g, err := c.TryAcquire(t.Context(), fmt.Sprintf("jobs/customers/%06d/nightly", i), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := heap()
		page, err := dashboard.New(st, &dashboard.Options{RequestsPerMinute: 60_000})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			look(ctx, page, "/events?kind=locks")
		}()
		time.Sleep(locks/1000*time.Second + 30*time.Second)
		if body := look(t.Context(), page, "/?state=free"); !strings.Contains(body, fmt.Sprintf("%d of %d locks match", locks, locks)) {
			t.Errorf("the page has not read all locks:\n%s", body)
		}
		used := heap() - before
		t.Logf("%d bytes for each lock", used/locks)
		if used > most {
			t.Errorf("the page uses %d bytes, want at most %d", used, most)
		}
		cancel()
		<-ended
		if err := page.Close(); err != nil {
			t.Error(err)
		}
		if body := look(t.Context(), page, "/"); !strings.Contains(body, "closed") {
			t.Errorf("after Close: %s", body)
		}
	})
}

// TestBadRecords: a record that the store does not return in time, refuses or cannot read is a problem of this lock
// alone.
func TestBadRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		c, err := lease.New(st, &lease.Options{Holder: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		guards := map[string]*lease.Guard{}
		for _, name := range []string{"hung", "refused", "good"} {
			if guards[name], err = c.TryAcquire(t.Context(), name, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := st.Put(t.Context(), "lock/damaged", "", []byte("{")); err != nil {
			t.Fatal(err)
		}
		bad := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			switch op.Key {
			case "lock/hung":
				<-ctx.Done()
				return ctx.Err()
			case "lock/refused":
				return store.ErrDenied
			}
			return next(ctx, op)
		})
		page, err := dashboard.New(bad, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer page.Close()
		look(t.Context(), page, "/")
		time.Sleep(10 * time.Second)
		body := look(t.Context(), page, "/")
		for _, want := range []string{"not read: the store does not answer in time", "permission denied", "not a lock record", `class="s-held"`} {
			if !strings.Contains(body, want) {
				t.Errorf("the page has no %q:\n%s", want, body)
			}
		}
		if err := guards["good"].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Second)
		if body := look(t.Context(), page, "/"); !strings.Contains(body, `class="s-free"`) {
			t.Errorf("the page does not show the release of the good lock:\n%s", body)
		}
	})
}

// TestFirstPage: a page that is opened while the locks are read for the first time waits until they are.
func TestFirstPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		c, err := lease.New(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		if _, err := c.TryAcquire(t.Context(), "job", nil); err != nil {
			t.Fatal(err)
		}
		var delay atomic.Int64
		page, err := dashboard.New(store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			time.Sleep(time.Duration(delay.Load()))
			return next(ctx, op)
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer page.Close()
		look(t.Context(), page, "/store")
		delay.Store(int64(300 * time.Millisecond))
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				if body := look(t.Context(), page, "/"); !strings.Contains(body, `class="s-held"`) {
					t.Errorf("page %d does not show the lock:\n%s", i, body)
				}
			})
		}
		all.Wait()
	})
}

// TestLostStore: if a store does not answer at all, or its requests hang, the page shows the old state, and says how old
// it is.
func TestLostStore(t *testing.T) {
	refused := errors.Join(errors.New("dial 10.0.0.5: refused"), store.ErrUnavailable)
	for _, lost := range []func(ctx context.Context) error{
		func(context.Context) error { return refused },
		func(ctx context.Context) error { <-ctx.Done(); return store.Cause(ctx) },
	} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			c, err := lease.New(st, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(t.Context())
			if _, err := c.TryAcquire(t.Context(), "job", nil); err != nil {
				t.Fatal(err)
			}
			broken := make(chan struct{})
			page, err := dashboard.New(store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
				select {
				case <-broken:
					return lost(ctx)
				default:
					return next(ctx, op)
				}
			}), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer page.Close()
			look(t.Context(), page, "/")
			close(broken)
			for _, pause := range []time.Duration{8 * time.Second, 3 * time.Minute} { // then the lease that was read is over
				time.Sleep(pause)
				body := look(t.Context(), page, "/")
				for _, want := range []string{"The names cannot be listed: the store does not answer", "The page shows the state of", `class="s-held"`} {
					if !strings.Contains(body, want) {
						t.Errorf("after %v, the page has no %q:\n%s", pause, want, body)
					}
				}
			}
			if body := look(t.Context(), page, "/lock?name=job"); !strings.Contains(body, "the store does not answer") {
				t.Errorf("the page of the lock does not say so:\n%s", body)
			}
		})
	}
}

// short is a store whose listing with tags leaves out long keys, as buckets do.
type short struct{ *memstore.Store }

func (s short) ListTags(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	return func(yield func(store.Tagged, error) bool) {
		for t, err := range s.Store.ListTags(ctx, prefix) {
			if len(t.Key) <= 250 && !yield(t, err) {
				return
			}
		}
	}
}

// TestLongNames: the page shows a lock with a long name, and its changes.
func TestLongNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := short{memstore.New()}
		c, err := lease.New(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		name := strings.Repeat("x", 300)
		g, err := c.TryAcquire(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		page, err := dashboard.New(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer page.Close()
		want := func(state string) {
			t.Helper()
			body := look(t.Context(), page, "/")
			if shown := strings.Contains(body, "<bdi>"+name+"</bdi>"); shown != (state != "") || shown && !strings.Contains(body, `class="s-`+state+`"`) {
				t.Errorf("the lock is not shown as %q:\n%s", state, body)
			}
		}
		for range 100 {
			want("held")
			time.Sleep(10 * time.Second)
		}
		if err := g.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		want("free")
		_, version, err := st.Get(t.Context(), "lock/"+name)
		if err := errors.Join(err, st.Delete(t.Context(), "lock/"+name, version)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		want("")
	})
}

// costly is a store whose listings cost much.
type costly struct{ *memstore.Store }

func (costly) ListCost() store.ListCost { return store.ListCost{Gets: 150, Keys: 1000} }

// TestCostlyListings: after a costly listing the reader may send no request for minutes. The page does not take this wait
// for the silence of the store.
func TestCostlyListings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page, err := dashboard.New(costly{memstore.New()}, &dashboard.Options{RequestsPerMinute: 60})
		if err != nil {
			t.Fatal(err)
		}
		defer page.Close()
		for range 100 {
			for _, path := range []string{"/", "/checkpoints"} {
				if body := look(t.Context(), page, path); strings.Contains(body, "does not answer") {
					t.Fatalf("%s:\n%s", path, body)
				}
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// TestUnknownLocks: pages of locks that do not exist leave nothing behind.
func TestUnknownLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page, err := dashboard.New(memstore.New(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer page.Close()
		for i := range 20 {
			if body := look(t.Context(), page, fmt.Sprintf("/lock?name=unknown/%d", i)); !strings.Contains(body, "No holder has ever taken the lock") {
				t.Fatalf("the page of an unknown lock:\n%s", body)
			}
		}
		for _, name := range []string{"", "../x", "a//b", strings.Repeat("x", 2000)} {
			look(t.Context(), page, "/lock?name="+name)
		}
		if n := page.Summary().Locks; n != 0 {
			t.Errorf("the page knows %d locks, want none", n)
		}
	})
}

// TestShortest: a program reads the summary once a minute, and a dead holder's lock stays. The shortest time is of a lease
// that has not ended, or it is not known. It is not known, either, if only longer leases have not ended.
func TestShortest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		// The first summary after a minute comes before the reader's listing.
		page, err := dashboard.New(slowList{st, time.Millisecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer page.Close()
		for name, ttl := range map[string]time.Duration{"dead": time.Second, "long": time.Hour} {
			c, err := lease.New(st, &lease.Options{TTL: ttl, ManualRenewal: true})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(t.Context())
			acquire(t, c, name)
		}
		acquire(t, client(t, st, "ada"), "alive")
		page.Summary()
		for i := range 12 {
			pause := 3 * time.Second
			if i%3 == 2 {
				pause = time.Minute // the reader stops meanwhile
			}
			time.Sleep(pause)
			s := page.Summary()
			known, unknown := s.Shortest >= 15*time.Second && s.Shortest <= 30*time.Second, s.Shortest == math.MaxInt64
			if s.Held != 3 || known != (pause < time.Minute) || unknown == known {
				t.Errorf("after %v: %d locks are held, the first lease ends in %v", pause, s.Held, s.Shortest)
			}
		}
	})
}

// TestMaxPages: a page above the bound shows its state, and gets no updates.
func TestMaxPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page, err := dashboard.New(memstore.New(), &dashboard.Options{MaxPages: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer page.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			look(ctx, page, "/events?kind=locks")
		}()
		synctest.Wait()
		if body := look(t.Context(), page, "/events?kind=locks"); !strings.Contains(body, "too many pages are open") {
			t.Errorf("the second page got %q", body)
		}
		if body := look(t.Context(), page, "/"); !strings.Contains(body, "no live updates") {
			t.Errorf("the page does not say so:\n%s", body)
		}
		cancel()
		<-ended
		if body := look(t.Context(), page, "/"); strings.Contains(body, "no live updates") {
			t.Errorf("the bound remains:\n%s", body)
		}
	})
}
