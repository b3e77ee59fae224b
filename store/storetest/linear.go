package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// The check looks for an order of the calls on one register in which each takes
// effect between its start and its end, and sees what the calls before it left.
// It is the search of Wing and Gong, with three properties of this register that
// make it quick. Calls that change nothing can be put in place as soon as they fit.
// A version has at most one successor, since every write names its predecessor. And
// versions do not return, so that a wrong guess is soon found out. What is left to
// guess is the order of creations, and what became of writes whose outcome nobody
// knows.

// checkRegister checks the calls on one key.
func checkRegister(calls []call) error {
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.start, b.start) })
	s := &search{calls: calls, placed: make([]bool, len(calls)), failed: make(map[string]bool)}
	if err := s.prepare(); err != nil {
		return err
	}
	if s.run(0, store.Entry{}) {
		return nil
	}
	return s.deepest
}

type search struct {
	calls  []call
	placed []bool
	left   int // calls that must still be placed

	// orphans are the versions that somebody saw or named and no known write made. A
	// write with an unknown outcome made them, or nobody did.
	orphans map[store.Version]orphan

	order   []int           // the calls placed so far
	failed  map[string]bool // states that led nowhere
	reach   int             // the longest order tried
	deepest error           // why that led nowhere
}

type orphan struct {
	value string
	known bool // somebody saw the value
}

// prepare finds what is wrong whatever the order, and completes the calls.
func (s *search) prepare() error {
	made := make(map[store.Version]*call)
	for i := range s.calls {
		c := &s.calls[i]
		if c.kind != callMaybePut && c.kind != callMaybeDelete {
			s.left++
		}
		if c.kind != callPut {
			continue
		}
		if c.version == "" {
			return fmt.Errorf("a put returned no version: %s", c)
		}
		if first := made[c.version]; first != nil {
			return fmt.Errorf("version %q was given to two writes:\n  %s\n  %s", c.version, first, c)
		}
		made[c.version] = c
	}
	s.orphans = make(map[store.Version]orphan)
	for i := range s.calls {
		c := &s.calls[i]
		if _, seen := s.orphans[c.prev]; !seen && c.prev != "" && made[c.prev] == nil {
			s.orphans[c.prev] = orphan{}
		}
		if c.version == "" || !c.known {
			continue
		}
		o := s.orphans[c.version]
		if m := made[c.version]; m != nil {
			o = orphan{m.value, true}
		} else if !o.known {
			o = orphan{c.value, true}
			s.orphans[c.version] = o
		}
		if o.value != c.value {
			return fmt.Errorf("version %q has two values: %s, and %s in %s", c.version, show([]byte(o.value)), show([]byte(c.value)), c)
		}
	}
	return nil
}

// run tries to place all calls from first on, in the state now.
func (s *search) run(first int, now store.Entry) bool {
	mark := len(s.order)
	candidates := s.placeReads(&first, now)
	if s.left == 0 {
		return true
	}
	writes := s.applicable(candidates, now)
	state := ""
	if len(writes) > 1 {
		state = s.fingerprint(first, now)
	}
	if state == "" || !s.failed[state] {
		for _, i := range writes {
			if s.write(first, now, i) {
				return true
			}
		}
		s.note(now, candidates)
		if state != "" {
			s.failed[state] = true
		}
	}
	for len(s.order) > mark {
		s.unplace()
	}
	return false
}

// write places one write, in each way that is possible, and goes on behind it.
func (s *search) write(first int, now store.Entry, i int) bool {
	c := &s.calls[i]
	s.place(i)
	for _, next := range s.results(c) {
		o, ok := s.orphans[next.Version]
		delete(s.orphans, next.Version) // made now; no other write makes it again
		if s.run(first, next) {
			return true
		}
		if ok {
			s.orphans[next.Version] = o
		}
	}
	s.unplace()
	return false
}

// results are the states that a write may leave.
func (s *search) results(c *call) []store.Entry {
	switch c.kind {
	case callPut:
		return []store.Entry{{Version: c.version, Value: []byte(c.value)}}
	case callMaybePut:
		var all []store.Entry
		for v, o := range s.orphans {
			if !o.known || o.value == c.value {
				all = append(all, store.Entry{Version: v, Value: []byte(c.value)})
			}
		}
		// Or nobody ever saw its version: one that no caller can name.
		return append(all, store.Entry{Version: store.Version(fmt.Sprintf("\x00unseen %d", c.start)), Value: []byte(c.value)})
	}
	return []store.Entry{{}}
}

// placeReads places all calls that may come next and change nothing, as long as
// there are any, moves first past what is placed, and returns those that may come
// next and did not fit.
func (s *search) placeReads(first *int, now store.Entry) []int {
	for {
		for *first < len(s.calls) && s.placed[*first] {
			*first++
		}
		var candidates []int
		again := false
		end := int64(never)
		for i := *first; i < len(s.calls) && s.calls[i].start < end; i++ {
			if s.placed[i] {
				continue
			}
			c := &s.calls[i]
			end = min(end, c.end)
			if c.fits(now) {
				s.place(i)
				again = true
				continue
			}
			candidates = append(candidates, i)
		}
		if !again {
			return candidates
		}
	}
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

// applicable returns the writes among the candidates that name the state as their
// predecessor, those known to be applied first.
func (s *search) applicable(candidates []int, now store.Entry) []int {
	var sure, maybe []int
	for _, i := range candidates {
		c := &s.calls[i]
		if c.prev != now.Version {
			continue
		}
		switch c.kind {
		case callPut, callDelete:
			sure = append(sure, i)
		case callMaybePut, callMaybeDelete:
			maybe = append(maybe, i)
		}
	}
	return append(sure, maybe...)
}

func (s *search) place(i int) {
	s.placed[i] = true
	s.order = append(s.order, i)
	if !s.optional(i) {
		s.left--
	}
}

func (s *search) unplace() {
	i := s.order[len(s.order)-1]
	s.order = s.order[:len(s.order)-1]
	s.placed[i] = false
	if !s.optional(i) {
		s.left++
	}
}

// optional reports whether the call need not be placed at all.
func (s *search) optional(i int) bool {
	return s.calls[i].kind == callMaybePut || s.calls[i].kind == callMaybeDelete
}

// fingerprint names the calls placed, the state and the versions not yet made.
func (s *search) fingerprint(first int, now store.Entry) string {
	b := fmt.Appendf(nil, "%d %q %q ", first, now.Version, slices.Sorted(maps.Keys(s.orphans)))
	for i := first; i < len(s.placed); i += 8 {
		var bits byte
		for j, p := range s.placed[i:min(i+8, len(s.placed))] {
			if p {
				bits |= 1 << j
			}
		}
		b = append(b, bits)
	}
	return string(b)
}

// note remembers the furthest point at which no explanation is left.
func (s *search) note(now store.Entry, candidates []int) {
	if s.deepest != nil && len(s.order) <= s.reach {
		return
	}
	s.reach = len(s.order)
	var b strings.Builder
	fmt.Fprintf(&b, "no order of the calls explains what they saw. After these:\n")
	for _, i := range s.order[max(0, len(s.order)-6):] {
		fmt.Fprintf(&b, "  %s\n", &s.calls[i])
	}
	fmt.Fprintf(&b, "the state is %s, and none of these can come next:\n", showEntry(now))
	for _, i := range candidates {
		fmt.Fprintf(&b, "  %s\n", &s.calls[i])
	}
	s.deepest = errors.New(strings.TrimSuffix(b.String(), "\n"))
}
