package filestore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

const goldenDir = "testdata/golden"

// goldenValues are what the golden store holds.
func goldenValues() map[string]string {
	return map[string]string{
		"lock/nightly":                    `{"state":"held","token":9}`,
		"Some Key/with (odd) chars: ä":    "not JSON\n",
		"empty":                           "",
		strings.Repeat("long/", 60) + "x": `"long"`,
	}
}

// TestGolden: directories that the first release wrote can be read and written.
// HOLDFAST_GOLDEN=1 writes the golden directory again.
func TestGolden(t *testing.T) {
	if os.Getenv("HOLDFAST_GOLDEN") != "" {
		writeGolden(t)
	}
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS(goldenDir)); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, nil)
	var want []string
	for key, value := range goldenValues() {
		want = append(want, key)
		got, v, err := s.Get(t.Context(), key)
		if err != nil || string(got) != value {
			t.Errorf("%s: got %q, %v, want %q", key, got, err, value)
			continue
		}
		if key == "lock/nightly" && !strings.HasPrefix(string(v), "9.") {
			t.Errorf("%s: version %s, want the ninth", key, v)
		}
		put(t, s, key, v, "new")
	}
	slices.Sort(want)
	if got := keys(t, s, ""); !slices.Equal(got, want) {
		t.Errorf("got the keys %q, want %q", got, want)
	}
	put(t, s, "deleted", "", "again")
}

// writeGolden writes the golden directory.
func writeGolden(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(goldenDir); err != nil {
		t.Fatal(err)
	}
	s, err := filestore.Open(goldenDir, filestore.Tiny())
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range goldenValues() {
		v := store.Version("")
		if key == "lock/nightly" {
			for range 8 {
				v = put(t, s, key, v, `{"state":"free"}`)
			}
		}
		put(t, s, key, v, value)
	}
	if err := s.Delete(t.Context(), "deleted", put(t, s, "deleted", "", "1")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(goldenDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.Chmod(path, 0o644)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
