package tusdlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast/adapters/tusdlock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

const (
	ttl   = 15 * time.Second
	renew = 2 * time.Second
)

// plain hides what a store can do besides reads and writes: no notifications, as on S3.
type plain struct{ store.Store }

// host is a host of tusd.
type host struct {
	*tusdlock.Locker
	client *lease.Client
}

// newHost returns a host with the options of the package documentation.
func newHost(t *testing.T, st store.Store, holder string) host {
	t.Helper()
	client, err := lease.New(st, &lease.Options{Holder: holder, TTL: ttl, Tuning: lease.Tuning{RenewInterval: renew}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return host{tusdlock.New(client), client}
}

func (h host) lock(t *testing.T, id string) handler.Lock {
	t.Helper()
	l, err := h.NewLock(id)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// take takes a lock, and returns it with the number of calls of its requestUnlock so far.
func (h host) take(t *testing.T, id string) (handler.Lock, *atomic.Int32) {
	t.Helper()
	calls := &atomic.Int32{}
	return h.takeFor(t, id, func(handler.Lock) { calls.Add(1) }), calls
}

func (h host) takeFor(t *testing.T, id string, requestUnlock func(handler.Lock)) handler.Lock {
	t.Helper()
	l := h.lock(t, id)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.Lock(ctx, func() { requestUnlock(l) }); err != nil {
		t.Fatal(err)
	}
	return l
}

// refused fails the test if the lock can be taken within 50 ms.
func (h host) refused(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.lock(t, id).Lock(ctx, func() {}); !errors.Is(err, handler.ErrLockTimeout) {
		t.Errorf("a lock that another request holds: %v, want ErrLockTimeout", err)
	}
}

func unlock(t *testing.T, l handler.Lock) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// The holder is asked once, however many requests wait, and each of them gets the lock.
func TestRequestUnlock(t *testing.T) {
	for name, c := range map[string]struct {
		same   bool // the other requests are in the process of the holder
		within time.Duration
	}{
		"another host": {false, renew + renew/10 + time.Second},
		"same process": {true, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := plain{memstore.New()}
				first := newHost(t, st, "first")
				other := first
				if !c.same {
					other = newHost(t, st, "other")
				}
				calls := 0
				first.takeFor(t, "upload", func(l handler.Lock) { // as tusd does, but at once
					calls++
					unlock(t, l)
				})
				start := time.Now()
				var wait sync.WaitGroup
				for range 3 {
					wait.Go(func() {
						l, _ := other.take(t, "upload")
						if waited := time.Since(start); waited > c.within {
							t.Errorf("the lock came after %v, want at most %v", waited, c.within)
						}
						unlock(t, l)
					})
				}
				wait.Wait()
				if calls != 1 {
					t.Errorf("the holder was asked %d times, want 1", calls)
				}
			})
		})
	}
}

// A waiter also asks a holder that took the lock after the waiter began to wait.
func TestAsksEachHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		first, second, third := newHost(t, st, "first"), newHost(t, st, "second"), newHost(t, st, "third")
		for range 20 {
			l, asked := first.take(t, "upload")
			var wait sync.WaitGroup
			for _, h := range []host{second, third} {
				wait.Go(func() {
					h.takeFor(t, "upload", func(l handler.Lock) { unlock(t, l) })
				})
			}
			time.Sleep(3 * time.Second)
			if asked.Load() != 1 {
				t.Fatalf("asked %d times, want 1", asked.Load())
			}
			unlock(t, l)
			wait.Wait() // one of the two has freed the lock for the other
			l, _ = first.take(t, "upload")
			unlock(t, l)
		}
	})
}

// Without a request of others, the holder is not asked, and a lock whose holder does not react stays
// with its holder.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		first, other := newHost(t, st, "first"), newHost(t, st, "other")
		l, asked := first.take(t, "upload")
		time.Sleep(time.Hour)
		if asked.Load() != 0 {
			t.Error("the holder was asked, although no other request waits")
		}
		for _, h := range []host{first, other} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			start := time.Now()
			if err := h.lock(t, "upload").Lock(ctx, func() {}); !errors.Is(err, handler.ErrLockTimeout) || time.Since(start) > 21*time.Second {
				t.Errorf("%v after %v, want ErrLockTimeout", err, time.Since(start))
			}
			cancel()
			time.Sleep(time.Hour)
		}
		if asked.Load() != 1 {
			t.Errorf("asked %d times, want 1", asked.Load())
		}
		unlock(t, l)
		l, _ = other.take(t, "upload")
		unlock(t, l)
	})
}

