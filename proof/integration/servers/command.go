package servers

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// BuildCommand builds holdfast and holdfast-stores, and returns the path of holdfast. The commands keep out of
// root's own state.
func BuildCommand(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	state := "-X github.com/holdfast-go/holdfast/cmd/internal/stores.RootState=" + filepath.Join(dir, "root-state")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", state, "-o", dir+"/", "github.com/holdfast-go/holdfast/cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "holdfast")
}
