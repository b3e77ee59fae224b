package otelhold_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/otel/otelhold"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// TestDo: acquire, hold and release are children of the caller's span. The requests of the store are below
// them, and the spans of the work below the hold, the renewals too.
func TestDo(t *testing.T) {
	bubble(t, func(e *env) {
		c := e.client(e.st, lease.Options{TTL: 30 * time.Second})
		ctx, program := e.span(context.Background())
		token := ""
		e.must(c.Do(ctx, "jobs/nightly", func(ctx context.Context, g *lease.Guard) error {
			token = fmt.Sprint(g.Token())
			_, work := e.tracer.Start(ctx, "work")
			work.End()
			_, work = e.tracer.Start(g.Context(), "work of guard")
			work.End()
			time.Sleep(25 * time.Second)
			return nil
		}, nil))
		program.End()

		e.wantBelow(program.SpanContext(), "holdfast acquire", "holdfast hold", "holdfast release")
		acquire, hold, release := e.one("holdfast acquire"), e.one("holdfast hold"), e.one("holdfast release")
		e.wantBelow(acquire.SpanContext, "holdfast store put")
		e.wantBelow(hold.SpanContext, "holdfast store put-unsynced", "work", "work of guard")
		e.wantBelow(release.SpanContext, "holdfast store put")
		e.want(acquire, "acquired", codes.Unset)
		e.want(hold, "released", codes.Unset)
		e.want(release, "ok", codes.Unset)
		for _, s := range []struct{ got, want string }{
			{attr(acquire, "holdfast.lock"), "jobs/nightly"}, {attr(acquire, "holdfast.token"), token}, {attr(acquire, "holdfast.takeover"), ""},
			{attr(hold, "holdfast.lock"), "jobs/nightly"}, {attr(hold, "holdfast.token"), token}, {attr(release, "holdfast.token"), token},
			{attr(e.all("holdfast store put")[0], "holdfast.key"), "lock/jobs/nightly"},
		} {
			if s.got != s.want {
				t.Errorf("attribute: got %q, want %q", s.got, s.want)
			}
		}
		if took := hold.EndTime.Sub(hold.StartTime); took != 25*time.Second {
			t.Errorf("the hold took %v, want 25s", took)
		}
	})
}

// TestNoParent: without a span of the caller, all spans of a grant are in one trace.
func TestNoParent(t *testing.T) {
	bubble(t, func(e *env) {
		c := e.client(e.st, lease.Options{})
		g, err := c.Acquire(e.Context(), "job", nil)
		e.must(err)
		e.must(g.Release(context.Background()))
		acquire := e.one("holdfast acquire")
		if acquire.Parent.IsValid() {
			t.Error("the acquire has a parent")
		}
		e.wantBelow(acquire.SpanContext, "holdfast hold", "holdfast release", "holdfast store put")

		// A release with the context of the guard is next to the hold, too, and a second one is no span.
		e.exporter.Reset()
		g, err = c.Acquire(e.Context(), "job", nil)
		e.must(err)
		e.must(g.Release(g.Context()))
		e.must(g.Release(g.Context()))
		if got, want := e.one("holdfast release").Parent.SpanID(), e.one("holdfast acquire").SpanContext.SpanID(); got != want {
			t.Errorf("the parent of the release is %v, want the acquire %v", got, want)
		}
	})
}

