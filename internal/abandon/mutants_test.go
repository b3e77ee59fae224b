package abandon

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// Each mutant is a fault that a test has to find.
func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"every call is awaited", "abandon.go", "time.NewTimer(After)", "time.NewTimer(time.Hour)", "TestDo"},
		{"abandoned calls have no bound", "abandon.go", "	if n >= Max {\n", "	if n < 0 {\n", "TestDo"},
		{"abandoned calls are not counted", "abandon.go", "	c.left[key]++\n", "	c.left[key] += 0\n", "TestDo"},
		{"a call that has returned counts", "abandon.go", "c.left[key]--; c.left[key] == 0", "c.left[key] == 0", "TestDo"},
		{"a late result is lost", "abandon.go", "		return r.value, r.err\n	case <-timer.C:\n", "		return zero, r.err\n	case <-timer.C:\n", "TestDo"},
	})
}
