package lease_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

var errWork = errors.New("the work failed")

// breaks ends the lease of the lock by another client, at once, and waits until the holder
// has noticed.
func breaks(t *testing.T, st store.Store, g *lease.Guard) {
	t.Helper()
	if _, err := client(t, st, nil).Break(t.Context(), g.Name(), g.Token(), &lease.BreakOptions{Immediate: true}); err != nil {
		t.Errorf("Break: %v", err)
	}
	<-g.Context().Done()
}

// The function runs under the lease, with the values and the deadline of the caller's
// context, and afterwards the lock is free. On a store whose conflicts tell the state that
// costs two requests for a new lock.
func TestDoHoldsTheLockUntilItReturns(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		type key struct{}
		w := newWire(st)
		c := client(t, w, nil)
		w.requests() // that opened a session
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Hour)
		defer cancel()
		var token uint64
		err := c.Do(ctx, "job", func(ctx context.Context, g *lease.Guard) error {
			wantHeld(t, client(t, st, nil), "job")
			deadline, _ := ctx.Deadline()
			if !deadline.Equal(began.Add(time.Hour)) || ctx.Value(key{}) != "value" || ctx.Err() != nil {
				t.Errorf("the context has the deadline %v, the value %v, %v", deadline, ctx.Value(key{}), ctx.Err())
			}
			token = g.Token()
			return nil
		}, nil)
		if err != nil || wantState(t, c, "job", lease.Free).Token != token || token == 0 {
			t.Errorf("Do: %v, token %d", err, token)
		}
		if n := w.requests(); n != 3 { // one is that of wantState
			t.Errorf("%d requests, want 2 and one to look", n)
		}
	})
}

// What ends the function, or keeps it from running, and what the error of Do says about it.
func TestDoReportsWhatHappened(t *testing.T) {
	cause := errors.New("the program ends")
	type run struct {
		t    *testing.T
		st   store.Store
		w    *wire
		c    *party
		end  context.CancelCauseFunc
		work context.Context
		g    *lease.Guard
	}
	for _, c := range []struct {
		name     string
		f        func(*run) error
		is, not  []error
		releases bool
		plain    bool // it is refused under a session
	}{
		{"an error of the function", func(*run) error { return errWork },
			[]error{errWork}, []error{lease.ErrReleaseFailed, lease.ErrLost}, true, false},
		{"the lease is lost", func(r *run) error { breaks(r.t, r.st, r.g); <-r.work.Done(); return r.work.Err() },
			[]error{lease.ErrLost, lease.ErrBroken}, []error{context.Canceled, lease.ErrReleaseFailed}, true, false},
		{"the lease is lost, and the function fails for another reason",
			func(r *run) error { breaks(r.t, r.st, r.g); return errors.Join(errWork, &store.OpError{Err: errWork}) },
			[]error{lease.ErrLost, errWork}, []error{lease.ErrReleaseFailed}, true, false},
		{"the lease is lost, and the function does not notice", func(r *run) error { breaks(r.t, r.st, r.g); return nil },
			[]error{lease.ErrLost}, nil, true, false},
		{"the context ends", func(r *run) error { r.end(cause); <-r.work.Done(); return r.work.Err() },
			[]error{cause, context.Canceled}, []error{lease.ErrLost, lease.ErrReleaseFailed}, true, false},
		{"the context ends, and the function returns its cause", func(r *run) error { r.end(cause); return cause },
			[]error{cause}, nil, true, false},
		{"the context ends, and the work is done", func(r *run) error { r.end(cause); return nil },
			nil, nil, true, false},
		{"the context ends, and then the lease is lost",
			func(r *run) error { r.end(cause); breaks(r.t, r.st, r.g); return r.work.Err() },
			[]error{lease.ErrLost, context.Canceled}, nil, true, false},
		{"the client is closed", func(r *run) error { end(r.c.Client); return r.work.Err() },
			[]error{lease.ErrClosed}, []error{context.Canceled, lease.ErrLost}, true, false},
		{"the reply to the release is lost, and nothing can be read", func(r *run) error { r.w.set(everything(lose)); return nil },
			[]error{lease.ErrReleaseFailed, lease.ErrUnresolved}, []error{lease.ErrLost}, true, false},
		{"the function fails, and the release too", func(r *run) error { r.w.set(everything(drop)); return errWork },
			[]error{lease.ErrReleaseFailed, errWork}, []error{lease.ErrLost}, false, false},
		{"the context ends in the release", func(r *run) error {
			r.w.set(func(*store.Op) fault { r.end(cause); return pass })
			return errWork
		}, []error{errWork}, []error{cause}, true, false},
		{"another took the lock while it was trusted", func(r *run) error {
			if _, err := client(r.t, r.st, nil).Break(r.t.Context(), "job", r.g.Token(), &lease.BreakOptions{Immediate: true}); err != nil {
				r.t.Error(err)
			}
			return nil
		}, []error{lease.ErrLost, lease.ErrBroken}, []error{lease.ErrReleaseFailed}, true, false},
		{"the function releases its guard", func(r *run) error { mustRelease(r.t, r.g); <-r.work.Done(); return nil },
			nil, nil, true, false},
		{"the function detaches its guard", func(r *run) error {
			_, err := r.g.Detach(r.t.Context())
			return errors.Join(err, r.work.Err())
		}, []error{context.Canceled}, []error{lease.ErrReleaseFailed, lease.ErrLost}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ways := bothWays
			if c.plain {
				ways = plainly
			}
			ways(t, func(t *testing.T, st store.Store, client newParty) {
				w := newWire(st)
				r := &run{t: t, st: st, w: w, c: client(t, w, &lease.Options{TTL: ttl, NoPresence: true})}
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				r.end = end
				err := r.c.Do(ctx, "job", func(ctx context.Context, g *lease.Guard) error {
					r.work, r.g = ctx, g
					return c.f(r)
				}, nil)
				// Before the network is well again: a session would then free its lock.
				free := record(t, st, "job").State != lease.Held
				w.set(nil)
				for _, want := range c.is {
					if !errors.Is(err, want) {
						t.Errorf("the error does not match %q: %v", want, err)
					}
				}
				for _, not := range c.not {
					if errors.Is(err, not) {
						t.Errorf("the error matches %q: %v", not, err)
					}
				}
				if c.is == nil && err != nil {
					t.Errorf("Do: %v", err)
				}
				if free != c.releases {
					t.Errorf("the lock is free: %v, want %v", free, c.releases)
				}
				if r.g.Err() == nil || r.work.Err() == nil {
					t.Errorf("after Do: the guard %v, the context %v", r.g.Err(), r.work.Err())
				}
				var op *store.OpError
				if errors.Is(err, errWork) && errors.Is(err, lease.ErrLost) && !errors.As(err, &op) {
					t.Errorf("what the error of the function has is not found: %v", err)
				}
			})
		})
	}
}

