package logmodel_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/proof/logmodel"
)

// torture reports whether the long runs are asked for.
var torture = os.Getenv("HOLDFAST_TORTURE") != ""

func explore(t *testing.T, c logmodel.Config, complete bool) logmodel.Result {
	t.Helper()
	r := logmodel.Explore(c)
	t.Logf("%+v: %d states, %d steps deep, complete: %v", c, r.States, r.Depth, r.Complete)
	if r.Violation != "" {
		c.Trace = true
		t.Errorf("%+v: %s\n%s", c, r.Violation, logmodel.Explore(c).Trace)
	} else if r.Complete != complete {
		t.Errorf("%+v: complete: got %v, want %v", c, r.Complete, complete)
	}
	return r
}

// TestComplete looks at every state within its bounds.
func TestComplete(t *testing.T) {
	configs := []logmodel.Config{
		{Procs: 2, Numbers: 4, Writes: 2, MaxLen: 2},
		{Procs: 2, Numbers: 3, Writes: 2, MaxLen: 2, Removal: true},
		{Procs: 3, Numbers: 3, Writes: 1, MaxLen: 1},
		{Procs: 2, Numbers: 5, Writes: 1, MaxLen: 1, Stuck: true},
	}
	switch {
	case raced:
		configs = []logmodel.Config{
			{Procs: 2, Numbers: 3, Writes: 1, MaxLen: 2},
			{Procs: 2, Numbers: 3, Writes: 1, MaxLen: 1, Removal: true},
		}
	case torture:
		configs = []logmodel.Config{
			{Procs: 2, Numbers: 4, Writes: 3, MaxLen: 3},
			{Procs: 2, Numbers: 4, Writes: 2, MaxLen: 2, Removal: true},
			{Procs: 3, Numbers: 4, Writes: 1, MaxLen: 1},
			{Procs: 2, Numbers: 5, Writes: 2, MaxLen: 2, Stuck: true},
		}
	}
	for _, c := range configs {
		explore(t, c, true)
	}
}

// TestBounded looks at more processes, as far as the budget goes.
func TestBounded(t *testing.T) {
	states, steps := 200_000, 1_000_000
	switch {
	case raced:
		states, steps = 20_000, 50_000
	case torture:
		states, steps = 10_000_000, 30_000_000
	}
	explore(t, logmodel.Config{Procs: 3, Numbers: 6, Writes: 4, MaxLen: 4, MaxStates: states}, false)
	explore(t, logmodel.Config{Procs: 4, Numbers: 5, Writes: 3, MaxLen: 3, MaxStates: states / 2}, false)
	for procs := 2; procs <= 4; procs++ {
		for _, removal := range []bool{false, true} {
			c := logmodel.Config{Procs: procs, Numbers: 14, Writes: 6, MaxLen: 3, Removal: removal, Stuck: !removal}
			if r := logmodel.Walk(c, 1, steps); r.Violation != "" {
				t.Errorf("%+v: %s\n%s", c, r.Violation, r.Trace)
			}
		}
	}
}

// TestMutants leaves out one check after the other.
func TestControls(t *testing.T) {
	tests := []struct {
		name    string
		mutant  logmodel.Mutant
		procs   int
		removal bool
		seed    uint64 // of a walk that finds it soon
	}{
		{"PUT 3: the name is not looked at", logmodel.NoNameCheck, 2, true, 1},
		{"PUT 3: the log is not folded again", logmodel.NoSecondFold, 2, true, 1},
		{"PUT 5: a void entry is a success", logmodel.VoidSucceeds, 2, false, 1},
		{"SEAL: the name is not looked at before", logmodel.NoSealCheck, 3, true, 233},
		{"NEXT 3: the name is not looked at before linking", logmodel.NoCheckBeforeLink, 2, true, 1},
		{"NEXT 4: who comes too late removes what he linked", logmodel.UnlinkLeftover, 2, false, 1},
		{"NEXT 4: one segment is kept, not two", logmodel.PruneOwn, 2, false, 1},
		{"NEXT 4: the highest segment is removed first", logmodel.PruneDown, 3, false, 290},
		{"NEXT 4: one segment that cannot be removed does not keep those after it", logmodel.PruneOn, 2, false, 1},
		{"NEXT 4 and 5: the name is not looked at after linking and opening", logmodel.NoCheckAfterLink | logmodel.NoCheckAfterOpen, 2, false, 1},
		{"NEXT 5: the name is not looked at after opening", logmodel.NoCheckAfterOpen, 3, false, 102},
		{"COLD: no predecessor is asked for", logmodel.NoPredecessor, 3, false, 70},
		{"COLD: an empty listing means absent", logmodel.EmptyIsAbsent, 2, false, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := logmodel.Config{Procs: test.procs, Numbers: 14, Writes: 5, MaxLen: 2, Removal: test.removal, Stuck: test.mutant == logmodel.PruneOn, Mutant: test.mutant}
			r := logmodel.Walk(c, test.seed, 20_000_000)
			if r.Violation == "" {
				t.Fatal("nothing was violated")
			}
			t.Logf("%s, after %d steps", r.Violation, r.Depth)
			c.Mutant = 0
			if r := logmodel.Walk(c, test.seed, r.States); r.Violation != "" {
				t.Errorf("and without the fault too: %s\n%s", r.Violation, r.Trace)
			}
		})
	}
}

// TestSpare shows which checks the model does not need. NEXT 5 sees everything that the
// check after linking sees, and the directory of COLD cannot change halfway. The checks
// exist because they cost nothing, and end a hopeless try earlier.
func TestSpare(t *testing.T) {
	c := logmodel.Config{Procs: 2, Numbers: 4, Writes: 1, MaxLen: 2}
	if raced {
		c.MaxLen = 1
	}
	for _, m := range []logmodel.Mutant{logmodel.NoCheckAfterLink, logmodel.NoFirstCheck} {
		c.Mutant = m
		explore(t, c, true)
	}
}
