package mutanttest

import (
	"errors"
	"testing"
)

// TestCheck shows that a mutant which proves nothing is an error.
func TestCheck(t *testing.T) {
	const file, condition = "sample.go", "a > b"
	for _, test := range []struct {
		want error
		m    Mutant
	}{
		{nil, Mutant{"noticed", file, condition, "a < b", "TestMax"}},
		{nil, Mutant{"noticed by a subtest", file, condition, "a == a", "TestMax/the second is larger"}},
		{nil, Mutant{"it panics", file, condition, `func() bool { panic("fault") }()`, "TestMax"}},
		{errText, Mutant{"the text is not there", file, "a >= b", "a < b", "TestMax"}},
		{errText, Mutant{"the text is there twice", file, "return", "panic", "TestMax"}},
		{errText, Mutant{"nothing is replaced", file, condition, condition, "TestMax"}},
		{errBuild, Mutant{"it does not compile", file, condition, "a > ", "TestMax"}},
		{errUnnoticed, Mutant{"the test does not see it", file, condition, "a < b", "TestEqual"}},
		{errUnnoticed, Mutant{"the other subtest would see it", file, condition, "a == a", "TestMax/the first is larger"}},
		{errNoTest, Mutant{"there is no such test", file, condition, "a < b", "TestMin"}},
		{errNoTest, Mutant{"there is no such subtest", file, condition, "a < b", "TestMax/neither"}},
	} {
		t.Run(test.m.Name, func(t *testing.T) {
			t.Parallel()
			if err := Check(t.Context(), "testdata/sample", t.TempDir(), test.m); !errors.Is(err, test.want) || err == nil != (test.want == nil) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	if err := Check(t.Context(), "testdata/sample", t.TempDir(), Mutant{File: "missing.go"}); err == nil {
		t.Error("no error for a file that does not exist")
	}
}
