package logmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// TestMutants puts faults into the rules that this model and package filestore run.
func TestMutants(t *testing.T) {
	const file = "../../internal/fold/fold.go"
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a seal may name any state", file,
			"e.Kind == Seal && s.open(e):", "e.Kind == Seal && s.Set:",
			"TestComplete"},
		{"an entry may name any state", file,
			"&& e.Prev == s.Nonce }", "}",
			"TestComplete"},
		{"an entry counts after the seal", file,
			"s.Set && !s.Sealed && e.Prev", "s.Set && e.Prev",
			"TestComplete"},
		{"a segment before the newest need not be sealed", file,
			"return before.Sealed && s.Base", "return s.Base",
			"TestSealedPredecessor"},
	})
}