// A context that has ended takes no lock. The end of the request's context after the lock was taken
// changes nothing.
func TestCancelledContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		h, other := newHost(t, st, "first"), newHost(t, st, "other")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			if err := h.lock(t, "upload").Lock(ended, func() {}); !errors.Is(err, handler.ErrLockTimeout) {
				t.Fatalf("%v, want ErrLockTimeout", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		l := h.lock(t, "upload")
		if err := l.Lock(ctx, func() { t.Error("requestUnlock was called") }); err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Minute)
		unlock(t, l)
		synctest.Wait()
		l, _ = other.take(t, "upload")
		unlock(t, l)
	})
}

// The requests of the session do not have the values of the request that opened the session.
func TestSessionHasNoValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var with, without atomic.Int32
		h := newHost(t, store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			if ctx.Value(key{}) != nil {
				with.Add(1)
			} else {
				without.Add(1)
			}
			return next(ctx, op)
		}), "first")
		l := h.lock(t, "upload")
		if err := l.Lock(context.WithValue(t.Context(), key{}, 1), func() {}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		unlock(t, l)
		if with.Load() != 1 || without.Load() < 25 {
			t.Errorf("%d requests with the values, %d without; want 1 and about 30", with.Load(), without.Load())
		}
	})
}

// Lock ends during each request to the store, at each possible moment. Then the lock is free.
func TestCancelledDuringLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, op *store.Op, next store.Handler) error {
			time.Sleep(10 * time.Millisecond)
			return next(ctx, op)
		}
		st := memstore.New()
		h, other := newHost(t, store.Intercept(st, slow), "first"), newHost(t, st, "other")
		taken, refused := 0, 0
		for ms := range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(ms)*time.Millisecond)
			l := h.lock(t, "upload")
			switch err := l.Lock(ctx, func() {}); {
			case err == nil:
				taken++
				unlock(t, l)
			case errors.Is(err, handler.ErrLockTimeout):
				refused++
			default:
				t.Errorf("after %d ms: %v", ms, err)
			}
			cancel()
			time.Sleep(renew * 2) // the session frees what a release could not
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			o := other.lock(t, "upload")
			if err := o.Lock(ctx, func() {}); err != nil {
				t.Fatalf("after %d ms: the lock is not free: %v", ms, err)
			}
			cancel()
			unlock(t, o)
		}
		if taken == 0 || refused == 0 {
			t.Errorf("%d taken, %d refused: want both", taken, refused)
		}
	})
}

// The store fails while an upload runs. The upload stops before another host can get the lock. Later
// uploads use a new session.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := plain{memstore.New()}
		faults := faultstore.New(st, faultstore.Schedule{})
		defer faults.Close()
		h, other := newHost(t, faults, "first"), newHost(t, st, "other")
		stopped := make(chan time.Time, 1)
		l := h.takeFor(t, "upload", func(handler.Lock) { stopped <- time.Now() })
		second, _ := h.take(t, "second")
		faults.Set(faultstore.MustParse("* * drop"))
		taken, _ := other.take(t, "upload")
		got := time.Now()
		select {
		case at := <-stopped:
			if grace := got.Sub(at); grace < h.client.Options().Grace {
				t.Errorf("the upload was stopped %v before another host got the lock, want at least %v", grace, h.client.Options().Grace)
			}
		default:
			t.Fatal("another host has the lock, and the upload was not stopped")
		}
		if err := l.Unlock(); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Unlock after the loss: %v, want ErrLost", err)
		}
		h.refused(t, "third") // the store is still away
		faults.Set(faultstore.Schedule{})
		if err := second.Unlock(); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Unlock after the loss: %v, want ErrLost", err)
		}
		h.refused(t, "upload")
		unlock(t, taken)
		l, calls := h.take(t, "upload")
		time.Sleep(time.Hour)
		if calls.Load() != 0 {
			t.Error("the new lock was lost")
		}
		unlock(t, l)
	})
}

