package suitetest

import (
	"os"
	"testing"
)

// NeedRoot ends a test that only root can run, for a reason such as "a mount"; where
// nothing may be left out, it fails.
func NeedRoot(t testing.TB, reason string) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") != "":
		t.Fatalf("%s needs root, and CI has to have it", reason)
	default:
		t.Skipf("%s needs root", reason)
	}
}
