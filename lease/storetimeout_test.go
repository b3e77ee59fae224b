package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// An Acquire soon reports a store that does not answer, or fails, and repeats that with the time
// that it still waits. It does not report a store that answers while another client holds the lock.
func TestUnresponsiveStoreIsReported(t *testing.T) {
	for name, f := range map[string]fault{"silent": hang, "failing": drop, "control: answering": pass} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				mustTry(t, client(t, st, nil), "job")
				w := newWire(st)
				w.set(func(*store.Op) fault { return f })
				var heard events
				began := time.Now()
				c := client(t, w, &lease.Options{StoreTimeout: 30 * time.Second, OnEvent: heard.add})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := c.Acquire(ctx, "job", nil)
				told := heard.of(lease.EventUnresponsive)
				if f == pass {
					if waits := heard.of(lease.EventWaiting); len(told) > 0 || len(waits) == 0 || waits[0].Since.IsZero() || !errors.Is(err, lease.ErrHeld) {
						t.Errorf("events %v, then %v, and %v", waits, told, err)
					}
					return
				}
				if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, lease.ErrUnresponsive) {
					t.Errorf("the error is %v", err)
				}
				at := func(i int) time.Duration { return told[i].Time.Sub(began) }
				if len(told) != 6 || at(0) != lease.UnresponsiveAfter || at(1) != lease.UnresponsiveAfter+lease.UnresponsiveRepeat || told[0].Wait != 30*time.Second-lease.UnresponsiveAfter {
					t.Errorf("events from %v on: %v", began, told)
				}
			})
		})
	}
}

// The error of a wait whose store stops to answer says both: that the store does not answer, and
// which holder had the lock when it did. The error of a wait that ends for another reason does not
// match ErrUnresponsive.
func TestErrorNamesTheHolderAndTheSilentStore(t *testing.T) {
	for _, patience := range []time.Duration{0, 5 * time.Second} {
		bubble(t, func(t *testing.T, st store.Store) {
			holder := mustTry(t, client(t, st, &lease.Options{TTL: time.Hour}), "job")
			w := newWire(hidden{st})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			time.AfterFunc(10*time.Second, func() { w.set(everything(hang)) })
			_, err := client(t, w, &lease.Options{StoreTimeout: patience}).Acquire(ctx, "job", nil)
			var held *lease.HeldError
			if !errors.As(err, &held) || held.Record.Token != holder.Token() {
				t.Errorf("patience %v: %v", patience, err)
			}
			if silent := errors.Is(err, lease.ErrUnresponsive); silent != (patience > 0) {
				t.Errorf("patience %v: silent: %v: %v", patience, silent, err)
			}
		})
	}
}

// A wait ends when the store's writes have failed for Options.StoreTimeout, though its reads are
// answered: on a full disk, say. It is reported with the last error before. A wait that has nothing
// to write does not end so, whether the writes of others fail or not.
func TestStoreWhoseWritesAloneFailIsUnresponsive(t *testing.T) {
	for name, c := range map[string]struct {
		script func(*store.Op) fault
		held   bool // by another holder, which lives for longer than the wait
		dead   bool // so that the waiter has to write a minute later
		open   bool // a session
		want   time.Duration
	}{
		"refused":       {script: writes(fail), want: 30 * time.Second},
		"unknown":       {script: writes(drop), want: 30 * time.Second},
		"hanging":       {script: writes(hang), want: 30 * time.Second},
		"a session":     {script: writes(fail), open: true, want: 30 * time.Second},
		"held":          {script: writes(fail), held: true},
		"a dead holder": {script: writes(fail), held: true, dead: true, want: 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				if c.held {
					mustTry(t, client(t, st, &lease.Options{TTL: time.Minute, ManualRenewal: c.dead}), "job")
				}
				w := newWire(hidden{st})
				w.set(c.script)
				var heard events
				began := time.Now()
				cl := client(t, w, &lease.Options{CheckTokenFloor: true, StoreTimeout: 30 * time.Second, OnEvent: heard.add})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				var err error
				if c.open {
					_, err = cl.OpenSession(ctx)
				} else {
					_, err = cl.Acquire(ctx, "job", nil)
				}
				took, told := time.Since(began), heard.of(lease.EventUnresponsive)
				if c.want == 0 {
					if len(told) > 0 || errors.Is(err, lease.ErrUnresponsive) {
						t.Errorf("a healthy wait ends with %v, after %d events", err, len(told))
					}
					return
				}
				if !errors.Is(err, lease.ErrUnresponsive) || took < c.want || took > c.want+20*time.Second {
					t.Errorf("after %v: %v", took, err)
				}
				if len(told) < 3 || told[len(told)-1].Err == nil || name != "hanging" && !errors.Is(told[0].Err, errNetwork) {
					t.Errorf("%d events: %+v", len(told), told)
				}
			})
		})
	}
}

