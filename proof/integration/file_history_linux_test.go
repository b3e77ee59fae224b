package integration_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The operations of a lease, as its users see them.
const (
	opAcquire = "acquire" // between two events of its worker
	opHolds   = "holds"   // the worker believed at this instant
	opRelease = "release" // it heard that the lock was freed
	opExpire  = "expire"  // the grant ended some time after the last belief, or had ended
	opWrite   = "write"   // a write passed the fence
)

// leaseOp is one of them.
type leaseOp struct {
	Kind  string
	Token uint64
	N     int // of a write: the counter
}

// leaseState is the state of a lease, and of the counter behind the fence.
type leaseState struct {
	Holder uint64 // token of the holder; 0: the lock is free
	Last   uint64 // highest token that was given
	Fence  uint64 // highest token that has written
	N      int
}

// leaseModel is what a lease with expiry does, one operation at a time: a process that
// acquires finds the lock free and gets a higher token, a process that believes it holds the
// lock holds it, and no write goes below the fence.
func leaseModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return leaseState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, op := state.(leaseState), input.(leaseOp)
			switch op.Kind {
			case opAcquire:
				ok := s.Holder == 0 && op.Token > s.Last
				s.Holder, s.Last = op.Token, op.Token
				return ok, s
			case opHolds:
				return s.Holder == op.Token, s
			case opRelease:
				ok := s.Holder == op.Token
				s.Holder = 0
				return ok, s
			case opExpire:
				if s.Holder == op.Token {
					s.Holder = 0
				}
				return true, s
			case opWrite:
				ok := op.Token >= s.Fence && op.N > s.N
				s.Fence, s.N = op.Token, op.N
				return ok, s
			}
			return false, s
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
	}
}

// grantSeen is what one worker said of one grant.
type grantSeen struct {
	belief
	before   int64 // the worker's last event before it had the lock
	released int64 // when it heard that the lock was freed; 0: it was not
	writes   []porcupine.Operation
}

// leaseHistory is what all workers said, in the order of their first belief.
type leaseHistory struct{ grants []grantSeen }

// history reads what the workers have said so far.
func (f *fight) history() *leaseHistory {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := &leaseHistory{}
	for n, events := range f.events {
		var before int64
		current := -1 // in h.grants
		for _, e := range events {
			switch {
			case e.Kind == "held":
				current = len(h.grants)
				h.grants = append(h.grants, grantSeen{belief: belief{n, e.Token, e.At, e.At}, before: before})
			case current < 0 || e.Token != h.grants[current].token:
			case e.Kind == "believed":
				h.grants[current].end = e.At
			case e.Kind == "released" && e.Text == "<nil>":
				h.grants[current].released = e.At
			case e.Kind == "counted":
				h.grants[current].writes = append(h.grants[current].writes, porcupine.Operation{
					ClientId: n, Input: leaseOp{opWrite, e.Token, e.N}, Call: before, Return: e.At,
				})
			}
			switch e.Kind {
			case "stop", "kill", "lost":
				// Said in the middle of an operation, perhaps after its effect.
			default:
				before = e.At
			}
		}
	}
	slices.SortFunc(h.grants, func(a, b grantSeen) int { return cmp.Compare(a.begin, b.begin) })
	return h
}

// overlaps counts the grants that began while another was believed in.
func (h *leaseHistory) overlaps() (n int) {
	var end int64 = math.MinInt64
	for _, g := range h.grants {
		if g.begin <= end {
			n++
		}
		end = max(end, g.end)
	}
	return n
}

// operations returns the history in the form of the checker.
//
// No process sees when a lease expires. It may be any time after the last belief; and
// since the next acquire needs a free lock, it can be thought of as before the return
// of that without loss.
func (h *leaseHistory) operations() []porcupine.Operation {
	var ops []porcupine.Operation
	add := func(g grantSeen, kind string, call, ret int64) {
		ops = append(ops, porcupine.Operation{ClientId: g.worker, Input: leaseOp{Kind: kind, Token: g.token}, Call: call, Return: ret})
	}
	for i, g := range h.grants {
		add(g, opAcquire, g.before, g.begin)
		add(g, opHolds, g.begin, g.begin)
		if g.end > g.begin {
			add(g, opHolds, g.end, g.end)
		}
		if g.released > 0 {
			add(g, opRelease, g.end, g.released)
		} else {
			next := int64(math.MaxInt64)
			if i+1 < len(h.grants) {
				next = max(h.grants[i+1].begin, g.end)
			}
			add(g, opExpire, g.end, next)
		}
		ops = append(ops, g.writes...)
	}
	return ops
}

// errIllegal says that a history is not one of a lease.
var errIllegal = errors.New("no order of the operations explains it")

// check reports whether the history is one of a lease.
func (h *leaseHistory) check() error {
	switch porcupine.CheckOperationsTimeout(leaseModel(), h.operations(), time.Minute) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return errIllegal
	}
	return errors.New("the check took too long")
}

// controls checks that the checker sees what is wrong: copies of a good history in
// which one thing is changed.
func (h *leaseHistory) controls(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	if len(h.grants) < 10 {
		t.Fatalf("only %d grants", len(h.grants))
	}
	clone := func() (*leaseHistory, int) {
		return &leaseHistory{slices.Clone(h.grants)}, 1 + rnd.IntN(len(h.grants)-2)
	}
	bad, i := clone()
	bad.grants[i].end = bad.grants[i+1].begin + 1
	if bad.grants[i].released > 0 {
		bad.grants[i].released = bad.grants[i].end + 1
	}
	bad.grants[i+1].end = max(bad.grants[i+1].end, bad.grants[i].end+1)
	bad.grants[i+1].released = 0
	if !errors.Is(bad.check(), errIllegal) {
		t.Errorf("a belief of token %d after the next grant was not noticed", bad.grants[i].token)
	}
	bad, i = clone()
	bad.grants[i].token, bad.grants[i+1].token = bad.grants[i+1].token, bad.grants[i].token
	if !errors.Is(bad.check(), errIllegal) {
		t.Errorf("swapped tokens %d and %d were not noticed", bad.grants[i].token, bad.grants[i+1].token)
	}
	writes := func(g grantSeen) bool { return len(g.writes) > 0 }
	if i := slices.IndexFunc(h.grants, writes); i >= 0 && slices.ContainsFunc(h.grants[i+1:], writes) {
		bad, _ = clone()
		last := &bad.grants[len(bad.grants)-1]
		op := h.grants[i].writes[0]
		op.Call, op.Return = last.end+1, last.end+2
		last.writes = append(slices.Clone(last.writes), op)
		if !errors.Is(bad.check(), errIllegal) {
			t.Errorf("a write with token %d at the end was not noticed", op.Input.(leaseOp).Token)
		}
	}
}
