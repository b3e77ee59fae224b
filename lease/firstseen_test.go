package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Many short tries of one client, each through a handle of its own, take the lock of a dead holder as
// soon as one patient waiter would, where neither the store nor a memory knows more than they do.
func TestShortTriesOfOneClientTakeADeadLock(t *testing.T) {
	hourly := lease.Every(time.Hour)
	work := func(context.Context, *lease.Guard) error { return nil }
	retried := &lease.LockOptions{NoWait: true, Retries: 1}
	brief := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	release := func(g *lease.Guard, err error) error {
		if err == nil {
			err = g.Release(context.Background())
		}
		return err
	}
	dies := func(o *lease.LockOptions) func(*testing.T, store.Store, *lease.Client) {
		return func(t *testing.T, _ store.Store, c *lease.Client) {
			h, err := open(t, c).Handle("job", o)
			must(t, err)
			acquired(t, h)
		}
	}
	plain := func(t *testing.T, _ store.Store, c *lease.Client) { mustTry(t, c, "job") }
	underSession := func(o *lease.LockOptions) func(t *testing.T, c *lease.Client) error {
		return func(t *testing.T, c *lease.Client) error {
			s, err := c.OpenSession(t.Context())
			if err != nil {
				return err
			}
			defer s.Close(t.Context())
			h, err := s.Handle("job", o)
			if err != nil {
				return err
			}
			return release(h.Acquire(brief(t)))
		}
	}
	try := func(t *testing.T, c *lease.Client) error { return release(c.TryAcquire(t.Context(), "job", nil)) }
	for _, c := range []struct {
		name string
		dies func(t *testing.T, st store.Store, c *lease.Client)
		try  func(t *testing.T, c *lease.Client) error
	}{
		{"TryAcquire", plain, try},
		{"Acquire", plain, func(t *testing.T, c *lease.Client) error { return release(c.Acquire(brief(t), "job", nil)) }},
		{"Do that does not wait", plain, func(t *testing.T, c *lease.Client) error {
			return c.Do(t.Context(), "job", work, &lease.LockOptions{NoWait: true})
		}},
		{"Once that does not wait", func(t *testing.T, _ store.Store, c *lease.Client) {
			h := with(t, c, "job", lease.LockOptions{Period: hourly})
			must(t, errOf(h.TryAcquire(t.Context())))
		}, func(t *testing.T, c *lease.Client) error {
			_, err := c.Once(t.Context(), "job", hourly, work, retried)
			return err
		}},
		{"a holder with a request to yield", func(t *testing.T, st store.Store, c *lease.Client) {
			plain(t, st, c)
			must(t, errOf(client(t, st, nil).RequestYield(t.Context(), "job", nil)))
		}, try},
		{"a holder under a session", dies(&lease.LockOptions{}), try},
		{"a reader", dies(&lease.LockOptions{Shared: true}), try},
		{"a holder of a slot", dies(&lease.LockOptions{Slots: 1}), underSession(&lease.LockOptions{Slots: 1})},
		{"a reader, met by a fair waiter", dies(&lease.LockOptions{Shared: true}), underSession(&lease.LockOptions{Fair: true})},
		{"a plain holder, met by a fair waiter", plain, underSession(&lease.LockOptions{Fair: true})},
		{"a request to yield that waits", plain, func(t *testing.T, c *lease.Client) error {
			if _, err := c.RequestYield(brief(t), "job", &lease.YieldOptions{Wait: true}); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return lease.ErrHeld
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				dead := client(t, hidden{st}, &lease.Options{ManualRenewal: true})
				c.dies(t, st, dead)
				tries := client(t, hidden{st}, nil)
				began := time.Now()
				for time.Since(began) < time.Hour {
					err := c.try(t, tries)
					if err == nil {
						break
					}
					if !errors.Is(err, lease.ErrHeld) {
						t.Fatal(err)
					}
					time.Sleep(5 * time.Second)
				}
				if took := time.Since(began); took < ttl || took > ttl+15*time.Second {
					t.Errorf("the lock was taken after %v; want it a TTL after the first try, and by the try after that", took)
				}
			})
		})
	}
}

// The slow reply of a read, or the slow conflict of a write, shows that the lock was free before its
// holder took it and died. The client has seen the holder meanwhile, and does not time it from the start
// again.
func TestLateReplyWithAnOlderState(t *testing.T) {
	for what, o := range map[string]*lease.Options{"read": nil, "conflict": {AssumeNew: true}} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				dead := client(t, hidden{st}, &lease.Options{ManualRenewal: true})
				must(t, mustTry(t, dead, "job").Release(t.Context()))
				var slow atomic.Bool
				tries := client(t, store.Intercept(hidden{st}, func(ctx context.Context, op *store.Op, next store.Handler) error {
					late := op.Kind.Write() == (o != nil) && slow.CompareAndSwap(true, false)
					err := next(ctx, op)
					if late {
						time.Sleep(8 * time.Second)
					}
					return err
				}), o)
				slow.Store(true)
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := tries.TryAcquire(t.Context(), "job", nil); !errors.Is(err, lease.ErrHeld) {
						t.Errorf("the slow try: %v, want ErrHeld", err)
					}
				})
				time.Sleep(time.Second)
				mustTry(t, dead, "job")
				began := time.Now()
				for {
					g, err := tries.TryAcquire(t.Context(), "job", nil)
					if err == nil {
						defer g.Release(context.Background())
						break
					}
					if !errors.Is(err, lease.ErrHeld) {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				wg.Wait()
				if took := time.Since(began); took < ttl || took > ttl+2*time.Second {
					t.Errorf("the lock was taken after %v, want the TTL of %v after the first try, and by the try after that", took, ttl)
				}
			})
		})
	}
}
