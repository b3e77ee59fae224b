package suitetest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// NeedRoot ends a test that only root can run. The reason for the message is a text such as "a mount".
func NeedRoot(t testing.TB, reason string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, reason+" needs root")
	}
}

// NeedProgram returns the path of a program of the system. If the program is not installed, it ends the
// test.
func NeedProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, fmt.Sprintf("this test needs the program %s: %v", name, err))
	}
	return path
}

// NeedStrace returns the path of strace. If strace is not installed, or may not trace processes, it ends
// the test.
func NeedStrace(t testing.TB) string {
	t.Helper()
	path := NeedProgram(t, "strace")
	if out, err := exec.Command(path, "-qq", "-e", "trace=none", "true").CombinedOutput(); err != nil {
		Missing(t, fmt.Sprintf("this test needs processes that strace may trace: %v: %s", err, out))
	}
	return path
}

// Missing skips a test because the machine of a developer lacks something, and says what is missing. If
// CI is set, as in the checks of this project, Missing fails the test instead.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s; where CI is set, nothing may be missing", what)
	}
	t.Skip(what)
}
