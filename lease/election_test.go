package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// candidates makes candidates: a client, or a session of one.
type candidates interface {
	Election(name string, o *lease.LockOptions) (*lease.Election, error)
}

func election(t *testing.T, c candidates, name string) *lease.Election {
	t.Helper()
	e, err := c.Election(name, nil)
	must(t, err)
	return e
}

func mustCampaign(t *testing.T, e *lease.Election, value string) *lease.Guard {
	t.Helper()
	g, err := e.Campaign(t.Context(), []byte(value))
	if err != nil {
		t.Fatalf("Campaign(%q): %v", value, err)
	}
	return g
}

func wantLeader(t *testing.T, c *lease.Client, name, value string, token uint64) {
	t.Helper()
	l, err := c.Leader(t.Context(), name)
	if err != nil || string(l.Value) != value || l.Token != token || l.Name != name {
		t.Fatalf("Leader: %q (token %d), %v; want %q (token %d)", l.Value, l.Token, err, value, token)
	}
}

func wantNoLeader(t *testing.T, c *lease.Client, name string) {
	t.Helper()
	if l, err := c.Leader(t.Context(), name); !errors.Is(err, lease.ErrNoLeader) {
		t.Fatalf("Leader: %q (token %d), %v; want none", l.Value, l.Token, err)
	}
}

// observation is a line of what Observe yields.
func observation(l lease.Leader, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(l.Value)
}

// The value is written with the claim: a campaign costs what an acquire costs, and no
// reader sees the leader without its value. A value of none does not leave that of the
// leader before.
func TestCampaignWritesTheValueWithTheClaim(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		e := election(t, c, "job")
		for i, value := range []string{"first", "second", ""} {
			g := mustCampaign(t, e, value)
			if n := w.requests(); n != 1 {
				t.Errorf("campaign %d: %d requests, want 1", i, n)
			}
			wantLeader(t, c, "job", value, g.Token())
			if n := w.requests(); n != 1 {
				t.Errorf("Leader %d: %d requests, want 1", i, n)
			}
			must(t, e.Resign(t.Context()))
			w.requests()
		}
		g, err := e.Campaign(t.Context(), nil)
		if err != nil || g.Data() != nil || wantState(t, c, "job", lease.Held).Data != nil {
			t.Errorf("a leader without a value has %q, %v", g.Data(), err)
		}
	})
}

// A candidate that leads already proclaims, in the same term, and has one guard: the first
// Resign ends the term.
func TestCampaignOfALeader(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		e := election(t, c, "job")
		g := mustCampaign(t, e, "first")
		if again := mustCampaign(t, e, "second"); again != g {
			t.Error("a second guard")
		}
		wantLeader(t, c, "job", "second", g.Token())
		if err := e.Resign(t.Context()); err != nil || e.Resign(t.Context()) != nil {
			t.Error(err)
		}
		wantNoLeader(t, c, "job")
	})
}

// Two campaigns at one time are one candidate: both return one guard, the value of the second
// remains, and the first Resign ends the term.
func TestTwoCampaignsOfACandidate(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			time.Sleep(time.Second) // the second begins while the first is under way
			return next(ctx, op)
		}), nil)
		e := election(t, c, "job")
		var first *lease.Guard
		var both sync.WaitGroup
		both.Go(func() { first = mustCampaign(t, e, "first") })
		time.Sleep(time.Second / 2)
		second := mustCampaign(t, e, "second")
		both.Wait()
		if first != second {
			t.Error("two guards of one candidate")
		}
		wantLeader(t, c, "job", "second", second.Token())
		report(t, e.Resign(t.Context()))
		wantNoLeader(t, c, "job")
	})
}

func TestCampaignIsOverWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		leader, other := election(t, client(t, st, nil), "job"), election(t, client(t, st, nil), "job")
		g := mustCampaign(t, leader, "leader")
		cause := errors.New("no more time")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		var both sync.WaitGroup
		for range 2 { // the second waits for the first
			both.Go(func() {
				if _, err := other.Campaign(ctx, nil); !errors.Is(err, cause) {
					t.Errorf("Campaign: %v; want %v", err, cause)
				}
			})
		}
		both.Wait()
		if g.Err() != nil || other.Resign(t.Context()) != nil {
			t.Error("the campaign of another has ended the term")
		}
	})
}

