package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// The check searches for an order of the calls on one register in which each call takes
// effect between its start and its end, and sees the state that the calls before it left.
// It is the search of Wing and Gong. Four properties of this register keep it short:
//
//   - Calls that change nothing can be put in place as soon as they fit.
//   - Every write names its predecessor, so in most states only one write is possible.
//   - A version does not return: a state can be left only when every call that saw it
//     is in place.
//   - Of two writes with an unknown outcome that would do the same, the one that
//     began first can be taken first.
//
// The search must still guess the order of creations, and which of the writes with an
// unknown outcome were applied.

// checkRegister checks the calls on one key.
func checkRegister(calls []call) error {
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.start, b.start) })
	s := &search{calls: calls, failed: make(map[string]bool)}
	if err := s.prepare(); err != nil {
		return err
	}
	if s.run(0, store.Entry{}) {
		return nil
	}
	return s.deepest
}

type search struct {
	calls []call

	required []int  // the calls that must have a place, by their start
	placed   []bool // which of them have one
	left     int    // how many have none

	// maybes are the writes with an unknown outcome, by the version they name.
	maybes map[store.Version][]*maybe

	// seen counts, for each version, the required calls without a place that saw it
	// or replaced it.
	seen map[store.Version]int

	// orphans are the versions that a call saw or named and that no known write made. A
	// write with an unknown outcome made them, or they were never written.
	orphans map[store.Version]*orphan
	valued  map[string][]store.Version // those whose value a call saw
	others  []store.Version            // the others
	named   []store.Version            // those that a write with an unknown outcome names

	order   []int           // the calls in place
	failed  map[string]bool // situations without an explanation
	reach   int             // the longest order tried
	deepest error           // why no call fits after it
}

// maybe is a group of writes with an unknown outcome that would have the same effect.
type maybe struct {
	calls []int // by their start; the first ones are in place
	used  int
}

type orphan struct {
	value string
	known bool // a call saw the value
	made  bool // the write that made it is in place
}

// prepare sorts the calls and finds faults that no order can explain.
func (s *search) prepare() error {
	made, err := s.sortWrites()
	if err != nil {
		return err
	}
	s.seen = make(map[store.Version]int)
	s.orphans = make(map[store.Version]*orphan)
	for i := range s.calls {
		c := &s.calls[i]
		s.seen[c.needs()]++
		for _, v := range []store.Version{c.prev, c.version} {
			if v != "" && made[v] == nil && s.orphans[v] == nil {
				s.orphans[v] = new(orphan)
			}
		}
		if c.version == "" || !c.known {
			continue
		}
		value := c.value
		if m := made[c.version]; m != nil {
			value = m.value
		} else if o := s.orphans[c.version]; o.known {
			value = o.value
		} else {
			o.value, o.known = c.value, true
		}
		if value != c.value {
			return fmt.Errorf("version %q has two values: %s, and %s in %s", c.version, show([]byte(value)), show([]byte(c.value)), c)
		}
	}
	s.sortOrphans()
	return nil
}

func (s *search) sortOrphans() {
	s.valued = make(map[string][]store.Version)
	for _, v := range slices.Sorted(maps.Keys(s.orphans)) {
		if o := s.orphans[v]; o.known {
			s.valued[o.value] = append(s.valued[o.value], v)
		} else {
			s.others = append(s.others, v)
		}
		if s.maybes[v] != nil {
			s.named = append(s.named, v)
		}
	}
}

// sortWrites separates required calls from others, and returns which put made each version.
func (s *search) sortWrites() (made map[store.Version]*call, err error) {
	made = make(map[store.Version]*call)
	s.maybes = make(map[store.Version][]*maybe)
	same := make(map[call]*maybe)
	for i := range s.calls {
		c := &s.calls[i]
		if c.kind == callMaybePut || c.kind == callMaybeDelete {
			what := call{kind: c.kind, prev: c.prev, value: c.value}
			if same[what] == nil {
				same[what] = new(maybe)
				s.maybes[c.prev] = append(s.maybes[c.prev], same[what])
			}
			same[what].calls = append(same[what].calls, i)
			continue
		}
		s.required = append(s.required, i)
		if c.kind != callPut {
			continue
		}
		if c.version == "" {
			return nil, fmt.Errorf("a put returned no version: %s", c)
		}
		if first := made[c.version]; first != nil {
			return nil, fmt.Errorf("two writes have the version %q:\n  %[2]s\n  %[3]s", c.version, first, c)
		}
		made[c.version] = c
	}
	s.placed = make([]bool, len(s.required))
	s.left = len(s.required)
	return made, nil
}

// needs returns the version that a required call saw or replaced; zero if the register was
// absent, or if the version is not certain.
func (c *call) needs() store.Version {
	switch c.kind {
	case callRead:
		return c.version
	case callPut, callDelete:
		return c.prev
	case callRefused:
		if c.known {
			return c.version
		}
	}
	return ""
}

// run tries to place all required calls from first on, in the state now.
func (s *search) run(first int, now store.Entry) bool {
	mark := len(s.order)
	waiting, end := s.placeReads(&first, now)
	if s.left == 0 || s.tryWrites(first, end, waiting, now) {
		return true
	}
	for len(s.order) > mark {
		s.unplace()
	}
	return false
}