// TestWaitAndTakeover: the span of an acquire lasts for the wait, and says why the earlier grant was over.
func TestWaitAndTakeover(t *testing.T) {
	bubble(t, func(e *env) {
		dead := e.client(e.st, lease.Options{TTL: 10 * time.Second, ManualRenewal: true})
		first, err := dead.Acquire(e.Context(), "job", nil)
		e.must(err)
		c := e.client(e.st, lease.Options{TTL: 10 * time.Second})
		g, err := c.Acquire(e.Context(), "job", nil)
		e.must(err)
		e.must(g.Release(e.Context()))

		acquires, holds := e.all("holdfast acquire"), e.all("holdfast hold")
		second := acquires[1]
		if took := second.EndTime.Sub(second.StartTime); took < 10*time.Second {
			t.Errorf("the acquire took %v, want the TTL of the dead holder", took)
		}
		if reason := attr(second, "holdfast.takeover"); reason == "" || reason != attr(holds[1], "holdfast.takeover") || reason != g.TakeoverReason() {
			t.Errorf("the reason of the takeover is %q, want %q", reason, g.TakeoverReason())
		}
		if attr(acquires[0], "holdfast.takeover") != "" || first.TakeoverReason() != "" {
			t.Error("the first grant took nothing over")
		}
		e.want(holds[0], "lost", codes.Error)
		if got := attr(holds[0], "holdfast.reason"); got != "expired" {
			t.Errorf("the reason of the loss is %q, want expired", got)
		}
	})
}

// TestLoss: a loss ends the hold at once, as an error with its reason. The release comes later.
func TestLoss(t *testing.T) {
	bubble(t, func(e *env) {
		c := e.client(e.st, lease.Options{TTL: 9 * time.Second})
		g, err := c.Acquire(e.Context(), "job", nil)
		e.must(err)
		_, err = c.Break(e.Context(), "job", g.Token(), nil)
		e.must(err)
		<-g.Context().Done()
		hold := e.one("holdfast hold")
		e.want(hold, "lost", codes.Error)
		if got := attr(hold, "holdfast.reason"); got != "broken" {
			t.Errorf("the reason is %q, want broken", got)
		}
		time.Sleep(time.Minute)
		e.wantIs(g.Release(e.Context()), lease.ErrLost)
		e.want(e.one("holdfast release"), "unknown", codes.Error)
	})
}

// TestUnknownOutcome: a request whose reply was lost is an error with the outcome unknown. The lock is held
// nevertheless.
func TestUnknownOutcome(t *testing.T) {
	bubble(t, func(e *env) {
		c := e.client(faultstore.New(e.st, faultstore.MustParse("put lock/job #1 lose")), lease.Options{})
		g, err := c.Acquire(e.Context(), "job", nil)
		e.must(err)
		e.must(g.Release(e.Context()))
		e.want(e.one("holdfast acquire"), "acquired", codes.Unset)
		e.want(e.all("holdfast store put")[0], "unknown", codes.Error)
	})
	bubble(t, func(e *env) {
		c := e.client(faultstore.New(e.st, faultstore.MustParse("put lock/job #1 lose; * lock/job #2- fail")), lease.Options{TTL: 5 * time.Second})
		_, err := c.TryAcquire(e.Context(), "job", nil)
		if store.OutcomeOf(err) != store.Unknown {
			t.Fatalf("the outcome of %v is %v, want unknown", err, store.OutcomeOf(err))
		}
		e.want(e.one("holdfast acquire"), "unknown", codes.Error)
	})
}