// A value that does not fit is refused before anything is sent, and before any wait. The
// value that is there stays.
func TestLargeValueIsRefusedBeforeAnyRequest(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		other := mustTry(t, client(t, st, nil), "job")
		w := newWire(hidden{st}) // where a campaign reads first
		c := client(t, w, nil)
		e := election(t, c, "job")
		large := make([]byte, 1<<20)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := e.Campaign(ctx, large); !errors.Is(err, store.ErrTooLarge) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("Campaign: %v", err)
		}
		if err := c.Lead(t.Context(), "job", large, nil, nil); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("Lead: %v", err)
		}
		if n := w.requests(); n != 0 {
			t.Errorf("%d requests", n)
		}
		mustRelease(t, other)
		g := mustCampaign(t, e, "small")
		if err := e.Proclaim(t.Context(), large); !errors.Is(err, store.ErrTooLarge) || g.Err() != nil {
			t.Errorf("Proclaim: %v, %v", err, g.Err())
		}
		wantLeader(t, c, "job", "small", g.Token())
		full := make([]byte, lease.MaxData)
		report(t, e.Proclaim(t.Context(), full))
		wantLeader(t, c, "job", string(full), g.Token())
	})
}

func TestOnlyALeaderProclaims(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		e := election(t, c, "job")
		value := []byte("a claim to nothing")
		if err := e.Proclaim(t.Context(), value); !errors.Is(err, lease.ErrNotHeld) {
			t.Errorf("before the campaign: %v", err)
		}
		if err := e.Resign(t.Context()); err != nil {
			t.Errorf("Resign of one that never led: %v", err)
		}
		g := mustCampaign(t, e, "first")
		must(t, e.Proclaim(t.Context(), []byte("second")))
		wantLeader(t, c, "job", "second", g.Token())
		breaks(t, st, g)
		next := mustCampaign(t, election(t, client(t, st, nil), "job"), "of the next")
		if err := e.Proclaim(t.Context(), value); !errors.Is(err, lease.ErrLost) {
			t.Errorf("after the loss: %v", err)
		}
		if err := e.Resign(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Resign after the loss: %v", err)
		}
		wantLeader(t, c, "job", "of the next", next.Token())
		mustRelease(t, next)
		mustCampaign(t, e, "again")
		must(t, e.Resign(t.Context()))
		if err := e.Proclaim(t.Context(), value); !errors.Is(err, lease.ErrReleased) {
			t.Errorf("after Resign: %v", err)
		}
		wantNoLeader(t, c, "job")
	})
}

// Every change is reported once and in order, with the token of the term that had the value;
// renewals and reads are none. The end of the context is reported last.
func TestObserveReportsEachChange(t *testing.T) {
	for _, pushes := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			if !pushes {
				st = hidden{st}
			}
			c := client(t, st, &lease.Options{Holder: "ada"})
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("seen enough")
			var told []string
			tokens := map[string]uint64{}
			var observer sync.WaitGroup
			observer.Go(func() {
				for l, err := range client(t, st, nil).Observe(ctx, "job") {
					told = append(told, observation(l, err))
					if err == nil {
						tokens[string(l.Value)] = l.Token
						if l.Holder != "ada" || l.Name != "job" || time.Since(l.Since) > 24*time.Hour {
							t.Errorf("the leader is %+v", l)
						}
					}
				}
			})
			rest := func() { time.Sleep(10 * time.Minute) } // many renewals
			a, b := election(t, c, "job"), election(t, c, "job")
			rest()
			g := mustCampaign(t, a, "a")
			rest()
			report(t, a.Proclaim(t.Context(), []byte("a2")))
			rest()
			_ = a.Resign(t.Context())
			rest()
			next := mustCampaign(t, b, "b")
			rest()
			report(t, errOf(c.Break(t.Context(), "job", next.Token(), &lease.BreakOptions{Immediate: true})))
			rest()
			last := mustCampaign(t, a, "b") // the same value in another term
			rest()
			cancel(cause)
			observer.Wait()
			none := `election "job": no leader`
			if want := []string{none, "a", "a2", none, "b", none, "b"}; len(told) != 8 || !slices.Equal(told[:7], want) {
				t.Errorf("told %q; want %q and the end", told, want)
			}
			if tokens["a"] != g.Token() || tokens["a2"] != g.Token() || tokens["b"] != last.Token() {
				t.Errorf("the tokens are %v; want %d, %d and %d", tokens, g.Token(), g.Token(), last.Token())
			}
		})
	}
}

