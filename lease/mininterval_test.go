package lease_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// spaced takes and releases a lock whose next grant comes an hour later.
func spaced(t *testing.T, st store.Store, o *lease.Options) *lease.Guard {
	t.Helper()
	o.MinInterval = time.Hour
	return mustTry(t, client(t, st, o), "job")
}

// The next grant begins no earlier than MinInterval after the one before, however that has ended
// and whichever client acquires: one that waits, one that tries, one that begins later. The release
// comes at once.
func TestMinIntervalSpacesGrants(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *lease.Guard){
		"released":                func(t *testing.T, g *lease.Guard) { mustRelease(t, g) },
		"holder stopped renewing": func(*testing.T, *lease.Guard) {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				began := time.Now()
				end(t, spaced(t, st, &lease.Options{ManualRenewal: true}))
				if took := time.Since(began); took > time.Second {
					t.Errorf("the release took %v", took)
				}
				info, err := client(t, st, nil).Inspect(t.Context(), "job")
				if err != nil || !info.Record.NotBefore.Equal(info.Record.Granted.Add(time.Hour)) {
					t.Errorf("the record says %v, granted %v (%v)", info.Record.NotBefore, info.Record.Granted, err)
				}
				time.Sleep(50 * time.Minute)
				var held *lease.HeldError
				late := client(t, st, nil)
				if _, err := late.TryAcquire(t.Context(), "job", nil); !errors.As(err, &held) || held.Wait <= 0 {
					t.Fatalf("a try after 50 minutes: %v", err)
				}
				if held.Record.State == lease.Free && !strings.Contains(held.Error(), "is free, but cannot be taken before") {
					t.Errorf("it says %v", held)
				}
				takes(t, late, "job")
				if waited := time.Since(began); waited < time.Hour || waited > time.Hour+soon {
					t.Errorf("the next grant came after %v", waited)
				}
			})
		})
	}
}

// The client that took the lock has to wait as well, and a renewal or a ticket does not
// take the time back.
func TestMinIntervalHoldsForItsOwnClient(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		began := time.Now()
		c := client(t, st, &lease.Options{MinInterval: time.Hour, ManualRenewal: true})
		g := mustTry(t, c, "job")
		must(t, g.Renew(t.Context()))
		ticket := mustDetach(t, g)
		must(t, client(t, st, nil).ReleaseTicket(t.Context(), ticket))
		if _, err := c.TryAcquire(t.Context(), "job", nil); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("a try at once: %v", err)
		}
		takes(t, c, "job")
		if waited := time.Since(began); waited < time.Hour {
			t.Errorf("the next grant came after %v", waited)
		}
	})
}

// Work that was not done, and a break, let the next grant begin at once.
func TestBreakOrAllowRerunEndsMinInterval(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		g := spaced(t, st, &lease.Options{})
		g.AllowRerun()
		mustRelease(t, g)
		g = spaced(t, st, &lease.Options{})
		mustRelease(t, g)
		rec, err := client(t, st, nil).Break(t.Context(), "job", g.Token(), nil)
		if err != nil || rec.State != lease.Free || rec.Token <= g.Token() || !rec.NotBefore.IsZero() {
			t.Errorf("broken: %+v (%v)", rec, err)
		}
		if again := mustTry(t, client(t, st, nil), "job"); again.Token() <= rec.Token {
			t.Errorf("token %d after %d", again.Token(), rec.Token)
		}
	})
}

// A clock that was ahead by years keeps no lock for longer than MinInterval.
func TestFastClockDoesNotExtendMinInterval(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, &lease.Options{MinInterval: time.Hour})
		lease.SetClock(c, func() lease.Reading {
			now := time.Now()
			return lease.Reading{Mono: now, Wall: now.AddDate(5, 0, 0).Round(0)}
		})
		mustRelease(t, mustTry(t, c, "job"))
		if took := takes(t, client(t, st, nil), "job"); took < time.Hour || took > time.Hour+soon {
			t.Errorf("the next grant came after %v", took)
		}
	})
}

// A sweep does not remove a lock that may not be taken yet.
func TestMinIntervalOutlivesSweep(t *testing.T) {
	bubbleFor(t, ages, func(t *testing.T, st store.Store) {
		c := client(t, st, &lease.Options{MinInterval: 100 * time.Hour})
		mustRelease(t, mustTry(t, c, "job"))
		for _, want := range []int{0, 1} {
			time.Sleep(60 * time.Hour)
			if n, err := c.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour}); err != nil || n != want {
				t.Errorf("%d removed, want %d (%v)", n, want, err)
			}
		}
	})
}
