// Package picture draws who held which lock, and how long operations took: as text for a terminal, and as
// SVG files.
//
// # Use
//
// Add the events of locks to a [Timeline]: the events that a [Tracker] sees in the records of locks, or
// the entries of a history. Then call [Timeline.Text] or [Timeline.SVG]. [Latencies] draws measurements.
//
// # Promises
//
// The package reads no clock and no environment: equal input gives equal output. Names and holders are
// texts of others: control characters become U+FFFD, and all texts are escaped. An SVG file has no
// script, no link, and names no other file. Its texts are readable on light and dark backgrounds.
//
// No type is safe for concurrent use.
package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of an [Event].
type Kind string

// The kinds of events.
const (
	Granted   Kind = "granted"       // the lock has one new holder, and no other
	Entered   Kind = "entered"       // the lock has one more holder: a reader, or the holder of a slot
	TakenOver Kind = "taken over"    // as Granted: the earlier holder did not release the lock
	Changed   Kind = "changed hands" // as Granted: a takeover, or a release that was not seen
	Renewed   Kind = "renewed"       // the holder has a new deadline
	Released  Kind = "released"      // the holder has released the lock
	Lost      Kind = "lost"          // the lease ended before its holder released it
	Broken    Kind = "broken"        // another client ended the grant
	Asked     Kind = "asked"         // another client asked the holder to yield
	Refused   Kind = "refused"       // a write of an earlier holder was refused by a fence
	Missing   Kind = "missing"       // events of the lock are missing
	Noted     Kind = "noted"         // Reason is a word for the picture
)

// Event is what happened to one grant of a lock.
type Event struct {
	Time   time.Time
	Lock   string
	Kind   Kind
	Grant  string // names the grant among those of its lock; empty: its token names it
	Token  uint64
	Holder string // who holds the lock, or held it
	By     string // who did it, if another: who broke, who asked
	Reason string
	Until  time.Time // of Granted, Entered, TakenOver, Changed, Renewed: when the lease ends without a renewal; zero: unknown
	Count  uint64    // of Missing: how many
}

// begins reports whether an event begins a grant.
func begins(k Kind) bool { return k == Granted || k == Entered || k == TakenOver || k == Changed }

// maxPerLock is how many bars, and how many marks, a timeline keeps of one lock.
const maxPerLock = 1000

// maxText is how many columns of a text a timeline keeps.
const maxText = 200

// Timeline keeps who held which lock, for pictures. The zero value is empty.
type Timeline struct {
	rows    map[string]*row
	letters map[string]int // of holders, in the order of their first grants
	next    int            // the next letter
}

// row is one lock.
type row struct {
	lock  string
	bars  []*bar
	marks []mark
	last  time.Time // of the last event that is visible
}

// bar is one grant.
type bar struct {
	grant    string
	holder   string
	letter   int
	token    uint64
	from, to time.Time // a zero to: the grant is not over
	until    time.Time
	how      Kind // the kind of the event that began it
}

// mark is an event that has a moment, and no duration.
type mark struct {
	at   time.Time
	kind Kind
	text string
}

// Add adds an event. Events of one lock come in their order.
func (t *Timeline) Add(e Event) {
	if t.rows == nil {
		t.rows, t.letters = map[string]*row{}, map[string]int{}
	}
	r := t.rows[e.Lock]
	if r == nil {
		r = &row{lock: e.Lock}
		t.rows[e.Lock] = r
	}
	if e.Grant == "" {
		e.Grant = fmt.Sprint(e.Token)
	}
	e.Holder, e.By, e.Reason = cut(e.Holder, maxText), cut(e.By, maxText), cut(e.Reason, maxText)
	if e.Kind != Renewed {
		r.last = e.Time
	}
	switch e.Kind {
	case Granted, TakenOver, Changed:
		r.end(e.Time, "")
		fallthrough
	case Entered:
		r.end(e.Time, e.Grant) // a grant begins once
		r.bars = append(r.bars, &bar{grant: e.Grant, holder: e.Holder, letter: t.letter(e.Holder), token: e.Token, from: e.Time, until: e.Until, how: e.Kind})
	case Renewed:
		for _, b := range r.bars {
			if b.to.IsZero() && (b.grant == e.Grant) {
				b.until = e.Until
			}
		}
	case Released, Lost:
		r.end(e.Time, e.Grant)
	case Broken:
		r.end(e.Time, "")
	}
	switch e.Kind {
	case TakenOver, Changed, Lost, Broken, Asked, Refused, Missing, Noted:
		r.marks = append(r.marks, mark{at: e.Time, kind: e.Kind, text: e.text()})
	}
	r.bars = r.bars[max(0, len(r.bars)-maxPerLock):]
	r.marks = r.marks[max(0, len(r.marks)-maxPerLock):]
}