// The next leader can have the same value, and can follow before the observer looks again.
func TestObserveReportsAnotherTermWithTheSameValue(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		e := election(t, c, "job")
		g := mustCampaign(t, e, "the same")
		for l, err := range client(t, hidden{st}, nil).Observe(t.Context(), "job") {
			if err != nil || string(l.Value) != "the same" || l.Token != g.Token() {
				t.Fatalf("told of %q (token %d), %v; want the token %d", l.Value, l.Token, err, g.Token())
			}
			if g.WasLastHolder() { // the second term
				break
			}
			_ = e.Resign(t.Context())
			g = mustCampaign(t, e, "the same")
			time.AfterFunc(time.Hour, func() { end(c) }) // else there is no event
		}
	})
}

func TestObserveEnds(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		mustCampaign(t, election(t, client(t, st, nil), "job"), "leader")
		c := client(t, st, nil)
		for l := range c.Observe(t.Context(), "job") {
			if string(l.Value) != "leader" {
				t.Errorf("the leader is %q", l.Value)
			}
			break // leaves nothing behind
		}
		cause := errors.New("seen enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		time.AfterFunc(time.Hour, func() { end(c) })
		var last error
		for _, last = range c.Observe(ctx, "job") {
		}
		if !errors.Is(last, cause) {
			t.Errorf("the last is %v, want %v", last, cause)
		}
		for _, last = range c.Observe(t.Context(), "job") {
		}
		if !errors.Is(last, lease.ErrClosed) {
			t.Errorf("the last is %v, want %v", last, lease.ErrClosed)
		}
		for _, err := range c.Observe(t.Context(), "job") {
			if !errors.Is(err, lease.ErrClosed) {
				t.Errorf("of a closed client: %v", err)
			}
		}
		for _, err := range client(t, st, nil).Observe(t.Context(), "../job") {
			if !errors.Is(err, store.ErrKey) {
				t.Errorf("of a bad name: %v", err)
			}
		}
	})
}

// An error of the store is reported, and the observation continues.
func TestObserveSurvivesErrors(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		e := election(t, client(t, st, nil), "job")
		mustCampaign(t, e, "before")
		w := newWire(hidden{st})
		time.AfterFunc(time.Minute, func() { w.set(everything(drop)) })
		time.AfterFunc(2*time.Minute, func() { _ = e.Proclaim(t.Context(), []byte("after")); w.set(nil) })
		failed := 0
		for l, err := range client(t, w, nil).Observe(t.Context(), "job") {
			switch {
			case errors.Is(err, errNetwork):
				failed++
			case err != nil:
				t.Fatal(err)
			case string(l.Value) == "before" && failed > 0:
				t.Error("an error made the leader a new one")
			case string(l.Value) == "after":
				if failed == 0 {
					t.Error("no error was told")
				}
				return
			}
		}
	})
}

// What one look knows decides whether a dead leader is named.
func TestDeadLeaderIsNotNamed(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		p := &presence{Store: st, verdict: store.Alive, died: make(chan struct{})}
		c := client(t, p, nil)
		wantNoLeader(t, c, "job")
		g := mustCampaign(t, election(t, client(t, p, &lease.Options{ManualRenewal: true}), "job"), "leader")
		for _, verdict := range []store.Liveness{store.Alive, store.LivenessUnknown} {
			p.set(verdict)
			time.Sleep(ttl / 4)
			wantLeader(t, c, "job", "leader", g.Token())
		}
		p.set(store.Dead)
		wantNoLeader(t, c, "job")

		// By the age of the record on the store's own clock.
		aged := &agedStore{Store: st, age: -1}
		c = client(t, aged, nil)
		clock := newClocks()
		lease.SetClock(c, clock.read)
		clock.change(func(cl *clocks) { cl.jumped += time.Hour })
		aged.age = time.Hour
		began := time.Now()
		wantNoLeader(t, c, "job")
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v to learn the age", took)
		}

		next := mustCampaign(t, election(t, client(t, p, nil), "job"), "next")
		wantLeader(t, client(t, p, &lease.Options{NoPresence: true}), "job", "next", next.Token())
		must(t, errOf(c.Break(t.Context(), "job", next.Token(), nil)))
		wantNoLeader(t, c, "job") // although it may not have heard yet
	})
}

func TestLeaderReportsErrors(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		if _, err := c.Leader(t.Context(), ""); !errors.Is(err, store.ErrKey) {
			t.Error(err)
		}
		if _, err := c.Election("a//b", nil); !errors.Is(err, store.ErrKey) {
			t.Error(err)
		}
		if err := c.Lead(t.Context(), "", nil, nil, nil); !errors.Is(err, store.ErrKey) {
			t.Error(err)
		}
		put(t, st, "job", []byte("not a record"))
		if _, err := c.Leader(t.Context(), "job"); !errors.Is(err, store.ErrCorrupt) || errors.Is(err, lease.ErrNoLeader) {
			t.Error(err)
		}
	})
}