// The time in which a waiter's writes fail adds up over the times in which it has nothing to write,
// and begins again with a write that is answered.
func TestTimeOfFailingWritesAddsUp(t *testing.T) {
	for _, answered := range []bool{false, true} {
		bubble(t, func(t *testing.T, st store.Store) {
			lost := writes(drop)
			w := newWire(hidden{st})
			w.set(lost)
			c := client(t, w, &lease.Options{CheckTokenFloor: true, StoreTimeout: 30 * time.Second})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := c.Acquire(ctx, "job", nil)
				done <- err
			}()
			other := client(t, st, nil)
			for i := 0; ; i++ { // free for ten seconds, held for a minute
				time.Sleep(10 * time.Second)
				g, err := other.TryAcquire(ctx, "job", nil)
				if answered && i%2 == 1 {
					w.set(nil)
					if g2, err := c.Acquire(ctx, "other", nil); err == nil {
						mustRelease(t, g2)
					}
					w.set(lost)
				}
				if err == nil {
					time.Sleep(time.Minute)
					mustRelease(t, g)
				}
				select {
				case err := <-done:
					if silent := errors.Is(err, lease.ErrUnresponsive); silent == answered || !answered && i > 5 {
						t.Errorf("a write is answered: %v; after %d holders: %v", answered, i, err)
					}
					return
				default:
				}
			}
		})
	}
}

// One client waits for many locks, and its store answers its many requests one after the other.
// That store counts as responsive, however long each request is queued. A store that does not
// answer is reported once, and not for each waiter.
func TestStoreTimeoutCountsAnswersToAllWaiters(t *testing.T) {
	for _, silent := range []bool{false, true} {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(&slowStore{Store: hidden{st}, silent: silent, turn: make(chan struct{}, 1)})
			var heard events
			c := client(t, w, &lease.Options{TTL: 10 * time.Minute, StoreTimeout: 10 * time.Second, OnEvent: heard.add})
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() {
					if _, err := c.Acquire(t.Context(), fmt.Sprint("job-", i), nil); errors.Is(err, lease.ErrUnresponsive) != silent {
						t.Errorf("job-%d: %v", i, err)
					}
				})
			}
			all.Wait()
			if told := len(heard.of(lease.EventUnresponsive)); silent && told != 2 || !silent && told != 0 {
				t.Errorf("silent: %v; reported %d times", silent, told)
			}
		})
	}
}

// slowStore carries out one write at a time, in a quarter of a second, or none.
type slowStore struct {
	store.Store
	silent bool
	turn   chan struct{}
}

func (s *slowStore) Put(ctx context.Context, key string, base store.Version, value []byte) (store.Version, error) {
	if s.silent {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return "", store.MarkNotApplied(context.Cause(ctx))
	}
	defer func() { <-s.turn }()
	time.Sleep(time.Second / 4)
	return s.Store.Put(ctx, key, base, value)
}

// A store whose writes wait on purpose counts as responsive meanwhile.
func TestStoreThatDelaysItsWritesIsResponsive(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		const wait = 12 * time.Second
		var heard events
		c := client(t, &waitingStore{st, wait}, &lease.Options{TTL: 5 * time.Minute, StoreTimeout: 30 * time.Second, OnEvent: heard.add})
		began := time.Now()
		if _, err := c.Acquire(t.Context(), "job", nil); err != nil || time.Since(began) < wait {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if told := heard.of(lease.EventUnresponsive); len(told) > 0 {
			t.Errorf("it is reported as unresponsive: %v", told)
		}
	})
}

// A request that fails out of turn is not sent again before the waiter has its turn. Until then
// nothing is requested of the store, which counts as responsive.
func TestWaiterOutOfTurnReportsNoUnresponsiveStore(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		holder := mustTry(t, client(t, st, &lease.Options{TTL: time.Hour}), "job")
		w := newWire(st)
		c := client(t, w, &lease.Options{StoreTimeout: 10 * time.Second, Tuning: lease.Tuning{MaxPoll: 10 * time.Minute}})
		var all sync.WaitGroup
		acquire := func(h *lease.Handle) {
			all.Go(func() {
				g, err := h.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mustRelease(t, g)
			})
		}
		acquire(handle(t, c, "job"))
		time.Sleep(time.Second)
		s, err := c.OpenSession(t.Context())
		must(t, err)
		h := with(t, s, "job", lease.LockOptions{Fair: true})
		w.set(on("lock/job", fail))
		acquire(h)
		time.Sleep(time.Second)
		w.set(nil)
		time.Sleep(time.Hour)
		mustRelease(t, holder)
		all.Wait()
		report(t, s.Close(t.Context()))
	})
}
