package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// BuildCommand builds holdfast and holdfast-stores, and returns the path of holdfast. All tests of a process share
// the commands. The commands keep out of root's own state.
func BuildCommand(t testing.TB) string {
	t.Helper()
	dir, err := buildCommand()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "holdfast")
}

// buildCommand builds in a directory that no other process uses at the same time. A later process finds the
// commands there, and the linker, which needs seconds, has nothing to do if they have not changed.
var buildCommand = sync.OnceValues(func() (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	var dir string
	for n := 0; ; n++ {
		dir = filepath.Join(cache, fmt.Sprint("command-", n))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		free, err := lockFileUntilExit(filepath.Join(dir, "lock"))
		if err != nil {
			return "", err
		}
		if free {
			break
		}
	}
	state := filepath.Join(dir, "root-state")
	if err := os.RemoveAll(state); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-ldflags", "-X github.com/holdfast-go/holdfast/cmd/internal/stores.RootState="+state,
		"-o", dir+"/", "github.com/holdfast-go/holdfast/cmd/...").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})
