package lease_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

func mustAsk(t *testing.T, c *lease.Client, reason string) lease.YieldStatus {
	t.Helper()
	asked, err := c.RequestYield(t.Context(), "job", &lease.YieldOptions{Reason: reason})
	if err != nil {
		t.Fatalf("Ask: %v", err)
	}
	return asked
}

// hears waits until the holder has read a request to yield.
func hears(t *testing.T, g *lease.Guard, within time.Duration) lease.YieldStatus {
	t.Helper()
	select {
	case <-g.YieldRequested():
	case <-time.After(max(within, time.Nanosecond)):
		t.Fatalf("the holder has not read the request for %v; its lease: %v", within, g.Err())
	}
	asked, ok := g.YieldRequest()
	if !ok {
		t.Fatal("the holder has a request to yield, and YieldRequest does not return it")
	}
	return asked
}

// The holder reads a request to yield with its next renewal, with one more request, and keeps the
// lock. The request to yield stays in the record until the grant ends.
func TestRequestIsRead(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var heard events
		w := newWire(st)
		c := client(t, w, &lease.Options{Holder: "ada", OnEvent: heard.add})
		g := mustTry(t, c, "job")
		if _, ok := g.YieldRequest(); ok {
			t.Error("YieldRequest returns a request before there is one")
		}
		time.Sleep(time.Second)
		before := g.Deadline()
		asks := newWire(st)
		asked := mustAsk(t, client(t, asks, &lease.Options{Holder: "bob"}), "an upgrade")
		if n := asks.requests(); n != 2 {
			t.Errorf("RequestYield sends %d requests, want 2", n)
		}
		if asked.By != "bob" || asked.Reason != "an upgrade" || asked.Holder != "ada" || asked.Token != g.Token() || asked.Acknowledged {
			t.Errorf("the request is %+v", asked)
		}
		w.requests()
		got := hears(t, g, ttl/2)
		synctest.Wait() // it reads the request before it writes again
		if n := w.requests(); n != 2 {
			t.Errorf("the renewal that conflicted with the request to yield took %d requests, want 2", n)
		}
		if got.By != "bob" || got.Reason != "an upgrade" {
			t.Errorf("the holder reads %+v", got)
		}
		if after := g.Deadline(); !after.After(before) {
			t.Error("the renewal that conflicted with the request to yield did not renew the lease")
		}
		for range 3 {
			rec := wantState(t, c, "job", lease.Held)
			if rec.YieldRequest == nil || !rec.YieldRequest.Acknowledged || rec.YieldRequest.By != "bob" || rec.HolderNonce != "" || rec.HolderWriteAge != 0 {
				t.Errorf("after a renewal the record has the request %+v, holder nonce %q", rec.YieldRequest, rec.HolderNonce)
			}
			time.Sleep(ttl)
		}
		asks.requests()
		again := mustAsk(t, client(t, asks, &lease.Options{Holder: "eve"}), "me, too")
		if again.By != "bob" || !again.Acknowledged || asks.requests() != 1 {
			t.Errorf("a second request is %+v, want the first", again)
		}
		mustRelease(t, g)
		if rec := wantState(t, c, "job", lease.Free); rec.YieldRequest != nil || rec.HolderNonce != "" {
			t.Errorf("the free record has a request to yield: %+v", rec)
		}
		g = mustTry(t, c, "job")
		if _, ok := g.YieldRequest(); ok {
			t.Error("the request outlives the grant")
		}
		if told := heard.of(lease.EventYieldRequested); len(told) != 1 || told[0].Holder != "bob" || told[0].Reason != "an upgrade" || told[0].Token != asked.Token {
			t.Errorf("events: %+v", told)
		}
	})
}

