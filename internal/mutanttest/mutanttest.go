// Package mutanttest checks that tests notice deliberate faults.
//
// A [Mutant] replaces a text in a source file, and names the test that must fail with it. Released code
// contains no mutants, because the go command builds them with its flag -overlay. A mutant must be valid:
// the replaced text occurs exactly once in the file, the mutant compiles, and the named test fails.
package mutanttest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Mutant is a deliberate fault in the package whose tests run. It is an alias, so tables of mutants need
// not repeat the names of the fields.
type Mutant = struct {
	Name string // description of the fault
	File string // file with the fault, relative to the directory of the tests
	Old  string // replaced text; it occurs exactly once
	New  string // the text in its place
	Test string // name of the test that must fail; for a subtest, the names with slashes between them
}

// TestName is the name of every test of mutants. So one command runs them all.
const TestName = "TestMutants"

// Run checks that the tests of the package in the current directory detect each mutant. Building the
// mutants takes long. So in other test runs, Run checks only that the replaced texts still exist. This
// command builds and tests the mutants:
//
//	go test -run '^TestMutants$' work
//
// With HOLDFAST_TORTURE, the test of each mutant runs 30 times, or for 10 seconds if that is shorter. It
// must fail each time, because a test that depends on chance proves nothing.
func Run(t *testing.T, mutants []Mutant) {
	t.Helper()
	if t.Name() != TestName {
		t.Fatalf("the test of the mutants is called %s, want %s", t.Name(), TestName)
	}
	torture := os.Getenv("HOLDFAST_TORTURE") != ""
	asked := torture || strings.Contains(flag.Lookup("test.run").Value.String(), "Mutants")
	times := 1
	if torture {
		times = tortureRuns
	}
	var bin string
	var in map[int]bool
	if asked {
		var err error
		if bin, in, err = combine(t.Context(), ".", t.TempDir(), mutants); err != nil {
			t.Logf("each mutant is built alone: %v", err)
			in = nil
		}
	}
	for i, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			if !asked {
				if _, err := apply(".", m); err != nil {
					t.Error(err)
				}
				return
			}
			t.Parallel()
			check := func() error { return noticed(t.Context(), ".", bin, i+1, m, times) }
			if !in[i+1] {
				check = func() error { return Check(t.Context(), ".", t.TempDir(), m, times) }
			}
			if err := check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// tortureRuns is how often a mutant's test runs with HOLDFAST_TORTURE set, and tortureTime
// after how long it runs no more.
const (
	tortureRuns = 30
	tortureTime = 10 * time.Second
)

// testTimeout bounds one run of a test. A test that is stopped then has noticed nothing.
const testTimeout = 4 * time.Minute

// The ways in which a mutant is no proof that the tests see something.
var (
	errText      = errors.New("the text to replace must occur exactly once")
	errBuild     = errors.New("the mutant does not compile")
	errUnnoticed = errors.New("the test passes with the mutant")
	errNoTest    = errors.New("the test did not run")
	errTimeout   = errors.New("the test ran into its time limit, which does not prove that it noticed the mutant")
)

// Check returns nil if the named test of the package in dir fails with the mutant in each of so many
// runs. It writes its files into the directory scratch.
func Check(ctx context.Context, dir, scratch string, m Mutant, times int) error {
	changed, err := apply(dir, m)
	if err != nil {
		return err
	}
	bin, err := build(ctx, dir, scratch, map[string]string{filepath.Join(dir, m.File): changed})
	if err != nil {
		return err
	}
	return noticed(ctx, dir, bin, 0, m, times)
}

// noticed returns nil if the test that the mutant names fails in bin, each of so many times.
// If the binary has several mutants, number says which one it is to be. Each time is a
// process of its own: a mutant may panic, or leave a goroutine behind.
func noticed(ctx context.Context, dir, bin string, number int, m Mutant, times int) error {
	began := time.Now()
	for n := range times {
		if n > 0 && time.Since(began) > tortureTime {
			break
		}
		if err := noticedOnce(ctx, dir, bin, number, m); err != nil {
			return fmt.Errorf("after %d failures as they should be: %w", n, err)
		}
	}
	return nil
}

// noticedOnce is noticed for one time.
func noticedOnce(ctx context.Context, dir, bin string, number int, m Mutant) error {
	names := strings.Split(m.Test, "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	run := exec.CommandContext(ctx, bin, "-test.v", "-test.failfast", "-test.timeout", testTimeout.String(), "-test.run", strings.Join(names, "/"))
	run.Dir = dir
	run.Env = append(os.Environ(), "HOLDFAST_TORTURE=", fmt.Sprint(chooser, "=", number))
	out, err := run.CombinedOutput()
	return verdict(m.Test, string(out), err)
}

// verdict decides by what the named test has printed, and by how its process ended, whether the
// test has failed.
func verdict(name, out string, err error) error {
	test, _, _ := strings.Cut(name, "/")
	var exit *exec.ExitError
	switch started := strings.Contains(out, "=== RUN   "+strings.ReplaceAll(name, " ", "_")+"\n"); {
	case err != nil && !errors.As(err, &exit):
		return err
	case !started:
		return fmt.Errorf("%w: %s\n%s", errNoTest, name, out)
	case err == nil:
		return fmt.Errorf("%w: %s\n%s", errUnnoticed, name, out)
	case strings.Contains(out, "panic: test timed out after "):
		return fmt.Errorf("%w: %s\n%s", errTimeout, name, out)
	case !strings.Contains(out, "--- FAIL: "+test) && !strings.Contains(out, "panic: "):
		return fmt.Errorf("%s ended without a failure of the test: %w\n%s", name, err, out)
	}
	return nil
}

// apply returns the file of the package in dir with the mutant.
func apply(dir string, m Mutant) (string, error) {
	source, err := os.ReadFile(filepath.Join(dir, m.File))
	if err != nil {
		return "", err
	}
	return replaced(string(source), m)
}

// replaced returns the source with the mutant.
func replaced(source string, m Mutant) (string, error) {
	if n := strings.Count(source, m.Old); n != 1 || m.Old == m.New {
		return "", fmt.Errorf("%w: %q occurs %d times in %s", errText, m.Old, n, m.File)
	}
	return strings.Replace(source, m.Old, m.New, 1), nil
}

// build builds the tests of the package in dir with other contents of some files, or
// with files that are not there.
func build(ctx context.Context, dir, scratch string, changed map[string]string) (bin string, err error) {
	replace := map[string]string{}
	for name, source := range changed {
		original, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		replace[original] = filepath.Join(scratch, fmt.Sprint(len(replace), ".go"))
		if err := os.WriteFile(replace[original], []byte(source), 0o600); err != nil {
			return "", err
		}
	}
	overlay := filepath.Join(scratch, "overlay.json")
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, content, 0o600); err != nil {
		return "", err
	}
	bin = filepath.Join(scratch, "mutant.test")
	// No symbols and one process at a time: other packages are built at the same time.
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-p", "1", "-ldflags", "-s -w", "-overlay", overlay, "-o", bin, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %w\n%s", errBuild, err, out)
	}
	return bin, nil
}
