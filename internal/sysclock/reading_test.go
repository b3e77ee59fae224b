package sysclock_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
)

func TestReadingUntil(t *testing.T) {
	start := sysclock.Reading{Now: time.Now(), Suspended: time.Hour}
	wall := start.Now.Round(0)
	for what, c := range map[string]struct {
		later sysclock.Reading
		want  time.Duration
	}{
		"a second":              {sysclock.Reading{Now: start.Now.Add(time.Second), Suspended: time.Hour}, time.Second},
		"a sleep":               {sysclock.Reading{Now: start.Now.Add(time.Second), Suspended: 2 * time.Hour}, time.Hour + time.Second},
		"less sleep than known": {sysclock.Reading{Now: start.Now.Add(time.Second)}, time.Second},
		"the wall clock alone":  {sysclock.Reading{Now: wall.Add(time.Minute), Suspended: time.Hour}, time.Minute},
	} {
		if got := start.Until(c.later); got != c.want {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
}