// Whether any request or reply of both sides is lost or applied: the holder keeps its lease, and
// reads the request to yield if it is in the record.
func TestRequestWithLostReplies(t *testing.T) {
	all := []fault{pass, lose, drop, repeat, fail, hang, hangLate}
	for _, asker := range all {
		for _, holder := range all {
			for n := 1; n <= 3; n++ {
				t.Run(fmt.Sprintf("%s-%s-%d", asker, holder, n), func(t *testing.T) {
					bubble(t, func(t *testing.T, st store.Store) {
						w, aw := newWire(st), newWire(st)
						g := mustTry(t, client(t, w, nil), "job")
						aw.set(nth(1, asker))
						w.set(nth(n, holder))
						_, err := client(t, aw, nil).RequestYield(t.Context(), "job", nil)
						if err != nil && asker != fail {
							t.Errorf("RequestYield = %v", err)
						}
						if asker == fail && store.OutcomeOf(err) != store.NotApplied {
							t.Errorf("a RequestYield that was not applied = %v", err)
						}
						time.Sleep(2 * ttl)
						must(t, g.Err())
						if err == nil {
							hears(t, g, 0)
						}
						w.after.Wait()
						aw.after.Wait()
						mustRelease(t, g)
						wantState(t, client(t, st, nil), "job", lease.Free)
					})
				})
			}
		}
	}
}

// A request to yield is applied just before the n-th write of the holder, whatever that is for.
func TestRequestBeforeAnyWrite(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, c *lease.Client, g *lease.Guard){
		"Renew": func(t *testing.T, c *lease.Client, g *lease.Guard) {
			report(t, g.Renew(t.Context()))
			hears(t, g, 0)
			mustRelease(t, g)
		},
		"SetData": func(t *testing.T, c *lease.Client, g *lease.Guard) {
			report(t, g.SetData(t.Context(), []byte("x")))
			if rec := wantState(t, c, "job", lease.Held); string(rec.Data) != "x" {
				t.Errorf("the data is %q", rec.Data)
			}
			hears(t, g, 0)
			mustRelease(t, g)
		},
		"Release": func(t *testing.T, c *lease.Client, g *lease.Guard) { mustRelease(t, g) },
		"ReleaseTicket": func(t *testing.T, c *lease.Client, g *lease.Guard) {
			report(t, c.ReleaseTicket(t.Context(), mustDetach(t, g)))
		},
		"Attach": func(t *testing.T, c *lease.Client, g *lease.Guard) {
			g = mustAttach(t, c, mustDetach(t, g))
			hears(t, g, 0)
			mustRelease(t, g)
		},
		"RenewTicket": func(t *testing.T, c *lease.Client, g *lease.Guard) {
			ticket, err := c.RenewTicket(t.Context(), mustDetach(t, g), nil)
			must(t, err)
			g = mustAttach(t, c, ticket)
			hears(t, g, 0)
			mustRelease(t, g)
		},
	} {
		for _, f := range []fault{pass, lose, drop, repeat} {
			for _, presence := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s-%s-%v", name, f, presence), func(t *testing.T) {
					bubble(t, func(t *testing.T, st store.Store) {
						w := newWire(st)
						asker := client(t, st, nil)
						asking := false
						between := store.Intercept(w, func(ctx context.Context, op *store.Op, next store.Handler) error {
							if op.Kind.Write() && asking {
								asking = false
								mustAsk(t, asker, "")
							}
							return next(ctx, op)
						})
						o := pipeline(time.Minute)
						o.NoPresence = !presence
						c := client(t, between, o)
						g := mustTry(t, c, "job")
						w.set(nth(1, f))
						asking = true
						use(t, c, g)
						if asking {
							t.Error("the use has written nothing")
						}
						wantState(t, client(t, st, nil), "job", lease.Free)
					})
				})
			}
		}
	}
}

// The reply of a write is lost, and a request to yield is written before the writer reads it back:
// of a renewal, and of a claim.
func TestRequestAfterALostReply(t *testing.T) {
	for _, claim := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			asker := client(t, st, nil)
			w := newWire(st)
			asking := false
			between := store.Intercept(w, func(ctx context.Context, op *store.Op, next store.Handler) error {
				err := next(ctx, op)
				if op.Kind.Write() && asking {
					asking = false
					mustAsk(t, asker, "")
				}
				return err
			})
			c := client(t, between, &lease.Options{ManualRenewal: true, Tuning: lease.Tuning{IgnoreStoreClock: true}})
			lost := func() { w.set(nth(1, lose)); asking = true }
			if claim {
				lost()
			}
			g := mustTry(t, c, "job")
			if !claim {
				time.Sleep(ttl / 2)
				lost()
				must(t, g.Renew(t.Context()))
			}
			if left := g.Remaining(); left < ttl/2 {
				t.Errorf("trust of %v is left: the write does not count", left)
			}
			hears(t, g, 0)
			mustRelease(t, g)
		})
	}
}