// A reply that is lost leaves the value and the token of the claim together.
func TestCampaignWithALostReply(t *testing.T) {
	for _, f := range []fault{lose, repeat, drop, fail} {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(st)
			w.set(nth(1, f))
			c := client(t, w, nil)
			g := mustCampaign(t, election(t, c, "job"), "leader")
			wantLeader(t, c, "job", "leader", g.Token())
			time.Sleep(10 * ttl)
			if g.Err() != nil {
				t.Errorf("%s: %v", f, g.Err())
			}
		})
	}
}

// The function runs again after each loss, with a higher token and never together with another's,
// and ends with the context.
func TestLeadCampaignsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		cause := errors.New("the program ends")
		ctx, cancel := context.WithCancelCause(t.Context())
		var terms []error
		var last uint64
		err := c.Lead(ctx, "job", []byte("first"), func(ctx context.Context, g *lease.Guard) error {
			if g.Token() <= last {
				t.Errorf("the token %d after %d", g.Token(), last)
			}
			last = g.Token()
			wantLeader(t, client(t, st, nil), "job", "first", last)
			report(t, g.SetData(ctx, []byte("changed")))
			switch len(terms) {
			case 0: // broken
				breaks(t, st, g)
			case 1: // broken, and taken by another
				breaks(t, st, g)
				other := mustTry(t, client(t, st, nil), "job")
				time.AfterFunc(time.Hour, func() { mustRelease(t, other) })
			case 2: // the store is not reached for longer than the lease
				w.set(everything(drop))
				time.AfterFunc(10*ttl, func() { w.set(nil) })
			case 3: // the record no longer exists
				for {
					info, err := client(t, st, nil).Inspect(t.Context(), "job")
					must(t, err)
					if st.Delete(t.Context(), "lock/job", info.Version) == nil {
						break
					}
				}
			default:
				time.AfterFunc(time.Hour, func() { cancel(cause) })
			}
			<-ctx.Done()
			terms = append(terms, context.Cause(ctx))
			if len(terms) == 1 {
				return nil // for a function that was asked to stop this is no end
			}
			return ctx.Err()
		}, nil)
		for i, want := range []error{lease.ErrBroken, lease.ErrBroken, lease.ErrExpired, lease.ErrRemoved, cause} {
			if i >= len(terms) || !errors.Is(terms[i], want) {
				t.Errorf("term %d of %d: %v; want %v", i, len(terms), terms, want)
				break
			}
		}
		if len(terms) != 5 || !errors.Is(err, cause) || errors.Is(err, lease.ErrLost) {
			t.Errorf("Lead: %v after %d terms", err, len(terms))
		}
		wantState(t, client(t, st, nil), "job", lease.Free)
	})
}