// With Handler, the body of a request ends with the lease, although its bytes have arrived. In the
// control without Handler, the bytes can be read.
func TestHandler(t *testing.T) {
	for name, bare := range map[string]bool{"handler": false, "control: no handler": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faults := faultstore.New(memstore.New(), faultstore.Schedule{})
				defer faults.Close()
				h := newHost(t, faults, "first")
				var uploads http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					read := func() (string, error) {
						p := make([]byte, 4)
						n, err := r.Body.Read(p)
						return string(p[:n]), err
					}
					l := h.lock(t, "upload")
					if err := l.Lock(r.Context(), func() {}); err != nil {
						t.Fatal(err)
					}
					if got, err := read(); got != "good" || err != nil {
						t.Errorf("%q, %v; want the bytes", got, err)
					}
					faults.Set(faultstore.MustParse("* * drop"))
					time.Sleep(ttl)
					got, err := read()
					if ended := got == "" && errors.Is(err, handler.ErrUploadInterrupted); ended == bare {
						t.Errorf("after the loss: %q, %v", got, err)
					}
					_ = l.Unlock()
				})
				if !bare {
					uploads = h.Handler(uploads)
				}
				r := httptest.NewRequest("PATCH", "/files/upload", strings.NewReader("goodlate"))
				uploads.ServeHTTP(httptest.NewRecorder(), r.WithContext(t.Context()))
			})
		})
	}
}

// Another host asks for the lock before tusd reads the body. tusd ignores this request, so the body ends.
func TestRequestBeforeTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		first, second := newHost(t, st, "first"), newHost(t, st, "second")
		uploads := first.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			l := first.lock(t, "upload")
			if err := l.Lock(r.Context(), func() {}); err != nil {
				t.Fatal(err)
			}
			second.refused(t, "upload")
			time.Sleep(ttl)
			if n, err := r.Body.Read(make([]byte, 4)); n > 0 || !errors.Is(err, handler.ErrUploadInterrupted) {
				t.Errorf("%d bytes, %v", n, err)
			}
			unlock(t, l)
		}))
		r := httptest.NewRequest("PATCH", "/files/upload", strings.NewReader("late"))
		uploads.ServeHTTP(httptest.NewRecorder(), r.WithContext(t.Context()))
	})
}

// The store is away when the host starts.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, action := range []string{"fail", "drop", "delay 1h"} {
			faults := faultstore.New(memstore.New(), faultstore.MustParse("* * "+action))
			h := newHost(t, faults, "first")
			var wait sync.WaitGroup
			for range 5 {
				wait.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					start := time.Now()
					err := h.lock(t, "upload").Lock(ctx, func() {})
					if waited := time.Since(start); !errors.Is(err, handler.ErrLockTimeout) || waited > 26*time.Second {
						t.Errorf("%s: %v after %v, want ErrLockTimeout after 20 s", action, err, waited)
					}
				})
			}
			wait.Wait()
			time.AfterFunc(5*time.Second, func() { faults.Set(faultstore.Schedule{}) })
			l, _ := h.take(t, "upload") // waits for the store
			unlock(t, l)
			if err := faults.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// The client of the locker is closed while an upload runs and another request waits.
func TestClientClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		h, other := newHost(t, st, "first"), newHost(t, st, "other")
		l, asked := h.take(t, "upload")
		far, _ := other.take(t, "far")
		waited := make(chan error)
		go func() { waited <- h.lock(t, "far").Lock(t.Context(), func() {}) }()
		synctest.Wait()
		if err := h.client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-waited; !errors.Is(err, handler.ErrServerShutdown) {
			t.Errorf("a waiting Lock: %v, want ErrServerShutdown", err)
		}
		if err := h.lock(t, "upload").Lock(t.Context(), func() {}); !errors.Is(err, handler.ErrServerShutdown) {
			t.Errorf("a later Lock: %v, want ErrServerShutdown", err)
		}
		synctest.Wait()
		if asked.Load() != 1 {
			t.Errorf("the upload was asked %d times to stop, want 1", asked.Load())
		}
		if err := l.Unlock(); err != nil && !errors.Is(err, lease.ErrClosed) {
			t.Errorf("Unlock: %v", err)
		}
		unlock(t, far)
		l, _ = other.take(t, "upload") // at once
		unlock(t, l)
	})
}