// placeReads places all calls that may come next and change nothing, as long as
// there are any, and moves first past what has a place. It returns those that may
// come next and did not fit, and the moment before which everything that comes next
// has begun: the first end of a call without a place.
func (s *search) placeReads(first *int, now store.Entry) (waiting []int, end int64) {
	for again := true; again; {
		for *first < len(s.required) && s.placed[*first] {
			*first++
		}
		again, waiting, end = false, waiting[:0], never
		for i := *first; i < len(s.required); i++ {
			c := &s.calls[s.required[i]]
			if c.start > end {
				break
			}
			if s.placed[i] {
				continue
			}
			end = min(end, c.end)
			if c.fits(now) {
				s.place(i)
				again = true
			} else {
				waiting = append(waiting, i)
			}
		}
	}
	return waiting, end
}

// fits reports whether a call that changes nothing is explained by the state.
func (c *call) fits(now store.Entry) bool {
	same := c.version == now.Version && (c.value == string(now.Value) || !c.known)
	switch c.kind {
	case callRead:
		return same
	case callRefused:
		return c.prev != now.Version && (same || !c.known)
	}
	return false
}

// tryWrites tries each write that may come next, those known to be applied first.
func (s *search) tryWrites(first int, end int64, waiting []int, now store.Entry) bool {
	situation := s.situation(first, end, now)
	if s.failed[situation] {
		return false
	}
	for _, i := range waiting {
		c := &s.calls[s.required[i]]
		if c.prev != now.Version || c.kind != callPut && c.kind != callDelete {
			continue
		}
		s.place(i)
		if s.mayLeave(now) && s.run(first, store.Entry{Version: c.version, Value: []byte(c.value)}) {
			return true
		}
		s.unplace()
	}
	if s.mayLeave(now) {
		for _, m := range s.maybes[now.Version] {
			if m.used < len(m.calls) && s.calls[m.calls[m.used]].start < end && s.tryMaybe(first, m) {
				return true
			}
		}
	}
	s.note(now, waiting)
	s.failed[situation] = true
	return false
}

// mayLeave reports whether no call without a place has seen the state.
func (s *search) mayLeave(now store.Entry) bool {
	return now.Version == "" || s.seen[now.Version] == 0
}

// tryMaybe tries the states that a write with an unknown outcome may have left.
func (s *search) tryMaybe(first int, m *maybe) bool {
	i := m.calls[m.used]
	c := &s.calls[i]
	m.used++
	s.order = append(s.order, i)
	if c.kind == callMaybeDelete && s.run(first, store.Entry{}) {
		return true
	}
	if c.kind == callMaybePut {
		for _, v := range slices.Concat(s.valued[c.value], s.others) {
			o := s.orphans[v]
			if o.made || s.seen[v] == 0 && s.maybes[v] == nil {
				continue
			}
			o.made = true
			if s.run(first, store.Entry{Version: v, Value: []byte(c.value)}) {
				return true
			}
			o.made = false
		}
		// Or its version is one that no caller can name: then nothing follows but
		// refusals.
		if s.onlyRefusalsLeft() {
			return true
		}
	}
	s.order = s.order[:len(s.order)-1]
	m.used--
	return false
}

func (s *search) onlyRefusalsLeft() bool {
	for i, p := range s.placed {
		if c := &s.calls[s.required[i]]; !p && (c.kind != callRefused || c.known) {
			return false
		}
	}
	return true
}

// place gives the i-th required call the next place.
func (s *search) place(i int) {
	s.placed[i] = true
	s.left--
	s.seen[s.calls[s.required[i]].needs()]--
	s.order = append(s.order, s.required[i])
}

// unplace removes the last required call from the order.
func (s *search) unplace() {
	i, _ := slices.BinarySearch(s.required, s.order[len(s.order)-1])
	s.placed[i] = false
	s.left++
	s.seen[s.calls[s.required[i]].needs()]++
	s.order = s.order[:len(s.order)-1]
}

// situation names everything that the rest of the search depends on. That is less than the
// order so far. Once the predecessor of a write with an unknown outcome is superseded, that
// outcome no longer matters. Creations with an unknown outcome are tried in order.
func (s *search) situation(first int, end int64, now store.Entry) string {
	b := fmt.Appendf(nil, "%d %q", first, now.Version)
	for _, m := range s.maybes[""] {
		b = fmt.Appendf(b, " %d", m.used)
	}
	for _, v := range s.named {
		if s.orphans[v].made {
			b = fmt.Appendf(b, " %q", v)
		}
	}
	b = append(b, ' ')
	for i := first; i < len(s.required) && s.calls[s.required[i]].start < end; i += bits.UintSize {
		var word uint
		for j, p := range s.placed[i:min(i+bits.UintSize, len(s.placed))] {
			if p {
				word |= 1 << j
			}
		}
		b = fmt.Appendf(b, "%x.", word)
	}
	return string(b)
}

// note remembers the longest order after which no call fits.
func (s *search) note(now store.Entry, waiting []int) {
	if s.deepest != nil && len(s.order) <= s.reach {
		return
	}
	s.reach = len(s.order)
	var b strings.Builder
	fmt.Fprintf(&b, "no order of the calls explains their results. After these calls:\n")
	for _, i := range s.order[max(0, len(s.order)-6):] {
		fmt.Fprintf(&b, "  %s\n", &s.calls[i])
	}
	fmt.Fprintf(&b, "the state is %s, and none of these calls can come next:\n", showEntry(now))
	for _, i := range waiting {
		fmt.Fprintf(&b, "  %s\n", &s.calls[s.required[i]])
	}
	s.deepest = errors.New(strings.TrimSuffix(b.String(), "\n"))
}
