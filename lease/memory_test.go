package lease_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// TestMemorySweep: sightings that nobody needed for long are removed, with what a
// crash left of one, and nothing else is.
func TestMemorySweep(t *testing.T) {
	dir := t.TempDir()
	m := lease.FileMemory(dir)
	for _, key := range []string{"old", "new"} {
		m.Save(lease.Sighting{Store: "s", Key: key, Version: "1"})
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
	lease.SweepMemory(m)
	for path, want := range map[string]bool{older: false, leftover: false, theirs: true, files[1]: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
}

// TestLongName: a name that is too long is told its own length, not that of the key.
func TestLongName(t *testing.T) {
	c := client(t, named(t), nil)
	longest := store.MaxKey - len("lock/")
	mustRelease(t, mustTry(t, c, strings.Repeat("n", longest)))
	_, err := c.TryAcquire(t.Context(), strings.Repeat("n", longest+1))
	if !errors.Is(err, store.ErrKey) || !strings.Contains(err.Error(), "508 bytes, at most 507") {
		t.Errorf("%v", err)
	}
}