// The holder, or another client, does something between the read and the write of a request to
// yield.
func TestRequestIsOvertaken(t *testing.T) {
	for name, do := range map[string]struct {
		act  func(t *testing.T, c *lease.Client, g *lease.Guard)
		want error
	}{
		"a renewal": {func(t *testing.T, c *lease.Client, g *lease.Guard) {
			report(t, g.Renew(t.Context()))
		}, nil},
		"data": {func(t *testing.T, c *lease.Client, g *lease.Guard) {
			report(t, g.SetData(t.Context(), []byte("new")))
		}, nil},
		"an ask":    {func(t *testing.T, c *lease.Client, g *lease.Guard) { mustAsk(t, c, "first") }, nil},
		"a release": {func(t *testing.T, c *lease.Client, g *lease.Guard) { mustRelease(t, g) }, lease.ErrNotHeld},
		"another grant": {func(t *testing.T, c *lease.Client, g *lease.Guard) {
			mustRelease(t, g)
			mustTry(t, c, "job")
		}, nil},
		"a break": {func(t *testing.T, c *lease.Client, g *lease.Guard) {
			report(t, errOf(c.Break(t.Context(), "job", g.Token(), nil)))
		}, lease.ErrNotHeld},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				c := client(t, st, &lease.Options{ManualRenewal: true})
				g := mustTry(t, c, "job")
				acts := true
				between := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
					if op.Kind.Write() && acts {
						acts = false
						do.act(t, c, g)
					}
					return next(ctx, op)
				})
				asked, err := client(t, between, nil).RequestYield(t.Context(), "job", &lease.YieldOptions{Reason: "second"})
				if !errors.Is(err, do.want) {
					t.Fatalf("RequestYield = %+v, %v; want %v", asked, err, do.want)
				}
				if do.want != nil {
					return
				}
				rec := wantState(t, c, "job", lease.Held)
				if rec.YieldRequest == nil || rec.YieldRequest.Reason != asked.Reason || asked.Grant != rec.Grant || asked.Token != rec.Token {
					t.Errorf("the record has the request %+v, and RequestYield returned %+v", rec.YieldRequest, asked)
				}
				if name == "an ask" != (asked.Reason == "first") || name == "data" && string(rec.Data) != "new" {
					t.Errorf("the request is %+v, the data %q", asked, rec.Data)
				}
			})
		})
	}
}

// However often others request the holder to yield: it is taken over a TTL after a waiter first saw
// its last write. The control takes each request for a sign of life.
func TestRequestsDelayNoTakeover(t *testing.T) {
	for _, marked := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			mustTry(t, client(t, st, &lease.Options{ManualRenewal: true}), "job")
			ctx, cancel := context.WithTimeout(t.Context(), 5*ttl)
			defer cancel()
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					select {
					case <-time.After(ttl / 7):
					case <-ctx.Done():
						return
					}
					if _, err := client(t, st, nil).RequestYield(ctx, "job", nil); err != nil && ctx.Err() == nil && !errors.Is(err, lease.ErrNotHeld) {
						t.Error(err)
					}
					edit(t, st, "job", func(rec *lease.Record) {
						if rec.State == lease.Held && rec.YieldRequest != nil {
							rec.Nonce = fmt.Sprint("ask", i)
							if !marked {
								rec.HolderNonce = ""
							}
						}
					})
				}
			})
			began := time.Now()
			g, err := client(t, st, nil).Acquire(ctx, "job", nil)
			took := time.Since(began)
			cancel()
			switch {
			case marked && (err != nil || took > ttl*5/4):
				t.Errorf("a dead holder with many requests is taken over after %v, %v; want about a TTL", took, err)
			case marked && took < ttl:
				t.Errorf("it is taken over after %v", took)
			case !marked && err == nil:
				t.Errorf("the control fails: taken after %v", took)
			}
			if g != nil {
				mustRelease(t, g)
			}
		})
	}
}

