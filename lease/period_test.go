package lease_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	must(t, err)
	return loc
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	must(t, err)
	return at
}

// The pieces of each period, also where clocks are set: with an hour or half of one more or
// less, a midnight that is skipped or comes twice, and a day that a zone has left out.
func TestPeriodPieces(t *testing.T) {
	for _, c := range []struct{ period, at, start, end string }{
		{"6h", "2026-11-22T05:59:59Z", "2026-11-22T00:00:00Z", "2026-11-22T06:00:00Z"},
		{"6h", "2026-11-22T07:00:00+01:00", "2026-11-22T06:00:00Z", "2026-11-22T12:00:00Z"},
		{"168h", "2026-11-22T12:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
		{"90s", "1969-12-31T23:59:59Z", "1969-12-31T23:58:30Z", "1970-01-01T00:00:00Z"},
		{"day", "2026-11-22T00:00:00Z", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z"},
		{"week", "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
		{"week", "2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"month", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"month", "2026-12-31T12:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"year", "2026-12-31T23:30:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"year Europe/Zurich", "2026-12-31T23:30:00Z", "2027-01-01T00:00:00+01:00", "2028-01-01T00:00:00+01:00"},
		{"month Europe/Zurich", "2026-03-15T12:00:00Z", "2026-03-01T00:00:00+01:00", "2026-04-01T00:00:00+02:00"},
		// 23 and 25 hours.
		{"day Europe/Zurich", "2026-03-29T12:00:00Z", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"day Europe/Zurich", "2026-10-25T12:00:00Z", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		// The hour that comes twice is two, and none is left out.
		{"hour Europe/Zurich", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+02:00"},
		{"hour Europe/Zurich", "2026-10-25T02:30:00+01:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"},
		{"hour Europe/Zurich", "2026-03-29T01:30:00+01:00", "2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"},
		// Zones that are off by half an hour, and set their clocks by as much.
		{"hour Asia/Kolkata", "2026-06-01T12:10:00+05:30", "2026-06-01T12:00:00+05:30", "2026-06-01T13:00:00+05:30"},
		{"hour Australia/Lord_Howe", "2026-04-05T01:40:00+10:30", "2026-04-05T01:30:00+10:30", "2026-04-05T02:00:00+10:30"},
		// Midnight is skipped: the day begins at one o'clock.
		{"day America/Sao_Paulo", "2018-11-03T23:30:00-03:00", "2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		{"day America/Sao_Paulo", "2018-11-04T01:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		// Midnight comes twice: the day begins with the first.
		{"day America/Havana", "2026-11-01T00:30:00-05:00", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		// At one past midnight clocks were set back to the day before, whose end that day had.
		{"day America/St_Johns", "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		// A day that was left out.
		{"day Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
	} {
		p, err := lease.ParsePeriod(c.period)
		if err != nil {
			t.Errorf("%s: %v", c.period, err)
			continue
		}
		if again, err := lease.ParsePeriod(p.String()); err != nil || again.String() != p.String() {
			t.Errorf("%s is written %s, and that is read as %s, %v", c.period, p, again, err)
		}
		start, end := p.At(instant(t, c.at))
		if !start.Equal(instant(t, c.start)) || !end.Equal(instant(t, c.end)) {
			t.Errorf("%s at %s: from %v to %v, want %s to %s", c.period, c.at, start, end, c.start, c.end)
		}
	}
}

// In any zone the pieces follow each other without a gap, each instant is in its own piece, and a
// new day is a new piece.
func TestPeriodPiecesFollowEachOther(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Zurich", "America/Sao_Paulo", "America/Havana", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu"} {
		loc := zone(t, name)
		for _, p := range []lease.Period{
			lease.Hourly(loc), lease.Daily(loc), lease.Weekly(loc), lease.Monthly(loc), lease.Yearly(loc), lease.Every(7 * time.Hour),
		} {
			at := time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC)
			steps := 500
			for range steps {
				start, end := p.At(at)
				if start.After(at) || !end.After(at) {
					t.Fatalf("%s: %v lies from %v to %v", p, at, start, end)
				}
				for _, other := range []time.Time{start, start.Add(end.Sub(start) / 2), end.Add(-1)} {
					if s, e := p.At(other); !s.Equal(start) || !e.Equal(end) {
						t.Fatalf("%s: %v lies from %v to %v, not from %v to %v", p, other, s, e, start, end)
					}
				}
				if next, _ := p.At(end); !next.Equal(end) {
					t.Fatalf("%s: a piece ends at %v, and the next one begins at %v", p, end, next)
				}
				at = end.Add(end.Sub(start) / 3)
			}
		}
	}
}

// What is no period is refused.
func TestPeriodBadInput(t *testing.T) {
	for _, text := range []string{
		"", "days", "Day", "daily", "6", "0", "0s", "-6h", "999ms", "8785h", "day ", " day", "day Europe/Zurch", "day  UTC",
		"6h Europe/Zurich", "month ../../etc/passwd", "week\tUTC", "hour UTC UTC", "9999999h",
		strings.Repeat("x", 1<<20), "day " + strings.Repeat("x", 1<<20),
	} {
		if p, err := lease.ParsePeriod(text); !errors.Is(err, store.ErrInvalid) || len(err.Error()) > 500 {
			t.Errorf("%.40q: %v, %.500v", text, p, err)
		}
	}
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		if _, err := c.Once(t.Context(), "job", lease.Period{}, nil, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("Once without a period: %v", err)
		}
		for _, p := range []lease.Period{lease.Every(time.Nanosecond), lease.Every(-time.Hour), lease.Every(lease.MinPeriod - 1), lease.Every(lease.MaxPeriod + 1)} {
			if start, end := p.At(time.Now()); end.Before(start) {
				t.Errorf("%v: from %v to %v", p, start, end)
			}
		}
	})
}