// What ends Lead although the leadership was not lost.
func TestLeadEnds(t *testing.T) {
	cause := errors.New("the program ends")
	for _, c := range []struct {
		name    string
		f       func(t *testing.T, c *lease.Client, cancel context.CancelCauseFunc, ctx context.Context, g *lease.Guard) error
		is, not error // nil: no error at all
	}{
		{"the function is done", func(*testing.T, *lease.Client, context.CancelCauseFunc, context.Context, *lease.Guard) error {
			return nil
		}, nil, nil},
		{"the function fails", func(*testing.T, *lease.Client, context.CancelCauseFunc, context.Context, *lease.Guard) error {
			return errWork
		}, errWork, lease.ErrLost},
		{"the function tells of the loss of another lock", func(t *testing.T, c *lease.Client, _ context.CancelCauseFunc, _ context.Context, _ *lease.Guard) error {
			other := mustTry(t, c, "other")
			report(t, errOf(c.Break(t.Context(), "other", other.Token(), nil)))
			<-other.Context().Done()
			return other.Err()
		}, lease.ErrBroken, nil},
		{"the function resigns", func(t *testing.T, _ *lease.Client, _ context.CancelCauseFunc, ctx context.Context, g *lease.Guard) error {
			mustRelease(t, g)
			<-ctx.Done()
			return nil
		}, nil, nil},
		{"the context ends", func(_ *testing.T, _ *lease.Client, cancel context.CancelCauseFunc, ctx context.Context, g *lease.Guard) error {
			cancel(cause)
			<-ctx.Done()
			time.Sleep(10 * ttl)
			return errors.Join(ctx.Err(), g.Err())
		}, cause, lease.ErrLost},
		{"the context ends, and the work is done", func(_ *testing.T, _ *lease.Client, cancel context.CancelCauseFunc, ctx context.Context, _ *lease.Guard) error {
			cancel(cause)
			<-ctx.Done()
			return nil
		}, nil, nil},
		{"the context ends, and the leadership is lost", func(t *testing.T, c *lease.Client, cancel context.CancelCauseFunc, ctx context.Context, g *lease.Guard) error {
			cancel(cause)
			report(t, errOf(c.Break(t.Context(), "job", g.Token(), nil)))
			<-g.Context().Done()
			return ctx.Err()
		}, lease.ErrLost, nil},
		{"the client is closed", func(_ *testing.T, c *lease.Client, _ context.CancelCauseFunc, ctx context.Context, _ *lease.Guard) error {
			go end(c)
			<-ctx.Done()
			return nil
		}, lease.ErrClosed, lease.ErrLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				client := client(t, st, nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				runs := 0
				err := client.Lead(ctx, "job", nil, func(ctx context.Context, g *lease.Guard) error {
					if runs++; runs > 1 { // it runs again and again, in no time
						cancel(nil)
						return nil
					}
					return c.f(t, client, cancel, ctx, g)
				}, nil)
				if runs != 1 || c.is == nil && err != nil || c.is != nil && !errors.Is(err, c.is) || c.not != nil && errors.Is(err, c.not) {
					t.Errorf("Lead: %v after %d runs; want %v", err, runs, c.is)
				}
			})
		})
	}
}

// A candidate that is never elected stops with its context, and its function never runs.
func TestLeadStopsWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		mustCampaign(t, election(t, client(t, st, nil), "job"), "the other")
		cause := errors.New("the program ends")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Hour, func() { cancel(cause) })
		err := client(t, st, nil).Lead(ctx, "job", nil, func(context.Context, *lease.Guard) error { panic("two lead") }, nil)
		if !errors.Is(err, cause) || !errors.Is(err, lease.ErrHeld) {
			t.Errorf("Lead: %v; want %v, and who leads", err, cause)
		}
	})
}

// A function that panics leaves no leader.
func TestPanicEndsTheLeadership(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		func() {
			defer func() {
				if recover() != "at work" {
					t.Error("the panic is gone")
				}
			}()
			_ = c.Lead(t.Context(), "job", nil, func(context.Context, *lease.Guard) error { panic("at work") }, nil)
		}()
		wantNoLeader(t, c, "job")
	})
}

// What a read of the session says about a leader under it. Leader writes nothing, whatever it
// finds and however often it looks.
func TestLeaderReadsTheSessionAndWritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		p := &presence{Store: st, verdict: store.Alive, died: make(chan struct{})}
		holder := newWire(p)
		owner := client(t, holder, nil)
		s := open(t, owner)
		e := election(t, s, "job")
		g := mustCampaign(t, e, "leader")
		w := newWire(p)
		w.set(func(op *store.Op) fault {
			if op.Kind.Write() {
				t.Errorf("Leader has sent a %s", op.Kind)
			}
			return pass
		})
		c := client(t, w, nil)
		led := func(n int) {
			t.Helper()
			w.requests()
			wantLeader(t, c, "job", "leader", g.Token())
			if got := w.requests(); got != n {
				t.Errorf("%d requests; want %d", got, n)
			}
		}
		led(2)
		holder.requests()
		wantLeader(t, owner, "job", "leader", g.Token())
		if n := holder.requests(); n != 1 {
			t.Errorf("%d requests of the session's own client; want 1", n)
		}

		// Silent, and asked for again and again: named, until its process is dead, or its TTL over.
		holder.set(everything(drop))
		p.set(store.LivenessUnknown)
		for range 6 {
			time.Sleep(ttl / 10)
			led(2)
		}
		p.set(store.Dead)
		wantNoLeader(t, c, "job")
		p.set(store.LivenessUnknown)
		led(2)
		time.Sleep(ttl)
		wantNoLeader(t, c, "job")

		// Fenced by one who waits for another lock of it.
		holder.set(nil)
		s = open(t, owner)
		g = mustCampaign(t, election(t, s, "job"), "leader")
		mustTry(t, s, "other")
		holder.set(everything(drop))
		waiter := client(t, st, nil)
		mustAcquire(t, waiter, "other")
		wantState(t, waiter, "job", lease.Held)
		wantNoLeader(t, c, "job")

		// Its record removed: nothing is known.
		info, err := waiter.InspectSession(t.Context(), s.ID())
		if err != nil || st.Delete(t.Context(), sessionKey(s), info.Version) != nil {
			t.Fatal(err)
		}
		led(3)

		// Closed, and the lock's record not freed.
		holder.set(nil)
		s = open(t, owner)
		g = mustCampaign(t, election(t, s, "job"), "leader")
		holder.set(on("lock/job", drop))
		_ = s.Close(t.Context())
		wantState(t, waiter, "job", lease.Held)
		wantNoLeader(t, c, "job")
	})
}

