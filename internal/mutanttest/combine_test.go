package mutanttest

import (
	"errors"
	"maps"
	"slices"
	"testing"
)

// TestCombine shows that each mutant of a binary with many is chosen by its number, for
// functions of every shape, and that no number chooses none.
func TestCombine(t *testing.T) {
	const dir = "testdata/sample"
	mutants := []Mutant{
		{"a condition", "sample.go", "a > b", "a < b", "TestMax"},
		{"the same function", "sample.go", "return b", "return a", "TestMax"},
		{"a method with an unnamed parameter", "shapes.go", "c.n += a + b", "c.n += a - b", "TestShapes"},
		{"a function without a result", "shapes.go", "c.n = Zero", "c.n = 1", "TestShapes"},
		{"a receiver without a name", "shapes.go", `"apples"`, `"pears"`, "TestShapes"},
		{"any number of parameters", "shapes.go", "fmt.Sprintf(format, more...)", "fmt.Sprint(more...)", "TestShapes"},
		{"outside of functions", "shapes.go", "Zero = 0", "Zero = 1", "TestShapes"},
		{"a function with a type parameter", "shapes.go", "all[0]", "all[1]", "TestShapes"},
		{"the text is not there", "shapes.go", "all[2]", "all[3]", "TestShapes"},
		{"more than a function", "sample.go", "// Max", "// Maximum", "TestMax"},
	}
	bin, in, err := combine(t.Context(), dir, t.TempDir(), mutants)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(in)), []int{1, 2, 3, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("the binary has the mutants %v, want %v", got, want)
	}
	for i, m := range mutants[:len(in)] {
		if err := noticed(t.Context(), dir, bin, i+1, m, 1); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if err := noticed(t.Context(), dir, bin, 0, m, 1); !errors.Is(err, errUnnoticed) {
			t.Errorf("%s: the control: %v", m.Name, err)
		}
	}
	wrong := append(mutants, Mutant{"it does not compile", "sample.go", "return b", "return c", "TestMax"})
	if _, _, err := combine(t.Context(), dir, t.TempDir(), wrong); !errors.Is(err, errBuild) {
		t.Errorf("a mutant that does not compile: %v", err)
	}
}