// TestNotAcquired: the outcomes of the calls that do not get the lock.
func TestNotAcquired(t *testing.T) {
	bubble(t, func(e *env) {
		c := e.client(e.st, lease.Options{})
		g, err := c.Acquire(e.Context(), "job", nil)
		e.must(err)
		e.exporter.Reset()
		_, err = c.TryAcquire(e.Context(), "job", nil)
		e.wantIs(err, lease.ErrHeld)
		e.want(e.one("holdfast acquire"), "held", codes.Unset)
		if got, want := attr(e.one("holdfast acquire"), "holdfast.holder"), c.Options().Holder; got != want {
			t.Errorf("the holder is %q, want %q", got, want)
		}

		e.exporter.Reset()
		ctx, cancel := within(time.Second)
		defer cancel()
		_, err = c.Acquire(ctx, "job", nil)
		e.wantIs(err, context.DeadlineExceeded)
		e.want(e.one("holdfast acquire"), "cancelled", codes.Error)
		e.exporter.Reset()
		why := errors.New("no longer needed")
		stopped, stop := context.WithCancelCause(e.Context())
		time.AfterFunc(time.Second, func() { stop(why) })
		_, err = c.Acquire(stopped, "job", nil)
		e.wantIs(err, why)
		e.want(e.one("holdfast acquire"), "cancelled", codes.Error)
		for _, s := range e.exporter.GetSpans() {
			if s.Name == "holdfast store watch" && s.Status.Code != codes.Unset {
				t.Errorf("a wait that ended with its caller has the status %v", s.Status)
			}
		}

		e.exporter.Reset()
		go func() {
			time.Sleep(time.Second)
			_ = c.Close(context.Background())
		}()
		_, err = c.Acquire(e.Context(), "job", nil)
		e.wantIs(err, lease.ErrClosed)
		e.want(e.one("holdfast acquire"), "closed", codes.Error)
		e.want(e.one("holdfast hold"), "closed", codes.Unset)
		_ = g.Release(e.Context())
	})
	bubble(t, func(e *env) {
		c := e.client(faultstore.New(e.st, faultstore.MustParse("* * fail")), lease.Options{StoreTimeout: 3 * time.Second})
		_, err := c.Acquire(e.Context(), "job", nil)
		e.wantIs(err, lease.ErrUnresponsive)
		e.want(e.one("holdfast acquire"), "unresponsive", codes.Error)
		e.want(e.all("holdfast store get")[0], "not applied", codes.Error)
		_, err = c.Acquire(e.Context(), "a//b", nil)
		e.wantIs(err, store.ErrKey) // before anything begins
	})
	bubble(t, func(e *env) {
		c := e.client(e.st, lease.Options{})
		once := func() {
			_ = errOf(c.Once(e.Context(), "job", lease.Every(time.Hour), func(context.Context, *lease.Guard) error { return nil }, nil))
		}
		once()
		once()
		acquires := e.all("holdfast acquire")
		e.want(acquires[0], "acquired", codes.Unset)
		e.want(acquires[1], "already ran", codes.Unset)
		e.one("holdfast hold")
	})
}

func errOf[T any](_ T, err error) error { return err }