// Nor does a request to yield delay a takeover by the age on the store's clock, which restarts with
// each write: the request carries the age of the holder's write.
func TestRequestKeepsTheAge(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		bubble(t, func(t *testing.T, st store.Store) {
			aged := &agedStore{Store: st}
			g := mustTry(t, client(t, aged, &lease.Options{ManualRenewal: true}), "job")
			time.Sleep(20 * time.Second)
			aged.age = 20 * time.Second
			mustAsk(t, client(t, aged, nil), "")
			aged.age = 0
			wantHeld(t, client(t, aged, nil), "job")
			if breaks {
				aged.age = 5 * time.Second
				must(t, errOf(client(t, aged, nil).Break(t.Context(), "job", g.Token(), nil)))
			}
			time.Sleep(11 * time.Second)
			aged.age = 6 * time.Second
			if !breaks {
				wantHeld(t, client(t, aged, nil), "job")
				aged.age = 11 * time.Second
			}
			mustRelease(t, mustTry(t, client(t, aged, nil), "job"))
		})
	}
}

// A record that the holder writes is as old as that write: a request that conflicted with it does
// not make it older.
func TestAgeAfterARequest(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		aged := &agedStore{Store: st, age: ttl}
		g := mustTry(t, client(t, aged, &lease.Options{ManualRenewal: true}), "job")
		mustAsk(t, client(t, aged, nil), "")
		must(t, g.Renew(t.Context()))
		aged.age = ttl / 2
		later := newClocks()
		later.change(func(c *clocks) { c.jumped = time.Hour })
		c := client(t, aged, nil)
		lease.SetClock(c, later.read)
		wantHeld(t, c, "job")
	})
}

// A cache in files keeps the time of the holder's write when a later process saves the version that
// a request to yield made of it.
func TestFileCacheKeepsTheTimeOfTheHoldersWrite(t *testing.T) {
	m := lease.FileCache(t.TempDir() + "/m")
	first := lease.Observation{Store: "s", Key: "k", Version: "1", Epoch: "e", Monotonic: 100, HolderNonce: "w"}
	for _, c := range []struct {
		version store.Version
		mark    string
		want    time.Duration
	}{{"2", "w", 100}, {"3", "", 500}, {"4", "x", 500}, {"5", "w", 500}} {
		m.Save(first)
		later := first
		later.Version, later.HolderNonce, later.Monotonic = c.version, c.mark, 500
		m.Save(later)
		if got, ok := m.Load("s", "k"); !ok || got.Version != c.version || c.version == "2" && got.Monotonic != c.want || c.mark != "w" && got.Monotonic != c.want {
			t.Errorf("after %+v it has %+v, want the time %v", c, got, c.want)
		}
		first.Version += "'"
		first.HolderNonce = "w" + string(c.version)
	}
}

// A record with this grant that follows none of the holder's writes is a copy, with a request to
// yield or without.
func TestRequestToACopyIsNoRequest(t *testing.T) {
	for _, mark := range []string{"", "of-another-write"} {
		bubble(t, func(t *testing.T, st store.Store) {
			g := mustTry(t, client(t, st, nil), "job")
			edit(t, st, "job", func(rec *lease.Record) {
				rec.Nonce, rec.HolderNonce, rec.YieldRequest = "copied", mark, &lease.YieldRequest{Grant: rec.Grant}
			})
			time.Sleep(ttl / 2)
			wantLost(t, g, lease.ErrTakenOver)
			if _, ok := g.YieldRequest(); ok {
				t.Error("the holder takes a copy of its record for a request to yield")
			}
		})
	}
}

// A new request to yield before each write of the holder, over and over: the renewal writes over
// each.
func TestRenewalAmongManyRequests(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		asker := client(t, st, nil)
		n := 0
		between := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind.Write() && n > 0 {
				if n == 20 {
					mustAsk(t, asker, "")
				}
				n--
				edit(t, st, "job", func(rec *lease.Record) { rec.Nonce = fmt.Sprint("again", n) })
			}
			return next(ctx, op)
		})
		g := mustTry(t, client(t, between, &lease.Options{ManualRenewal: true}), "job")
		n = 20
		if err := g.Renew(t.Context()); err != nil || n != 0 {
			t.Fatalf("Renew = %v after %d of 20 requests", err, 20-n)
		}
		hears(t, g, 0)
		mustRelease(t, g)
	})
}

