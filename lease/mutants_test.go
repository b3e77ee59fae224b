package lease_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestMutants builds this package with deliberate faults, and checks that its tests
// notice each of them.
func TestMutants(t *testing.T) {
	if os.Getenv("HOLDFAST_MUTANT") != "" {
		t.Skip("this is the run of a mutant")
	}
	bin := filepath.Join(t.TempDir(), "mutant.test")
	build := exec.Command("go", "test", "-c", "-tags", "mutant", "-o", bin, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(name string) ([]byte, error) {
		cmd := exec.Command(bin, "-test.failfast", "-test.timeout", "2m", "-test.run", "^Test(A[0-9]|Handle|Simulation)")
		cmd.Env = append(os.Environ(), "HOLDFAST_MUTANT="+name, "HOLDFAST_TORTURE=")
		return cmd.CombinedOutput()
	}
	if out, err := run("none"); err != nil {
		t.Fatalf("without a fault: %v\n%s", err, out)
	}
	for _, name := range []string{
		"monotonic clock alone",
		"takeover without waiting",
		"own TTL",
		"deadline from the reply",
		"conflict is lost",
		"unreadable is lost",
		"release before belief ends",
		"give up without a free record",
		"own holder adopted",
		"token stays",
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := run(name); err == nil {
				t.Errorf("no test noticed\n%s", out)
			}
		})
	}
}
