//go:build unix

package dirbucket_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/object/dirbucket"
)

// TestNamesAreDurable: every name that leads to a body is durable before the put is
// answered, also one that another process has made, which may have been killed before it
// made the name durable.
func TestNamesAreDurable(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "x", "bucket")
	var synced []string
	defer dirbucket.OnSync(func(dir string) { synced = append(synced, dir) })()
	for _, process := range []string{"the first", "another"} {
		b, err := dirbucket.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if process == "the first" && !slices.Contains(synced, base) {
			t.Errorf("the parents that were made: %q", synced)
		}
		synced = nil
		if _, err := b.Put(t.Context(), "a", strings.NewReader(process), nil); err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(dir, "data")
		for _, name := range []string{filepath.Join(base, "x"), dir, data} {
			if !slices.Contains(synced, name) {
				t.Errorf("%s process: %q is not durable: %q", process, name, synced)
			}
		}
		if !slices.ContainsFunc(synced, func(name string) bool { return filepath.Dir(name) == data }) {
			t.Errorf("%s process: the name of the body is not durable: %q", process, synced)
		}
	}
}
