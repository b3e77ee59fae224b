package explore

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"
)

// Event is something that may happen in a step of a model.
type Event interface {
	~uint8
	fmt.Stringer
}

// Property is a promise of a model. The method String describes a state or a step that breaks the
// promise.
type Property interface {
	~int
	fmt.Stringer
}

// Fault is a wrong rule of a model. The method Why describes the rule.
type Fault interface {
	~int
	fmt.Stringer
	Why() string
}

// Between returns all events, properties or faults with a number n, where from <= n < to.
func Between[V ~int | ~uint8](from, to V) []V {
	var all []V
	for v := from; v < to; v++ {
		all = append(all, v)
	}
	return all
}

// Notes record what happens in a step.
type Notes[E Event, F Fault, P Property] struct {
	options *Options[F, P]
	Events  uint64 // events of the step, one bit each
	Broke   P      // first property that the step has broken
}

// NewNotes returns empty notes for a new step.
func NewNotes[E Event, F Fault, P Property](o *Options[F, P]) Notes[E, F, P] {
	return Notes[E, F, P]{options: o}
}

// Note records an event.
func (n *Notes[E, F, P]) Note(e E) { n.Events |= 1 << e }

// Has reports whether the event has happened in this step.
func (n *Notes[E, F, P]) Has(e E) bool { return n.Events&(1<<e) != 0 }

// Fail records that a property is broken.
func (n *Notes[E, F, P]) Fail(p P) {
	if n.Broke == 0 && n.options.Sees(p) {
		n.Broke = p
	}
}

// Report is the result of a search.
type Report[P Property] struct {
	tally
	States    int // number of different states
	Depth     int // length of the longest of all shortest runs
	Complete  bool
	Elapsed   time.Duration
	Violation *Violation[P]
}

// Violation is a shortest run that breaks a property.
type Violation[P Property] struct {
	Property P
	Steps    int
	Trace    []string
}

// tell describes a run in words, with the states in a column of their own.
func tell[P Property, S, T, W any](w World[S, T, W], f *spot, run []Edge[S, T]) *Violation[P] {
	v := &Violation[P]{Property: P(f.broke), Steps: len(run)}
	teller, width := w.Teller(), 0
	var what, where []string
	for i := range run {
		doing, state := teller(&run[i])
		what, where = append(what, doing), append(where, state)
		width = max(width, len(doing))
	}
	for i := range run {
		v.Trace = append(v.Trace, fmt.Sprintf("%2d. %-*s %s", i+1, width, what[i], where[i]))
	}
	so := "    so " + v.Property.String()
	if f.probed {
		so = fmt.Sprintf("    and from here %s: it is %c", v.Property, 'A'+f.index)
	}
	v.Trace = append(v.Trace, so)
	return v
}

// Digest returns a 64-bit digest of b, never zero. The bytes of b's capacity up to the next
// multiple of 8 must be zero.
func Digest(b []byte) uint64 {
	const k0, k1 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	h := uint64(len(b)) * k1
	for b = b[:(len(b)+7)&^7]; len(b) > 0; b = b[8:] {
		hi, lo := bits.Mul64(binary.LittleEndian.Uint64(b)^k0^h, k1^bits.RotateLeft64(h, 23))
		h = hi ^ lo + h*k0
	}
	hi, lo := bits.Mul64(h^k1, k0)
	return max(hi^lo, 1)
}
