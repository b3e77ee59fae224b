package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// delayed says that it delays its writes. It does not.
type delayed struct{ store.Store }

func (delayed) Traits() store.Traits { return store.Traits{MinWriteTime: 1} }

func (d delayed) GetUncommitted(ctx context.Context, key string) ([]byte, store.Version, error) {
	return d.Get(ctx, key)
}

func (delayed) HighestToken(context.Context, string) (uint64, error) { return 0, nil }

// keepsMarks is a store that keeps the highest mark of all writes, refused ones too.
type keepsMarks struct {
	delayed
	highest *uint64
}

func (s keepsMarks) HighestToken(context.Context, string) (uint64, error) { return *s.highest, nil }

// Every write of a lease carries the token in its record as its mark, and the token of
// a claim is above that of a claim that lost.
func TestTokensAreAboveThoseOfLostClaims(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		var highest uint64
		writes, refuse := 0, false
		s := keepsMarks{delayed{store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if !op.Kind.Write() {
				return next(ctx, op)
			}
			var record struct{ Token uint64 }
			if err := json.Unmarshal(op.Value, &record); err != nil || record.Token == 0 || store.TokenOf(ctx) != record.Token {
				t.Errorf("write %d: %s of %s has the mark %d", writes, op.Kind, op.Value, store.TokenOf(ctx))
			}
			writes++
			highest = max(highest, store.TokenOf(ctx))
			if refuse {
				return store.MarkNotApplied(errNetwork)
			}
			return next(ctx, op)
		})}, &highest}
		c := client(t, s, nil)
		g := mustTry(t, c, "job")
		must(t, errors.Join(g.Renew(t.Context()), g.SetData(t.Context(), []byte("x")), g.Release(t.Context())))
		refuse = true
		if _, err := c.TryAcquire(t.Context(), "job", nil); err == nil {
			t.Fatal("a claim that was refused succeeds")
		}
		refuse = false
		lost := highest
		if lost <= g.Token() {
			t.Fatalf("the claim that lost showed %d, the one before had %d", lost, g.Token())
		}
		if g = mustTry(t, c, "job"); g.Token() <= lost {
			t.Fatalf("after a claim that showed %d: token %d", lost, g.Token())
		}
		must(t, errOf(c.Break(t.Context(), "job", g.Token(), nil)))
		if writes < 6 {
			t.Errorf("%d writes, want 6 at least", writes)
		}
	})
}

// A waiter leaves the queue just when it is handed the lock: it hands the lock on with a token above those
// that the store has seen meanwhile.
func TestTokenOfALockThatIsHandedOn(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var highest uint64
		holder, leaves := open(t, client(t, st, nil)), newWire(st)
		g := mustTake(t, with(t, holder, "job", lease.LockOptions{}))
		fair := lease.LockOptions{Fair: true}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			s := open(t, client(t, keepsMarks{delayed{leaves}, &highest}, nil))
			if _, err := with(t, s, "job", fair).Acquire(ctx); err == nil {
				t.Error("the waiter that leaves got the lock")
			}
		})
		time.Sleep(time.Second)
		next := with(t, open(t, client(t, st, nil)), "job", fair)
		all.Go(func() {
			if g, err := next.Acquire(t.Context()); err != nil || g.Token() <= highest {
				t.Errorf("the next waiter: token %d, %v; the store has seen %d", g.Token(), err, highest)
			}
		})
		time.Sleep(time.Second)
		leaves.set(func(op *store.Op) fault {
			if op.Kind.Write() && op.Key == "lock/job" && highest == 0 {
				report(t, g.Release(t.Context()))
				highest = g.Token() + 100
			}
			return pass
		})
		cancel()
		all.Wait()
	})
}

// A waiter that enters the queue and leaves it does not change the token of the holder, although the store has
// seen higher ones.
func TestTokenOfAHolderWhoseWaiterLeaves(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		c := client(t, st, nil)
		g := mustTry(t, c, "job")
		highest := g.Token() + 100
		w := newWire(st)
		waits := open(t, client(t, keepsMarks{delayed{w}, &highest}, nil).Client)
		h := with(t, waits, "job", lease.LockOptions{Fair: true})
		w.requests()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Acquire(ctx); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("Acquire: %v", err)
		}
		if rec := record(t, st, "job"); rec.Token != g.Token() || len(rec.Queue) > 0 || w.requests() < 3 {
			t.Errorf("the record has token %d and %d waiters; want token %d", rec.Token, len(rec.Queue), g.Token())
		}
	})
}

// A reader has the token of the last writer, also if the store has seen higher ones: otherwise a target refuses
// the readers that came before it.
func TestTokensOfReaders(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var highest uint64
		c := client(t, keepsMarks{delayed{st}, &highest}, nil)
		s := open(t, c)
		g := mustTry(t, s, "job")
		mustRelease(t, g)
		for range 3 {
			r := mustTake(t, with(t, s, "job", lease.LockOptions{Shared: true}))
			if r.Token() != g.Token() {
				t.Errorf("the reader has token %d, the last writer had %d", r.Token(), g.Token())
			}
			highest += g.Token() + 5
		}
	})
}

// A waiter that is handed the lock by a ticket or by a break has a token above those that the store has seen.
func TestTokenAfterTheEndOfAGrant(t *testing.T) {
	for name, take := range map[string]func(t *testing.T, c *lease.Client) (end func() error){
		"a ticket": func(t *testing.T, c *lease.Client) func() error {
			ticket := mustDetach(t, mustTry(t, c, "job"))
			return func() error { return c.ReleaseTicket(t.Context(), ticket) }
		},
		"a break": func(t *testing.T, c *lease.Client) func() error {
			g := mustTake(t, with(t, open(t, c), "job", lease.LockOptions{Shared: true}))
			return func() error {
				return errOf(c.Break(t.Context(), "job", g.Token(), &lease.BreakOptions{Immediate: true}))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				var highest uint64
				end := take(t, client(t, keepsMarks{delayed{st}, &highest}, nil))
				highest = record(t, st, "job").Token + 100
				var ends sync.WaitGroup
				ends.Go(func() {
					time.Sleep(time.Second)
					report(t, end())
				})
				next := acquired(t, with(t, open(t, client(t, st, nil)), "job", lease.LockOptions{Fair: true}))
				if ends.Wait(); next.Token() <= highest {
					t.Errorf("the next holder has token %d; the store has seen %d", next.Token(), highest)
				}
			})
		})
	}
}