// TestConcurrent: goroutines that want one lock have a hold each, one after the other, below their own spans.
func TestConcurrent(t *testing.T) {
	bubble(t, func(e *env) {
		const n = 8
		c, programs := e.client(e.st, lease.Options{}), make([]trace.SpanContext, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				ctx, program := e.span(e.Context())
				defer program.End()
				programs[i] = program.SpanContext()
				if err := c.Do(ctx, "job", func(context.Context, *lease.Guard) error { time.Sleep(time.Second); return nil }, nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, p := range programs {
			e.wantBelow(p, "holdfast acquire", "holdfast hold", "holdfast release")
		}
		holds := e.all("holdfast hold")
		if len(holds) != n {
			t.Fatalf("%d holds, want %d", len(holds), n)
		}
		for i, h := range holds[1:] {
			if h.StartTime.Before(holds[i].EndTime) {
				t.Errorf("hold %d begins at %v, before the end of the one before at %v", i+1, h.StartTime, holds[i].EndTime)
			}
		}
	})
}

// TestWaysToHold: each way to take a lock has a hold, whose span the work has.
func TestWaysToHold(t *testing.T) {
	for name, hold := range map[string]func(e *env, c *lease.Client, work func(context.Context)) error{
		"handle": func(e *env, c *lease.Client, work func(context.Context)) error {
			h, err := c.Handle("job", nil)
			e.must(err)
			return h.Do(e.Context(), func(ctx context.Context, _ *lease.Guard) error { work(ctx); return nil })
		},
		"lead": func(e *env, c *lease.Client, work func(context.Context)) error {
			return c.Lead(e.Context(), "job", nil, func(ctx context.Context, _ *lease.Guard) error { work(ctx); return nil }, nil)
		},
		"campaign": func(e *env, c *lease.Client, work func(context.Context)) error {
			election, err := c.Election("job", nil)
			e.must(err)
			g, err := election.Campaign(e.Context(), []byte("me"))
			e.must(err)
			work(g.Context())
			return election.Resign(e.Context())
		},
		"session": func(e *env, c *lease.Client, work func(context.Context)) error {
			s, err := c.OpenSession(e.Context())
			e.must(err)
			e.must(s.Do(e.Context(), "job", func(ctx context.Context, _ *lease.Guard) error { work(ctx); return nil }, &lease.LockOptions{Slots: 2}))
			return s.Close(e.Context())
		},
		"closed session": func(e *env, c *lease.Client, work func(context.Context)) error {
			s, err := c.OpenSession(e.Context())
			e.must(err)
			g, err := s.Acquire(e.Context(), "job", nil)
			e.must(err)
			work(g.Context())
			return s.Close(e.Context())
		},
		"all": func(e *env, c *lease.Client, work func(context.Context)) error {
			h, err := c.Handle("job", nil)
			e.must(err)
			set, err := lease.AcquireAll(e.Context(), h)
			e.must(err)
			work(set.Guard("job").Context())
			return set.Release(e.Context())
		},
		"ticket": func(e *env, c *lease.Client, work func(context.Context)) error {
			g, err := c.Acquire(e.Context(), "job", nil)
			e.must(err)
			ticket, err := g.Detach(e.Context())
			e.must(err)
			e.want(e.one("holdfast hold"), "detached", codes.Unset)
			e.exporter.Reset()
			g, err = c.Attach(e.Context(), ticket)
			e.must(err)
			work(g.Context())
			return g.Release(e.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(e *env) {
				c := e.client(e.st, lease.Options{})
				e.must(hold(e, c, func(ctx context.Context) {
					_, work := e.tracer.Start(ctx, "work")
					work.End()
				}))
				synctest.Wait()
				if below := e.below(e.one("holdfast hold").SpanContext); !slices.Contains(below, "work") {
					t.Errorf("the children of the hold are %q, and work is not among them", below)
				}
			})
		})
	}
}

// TestPanic: a panic of the work leaves no span open.
func TestPanic(t *testing.T) {
	bubble(t, func(e *env) {
		c := e.client(e.st, lease.Options{})
		func() {
			defer func() { _ = recover() }()
			_ = c.Do(e.Context(), "job", func(context.Context, *lease.Guard) error { panic(errors.New("work")) }, nil)
		}()
		e.want(e.one("holdfast hold"), "released", codes.Unset)
		e.want(e.one("holdfast release"), "ok", codes.Unset)
	})
}

// TestMaxRequests: below a hold that lasts for days, not all renewals are recorded. The requests of the work are.
func TestMaxRequests(t *testing.T) {
	bubble(t, func(e *env) {
		c := e.client(e.st, lease.Options{TTL: 3 * time.Second})
		other := e.tel.Store(e.st)
		e.must(c.Do(e.Context(), "job", func(ctx context.Context, g *lease.Guard) error {
			time.Sleep(time.Hour)
			ctx, work := e.tracer.Start(ctx, "work")
			defer work.End()
			_, _, err := other.Get(ctx, "lock/job")
			return err
		}, nil))
		hold := e.one("holdfast hold")
		renewals := 0
		for _, s := range e.all("holdfast store put-unsynced") {
			if s.Parent.SpanID() == hold.SpanContext.SpanID() {
				renewals++
			}
		}
		if renewals != otelhold.MaxRequests {
			t.Errorf("%d renewals are recorded, want %d", renewals, otelhold.MaxRequests)
		}
		if n, err := strconv.Atoi(attr(hold, "holdfast.unrecorded")); err != nil || n < 2000 {
			t.Errorf("the hold has %q requests that are not recorded, want the rest of 3600", attr(hold, "holdfast.unrecorded"))
		}
		e.wantBelow(e.one("work").SpanContext, "holdfast store get")
	})
}
