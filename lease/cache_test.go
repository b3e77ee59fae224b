package lease_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestMemorySweep: only observations that no process used for long, and what a crash left of one,
// are removed.
func TestMemorySweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seen")
	m := lease.FileCache(dir)
	for _, key := range []string{"old", "new"} {
		m.Save(lease.Observation{Store: "s", Key: key, Version: "1"})
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
	lease.SweepCache(dir)
	for path, want := range map[string]bool{older: false, leftover: false, theirs: true, files[1]: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
}

// TestMemoryOfLocalStore: on a local store a process that announces itself saves no observation of
// its own grants, or of a free lock. It saves one of what others may have to wait for: another's
// grant, and the time before which no grant may follow.
func TestMemoryOfLocalStore(t *testing.T) {
	open := func() *filestore.Store {
		st, err := filestore.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		return st
	}
	kept := func(st store.Store, o lease.Options) int {
		memory := &sightings{}
		o.Cache = memory
		c := client(t, st, &o)
		if g, err := c.TryAcquire(t.Context(), "job", nil); err == nil {
			mustRelease(t, g)
		} else if !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		return len(memory.m)
	}
	st, want := open(), 0
	if _, err := st.Announce(t.Context()); err != nil {
		t.Logf("each grant is worth an observation here: %v", err)
		want = 1
	}
	if n := kept(st, lease.Options{}); n != want {
		t.Errorf("%d observations of a lock that was free all the time, want %d", n, want)
	}
	if n := kept(st, lease.Options{MinInterval: time.Hour}); n != 1 {
		t.Errorf("%d observations of a lock with a time before which it may not be taken, want 1", n)
	}
	if n := kept(open(), lease.Options{NoPresence: true}); n != 1 {
		t.Errorf("%d observations of a grant whose holder cannot be known dead, want 1", n)
	}
	other := open()
	mustTry(t, client(t, other, &lease.Options{ManualRenewal: true}), "job")
	value, v, err := other.Get(t.Context(), "lock/job")
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(value, &record); err != nil {
		t.Fatal(err)
	}
	record["process"] = "ANOTHER"
	if value, err = json.Marshal(record); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Put(t.Context(), "lock/job", v, value); err != nil {
		t.Fatal(err)
	}
	if n := kept(other, lease.Options{}); n != 1 {
		t.Errorf("%d observations of another's grant, want 1", n)
	}
}

// Observations are believed only in a directory, and in files, that no other user can have written.
func TestMemoryOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("owners and rights are not checked on Windows")
	}
	for name, spoil := range map[string]func(dir, file string) error{
		"directory, writable by all":     func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"directory, readable by others":  func(dir, _ string) error { return os.Chmod(dir, 0o755) },
		"directory, writable by a group": func(dir, _ string) error { return os.Chmod(dir, 0o770) },
		"file, writable by all":          func(_, file string) error { return os.Chmod(file, 0o666) },
		"file, of 100 GB":                func(_, file string) error { return os.Truncate(file, 100<<30) },
		"directory, of another user":     func(dir, _ string) error { return chown(t, dir) },
		"file, of another user":          func(_, file string) error { return chown(t, file) },
		"directory, behind a link":       func(dir, _ string) error { return behindLink(dir) },
		"file, behind a link":            func(_, file string) error { return behindLink(file) },
		"file, behind a link beside it": func(_, file string) error {
			return errors.Join(os.Rename(file, file+"x"), os.Symlink(filepath.Base(file)+"x", file))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "seen")
			m := lease.FileCache(dir)
			m.Save(lease.Observation{Store: "s", Key: "k", Version: "1"})
			files, err := filepath.Glob(filepath.Join(dir, "*.json"))
			if _, ok := m.Load("s", "k"); !ok || err != nil || len(files) != 1 {
				t.Fatalf("control: %v, %v, %q", ok, err, files)
			}
			if err := spoil(dir, files[0]); err != nil {
				t.Fatal(err)
			}
			if s, ok := m.Load("s", "k"); ok {
				t.Errorf("believed: %+v", s)
			}
			if !strings.HasPrefix(name, "directory") {
				return
			}
			m.Save(lease.Observation{Store: "s", Key: "other", Version: "1"})
			if files, err = filepath.Glob(filepath.Join(dir, "*.json")); len(files) != 1 || err != nil {
				t.Errorf("saved there: %q, %v", files, err)
			}
		})
	}
}

func chown(t *testing.T, path string) error {
	suitetest.NeedRoot(t, "a file of another user")
	return os.Chown(path, 12345, 12345)
}

func behindLink(path string) error {
	return errors.Join(os.Rename(path, path+".elsewhere"), os.Symlink(path+".elsewhere", path))
}

// TestLongName: the error for a name that is too long gives its own length, not that of the key.
func TestLongName(t *testing.T) {
	c := client(t, named(t), nil)
	longest := store.MaxKey - len("lock/")
	mustRelease(t, mustTry(t, c, strings.Repeat("n", longest)))
	_, err := c.TryAcquire(t.Context(), strings.Repeat("n", longest+1), nil)
	if !errors.Is(err, store.ErrKey) || !strings.Contains(err.Error(), "508 bytes, at most 507") {
		t.Errorf("%v", err)
	}
}