// The lock passes on between the look at it and the look at the session that had it.
func TestLeaderThatChangesDuringTheRead(t *testing.T) {
	for _, removed := range []bool{true, false} { // the session's record
		bubble(t, func(t *testing.T, st store.Store) {
			holder := newWire(st)
			s := open(t, client(t, holder, nil))
			if !removed {
				holder.set(only(func(op *store.Op) bool { return op.Kind == store.OpDelete }, fail))
			}
			mustCampaign(t, election(t, s, "job"), "the last")
			next := election(t, client(t, st, nil), "job")
			var g *lease.Guard
			w := newWire(st)
			w.set(func(op *store.Op) fault {
				if op.Key == sessionKey(s) && g == nil {
					_ = s.Close(t.Context())
					g = mustCampaign(t, next, "the next")
				}
				return pass
			})
			l, err := client(t, w, nil).Leader(t.Context(), "job")
			if err != nil || g == nil || string(l.Value) != "the next" || l.Token != g.Token() {
				t.Errorf("the leader is %q (token %d), %v; want the next", l.Value, l.Token, err)
			}
		})
	}
}

// A leader resigns, and then ends, after an observer has read the record. The observer does not take
// this leader for dead: it reports the next leader.
func TestObserveWhileTheLeaderResigns(t *testing.T) {
	for _, under := range []bool{false, true} { // a session
		bubble(t, func(t *testing.T, st store.Store) {
			var first *lease.Election
			var s *lease.Session
			var g *lease.Guard
			resign := sync.OnceFunc(func() {
				report(t, first.Resign(t.Context()))
				if under {
					report(t, s.Close(t.Context()))
				}
				g = mustCampaign(t, election(t, client(t, st, nil), "job"), "the next")
			})
			p := whenAsked(st, resign)
			if under {
				s = open(t, client(t, st, nil))
				first = election(t, s, "job")
				w := newWire(st)
				w.set(func(op *store.Op) fault {
					if op.Key == sessionKey(s) {
						resign()
					}
					return pass
				})
				p = w
			} else {
				first = election(t, client(t, p, nil), "job")
			}
			mustCampaign(t, first, "the last")
			for l, err := range client(t, p, nil).Observe(t.Context(), "job") {
				if err != nil || string(l.Value) != "the next" || l.Token != g.Token() {
					t.Errorf("under a session %v: told of %q (token %d), %v; want the next", under, l.Value, l.Token, err)
				}
				break
			}
		})
	}
}

// An observer does not report a leader as dead by a state of its session that never takes effect.
func TestObserveTrustsNoUncommittedState(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, nil))
		mustCampaign(t, election(t, s, "job"), "leader")
		value, _ := stored(t, st, sessionKey(s))
		p := &peekingAt{delayed{st}, sessionKey(s), []byte(strings.Replace(string(value), `"open"`, `"fenced"`, 1))}
		for l, err := range client(t, p, nil).Observe(t.Context(), "job") {
			if err != nil || string(l.Value) != "leader" {
				t.Errorf("told of %+v, %v; want the leader", l, err)
			}
			break
		}
	})
}

