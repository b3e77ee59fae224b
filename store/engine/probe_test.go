package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const sixRequests = "write write write write write remove"

func unproven(o *engine.Options) { o.Trusted = false }

// TestProbeRequests: the probe of a good server costs six requests, once, for the first
// of many writers, and leaves nothing behind. A read costs none.
func TestProbeRequests(t *testing.T) {
	kinds(t, func(t *testing.T, f *server) {
		verified := 0
		s := f.open(t, func(o *engine.Options) { o.Trusted, o.OnVerified = false, func() { verified++ } })
		_, _, _ = s.Get(t.Context(), "k")
		if got := f.requests(); got != "read" {
			t.Errorf("a read: %q", got)
		}
		mustPut(t, s, "first", "", "1")
		if got := f.requests(); got != sixRequests+" write" {
			t.Errorf("the first write: %q", got)
		}
		var racers sync.WaitGroup
		for i := range 8 {
			racers.Go(func() { mustPut(t, s, fmt.Sprint(i), "", "1") })
		}
		racers.Wait()
		if got := f.requests(); strings.Count(got, "write") != 8 || verified != 1 {
			t.Errorf("eight more: %q; verified %d times", got, verified)
		}
		for key := range f.rows {
			if strings.HasPrefix(key, engine.ProbeDir) {
				t.Errorf("left behind: %q", key)
			}
		}
		if mustPut(t, f.open(t, nil), "trusted", "", "1"); f.requests() != "write" {
			t.Error("a trusted server is probed")
		}
	})
}

// TestProbeFinds: the probe finds every way of ignoring conditions before the first write.
// The verdict lasts, and registers of other programs stay as they are.
func TestProbeFinds(t *testing.T) {
	for name, c := range map[string]struct {
		broken       broken
		create, swap bool // what is found
	}{
		"absence ignored":      {broken{ignoresAbsent: true}, true, false},
		"version ignored":      {broken{ignoresMatch: true}, false, true},
		"both ignored":         {broken{ignoresAbsent: true, ignoresMatch: true}, true, true},
		"creates on a version": {broken{createsOnMatch: true}, false, true},
		"refuses and writes":   {broken{writesAnyway: true}, false, true},
		"one tag for all":      {broken{sameTags: true}, false, true},
		"knows no conditions":  {broken{noConditions: true}, true, true},
	} {
		kinds(t, func(t *testing.T, f *server) {
			if name == "one tag for all" && !f.tags {
				return
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := mustPut(t, f.honest(), "k", "", "the holder's")
					f.broken = c.broken
					s := f.open(t, unproven)
					for _, prev := range []store.Version{"", v, v} {
						_, err := s.Put(t.Context(), "k", prev, nil)
						var lack *engine.ConditionsIgnoredError
						if !errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied || !errors.As(err, &lack) {
							t.Fatalf("got %v (%v)", err, store.OutcomeOf(err))
						}
						if (lack.Create != "") != c.create && !c.broken.writesAnyway || (lack.Swap != "") != c.swap && !c.broken.writesAnyway {
							t.Errorf("found %q and %q", lack.Create, lack.Swap)
						}
					}
					if got, _, err := s.Get(t.Context(), "k"); err != nil || string(got) != "the holder's" || len(f.rows) != 1 {
						t.Errorf("the holder's register: %q %v; %d rows", got, err, len(f.rows))
					}
					insisting := f.open(t, func(o *engine.Options) {
						o.Trusted, o.OnConditionsIgnored = false, func(engine.ConditionsIgnoredError) error { return nil }
					})
					if err := insisting.Verify(t.Context()); err != nil {
						t.Errorf("insisted: %v", err)
					}
				})
			})
		})
	}
}