// A reply that is older than a request with which the holder has conflicted by then is no loss.
func TestReplyOlderThanARequestIsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		asker := client(t, st, nil)
		w := newWire(st)
		var puts atomic.Int64
		slow := false
		between := store.Intercept(w, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind.Write() {
				n := puts.Add(1)
				if n == 3 { // after a lost write, and the read that it brought
					mustAsk(t, asker, "")
				}
				err := next(ctx, op)
				if n == 4 {
					time.Sleep(10 * time.Second)
				}
				return err
			}
			err := next(ctx, op)
			if slow && puts.Load() == 2 {
				time.Sleep(ttl / 3) // read before the request, answered while the write after it is under way
			}
			return err
		})
		g := mustTry(t, client(t, between, &lease.Options{ManualRenewal: true}), "job")
		slow = true
		w.set(nth(1, drop))
		must(t, g.Renew(t.Context()))
		must(t, g.Err())
		mustRelease(t, g)
	})
}

// A function whose holder is asked to yield is stopped, and the lock is renewed until it returns.
func TestDoEndsForARequestToYield(t *testing.T) {
	own := errors.New("own")
	for name, c := range map[string]struct {
		err  error
		want []error
		not  error
	}{
		"it returns the error of its context": {context.Canceled, []error{lease.ErrYieldRequested}, context.Canceled},
		"it returns another error":            {own, []error{lease.ErrYieldRequested, own}, context.Canceled},
		"it returns nil":                      {nil, nil, lease.ErrYieldRequested},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				asker := client(t, st, &lease.Options{Holder: "bob"})
				began := time.Now()
				err := client(t, st, nil).Do(t.Context(), "job", func(ctx context.Context, g *lease.Guard) error {
					mustAsk(t, asker, "an upgrade")
					<-ctx.Done()
					cause := context.Cause(ctx)
					if !errors.Is(cause, lease.ErrYieldRequested) || errors.Is(cause, lease.ErrLost) || !strings.Contains(cause.Error(), "(client bob): an upgrade") {
						t.Errorf("the context ended with %v", cause)
					}
					if took := time.Since(began); took > ttl/2 {
						t.Errorf("it ended after %v", took)
					}
					time.Sleep(3 * ttl)
					if g.Err() != nil {
						t.Errorf("the lease is over before the function is: %v", g.Err())
					}
					wantHeld(t, asker, "job")
					return c.err
				}, nil)
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("Do = %v, want %v", err, want)
					}
				}
				if errors.Is(err, c.not) || (err == nil) != (c.want == nil) {
					t.Errorf("Do = %v", err)
				}
				wantState(t, asker, "job", lease.Free)
			})
		})
	}
}

// With IgnoreYieldRequests the function continues, and can refuse.
func TestDoIgnoresRequests(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		asker := client(t, st, nil)
		h := with(t, client(t, st, nil), "job", lease.LockOptions{OnYieldRequest: lease.IgnoreYieldRequests})
		report(t, h.Do(t.Context(), func(ctx context.Context, g *lease.Guard) error {
			mustAsk(t, asker, "")
			hears(t, g, ttl/2)
			time.Sleep(ttl)
			return ctx.Err()
		}))
	})
}

func TestRefusedRequestToYield(t *testing.T) {
	for _, f := range []fault{pass, lose, drop, repeat} {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(st)
			asker := client(t, st, nil)
			g := mustTry(t, client(t, w, nil), "job")
			if err := g.RefuseYield(t.Context(), "no"); !errors.Is(err, lease.ErrNoYieldRequest) {
				t.Errorf("RefuseYield without a request = %v", err)
			}
			answered := make(chan error, 1)
			go func() {
				asked, err := asker.RequestYield(t.Context(), "job", &lease.YieldOptions{Wait: true})
				if asked.RefusalReason != "in the middle of it" {
					t.Errorf("the answer is %+v", asked)
				}
				answered <- err
			}()
			time.Sleep(ttl)
			hears(t, g, 0)
			w.set(nth(1, f))
			if err := g.RefuseYield(t.Context(), "in the middle of it"); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			if err := <-answered; !errors.Is(err, lease.ErrYieldRefused) {
				t.Errorf("the waiting RequestYield = %v", err)
			}
			if _, err := asker.RequestYield(t.Context(), "job", nil); !errors.Is(err, lease.ErrYieldRefused) {
				t.Errorf("a second RequestYield = %v", err)
			}
			time.Sleep(ttl)
			if asked, _ := g.YieldRequest(); asked.RefusalReason == "" || g.Err() != nil {
				t.Errorf("the refusal is forgotten: %+v, %v", asked, g.Err())
			}
			mustRelease(t, g)
		})
	}
}

