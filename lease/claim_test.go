package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// The reply of an acquire is lost.
func TestAcquireSurvivesALostReply(t *testing.T) {
	for _, f := range []fault{lose, drop, repeat, fail} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			bothWays(t, func(t *testing.T, st store.Store, client newParty) {
				w := newWire(st)
				c := client(t, w, nil)
				w.set(nth(1, f))
				began := time.Now()
				g := mustAcquire(t, c, "job")
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v: the client waits for its own grant", took)
				}
				if g.Deadline().After(time.Now().Add(ttl)) {
					t.Errorf("the deadline %v is too late", g.Deadline())
				}
				mustRelease(t, g)
				wantState(t, c, "job", lease.Free)
			})
		})
	}
}

// An acquire that is given up while its write is unresolved leaves nothing.
func TestGivenUpAcquireCannotLandLater(t *testing.T) {
	for _, f := range []fault{lose, drop, hangLate} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			bothWays(t, func(t *testing.T, st store.Store, client newParty) {
				w := newWire(st)
				c, other := client(t, w, nil), client(t, st, nil)
				first := true
				w.set(func(op *store.Op) fault {
					if op.Kind == store.OpPut && first {
						first = false
						return f
					}
					if reads(op) {
						return drop // nothing can be read back in time
					}
					return pass
				})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				g, err := c.Acquire(ctx, "job", nil)
				if err == nil {
					t.Fatalf("acquired, token %d", g.Token())
				}
				w.set(nil)
				w.after.Wait()
				won, err := other.TryAcquire(t.Context(), "job", nil)
				if err != nil {
					t.Fatalf("no guard holds the lock, and it cannot be taken: %v", err)
				}
				mustRelease(t, won)
			})
		})
	}
}

// A claim conflicts with itself, and another client holds the lock by then.
func TestLostClaimDoesNotAdoptAnothersGrant(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		a, b := client(t, w, nil), client(t, st, nil)
		var won *lease.Guard
		first := true
		w.set(func(op *store.Op) fault {
			if op.Kind.Write() && first {
				first = false
				return lose
			}
			if reads(op) && won == nil {
				// The claim was applied; another client breaks it and takes the lock.
				rec := wantState(t, b, "job", lease.Held)
				report(t, errOf(b.Break(t.Context(), "job", rec.Token, &lease.BreakOptions{Immediate: true})))
				won = mustTry(t, b, "job")
			}
			return pass
		})
		if g, err := a.TryAcquire(t.Context(), "job", nil); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("TryAcquire = %v, %v; want it held", g, err)
		}
		report(t, won.Err())
		mustRelease(t, won)
	})
}

// Cancelling the context of an acquire, after it and while waiting.
func TestCancelledAcquireEndsOnlyTheWait(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		a, b := client(t, st, nil), client(t, st, nil)
		ctx, cancel := context.WithCancel(t.Context())
		g, err := a.Acquire(ctx, "job", nil)
		must(t, err)
		cancel()
		time.Sleep(10 * ttl)
		if err := g.Err(); err != nil {
			t.Fatalf("cancelling the wait ended the lease: %v", err)
		}
		before := wantState(t, a, "job", lease.Held)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.Acquire(ctx, "job", nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrHeld) {
			t.Errorf("Acquire = %v; want the context's end and who holds it", err)
		}
		if after := wantState(t, a, "job", lease.Held); after.Token != before.Token {
			t.Errorf("the waiter left token %d behind %d", after.Token, before.Token)
		}
		mustRelease(t, g)
	})
}

// A wait that has ended with its context does not shorten the next wait.
func TestTimeoutDoesNotShortenTheNextWait(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		a, b := client(t, st, nil), client(t, st, nil)
		g := mustTry(t, a, "job")
		h := handle(t, b, "job")
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			began := time.Now()
			_, err := h.Acquire(ctx)
			if took := time.Since(began); err == nil || took < 10*time.Second {
				t.Errorf("gave up after %v: %v", took, err)
			}
			cancel()
		}
		mustRelease(t, g)
		mustRelease(t, mustTry(t, b, "job"))
	})
}

// Clients that name the same holder exclude each other.
func TestEqualHoldersExcludeEachOther(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		same := &lease.Options{Holder: "worker"}
		a, b := client(t, st, same), client(t, st, same)
		g := mustTry(t, a, "job")
		wantHeld(t, a, "job") // another handle of the same client
		wantHeld(t, b, "job")
		mustRelease(t, g)
		longer := client(t, st, &lease.Options{Holder: "worker-2", ReclaimOwn: true})
		g = mustTry(t, a, "job")
		wantHeld(t, longer, "job")
		mustRelease(t, g)
	})
}
