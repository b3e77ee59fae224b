package mutanttest

import (
	"errors"
	"os/exec"
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
			if err := Check(t.Context(), "testdata/sample", t.TempDir(), test.m, 1); !errors.Is(err, test.want) || err == nil != (test.want == nil) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	if err := Check(t.Context(), "testdata/sample", t.TempDir(), Mutant{File: "missing.go"}, 1); err == nil {
		t.Error("no error for a file that does not exist")
	}
}

// TestCheckOfATestThatDependsOnChance shows that a test which notices a mutant in half of its
// runs is found out when it runs more often, and that no other is.
func TestCheckOfATestThatDependsOnChance(t *testing.T) {
	const dir, times = "testdata/sample", 100
	by := func(test string) error {
		return Check(t.Context(), dir, t.TempDir(), Mutant{"", "sample.go", "a > b", "a < b", test}, times)
	}
	if err := by("TestSomeNumber"); !errors.Is(err, errUnnoticed) {
		t.Errorf("a test that sees the mutant in half of %d runs: %v, want %v", times, err, errUnnoticed)
	}
	if err := by("TestMax"); err != nil {
		t.Errorf("a test that sees the mutant in each of %d runs: %v", times, err)
	}
}

// TestVerdict shows that a test which was stopped is not one that failed.
func TestVerdict(t *testing.T) {
	const began = "=== RUN   TestMax\n"
	ended := &exec.ExitError{}
	for _, test := range []struct {
		out  string
		err  error
		want error
	}{
		{began + "--- FAIL: TestMax (0.00s)\n", ended, nil},
		{began + "panic: fault\n", ended, nil},
		{began + "panic: test timed out after 4m0s\n", ended, errTimeout},
		{began + "signal: killed\n", ended, ended},
		{began + "--- PASS: TestMax (0.00s)\n", nil, errUnnoticed},
		{"", ended, errNoTest},
	} {
		if err := verdict("TestMax", test.out, test.err); !errors.Is(err, test.want) || err == nil != (test.want == nil) {
			t.Errorf("%q, %v: got %v, want %v", test.out, test.err, err, test.want)
		}
	}
}
