package lease_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// A holder notices that its machine slept, although the monotonic clock stopped.
func TestHolderNoticesThatItsMachineSlept(t *testing.T) {
	for name, sleep := range map[string]func(*clocks){
		"wall clock tells":      func(c *clocks) { c.jumped += 10 * time.Minute },
		"boot-time clock tells": func(c *clocks) { c.suspended += 10 * time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				c := client(t, st, nil)
				clock := newClocks()
				lease.SetClock(c, clock.read)
				g := mustTry(t, c, "job")
				clock.change(sleep)
				wantLost(t, g, lease.ErrExpired)
			})
		})
	}
}

// When the wall clock of the holder or the waiter jumps, no two hold the lock.
func TestWallClockJumpsCauseNoTakeover(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				a, b := client(t, st, nil), client(t, st, nil)
				clockA, clockB := newClocks(), newClocks()
				lease.SetClock(a, clockA.read)
				lease.SetClock(b, clockB.read)
				g := mustTry(t, a, "job")
				wantHeld(t, b, "job")
				clockB.change(func(c *clocks) { c.jumped += jump })
				wantHeld(t, b, "job")
				time.Sleep(5 * time.Minute)
				wantHeld(t, b, "job")
				clockA.change(func(c *clocks) { c.jumped += jump })
				if err := g.Err(); (jump < 0) != (err == nil) {
					t.Errorf("after a jump of %v: %v; a holder may give up early, never late", jump, err)
				}
				if jump < 0 {
					time.Sleep(5 * time.Minute)
					report(t, g.Err())
				}
			})
		})
	}
}

// A process that wakes up after its lease has expired gets the event of the loss.
func TestHolderThatWakesUpLateGetsTheLossEvent(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var heard events
		c := client(t, st, &lease.Options{OnEvent: heard.add})
		clock := newClocks()
		lease.SetClock(c, clock.read)
		g := mustTry(t, c, "job")
		clock.change(func(c *clocks) { c.jumped += time.Hour })
		<-g.Context().Done() // ended by the timer, not by a call of the guard
		wantLost(t, g, lease.ErrExpired)
		if len(heard.of(lease.EventLost)) != 1 {
			t.Errorf("the events were %v; want one that it was lost", heard.all)
		}
	})
}