// The loss of the session ends a candidate under it, and neither [Session.Lead], which stays
// without the session, nor what that had: it ends with its context.
func TestLeadAfterTheLossOfTheSession(t *testing.T) {
	for _, waits := range []bool{false, true} {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(st)
			c := client(t, w, nil)
			s := open(t, c)
			cause := errors.New("the program ends")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(10*time.Hour, func() { cancel(cause) })
			var terms []error
			work := func(ctx context.Context, g *lease.Guard) error {
				wantLeader(t, client(t, st, nil), "job", "leader", g.Token())
				<-ctx.Done()
				terms = append(terms, context.Cause(ctx))
				return nil
			}
			want := []error{lease.ErrExpired, cause}
			if waits { // while it waits for another, who leads for some hours
				other := mustTry(t, client(t, st, nil), "job")
				time.AfterFunc(5*time.Hour, func() { mustRelease(t, other) })
				want = want[1:]
			}
			time.AfterFunc(time.Hour, func() { w.set(everything(drop)) })
			time.AfterFunc(2*time.Hour, func() { w.set(nil) })
			if err := s.Lead(ctx, "job", []byte("leader"), work, nil); err != nil {
				t.Errorf("Lead: %v", err)
			}
			if len(terms) != len(want) {
				t.Fatalf("%d terms: %v; want %v", len(terms), terms, want)
			}
			for i := range want {
				if !errors.Is(terms[i], want[i]) {
					t.Errorf("term %d ended with %v; want %v", i, terms[i], want[i])
				}
			}
			wantNoLeader(t, c, "job")
			if s.Err() == nil {
				t.Error("the session lives")
			}

			// A candidate under the session reports its end.
			_, err := election(t, s, "job").Campaign(t.Context(), nil)
			if !errors.Is(err, lease.ErrLost) || !errors.Is(err, lease.ErrExpired) {
				t.Errorf("Campaign: %v", err)
			}
		})
	}
}

// The lock of the election is broken: the session lives, and so do its other locks.
func TestLeadUnderASessionThatLives(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, nil))
		other := mustTry(t, s, "other")
		terms := 0
		err := s.Lead(t.Context(), "job", nil, func(ctx context.Context, g *lease.Guard) error {
			if terms++; terms == 3 {
				return errWork
			}
			breaks(t, st, g)
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		if !errors.Is(err, errWork) || errors.Is(err, lease.ErrLost) || terms != 3 || other.Err() != nil {
			t.Errorf("Lead: %v after %d terms, %v", err, terms, other.Err())
		}
		for _, ends := range []func(){func() { _ = s.Close(context.Background()) }, func() {}} { // closed before, too
			err = s.Lead(t.Context(), "job", nil, func(ctx context.Context, g *lease.Guard) error {
				go ends()
				<-ctx.Done()
				return nil
			}, nil)
			if !errors.Is(err, lease.ErrClosed) || errors.Is(err, lease.ErrLost) {
				t.Errorf("Lead of a session that was closed: %v", err)
			}
		}
		if _, err := s.Election("a//b", nil); !errors.Is(err, store.ErrKey) {
			t.Error(err)
		}
		if err := s.Lead(t.Context(), "", nil, nil, nil); !errors.Is(err, store.ErrKey) {
			t.Error(err)
		}
	})
}

// A leader that is asked to give way stops, leaves the leadership to another, and is a
// candidate again. The one that asked may come a moment later.
func TestLeadYieldsOnRequest(t *testing.T) {
	for _, pushes := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			if !pushes {
				st = hidden{st}
			}
			ctx, cancel := context.WithCancel(t.Context())
			var told []string
			var leader sync.WaitGroup
			leader.Go(func() {
				err := client(t, st, nil).Lead(ctx, "job", []byte("first"), func(ctx context.Context, g *lease.Guard) error {
					<-ctx.Done()
					told = append(told, context.Cause(ctx).Error())
					if len(told) == 1 {
						return nil // for the leader this is no end
					}
					return ctx.Err()
				}, nil)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Lead: %v", err)
				}
			})
			time.Sleep(time.Hour)
			other := client(t, st, nil)
			for range 3 {
				asked, err := other.RequestYield(t.Context(), "job", &lease.YieldOptions{Reason: "maintenance", Wait: true})
				if err != nil || !asked.GrantEnded {
					t.Fatalf("Ask: %+v, %v", asked, err)
				}
				time.Sleep(time.Second)
				g := mustTry(t, other, "job")
				time.Sleep(time.Hour)
				mustRelease(t, g)
				time.Sleep(time.Hour)
				if l, err := other.Leader(t.Context(), "job"); err != nil || string(l.Value) != "first" {
					t.Fatalf("the leader is %q, %v; want the first again", l.Value, err)
				}
			}
			cancel()
			leader.Wait()
			if len(told) != 4 || told[3] != context.Canceled.Error() {
				t.Errorf("the function was told %q", told)
			}
		})
	}
}