// Without the lock the function does not run: the lock is busy, the wait ends, the store
// does not answer.
func TestDoWithoutTheLock(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		g := mustTry(t, client(t, st, nil), "job")
		c := client(t, st, nil)
		never := func(context.Context, *lease.Guard) error { t.Error("the function runs"); return nil }
		now := &lease.LockOptions{NoWait: true}
		if err := c.Do(t.Context(), "job", never, now); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("Do with NoWait: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Do(ctx, "job", never, nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrHeld) {
			t.Errorf("Do: %v", err)
		}
		for _, o := range []*lease.LockOptions{nil, now} {
			if err := c.Do(t.Context(), "a//b", never, o); !errors.Is(err, store.ErrKey) {
				t.Errorf("a bad name: %v", err)
			}
		}
		mustRelease(t, g)
		if err := c.Do(t.Context(), "job", func(context.Context, *lease.Guard) error { return errWork }, now); err != errWork {
			t.Errorf("Do with NoWait: %v", err)
		}
	})
}

// A function that takes its time after the end of the context, or ignores it, holds the lock
// until it has returned.
func TestDoRenewsUntilTheFunctionHasReturned(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := client(t, st, nil).Do(ctx, "job", func(ctx context.Context, g *lease.Guard) error {
			<-ctx.Done()
			if ctx.Err() != context.DeadlineExceeded || time.Since(began) != time.Minute {
				t.Errorf("the context ended after %v: %v", time.Since(began), ctx.Err())
			}
			for range 20 {
				time.Sleep(ttl)
				wantHeld(t, client(t, st, nil), "job")
			}
			return g.Err()
		}, nil)
		if err != nil {
			t.Errorf("Do: %v", err)
		}
		mustTry(t, client(t, st, nil), "job")
	})
}

