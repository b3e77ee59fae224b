//go:build unix

package safefile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

// root returns a new directory, open.
func root(t *testing.T) *os.Root {
	t.Helper()
	dir, _, err := safefile.OpenDir(t.TempDir(), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// TestPrivateIsCheckedAfterItWasOpened: what is not this user's alone, or not empty, is no
// private directory, whatever has been made before.
func TestPrivateIsCheckedAfterItWasOpened(t *testing.T) {
	parent := root(t)
	dir, err := safefile.MakePrivate(parent, "new")
	if err != nil {
		t.Fatal(err)
	}
	dir.Close()
	if _, err := safefile.MakePrivate(parent, "new"); !errors.Is(err, os.ErrExist) {
		t.Errorf("one that is there: got %v", err)
	}
	for what, prepare := range map[string]func(t *testing.T, name string) error{
		"open to others": func(t *testing.T, name string) error { return os.Chmod(name, 0o750) },
		"a link":         func(t *testing.T, name string) error { return errors.Join(os.Remove(name), os.Symlink(".", name)) },
		"a file": func(t *testing.T, name string) error {
			return errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600))
		},
		"another's": func(t *testing.T, name string) error {
			suitetest.NeedRoot(t, "a directory of another user")
			return os.Chown(name, 54322, 54322)
		},
	} {
		t.Run(what, func(t *testing.T) {
			parent := root(t)
			name := filepath.Join(parent.Name(), "d")
			if err := errors.Join(os.Mkdir(name, 0o700), prepare(t, name)); err != nil {
				t.Fatal(err)
			}
			if dir, err := safefile.OpenPrivate(parent, "d"); err == nil {
				dir.Close()
				t.Error("it was opened")
			}
		})
	}
}

// TestGiveDir: a directory is given away complete, replaces nothing that is in use, and
// leaves nothing where it fails.
func TestGiveDir(t *testing.T) {
	parent := root(t)
	give := func(f *os.File) error { return f.Chmod(0o770) }
	if err := safefile.GiveDir(parent, "stage", "d", give); err != nil {
		t.Fatal(err)
	}
	if info, err := parent.Stat("d"); err != nil || info.Mode().Perm() != 0o770 {
		t.Errorf("got %v, %v", info, err)
	}
	if err := parent.Mkdir("d/used", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := safefile.GiveDir(parent, "stage", "d", give); !errors.Is(err, os.ErrExist) {
		t.Errorf("one that is in use: got %v", err)
	}
	no := errors.New("no")
	if err := safefile.GiveDir(parent, "stage", "e", func(*os.File) error { return no }); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	var names []string
	if err := safefile.EachName(parent, ".", 10, func(n string) { names = append(names, n) }); err != nil || fmt.Sprint(names) != "[d]" {
		t.Errorf("left: %q, %v", names, err)
	}
}

// TestEachName: the bound is kept, and reported.
func TestEachName(t *testing.T) {
	parent := root(t)
	for i := range 3000 {
		if err := parent.WriteFile(fmt.Sprint(i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int]error{0: safefile.ErrTooMany, 2999: safefile.ErrTooMany, 3000: nil, 5000: nil} {
		count := 0
		err := safefile.EachName(parent, ".", limit, func(string) { count++ })
		if !errors.Is(err, want) || count != min(limit, 3000) {
			t.Errorf("limit %d: got %d names, %v", limit, count, err)
		}
	}
}

// TestOpenFile: only a regular file is opened, and nothing is waited for.
func TestOpenFile(t *testing.T) {
	parent := root(t)
	for _, err := range []error{
		parent.WriteFile("file", []byte("x"), 0o600), parent.Symlink("file", "link"), parent.Mkdir("dir", 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"file": true, "link": false, "dir": false, "nothing": false} {
		f, _, err := safefile.OpenFile(parent, name)
		if (err == nil) != want {
			t.Errorf("%s: got %v", name, err)
		}
		if err == nil {
			f.Close()
		}
		if name == "dir" && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("a directory: got %v, want corrupt", err)
		}
	}
}