// An error that does not pass is returned at once: a record that cannot be read, or that a later
// version of Holdfast has written. The record stays as it is.
func TestPermanentErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, record := range map[string]string{
			"damaged": "{",
			"later":   `{"holdfast":99,"kind":"lease","name":"tusd/id/upload","state":"held","token":7,"ttl_ms":15000,"nonce":"n"}`,
		} {
			st := memstore.New()
			h := newHost(t, st, "first")
			if _, err := st.Put(t.Context(), "lock/tusd/id/upload", "", []byte(record)); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			err := h.lock(t, "upload").Lock(t.Context(), func() {})
			if err == nil || errors.Is(err, handler.ErrLockTimeout) || time.Since(start) > time.Second {
				t.Errorf("%s: %v after %v, want an error of the store", name, err, time.Since(start))
			}
			if value, _, err := st.Get(t.Context(), "lock/tusd/id/upload"); err != nil || string(value) != record {
				t.Errorf("%s: the record is now %q, %v", name, value, err)
			}
		}
	})
}

// A holder that is no upload, for example an operator, refuses to yield. A broken lock is taken after
// its time. Neither makes the waiter send requests without a pause.
func TestRefusedAndBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		st := memstore.New()
		h := newHost(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if requests.Add(1) > 200 {
				time.Sleep(time.Second) // a waiter that makes no pause must not stop the test
			}
			return next(ctx, op)
		}), "first")
		operator := newHost(t, st, "operator")
		guard, err := operator.client.Acquire(t.Context(), "tusd/id/upload", nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-guard.YieldRequested()
			_ = guard.RefuseYield(context.Background(), "the file is examined")
		}()
		wait := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			requests.Store(0)
			l := h.lock(t, "upload")
			err := l.Lock(ctx, func() {})
			if n := requests.Load(); n > 200 {
				t.Errorf("%d requests in 20 s", n)
			}
			if err == nil {
				unlock(t, l)
			}
			return err
		}
		if err := wait(); !errors.Is(err, handler.ErrLockTimeout) {
			t.Errorf("%v, want ErrLockTimeout", err)
		}
		if _, err := operator.client.Break(t.Context(), "tusd/id/upload", guard.Token(), nil); err != nil {
			t.Fatal(err)
		}
		if err := wait(); err != nil {
			t.Errorf("after a break: %v", err)
		}
	})
}

// The lock of an id never changes: hosts with different versions of this package must exclude each
// other. All other ids are free meanwhile.
func TestIDs(t *testing.T) {
	long := strings.Repeat("x", 1024)
	names := map[string]string{
		"24e533e02ec3bc40c387f1a0e460e216":     "tusd/id/24e533e02ec3bc40c387f1a0e460e216",
		"24e533e0+2~_aBc.dEf-":                 "tusd/id/24e533e0+2~_aBc.dEf-",
		"project/one+part":                     "tusd/id/project/one+part",
		"project/one":                          "tusd/id/project/one",
		"übung 日本 \x00\x7f\n":                  "tusd/id/übung 日本 \x00\x7f\n",
		"tusd/id/project/one":                  "tusd/id/tusd/id/project/one",
		"":                                     "tusd/sha256/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"..":                                   "tusd/sha256/5ec1f7e700f37c3d0b2981d04855fc34b94aaa15457b05ca571817442d228f81",
		"a//b":                                 "tusd/sha256/7a9acf331a5dc1e020c17901e85936a279e0aa49b04474b13fa2ee63f80fa57a",
		"\xff":                                 "tusd/sha256/a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89",
		long:                                   "tusd/sha256/49abd65bbf7f7e40c7055093ed2e3fd75f2f602f2c5fcf955c213e3135eb03f7",
		long + "y":                             "",
		"a\xff":                                "",
		"../sha256/" + strings.Repeat("0", 64): "",
	}
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		first, other := newHost(t, st, "first"), newHost(t, st, "other")
		var held []handler.Lock
		for id := range names {
			l, _ := first.take(t, id) // waits for ever if two ids have one lock
			held = append(held, l)
		}
		for id := range names {
			other.refused(t, id)
		}
		for _, l := range held {
			unlock(t, l)
		}
		found := map[string]bool{}
		for name, err := range first.client.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			found[name] = true
		}
		if len(found) != len(names) {
			t.Errorf("%d locks for %d ids", len(found), len(names))
		}
		for id, name := range names {
			if name != "" && !found[name] {
				t.Errorf("the id %q has no lock %q; there are %v", id, name, slices.Sorted(maps.Keys(found)))
			}
		}
	})
}