// A RequestYield that waits returns when the grant is over, however it ends, or when its context
// ends.
func TestRequestWaits(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *lease.Client, g *lease.Guard){
		"a release": func(t *testing.T, c *lease.Client, g *lease.Guard) { mustRelease(t, g) },
		"a break": func(t *testing.T, c *lease.Client, g *lease.Guard) {
			report(t, errOf(c.Break(t.Context(), "job", g.Token(), nil)))
		},
		"a takeover": func(t *testing.T, c *lease.Client, g *lease.Guard) {
			mustRelease(t, g)
			mustTry(t, c, "job")
		},
		"a holder that dies": func(t *testing.T, c *lease.Client, g *lease.Guard) {},
		"the context":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				dies := name == "a holder that dies"
				c := client(t, st, &lease.Options{ManualRenewal: dies})
				g := mustTry(t, c, "job")
				ctx, cancel := context.WithTimeout(t.Context(), 10*ttl)
				defer cancel()
				began := time.Now()
				var ends sync.WaitGroup
				ends.Go(func() {
					if end != nil && !dies {
						time.Sleep(3 * ttl / 2)
						end(t, c, g)
					}
				})
				asked, err := client(t, st, nil).RequestYield(ctx, "job", &lease.YieldOptions{Wait: true})
				took := time.Since(began)
				ends.Wait()
				if end == nil {
					if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrHeld) || asked.GrantEnded || !asked.Acknowledged {
						t.Errorf("RequestYield = %+v, %v", asked, err)
					}
					return
				}
				if err != nil || !asked.GrantEnded || asked.Token != g.Token() {
					t.Errorf("RequestYield = %+v, %v", asked, err)
				}
				found := map[string]lease.State{"a release": lease.Free, "a break": lease.Broken, "a holder that dies": lease.Held}[name]
				if now := asked.Current; found != "" && (now.State != found || (now.Token == g.Token()) != (name != "a break")) {
					t.Errorf("at the end the record is %+v", now)
				}
				if least := 3 * ttl / 2; !dies && (took < least || took > least+soon) || dies && (took < ttl || took > ttl+soon) {
					t.Errorf("it has waited for %v", took)
				}
			})
		})
	}
}

