package suitetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// ending records how a helper ends a test.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper() {}

func (e *ending) Skip(args ...any) {
	e.how = "skipped: " + fmt.Sprint(args...)
	runtime.Goexit()
}

func (e *ending) Fatalf(format string, args ...any) {
	e.how = "failed: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestNeed: a test without what it needs is skipped with the reason, and fails where CI is
// set to anything.
func TestNeed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for ci, want := range map[string]string{"": "skipped: ", "true": "failed: ", "1": "failed: "} {
		t.Setenv("CI", ci)
		for _, need := range []func(testing.TB) string{
			suitetest.NeedStrace,
			func(t testing.TB) string { return suitetest.NeedProgram(t, "strace") },
		} {
			e := &ending{}
			done := make(chan struct{})
			go func() {
				defer close(done)
				need(e)
			}()
			<-done
			if !strings.HasPrefix(e.how, want) || !strings.Contains(e.how, "strace") {
				t.Errorf("CI=%q: %q, want %q and the program", ci, e.how, want)
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(self))
	if got := suitetest.NeedProgram(t, filepath.Base(self)); got != self {
		t.Errorf("got %q, want %q", got, self)
	}
}