// TestProbeGoesOn: a probe whose requests fail continues where it was. Whatever request is
// lost, a good server passes, and the probe never sends more than twice its requests.
func TestProbeGoesOn(t *testing.T) {
	for name, loses := range map[string]func(n int) bool{
		"every second reply lost": func(n int) bool { return n%2 == 0 },
		"every third reply lost":  func(n int) bool { return n%3 == 0 },
		"the first ten lost":      func(n int) bool { return n <= 10 },
	} {
		kinds(t, func(t *testing.T, f *server) {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f.each = loses
					s := f.open(t, func(o *engine.Options) { o.Trusted = false; engine.SetTries(o, 2) })
					err := errors.New("not called")
					calls := 0
					for ; err != nil && calls < 20; calls++ {
						if err = s.Verify(t.Context()); errors.Is(err, store.ErrUnsafe) {
							t.Fatal(err)
						}
					}
					if err != nil || f.count > 36 {
						t.Errorf("after %d calls and %d requests: %v", calls, f.count, err)
					}
					for key := range f.rows {
						t.Errorf("left behind: %q", key)
					}
				})
			})
		})
	}
}

// TestProbeUnderOneFault: whatever happens to one of its requests, the probe does not
// refuse a good server and does not pass a bad one.
func TestProbeUnderOneFault(t *testing.T) {
	for _, wrong := range []fault{lost, dropped, twice, busy} {
		for n := range 6 {
			kinds(t, func(t *testing.T, f *server) {
				synctest.Test(t, func(t *testing.T) {
					f.faults = append(make([]fault, n), wrong)
					if err := f.open(t, unproven).Verify(t.Context()); err != nil {
						t.Errorf("fault %d of request %d: %v", wrong, n, err)
					}
					for _, b := range []broken{{ignoresAbsent: true}, {ignoresMatch: true}, {createsOnMatch: true}, {writesAnyway: true}} {
						if b.createsOnMatch && wrong == twice && n == 4 {
							continue // the second of the two finds what the first has made
						}
						bad := &server{tags: f.tags, carriesState: f.carriesState, number: f.number, broken: b}
						bad.faults = append(make([]fault, n), wrong)
						if err := bad.open(t, unproven).Verify(t.Context()); !errors.Is(err, store.ErrUnsafe) {
							t.Errorf("fault %d of request %d of a bad server: %v", wrong, n, err)
						}
					}
				})
			})
		}
	}
}

// TestProbeMeetsItsOwnLateWrite: if the reply of a probe's write is lost, and the server
// applies it before any later request, the probe still passes a good server.
func TestProbeMeetsItsOwnLateWrite(t *testing.T) {
	for n := range 6 {
		for arrives := n + 2; arrives < 16; arrives++ {
			kinds(t, func(t *testing.T, f *server) {
				synctest.Test(t, func(t *testing.T) {
					f.faults = append(make([]fault, n), delayed)
					f.before = func(request int) {
						if request == arrives {
							f.release()
						}
					}
					if err := f.open(t, unproven).Verify(t.Context()); err != nil {
						t.Errorf("write %d, applied before request %d: %v", n, arrives, err)
					}
				})
			})
		}
	}
}

// TestProbeUnreachable: a probe that cannot reach the server gives no verdict, and the
// engine sends no write.
func TestProbeUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &server{tags: true, each: func(int) bool { return true }}
		checks := 0
		s := f.open(t, func(o *engine.Options) {
			o.Trusted, o.Check = false, func(context.Context) error { checks++; return nil }
		})
		for range 3 {
			_, err := s.Put(t.Context(), "k", "", nil)
			if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		<-ctx.Done()
		if err := s.Verify(ctx); store.OutcomeOf(err) != store.NotApplied || errors.Is(err, store.ErrUnsafe) {
			t.Errorf("under a context that has ended: %v", err)
		}
		f.each = nil
		mustPut(t, s, "k", "", "1")
		if checks != 1 {
			t.Errorf("%d looks at the table", checks)
		}
	})
}

// TestCheckFails: the error of Options.Check becomes the error of the write, and the next
// write calls Check again.
func TestCheckFails(t *testing.T) {
	f := &server{}
	wrong := store.ErrMisconfigured
	s := f.open(t, func(o *engine.Options) {
		o.Trusted, o.TrustConditions, o.Check = false, true, func(context.Context) error { return wrong }
	})
	if _, err := s.Put(t.Context(), "k", "", nil); !errors.Is(err, store.ErrMisconfigured) || f.requests() != "" {
		t.Errorf("got %v", err)
	}
	wrong = nil
	if mustPut(t, s, "k", "", "1"); f.requests() != "write" {
		t.Error("a server with TrustConditions is probed")
	}
}