// A RequestYield that waits reports once, and soon, that all holders of the lock have read the
// request. A holder under a session does not write that into the lock's record.
func TestRequestReportsWhenItIsRead(t *testing.T) {
	for name, take := range map[string]func(t *testing.T, c *lease.Client, st store.Store) []*lease.Guard{
		"a plain lease": func(t *testing.T, c *lease.Client, st store.Store) []*lease.Guard {
			return []*lease.Guard{mustTry(t, client(t, st, nil), "job")}
		},
		"a lock under a session": func(t *testing.T, c *lease.Client, st store.Store) []*lease.Guard {
			return []*lease.Guard{mustTake(t, with(t, opened(t, st), "job", lease.LockOptions{}))}
		},
		"a lock under a session of the requesting client": func(t *testing.T, c *lease.Client, st store.Store) []*lease.Guard {
			return []*lease.Guard{mustTake(t, with(t, open(t, c), "job", lease.LockOptions{}))}
		},
		"two readers, of which one reads late": func(t *testing.T, c *lease.Client, st store.Store) []*lease.Guard {
			first := mustTake(t, with(t, opened(t, st), "job", lease.LockOptions{Shared: true}))
			time.Sleep(ttl / 4)
			return []*lease.Guard{first, mustTake(t, with(t, opened(t, st), "job", lease.LockOptions{Shared: true}))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				c := client(t, st, nil)
				guards := take(t, c, st)
				told := make(chan lease.YieldStatus, 2)
				done := make(chan lease.YieldStatus, 1)
				go func() {
					asked, err := c.RequestYield(t.Context(), "job", &lease.YieldOptions{Reason: "why", Wait: true, OnAcknowledged: func(a lease.YieldStatus) {
						time.Sleep(time.Millisecond) // a session first takes the name out of its record
						for _, g := range guards {
							if _, heard := g.YieldRequest(); !heard {
								t.Error("OnAcknowledged is called before all holders have read the request")
							}
						}
						told <- a
					}})
					report(t, err)
					done <- asked
				}()
				for _, g := range guards {
					hears(t, g, ttl)
				}
				began := time.Now()
				if a := <-told; !a.Acknowledged || a.GrantEnded || a.Reason != "why" || time.Since(began) > ttl/4 {
					t.Errorf("told %+v after %v", a, time.Since(began))
				}
				time.Sleep(3 * ttl)
				for _, g := range guards {
					mustRelease(t, g)
				}
				if a := <-done; !a.GrantEnded || !a.Acknowledged || len(told) > 0 || a.Current.State != lease.Free {
					t.Errorf("at the end %+v, told %d times more", a, len(told))
				}
			})
		})
	}
	// A holder that does not renew reads nothing, and is reported as dead.
	bubble(t, func(t *testing.T, st store.Store) {
		mustTake(t, with(t, dies(t, st), "job", lease.LockOptions{}))
		asked, err := client(t, st, nil).RequestYield(t.Context(), "job", &lease.YieldOptions{Wait: true, OnAcknowledged: func(a lease.YieldStatus) { t.Errorf("heard: %+v", a) }})
		if err != nil || !asked.GrantEnded || asked.Acknowledged || asked.Current.Token != asked.Token {
			t.Errorf("%+v, %v", asked, err)
		}
	})
}

// A holder that releases the lock and ends its session while a RequestYield reads is not reported as
// dead.
func TestRequestWhileTheHolderReleases(t *testing.T) {
	for name, o := range map[string]lease.LockOptions{"alone": {}, "a reader": {Shared: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				s := opened(t, st)
				g := mustTake(t, with(t, s, "job", o))
				w := newWire(st)
				asker := client(t, w, nil)
				var once sync.Once
				time.AfterFunc(time.Second, func() { // then the request is written
					w.set(func(op *store.Op) fault {
						if op.Key == sessionKey(s) {
							once.Do(func() {
								mustRelease(t, g)
								report(t, s.Close(context.Background()))
							})
						}
						return pass
					})
				})
				asked, err := asker.RequestYield(t.Context(), "job", &lease.YieldOptions{Wait: true})
				if err != nil || !asked.GrantEnded || asked.Current.State != lease.Free {
					t.Errorf("RequestYield = %+v, %v; want it over, and the lock free", asked, err)
				}
			})
		})
	}
}

// A RequestYield does not report the end of a grant by a state that never takes effect.
func TestRequestTrustsNoUncommittedState(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		mustTry(t, client(t, st, nil), "job")
		value, _ := stored(t, st, "lock/job")
		p := &peekingAt{delayed{st}, "lock/job", []byte(strings.Replace(string(value), `"held"`, `"free"`, 1))}
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		asked, err := client(t, p, nil).RequestYield(ctx, "job", &lease.YieldOptions{Wait: true})
		if !errors.Is(err, context.DeadlineExceeded) || asked.GrantEnded {
			t.Errorf("RequestYield = %+v, %v; want it to wait", asked, err)
		}
	})
}

// A RequestYield that waits returns when the grant is over, even if other clients change the record before every
// read.
func TestRequestForABusyLock(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		g, other := mustTry(t, client(t, st, nil), "job"), client(t, st, nil)
		w, reads := newWire(st), 0
		time.AfterFunc(time.Second, func() {
			mustRelease(t, g)
			w.set(func(op *store.Op) fault {
				if op.Key == "lock/job" && op.Kind.Read() && reads < 50 {
					reads++
					mustRelease(t, mustTry(t, other, "job"))
				}
				return pass
			})
		})
		asked, err := client(t, w, nil).RequestYield(t.Context(), "job", &lease.YieldOptions{Wait: true})
		if err != nil || !asked.GrantEnded || asked.Current.Token <= asked.Token || reads > 5 {
			t.Errorf("after %d reads: %+v, %v", reads, asked, err)
		}
	})
}