// text describes an event for the reader of an SVG file.
func (e *Event) text() string {
	text := string(e.Kind)
	switch e.Kind {
	case Noted:
		return e.Reason
	case Missing:
		return fmt.Sprintf("%d events are missing", e.Count)
	}
	if e.By != "" {
		text += " by " + e.By
	} else if e.Kind == TakenOver || e.Kind == Changed {
		text += " by " + e.Holder
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// letter returns the number of a holder.
func (t *Timeline) letter(holder string) int {
	n, known := t.letters[holder]
	if !known {
		n = t.next
		t.letters[holder] = n
		t.next++
	}
	return n
}

// end ends a grant; all grants, if none is named.
func (r *row) end(at time.Time, grant string) {
	for _, b := range r.bars {
		if b.to.IsZero() && (grant == "" || b.grant == grant) {
			b.to = later(at, b.from)
		}
	}
}

func later(a, b time.Time) time.Time {
	return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare)
}

func earlier(a, b time.Time) time.Time {
	return slices.MinFunc([]time.Time{a, b}, time.Time.Compare)
}

// Cut forgets what was over before a time.
func (t *Timeline) Cut(before time.Time) {
	used := map[string]bool{}
	for name, r := range t.rows {
		r.bars = slices.DeleteFunc(r.bars, func(b *bar) bool { return !b.to.IsZero() && b.to.Before(before) })
		r.marks = slices.DeleteFunc(r.marks, func(m mark) bool { return m.at.Before(before) })
		if len(r.bars)+len(r.marks) == 0 && r.last.Before(before) {
			delete(t.rows, name)
		}
		for _, b := range r.bars {
			used[b.holder] = true
		}
	}
	if len(t.letters) > 2*len(used)+1000 {
		for holder := range t.letters {
			if !used[holder] {
				delete(t.letters, holder)
			}
		}
	}
}

// view is what one picture shows of a timeline.
type view struct {
	from, to time.Time
	rows     []shown
	locks    int // hidden
	grants   int // hidden, of locks that are not hidden
	holders  []*bar
	marks    []Kind
}

// shown is one row of a picture.
type shown struct {
	*row
	lanes [][]*bar // grants that do not overlap
	marks []mark
}

// maxLanes is how many grants at the same time a picture shows of one lock.
const maxLanes = 8

// maxBars is how many grants a picture shows, about.
const maxBars = 5000

// view returns what happened between two times, in at most room lanes. If there are too many locks, it has those
// that changed last.
func (t *Timeline) view(from, to time.Time, room int) view {
	v := view{from: from, to: to}
	for _, r := range t.rows {
		s := shown{row: r}
		bars := slices.SortedStableFunc(slices.Values(r.bars), func(a, b *bar) int { return a.from.Compare(b.from) })
		for _, b := range bars {
			if b.from.After(to) || !b.to.IsZero() && b.to.Before(from) {
				continue
			}
			i := slices.IndexFunc(s.lanes, func(lane []*bar) bool {
				last := lane[len(lane)-1]
				return !last.to.IsZero() && !last.to.After(b.from)
			})
			switch {
			case i >= 0:
				s.lanes[i] = append(s.lanes[i], b)
			case len(s.lanes) < maxLanes:
				s.lanes = append(s.lanes, []*bar{b})
			default:
				v.grants++
			}
		}
		for _, m := range r.marks {
			if !m.at.Before(from) && !m.at.After(to) {
				s.marks = append(s.marks, m)
			}
		}
		if len(s.lanes)+len(s.marks) > 0 {
			v.rows = append(v.rows, s)
		}
	}
	slices.SortFunc(v.rows, func(a, b shown) int { return cmp.Or(b.last.Compare(a.last), cmp.Compare(a.lock, b.lock)) })
	used := 0
	for i := range v.rows {
		lanes := max(1, len(v.rows[i].lanes))
		if used+lanes > room && i > 0 {
			v.locks, v.rows = len(v.rows)-i, v.rows[:i]
			break
		}
		for len(v.rows[i].lanes) > max(1, room) {
			v.grants += len(v.rows[i].lanes[len(v.rows[i].lanes)-1])
			v.rows[i].lanes = v.rows[i].lanes[:len(v.rows[i].lanes)-1]
		}
		used += lanes
	}
	slices.SortFunc(v.rows, func(a, b shown) int { return cmp.Compare(a.lock, b.lock) })
	for i := range v.rows {
		v.grants += v.rows[i].newest(max(1, maxBars/len(v.rows)))
	}
	seen := map[string]bool{}
	for _, s := range v.rows {
		for _, lane := range s.lanes {
			for _, b := range lane {
				if !seen[b.holder] {
					seen[b.holder] = true
					v.holders = append(v.holders, b)
				}
				if b.overdue(to) && !slices.Contains(v.marks, "") {
					v.marks = append(v.marks, "")
				}
			}
		}
		for _, m := range s.marks {
			if !slices.Contains(v.marks, m.kind) {
				v.marks = append(v.marks, m.kind)
			}
		}
	}
	slices.SortFunc(v.holders, func(a, b *bar) int { return cmp.Compare(a.letter, b.letter) })
	slices.Sort(v.marks)
	return v
}

// newest leaves out all but the newest n grants, and all but the newest n marks. It returns how many grants it left
// out.
func (s *shown) newest(n int) (hidden int) {
	s.marks = s.marks[max(0, len(s.marks)-n):]
	var begins []time.Time
	for _, lane := range s.lanes {
		for _, b := range lane {
			begins = append(begins, b.from)
		}
	}
	if len(begins) <= n {
		return 0
	}
	slices.SortFunc(begins, time.Time.Compare)
	first := begins[len(begins)-n]
	for i, lane := range s.lanes {
		kept := slices.DeleteFunc(slices.Clone(lane), func(b *bar) bool { return b.from.Before(first) })
		hidden += len(lane) - len(kept)
		s.lanes[i] = kept
	}
	return hidden
}

// overdue reports whether the holder did not renew its lease in time, before a time.
func (b *bar) overdue(now time.Time) bool {
	return !b.until.IsZero() && b.until.Before(b.end(now))
}

// end is where the bar ends in a picture that ends at a time.
func (b *bar) end(now time.Time) time.Time {
	if b.to.IsZero() {
		return now
	}
	return earlier(b.to, now)
}

// hidden says what a picture does not show.
func (v *view) hidden() string {
	var parts []string
	if v.locks > 0 {
		parts = append(parts, count(v.locks, "more lock"))
	}
	if v.grants > 0 {
		parts = append(parts, count(v.grants, "more grant"))
	}
	if parts == nil {
		return ""
	}
	return "not shown: " + strings.Join(parts, ", and ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// letters name holders.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func (b *bar) symbol() string { return letters[b.letter%len(letters):][:1] }

// signs are how pictures show marks, and what they mean. The empty kind is a lease that was not renewed in time.
var signs = map[Kind]struct{ sign, means string }{
	"":        {"╌", "not renewed in time"},
	TakenOver: {"!", "taken over"},
	Changed:   {"»", "changed hands"},
	Lost:      {"x", "lost"},
	Broken:    {"#", "broken by a user"},
	Asked:     {"?", "asked to yield"},
	Refused:   {"%", "late write refused"},
	Missing:   {"~", "events are missing"},
	Noted:     {"*", "noted"},
}

// steps are the distances of the labels of a time axis.
var steps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// tick is one label of a time axis.
type tick struct {
	at   time.Time
	text string
}

// longest is the longest time with labels: more would not fit into a [time.Duration].
const longest = math.MaxInt64 / 2

// ticks returns at most most labels, at round times of a time zone.
func ticks(from, to time.Time, most int) (all []tick) {
	whole := to.Sub(from)
	if most < 1 || whole <= 0 || whole > longest {
		return nil
	}
	step := steps[0]
	for i := 1; (whole-1)/time.Duration(most) >= step; i++ {
		if i < len(steps) {
			step = steps[i]
		} else {
			step *= 2
		}
	}
	layout := "15:04:05"
	switch {
	case step >= 24*time.Hour:
		layout = "Jan 02"
	case whole > 24*time.Hour:
		layout = "02 15:04"
	case step >= time.Minute:
		layout = "15:04"
	}
	midnight := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, from.Location())
	at := midnight.Add(from.Sub(midnight).Truncate(step))
	for ; !at.After(to); at = at.Add(step) {
		if !at.Before(from) {
			all = append(all, tick{at, at.Format(layout)})
		}
	}
	return all
}

// span describes the time that a picture shows.
func span(from, to time.Time) string {
	layout := "15:04:05"
	if from.YearDay() != to.YearDay() || from.Year() != to.Year() {
		layout = time.DateTime
	}
	return from.Format(time.DateTime) + " to " + to.Format(layout+" MST")
}
