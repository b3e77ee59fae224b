package lease

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// minPeriod and maxPeriod bound the length of [Every].
const (
	minPeriod = time.Second
	maxPeriod = 366 * 24 * time.Hour
)

// Period divides time into consecutive pieces: pieces of a fixed length, or units of the
// calendar. The zero Period is refused. All programs that run the same job should name the
// same period.
type Period struct {
	unit   string        // of the calendar, or empty
	length time.Duration // where unit is empty
	zone   *time.Location
}

// The units of the calendar.
const (
	hour  = "hour"
	day   = "day"
	week  = "week"
	month = "month"
	year  = "year"
)

var calendarUnits = []string{hour, day, week, month, year}

// Every returns a period of a fixed length, from 1 s to 366 days. [time.Time.Truncate] decides
// where the pieces begin: pieces of 6h at 0, 6, 12 and 18 o'clock UTC, pieces of 24h at midnight
// UTC, and pieces of 168h on Mondays. If a run is late in its piece of time and the next run is
// early, the time between them is shorter than this length. To prevent this, set
// Options.MinInterval.
func Every(d time.Duration) Period { return Period{length: d} }

// Hourly returns the period of an hour on the clocks of a time zone; nil means UTC. If the clocks
// are set back and show an hour twice, each of the two hours is a period. If the clocks are set
// forward or back by a part of an hour, that part is one period.
func Hourly(zone *time.Location) Period { return calendar(hour, zone) }

// Daily returns the period of a day in a time zone; nil means UTC. A day on which the clocks are
// set forward or back has 23 or 25 hours. A day begins with its first instant, even if the clocks
// skip midnight or show it twice.
func Daily(zone *time.Location) Period { return calendar(day, zone) }

// Weekly returns the period of a week in a time zone; nil means UTC. A week begins on Monday.
func Weekly(zone *time.Location) Period { return calendar(week, zone) }

// Monthly returns the period of a calendar month in a time zone; nil means UTC.
func Monthly(zone *time.Location) Period { return calendar(month, zone) }

// Yearly returns the period of a calendar year in a time zone; nil means UTC.
func Yearly(zone *time.Location) Period { return calendar(year, zone) }

func calendar(unit string, zone *time.Location) Period {
	return Period{unit: unit, zone: cmp.Or(zone, time.UTC)}
}

// ParsePeriod reads the text that [Period.String] writes. It is a length such as "6h" or "90m", or
// a unit of the calendar (hour, day, week, month, year). After a unit there can be a space and the
// name of an IANA time zone, as in "month Europe/Zurich". Without this name, the zone is UTC. If
// the text is not valid, or the zone does not exist or is Local, the error matches
// [store.ErrInvalid].
func ParsePeriod(text string) (Period, error) {
	bad := func(format string, args ...any) (Period, error) {
		return Period{}, fmt.Errorf("%w: period %.100q: %.200s", store.ErrInvalid, text, fmt.Sprintf(format, args...))
	}
	unit, name, zoned := strings.Cut(text, " ")
	if slices.Contains(calendarUnits, unit) {
		if name == "" && zoned {
			return bad("name a time zone after the blank, or remove the blank")
		}
		if name == "Local" {
			return bad("Local can be another zone on each machine; name the zone, such as Europe/Zurich")
		}
		zone, err := time.LoadLocation(name)
		if err != nil {
			return bad("%v", err)
		}
		return calendar(unit, zone), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return bad("it must be a length, such as 6h or 90m, or one of %s, with or without a time zone, such as month Europe/Zurich", strings.Join(calendarUnits, ", "))
	}
	p := Every(d)
	return p, p.check()
}

// String returns the period in the form that [ParsePeriod] reads.
func (p Period) String() string {
	switch {
	case p.unit == "" && p.length == 0:
		return "none"
	case p.unit == "":
		return p.length.String()
	case p.zone == time.UTC:
		return p.unit
	}
	return p.unit + " " + p.zone.String()
}

func (p Period) check() error {
	if p.unit == "" && (p.length < minPeriod || p.length > maxPeriod) {
		return fmt.Errorf("%w: the period is %v; it can be from %v to %v", store.ErrInvalid, p.length, minPeriod, maxPeriod)
	}
	return nil
}

// At returns the start and the end of the piece of time that contains t. The start belongs to the
// piece, and the end does not. For the zero Period, or a length below 1 ns, both results are t.
func (p Period) At(t time.Time) (start, end time.Time) {
	switch p.unit {
	case "":
		start = t.Truncate(p.length).UTC()
		return start, start.Add(max(0, p.length))
	case hour:
		return hourAt(t.In(p.zone))
	}
	y, m, d := t.In(p.zone).Date()
	switch p.unit {
	case week:
		d -= (int(t.In(p.zone).Weekday()) + 6) % 7 // days since Monday
	case month:
		d = 1
	case year:
		m, d = time.January, 1
	}
	for {
		start = dayStart(y, m, d, p.zone)
		switch p.unit {
		case day:
			d++
		case week:
			d += 7
		case month:
			m++
		case year:
			y++
		}
		// A day can have ended although its date comes again: where clocks are set back to
		// before midnight. What comes again belongs to the next one.
		if end = dayStart(y, m, d, p.zone); t.Before(end) {
			return start, end
		}
	}
}

// hourAt returns the hour of t in its time zone, cut where clocks are set.
func hourAt(t time.Time) (start, end time.Time) {
	offset := offsetAt(t)
	same := func(t time.Time) bool { return offsetAt(t) == offset }
	start = t.Add(offset).Truncate(time.Hour).Add(-offset)
	end = start.Add(time.Hour)
	if !same(start) {
		start = first(start, t, same)
	}
	if !same(end.Add(-1)) {
		end = first(t.Truncate(time.Second), end, func(t time.Time) bool { return !same(t) })
	}
	return start, end
}

// dayStart returns the first instant at which clocks in the zone show that date or a later
// one. It asks the zone for offsets alone: [time.Time.ZoneBounds] of Go 1.26 is wrong on the
// last day of leap years after 2037.
func dayStart(y int, m time.Month, d int, zone *time.Location) time.Time {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	var earliest, latest, start time.Time
	for h := -36 * time.Hour; h <= 36*time.Hour; h += 24 * time.Hour {
		offset := offsetAt(midnight.Add(h).In(zone))
		at := midnight.Add(-offset).In(zone)
		if offsetAt(at) == offset && (start.IsZero() || at.Before(start)) {
			start = at
		}
		if earliest.IsZero() || at.Before(earliest) {
			earliest = at
		}
		if at.After(latest) {
			latest = at
		}
	}
	if !start.IsZero() {
		return start
	}
	// Clocks skip midnight.
	return first(earliest, latest, func(t time.Time) bool { return !t.Add(offsetAt(t)).Before(midnight) })
}

// offsetAt is how far the clocks of the zone of t are ahead of UTC.
func offsetAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// first returns the first instant after from, in whole seconds and not later than to, for
// which f is true from there on.
func first(from, to time.Time, f func(time.Time) bool) time.Time {
	n := sort.Search(int(to.Sub(from)/time.Second), func(i int) bool { return f(from.Add(time.Duration(i+1) * time.Second)) })
	return from.Add(time.Duration(n+1) * time.Second)
}
