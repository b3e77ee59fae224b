package sysclock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
)

func TestReadingUntil(t *testing.T) {
	now := time.Now()
	// at returns a reading whose clocks have run so far since the first.
	at := func(mono, wall, slept time.Duration) sysclock.Reading {
		return sysclock.Reading{Mono: now.Add(mono), Wall: now.Add(wall).Round(0), Suspended: time.Hour + slept}
	}
	for what, c := range map[string]struct {
		later sysclock.Reading
		want  time.Duration
	}{
		"a second":                     {at(time.Second, time.Second, 0), time.Second},
		"a sleep":                      {at(time.Second, time.Second, time.Hour), time.Hour + time.Second},
		"a sleep by both":              {at(time.Second, time.Hour+time.Second, time.Hour), time.Hour + time.Second},
		"less sleep than known":        {at(time.Second, time.Second, -time.Hour), time.Second},
		"the wall clock alone":         {at(0, time.Minute, 0), time.Minute},
		"the wall clock is set back":   {at(time.Minute, -time.Hour, 0), time.Minute},
		"every clock has stopped":      {at(0, 0, 0), 0},
		"no clock can make time less":  {at(-time.Second, -time.Second, 0), 0},
		"a sleep that no clock counts": {at(0, -time.Minute, 10*time.Minute), 10 * time.Minute},
	} {
		if got := at(0, 0, 0).Until(c.later); got != c.want {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
}

func TestReadingElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := sysclock.Read()
		if start.Wall != start.Mono.Round(0) {
			t.Errorf("the wall clock %v has a monotonic part", start.Wall)
		}
		time.Sleep(time.Hour)
		// A virtual hour takes no real time, which the boot-time clock counts.
		if got := start.Elapsed(); got < time.Hour || got > time.Hour+time.Minute {
			t.Errorf("got %v after an hour", got)
		}
	})
}
