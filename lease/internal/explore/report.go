package explore

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"
)

// Event is what may happen in the steps of a model.
type Event interface {
	~uint8
	fmt.Stringer
}

// Property is what a model promises. String says what it means that it is broken.
type Property interface {
	~int
	fmt.Stringer
}

// Report is the result of a search in the words of a model.
type Report[E Event, P Property] struct {
	States    int // distinct states
	Edges     int // steps between them
	Depth     int // the longest of all shortest runs
	Complete  bool
	Probed    int // states from which it was looked at what follows
	Elapsed   time.Duration
	Counts    map[E]int // how many steps contain an event
	Violation *Violation[P]
}

// Violation is a shortest run that breaks a property.
type Violation[P Property] struct {
	Property P
	Steps    int
	Trace    []string
}

// NewReport puts a result into the words of a model. It has events up to count, and tells
// a finding in lines.
func NewReport[E Event, P Property, S, T any](r Result[S, T], count E, tell func(*Finding[S, T]) []string) Report[E, P] {
	res := Report[E, P]{States: r.States, Edges: r.Edges, Depth: r.Depth, Complete: r.Complete, Probed: r.Probed,
		Elapsed: r.Elapsed, Counts: map[E]int{}}
	for e := range count {
		res.Counts[e] = r.Counts[e]
	}
	if f := r.Found; f != nil {
		res.Violation = &Violation[P]{P(f.Broke), len(f.Way), tell(f)}
	}
	return res
}

// Digest returns a 64-bit digest of what is in b, never zero. Up to the next multiple of 8,
// the room behind it must be zero.
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