// Candidates that are fair lead in the order in which they came. Whatever record is written, the
// value in it is that of the leader whose token is in it, or none: and it is none before the
// campaign has returned only. An interrupted candidate is passed over.
func TestFairElection(t *testing.T) {
	for _, pushes := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			if !pushes {
				st = hidden{st}
			}
			var mu sync.Mutex
			values := map[uint64][]string{} // by token
			w := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
				err := next(ctx, op)
				rec, bad := lease.Decode("job", op.Value)
				if err != nil || !op.Kind.Write() || bad != nil || rec.State != lease.Held {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				values[rec.Token] = append(values[rec.Token], string(rec.Data))
				return err
			})
			var order []string
			var all sync.WaitGroup
			for i := range 8 {
				name := fmt.Sprint("candidate ", i)
				c := client(t, w, &lease.Options{Holder: name})
				e, err := open(t, c).Election("job", &lease.LockOptions{Fair: true})
				must(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				if i == 3 {
					time.AfterFunc(30*time.Second, cancel)
				}
				all.Go(func() {
					defer cancel()
					g, err := e.Campaign(ctx, []byte(name))
					if i == 3 {
						if !errors.Is(err, context.Canceled) {
							t.Errorf("the candidate that gives up: %v", err)
						}
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
					wantLeader(t, c, "job", name, g.Token())
					if l, err := c.Leader(t.Context(), "job"); err != nil || l.Holder != name {
						t.Errorf("the leader is %q, %v, want %q", l.Holder, err, name)
					}
					time.Sleep(time.Minute)
					report(t, e.Resign(t.Context()))
				})
				time.Sleep(time.Second)
			}
			all.Wait()
			if want := "[candidate 0 candidate 1 candidate 2 candidate 4 candidate 5 candidate 6 candidate 7]"; fmt.Sprint(order) != want {
				t.Errorf("they lead in the order %v, want %s", order, want)
			}
			if len(values) != 7 {
				t.Errorf("%d terms: %q", len(values), values)
			}
			for token, all := range values {
				own := strings.Trim(strings.Join(slices.Compact(all), ","), ",")
				if !slices.Contains(order, own) {
					t.Errorf("the token %d was written with the values %q", token, all)
				}
			}
			wantNoLeader(t, client(t, st, nil), "job")
		})
	}
}

// A candidate that was handed the leadership, and is broken before it has written its value,
// campaigns again: no reader has seen its term.
func TestCandidateBrokenBeforeItsValue(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		fair := lease.LockOptions{Fair: true}
		a, err := open(t, client(t, st, nil)).Election("job", &fair)
		must(t, err)
		w := newWire(st)
		b := open(t, client(t, w, nil))
		must(t, errOf(a.Campaign(t.Context(), []byte("a"))))
		ctx, cancel := context.WithCancel(t.Context())
		led := make(chan error, 1)
		ran := make(chan struct{})
		go func() {
			led <- b.Lead(ctx, "job", []byte("b"), func(ctx context.Context, g *lease.Guard) error {
				close(ran)
				<-ctx.Done()
				return nil
			}, &fair)
		}()
		time.Sleep(time.Minute)
		broken := false
		w.set(func(op *store.Op) fault {
			if op.Key == "lock/job" && op.Kind.Write() && !broken {
				broken = true
				w.mu.Unlock()
				_, err := client(t, st, nil).Break(context.Background(), "job", record(t, st, "job").Token, nil)
				w.mu.Lock()
				report(t, err)
			}
			return pass
		})
		must(t, a.Resign(t.Context()))
		select {
		case err := <-led:
			t.Errorf("Lead ended: %v", err)
		case <-ran:
		}
		cancel()
		time.Sleep(time.Minute)
	})
}

// A candidate without a value, to which the leadership is handed over, writes its name into the record, also if
// it leads several elections under one session.
func TestNamesOfHandedLeaders(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		fair := &lease.LockOptions{Fair: true}
		first, c := open(t, client(t, st, nil)), client(t, st, &lease.Options{Holder: "next"})
		next := open(t, c)
		for i := range 3 {
			name := fmt.Sprint("job ", i)
			before, err := first.Election(name, fair)
			must(t, err)
			_, err = before.Campaign(t.Context(), nil)
			must(t, err)
			after, err := next.Election(name, fair)
			must(t, err)
			time.AfterFunc(time.Second, func() { report(t, before.Resign(t.Context())) })
			_, err = after.Campaign(t.Context(), nil)
			must(t, err)
			if l, err := c.Leader(t.Context(), name); err != nil || l.Holder != "next" {
				t.Errorf("the leader of %s is %q, %v", name, l.Holder, err)
			}
		}
	})
}
