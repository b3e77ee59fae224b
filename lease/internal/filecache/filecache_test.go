package filecache_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
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

// Observations are believed only in a directory, and in files, that no other user can have written.
func TestFilesOfOthers(t *testing.T) {
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
			m := filecache.Dir(dir)
			m.Save(cell.Observation{Store: "s", Key: "k", Version: "1"})
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
			m.Save(cell.Observation{Store: "s", Key: "other", Version: "1"})
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
