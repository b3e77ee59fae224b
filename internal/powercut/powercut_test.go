package powercut_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/powercut"
)

// TestCut shows that a cut loses what was not flushed, and nothing else.
func TestCut(t *testing.T) {
	for _, fstype := range powercut.FileSystems() {
		t.Run(fstype, func(t *testing.T) {
			d := powercut.New(t, fstype)
			write := func(name string, sync ...string) {
				t.Helper()
				f, err := os.Create(filepath.Join(d.Dir(), name))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteString(name); err != nil {
					t.Fatal(err)
				}
				for _, name := range sync {
					f, err := os.Open(filepath.Join(d.Dir(), name))
					if err != nil {
						t.Fatal(err)
					}
					if err := f.Sync(); err != nil {
						t.Fatal(err)
					}
					f.Close()
				}
			}
			write("safe", "safe", ".")
			write("lost")
			powercut.New(t, fstype) // as another test can do at this moment
			d.Cut()
			if err := os.WriteFile(filepath.Join(d.Dir(), "late"), nil, 0o600); err == nil {
				t.Error("a write after the cut succeeded")
			}
			d.Remount()
			if data, err := os.ReadFile(filepath.Join(d.Dir(), "safe")); string(data) != "safe" {
				t.Errorf("what was flushed: got %q, %v", data, err)
			}
			if data, err := os.ReadFile(filepath.Join(d.Dir(), "lost")); err == nil {
				t.Errorf("what was not flushed is there: %q", data)
			}
		})
	}
}
