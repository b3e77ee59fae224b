package logmodel

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// Config limits the world of a search.
type Config struct {
	Procs   int  // processes, at most 4
	Numbers int  // numbers of segments, at most 7
	Writes  int  // written entries, at most 6
	MinLen  int  // smallest number of entries of a segment before a process may seal it
	MaxLen  int  // largest number of entries of a segment, at most 7
	Removal bool // one removal of the log is possible: another process moves its directory away
	Stuck   bool // the removal of a segment may fail
	Mutant  Mutant

	// If the search has visited MaxStates states, it ends; 0 means no limit.
	MaxStates int

	// Trace stores the steps, so the result contains the run to a violation.
	Trace bool
}

// Result is the result of a search.
type Result struct {
	States    int
	Depth     int
	Complete  bool   // the search visited all states within the limits
	Violation string // empty if there was none
	Trace     string
}

// Explore visits all states of the world, states near the start first. It ends at the first violation.
//
// Explore stores only a 64-bit hash of each visited state. If it visits n states, it misses a
// state with a probability of n²/2⁶⁵.
func Explore(c Config) Result {
	w := newWorld(c)
	var (
		result  = Result{Complete: true}
		visited = newSet()
		layer   = []node{{state: initial(), parent: -1}}
		all     []node // for the trace
	)
	visited.add(&layer[0].state)
	result.States = 1
	for ; len(layer) > 0; result.Depth++ {
		var next []node
		for at := range layer {
			parent := int32(-1)
			if c.Trace {
				parent = int32(len(all))
				all = append(all, layer[at])
			}
			full := false
			w.emit = func(s state) {
				s.normal()
				w.check(&s)
				if w.bad != "" {
					if result.Violation == "" {
						result.Violation = w.bad
						result.Trace = trace(append(all, node{s, parent}))
					}
					return
				}
				if c.MaxStates > 0 && result.States >= c.MaxStates {
					full = true
					return
				}
				if visited.add(&s) {
					result.States++
					next = append(next, node{s, parent})
				}
			}
			w.expand(layer[at].state)
			if result.Violation != "" || full {
				result.Complete = false
				return result
			}
		}
		layer = next
	}
	return result
}

func newWorld(c Config) *world {
	return &world{
		procs: c.Procs, numbers: uint8(c.Numbers), ids: id(c.Writes + 1), minLen: uint8(c.MinLen), maxLen: uint8(c.MaxLen),
		removal: c.Removal, stuck: c.Stuck, mutant: c.Mutant,
	}
}

// node is a state and how it was reached.
type node struct {
	state  state
	parent int32 // -1: none, or not kept
}

// trace returns the steps to the last node, a line each: the next step of each process, and
// the content of the directory.
func trace(all []node) string {
	var lines []string
	for n := all[len(all)-1]; ; n = all[n.parent] {
		lines = append(lines, n.state.String())
		if n.parent < 0 {
			break
		}
	}
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "%3d %s\n", i, lines[len(lines)-1-i])
	}
	return b.String()
}

// String returns the state in one line.
func (s *state) String() string {
	var b strings.Builder
	for n, file := range s.name {
		if file == 0 {
			continue
		}
		fmt.Fprintf(&b, "%d:%s ", n, s.inode[file-1].String())
	}
	for i := range s.proc {
		p := &s.proc[i]
		if *p == (proc{}) {
			continue
		}
		fmt.Fprintf(&b, "| %d %s", i, stepNames[p.step])
		if p.file != 0 {
			fmt.Fprintf(&b, " in %d:%s", s.inode[p.file-1].number, s.inode[p.file-1].String())
		}
		if p.cursor != 0 {
			fmt.Fprintf(&b, " at %d", p.cursor)
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func (n inode) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[B%d", n.base)
	for _, e := range n.entry[:n.len] {
		if e&seal != 0 {
			fmt.Fprintf(&b, " S%d", e&^seal)
		} else {
			fmt.Fprintf(&b, " V%d", e)
		}
	}
	b.WriteByte(']')
	return b.String()
}

// set is the states that were visited, each as a hash.
type set struct {
	seed maphash.Seed
	seen map[uint64]struct{}
}

func newSet() *set { return &set{maphash.MakeSeed(), map[uint64]struct{}{}} }

// add reports whether the state is new.
func (t *set) add(s *state) bool {
	n := len(t.seen)
	t.seen[maphash.Comparable(t.seed, *s)] = struct{}{}
	return len(t.seen) > n
}