// Two hosts lock one upload again and again over a network that loses requests and replies. At no
// time two of them have the lock, and at the end it is free.
func TestFaults(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			st := plain{memstore.New()}
			var holders atomic.Int32
			var wait sync.WaitGroup
			taken := 0
			for i := range 2 {
				schedule := faultstore.Random(seed*2 + uint64(i))
				faults := faultstore.New(st, schedule)
				h := newHost(t, faults, fmt.Sprint("host ", i))
				rnd := rand.New(rand.NewPCG(seed, uint64(i)))
				wait.Go(func() {
					for range 20 {
						l, stop := h.lock(t, "upload"), make(chan struct{})
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
						err := l.Lock(ctx, func() { close(stop) })
						cancel()
						if err != nil {
							if !errors.Is(err, handler.ErrLockTimeout) {
								t.Errorf("seed %d: %v", seed, err)
							}
							continue
						}
						if holders.Add(1) != 1 {
							t.Errorf("seed %d: two hosts have the lock", seed)
						}
						taken++
						select {
						case <-stop:
						case <-time.After(time.Duration(rnd.IntN(10_000)) * time.Millisecond):
						}
						holders.Add(-1)
						_ = l.Unlock()
					}
					_ = h.client.Close(context.Background())
					if err := faults.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			if taken < 20 {
				t.Errorf("seed %d: the lock was taken %d times of 40", seed, taken)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
			defer cancel()
			l := newHost(t, st, "last").lock(t, "upload")
			if err := l.Lock(ctx, func() {}); err != nil {
				t.Errorf("seed %d: at the end the lock is not free: %v", seed, err)
				return
			}
			unlock(t, l)
		})
	}
}

// A host dies without a word. Its locks are free after the TTL, also for short attempts, of which
// none is as long as the TTL.
func TestDeadHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := plain{memstore.New()}
		faults := faultstore.New(st, faultstore.Schedule{})
		defer faults.Close()
		dead, other := newHost(t, faults, "dead"), newHost(t, st, "other")
		for _, id := range []string{"one", "two"} {
			dead.take(t, id)
		}
		faults.Set(faultstore.MustParse("* * drop"))
		start := time.Now()
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			l := other.lock(t, "one")
			err := l.Lock(ctx, func() {})
			cancel()
			if err == nil {
				unlock(t, l)
				break
			}
			if time.Since(start) > time.Minute {
				t.Fatalf("%v after %v", err, time.Since(start))
			}
			time.Sleep(time.Second)
		}
		if waited := time.Since(start); waited < ttl || waited > ttl+7*time.Second {
			t.Errorf("the lock came after %v, want about %v", waited, ttl)
		}
		start = time.Now()
		l, _ := other.take(t, "two")
		unlock(t, l)
		if waited := time.Since(start); waited > time.Second {
			t.Errorf("the second lock of the dead host came after %v, want at once", waited)
		}
	})
}

// The numbers of requests in the documentation.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		counted := store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			requests.Add(1)
			return next(ctx, op)
		})
		h := newHost(t, plain{counted}, "first")
		count := func(what string, low, high int32, f func()) {
			t.Helper()
			requests.Store(0)
			if f(); requests.Load() < low || requests.Load() > high {
				t.Errorf("%s: %d requests, want %d to %d", what, requests.Load(), low, high)
			}
		}
		short := func() {
			l, _ := h.take(t, "upload")
			unlock(t, l)
		}
		count("the first request, which opens the session", 4, 4, short)
		count("the second request of the same upload", 3, 3, short)
		count("an idle minute", 28, 33, func() { time.Sleep(time.Minute) })

		const uploads = 100
		minute := func(take func(id string) func()) func() {
			return func() {
				var ends []func()
				for i := range uploads {
					ends = append(ends, take(fmt.Sprint("upload ", i)))
				}
				time.Sleep(time.Minute)
				for _, end := range ends {
					end()
				}
			}
		}
		count("uploads under a session", 328, 335, minute(func(id string) func() {
			l, _ := h.take(t, id)
			return func() { unlock(t, l) }
		}))
		if err := h.client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		without := newHost(t, plain{counted}, "second")
		count("uploads with a lease each", 3200, 3400, minute(func(id string) func() {
			guard, err := without.client.Acquire(t.Context(), id, nil)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = guard.Release(t.Context()) }
		}))
	})
}

// TestUnlockWithoutLock: Unlock of a lock that was not taken is an error.
func TestUnlockWithoutLock(t *testing.T) {
	if err := newHost(t, memstore.New(), "h").lock(t, "x").Unlock(); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("got %v, want ErrNotHeld", err)
	}
}