// A RequestYield that waits continues after errors of the store, until its context ends.
func TestRequestWaitsForAStoreThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		asker := client(t, w, nil)
		g := mustTry(t, client(t, st, nil), "job")
		for _, recovers := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
			time.AfterFunc(time.Second, func() { w.set(everything(drop)) })
			if recovers {
				time.AfterFunc(ttl, func() { w.set(nil) })
				time.AfterFunc(ttl+time.Second, func() { _ = g.Release(context.Background()) })
			}
			asked, err := asker.RequestYield(ctx, "job", &lease.YieldOptions{Wait: true})
			cancel()
			if recovers && (err != nil || !asked.GrantEnded) || !recovers && (!errors.Is(err, context.DeadlineExceeded) || asked.GrantEnded) {
				t.Errorf("recovers: %v; RequestYield = %+v, %v", recovers, asked, err)
			}
			w.set(nil)
		}
	})
}

// waitingStore has slow writes and quick reads.
type waitingStore struct {
	store.Store
	wait time.Duration
}

func (s *waitingStore) Traits() store.Traits {
	return store.Traits{MinWriteTime: s.wait}
}

func (s *waitingStore) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := s.Store.Put(ctx, key, prev, value)
	time.Sleep(s.wait)
	return v, err
}

// blindStore has no quick reads while it is blind.
type blindStore struct {
	*waitingStore
	blind *atomic.Bool
}

func (s blindStore) GetUncommitted(ctx context.Context, key string) ([]byte, store.Version, error) {
	if s.blind.Load() {
		return nil, "", errNetwork
	}
	return s.Get(ctx, key)
}

func (blindStore) HighestToken(context.Context, string) (uint64, error) { return 0, nil }

// Where a write takes so long that a renewal has no time for a second one, a request to yield loses
// no lease: the holder reads before it writes. The control has no such read.
func TestRequestOnAStoreWhoseWritesWait(t *testing.T) {
	for _, peeks := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			var blind atomic.Bool
			waits := &waitingStore{Store: st, wait: 6 * time.Second}
			c := client(t, blindStore{waits, &blind}, nil)
			lease.SetRandom(c, func() float64 { return 1 }) // renewals as late as they may be
			g := mustTry(t, c, "job")
			blind.Store(!peeks)
			mustAsk(t, client(t, waits, nil), "")
			time.Sleep(2 * ttl)
			if kept := g.Err() == nil; kept != peeks {
				t.Errorf("it reads first: %v; the lease: %v", peeks, g.Err())
			}
			_ = g.Release(t.Context())
		})
	}
}

func TestRequestBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		ask := func(o *lease.YieldOptions, want error) {
			t.Helper()
			if asked, err := c.RequestYield(t.Context(), "job", o); !errors.Is(err, want) {
				t.Errorf("RequestYield = %+v, %v; want %v", asked, err, want)
			}
		}
		ask(nil, store.ErrNotFound)
		if _, err := c.RequestYield(t.Context(), "", nil); !errors.Is(err, store.ErrKey) {
			t.Errorf("RequestYield without a name = %v", err)
		}
		g := mustTry(t, c, "job")
		ask(&lease.YieldOptions{Reason: strings.Repeat("x", lease.MaxReason+1)}, store.ErrInvalid)
		ask(&lease.YieldOptions{Reason: "\xff"}, store.ErrInvalid)
		// A record that is full keeps what it has.
		value, _ := stored(t, st, "lock/job")
		var fields map[string]any
		must(t, json.Unmarshal(value, &fields))
		fields["of_others"] = strings.Repeat("x", store.MaxValue-len(value)-20)
		full, err := json.Marshal(fields)
		must(t, err)
		put(t, st, "job", full)
		ask(nil, store.ErrTooLarge)
		if now, _ := stored(t, st, "lock/job"); !bytes.Equal(now, full) {
			t.Error("a request that has no room has changed the record")
		}
		put(t, st, "job", value)
		_ = g.Release(t.Context())
		if err := g.RefuseYield(t.Context(), strings.Repeat("x", lease.MaxReason+1)); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("Refuse with a long reason = %v", err)
		}
		_ = c.Close(t.Context())
		ask(nil, lease.ErrClosed)
	})
}