// A function that continues after its lease was lost takes nothing from the next holder.
func TestDoAfterTheLossLeavesTheNextHolderAlone(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		var next *lease.Guard
		err := client(t, w, nil).Do(t.Context(), "job", func(ctx context.Context, g *lease.Guard) error {
			w.set(everything(hang))
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrExpired) {
				t.Errorf("the cause: %v", cause)
			}
			time.Sleep(2 * ttl)
			w.set(nil)
			var err error
			next, err = client(t, st, nil).Acquire(t.Context(), "job", nil)
			return err
		}, nil)
		if !errors.Is(err, lease.ErrLost) || !errors.Is(err, lease.ErrExpired) {
			t.Errorf("Do: %v", err)
		}
		report(t, errors.Join(next.Err(), next.Renew(t.Context())))
	})
}

// The context of the function looks at the clocks itself: after the machine has slept it has
// ended, before any timer had its turn.
func TestDoAfterASleepOfTheMachine(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		clk := newClocks()
		lease.SetClock(c, clk.read)
		err := c.Do(t.Context(), "job", func(ctx context.Context, g *lease.Guard) error {
			clk.change(func(c *clocks) { c.suspended += time.Hour })
			if ctx.Err() == nil || !errors.Is(context.Cause(ctx), lease.ErrExpired) {
				t.Errorf("the context: %v, %v", ctx.Err(), context.Cause(ctx))
			}
			select {
			case <-ctx.Done():
			default:
				t.Error("Err tells an end, and Done does not")
			}
			return nil
		}, nil)
		if !errors.Is(err, lease.ErrExpired) {
			t.Errorf("Do: %v", err)
		}
	})
}

// A panic in the function, and the end of its goroutine, release the lock and are passed on.
func TestDoOfAFunctionThatDoesNotReturn(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		c := client(t, st, nil)
		func() {
			defer func() {
				if r := recover(); r != errWork {
					t.Errorf("recovered %v", r)
				}
				wantState(t, c, "job", lease.Free)
			}()
			_ = c.Do(t.Context(), "job", func(context.Context, *lease.Guard) error { panic(errWork) }, nil)
			t.Error("Do returns after a panic")
		}()
		done := make(chan bool)
		go func() {
			defer close(done)
			_ = c.Do(t.Context(), "job", func(context.Context, *lease.Guard) error { runtime.Goexit(); return nil }, nil)
			t.Error("Do returns after the end of the goroutine")
		}()
		<-done
		wantState(t, c, "job", lease.Free)
	})
}

// A Do in a Do on the same lock would wait for itself: it is refused, and sends nothing. The
// same handle joins the grant. Another lock, and the same one after its release, can be had.
func TestDoInADo(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		c, other := client(t, w, nil), client(t, w, nil)
		nothing := func(context.Context, *lease.Guard) error { return nil }
		outer := handle(t, c, "job")
		err := outer.Do(t.Context(), func(ctx context.Context, g *lease.Guard) error {
			return c.Do(ctx, "inner", func(ctx context.Context, inner *lease.Guard) error {
				w.requests()
				_, acquired := other.Acquire(ctx, "job", nil)
				for name, err := range map[string]error{
					"the lock": c.Do(ctx, "job", nothing, nil), "of another client": other.Do(ctx, "job", nothing, nil), "Acquire": acquired,
					"the inner lock": other.Do(ctx, "inner", nothing, nil),
				} {
					if !errors.Is(err, store.ErrInvalid) {
						t.Errorf("%s: %v", name, err)
					}
				}
				if n := w.requests(); n != 0 {
					t.Errorf("%d requests", n)
				}
				if err := other.Do(ctx, "job", nothing, &lease.LockOptions{NoWait: true}); !errors.Is(err, lease.ErrHeld) {
					t.Errorf("Do with NoWait: %v", err)
				}
				if err := outer.Do(ctx, func(ctx context.Context, joined *lease.Guard) error {
					if joined.Token() != g.Token() {
						t.Errorf("token %d, want %d", joined.Token(), g.Token())
					}
					return nil
				}); err != nil || g.Err() != nil {
					t.Errorf("the same handle: %v; the guard around it: %v", err, g.Err())
				}
				report(t, inner.Release(ctx))
				return other.Do(context.WithoutCancel(ctx), "inner", nothing, nil)
			}, nil)
		})
		if err != nil {
			t.Errorf("Do: %v", err)
		}
	})
}
