//go:build unix

package filecache_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/filecache"
)

// Observations are believed only in a directory, and in files, that no other user can have written. On
// Windows nothing checks owners and rights.
func TestFilesOfOthers(t *testing.T) {
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
