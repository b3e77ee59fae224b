package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// Tokens rise although the record was removed and the clock was set back.
func TestTokensRiseAfterSweep(t *testing.T) {
	for _, floor := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			c := client(t, st, nil)
			old := mustTry(t, c, "old")
			mustRelease(t, old)
			time.Sleep(2 * time.Hour)
			held := mustTry(t, c, "held")
			mustRelease(t, mustTry(t, c, "recent"))
			if _, err := c.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Minute}); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("Sweep of locks that are a minute old = %v", err)
			}
			if n, err := c.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour, DryRun: true}); n != 1 || err != nil {
				t.Errorf("dry run = %d, %v", n, err)
			}
			wantState(t, c, "old", lease.Free)
			reported := map[string]bool{}
			n, err := c.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour, OnLock: func(name string, removed bool, err error) {
				reported[name] = removed
			}})
			if n != 1 || err != nil || !reported["old"] || reported["held"] || reported["recent"] {
				t.Errorf("Sweep = %d, %v, reported %v", n, err, reported)
			}
			if _, err := c.Inspect(t.Context(), "old"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("Inspect of what was removed = %v", err)
			}
			wantState(t, c, "held", lease.Held)
			wantState(t, c, "recent", lease.Free)
			mustRelease(t, held)

			back := client(t, st, &lease.Options{CheckTokenFloor: floor})
			clock := newClocks()
			lease.SetClock(back, clock.read)
			clock.change(func(c *clocks) { c.jumped -= 24 * time.Hour })
			g := mustTry(t, back, "old")
			if (g.Token() > old.Token()) != floor {
				t.Errorf("floor %v: token %d after %d", floor, g.Token(), old.Token())
			}
			mustRelease(t, g)
		})
	}
}

// A lock that was granted many thousand times a second for a day is removed and made again: its
// tokens are above the old ones, although no client reads the floor.
func TestTokensRiseAfterSweepOfABusyLock(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		mustRelease(t, mustTry(t, c, "busy"))
		const day = 24 * 60 * 60
		edit(t, st, "busy", func(rec *lease.Record) { rec.Token += 900_000 * day })
		last := record(t, st, "busy").Token
		time.Sleep(day*time.Second + 3*time.Hour)
		if n, err := c.Sweep(t.Context(), &lease.SweepOptions{OlderThan: 2 * time.Hour}); n != 1 || err != nil {
			t.Fatalf("Sweep = %d, %v", n, err)
		}
		if g := mustTry(t, client(t, st, nil), "busy"); g.Token() <= last {
			t.Errorf("token %d after %d", g.Token(), last)
		}
	})
}

// A token that is ahead of the clock, as a damaged record shows it, raises the floor of
// no other lock: its lock stays, and Sweep says so.
func TestSweepLeavesTokensAhead(t *testing.T) {
	for name, token := range map[string]func(uint64) uint64{
		"the maximum":        func(uint64) uint64 { return math.MaxUint64 },
		"next to it":         func(uint64) uint64 { return math.MaxUint64 - 1 },
		"just ahead":         func(token uint64) uint64 { return token + 7_200_000_000 },
		"just not, a second": func(token uint64) uint64 { return token + 7_199_000_000 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				c := client(t, st, &lease.Options{CheckTokenFloor: true})
				mustRelease(t, mustTry(t, c, "changed"))
				mustRelease(t, mustTry(t, c, "usual"))
				edit(t, st, "changed", func(rec *lease.Record) { rec.Token = token(rec.Token) })
				time.Sleep(2 * time.Hour)
				stays := name != "just not, a second"
				reported := map[string]error{}
				n, err := c.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour, OnLock: func(name string, _ bool, err error) {
					reported[name] = err
				}})
				if want := map[bool]int{true: 1, false: 2}[stays]; n != want || err != nil {
					t.Errorf("Sweep = %d, %v, want %d", n, err, want)
				}
				if got := errors.Is(reported["changed"], lease.ErrTokenInFuture); got != stays || reported["usual"] != nil {
					t.Errorf("reported %v", reported)
				}
				if stays {
					wantState(t, c, "changed", lease.Free)
				}
				mustRelease(t, mustTry(t, client(t, st, &lease.Options{CheckTokenFloor: true}), "new"))
				mustRelease(t, mustTry(t, client(t, st, &lease.Options{CheckTokenFloor: true}), "usual"))
			})
		})
	}
}

// Remove locks that were unused for a month.
func ExampleClient_Sweep() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	removed, err := client.Sweep(ctx, &lease.SweepOptions{OlderThan: 30 * 24 * time.Hour})
	fmt.Println(removed, err)
	// Output: 0 <nil>
}
