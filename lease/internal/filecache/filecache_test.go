package filecache_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/filecache"
)

// TestSweep: only observations that no process used for long, and what a crash left of one,
// are removed.
func TestSweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seen")
	m := filecache.Dir(dir)
	for _, key := range []string{"old", "new"} {
		m.Save(cell.Observation{Store: "s", Key: key, Version: "1"})
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	older := files[0]
	leftover, theirs := older+"."+strings.Repeat("A", 26), filepath.Join(dir, "notes.json")
	for _, path := range []string{leftover, theirs} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-31 * 24 * time.Hour)
	for _, path := range []string{older, leftover, theirs} {
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	filecache.Sweep(dir)
	for path, want := range map[string]bool{older: false, leftover: false, theirs: true, files[1]: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
}
