//go:build unix

package safefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// entry describes a directory of a user and a group that need not exist.
type entry struct {
	owner, group int
	mode         fs.FileMode
}

func (e entry) Name() string       { return "store" }
func (e entry) Size() int64        { return 0 }
func (e entry) Mode() fs.FileMode  { return fs.ModeDir | e.mode }
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) IsDir() bool        { return true }
func (e entry) Sys() any           { return &syscall.Stat_t{Uid: uint32(e.owner), Gid: uint32(e.group)} }

// TestDirectory: which directories are a risk for this user, and which risk each is. Other users'
// directories are one for root even if they are shared.
func TestDirectory(t *testing.T) {
	const other, noGroup = 54322, 54329
	me, mine, root := os.Geteuid(), os.Getegid(), os.Geteuid() == 0
	ifRoot := func(risk, otherwise string) string {
		if root {
			return risk
		}
		return otherwise
	}
	here := t.TempDir() // this user may write there
	for _, c := range []struct {
		what    string
		dir     entry
		reading bool
		risk    string
	}{
		{"this user's", entry{me, mine, 0o700}, false, ""},
		{"this user's, shared with the group", entry{me, mine, 0o770}, false, ""},
		{"root's", entry{0, 0, 0o755}, false, ""},
		{"another's", entry{other, noGroup, 0o755}, false, "owner"},
		{"another's, shared with a group of others", entry{other, noGroup, 0o770}, false, "owner"},
		{"another's, shared with this user's group", entry{other, mine, 0o770}, false, ifRoot("owner", "")},
		{"another's, of this user's group that may not write", entry{other, mine, 0o750}, false, "owner"},
		{"another's, only to show it, where this user may write", entry{other, noGroup, 0o755}, true, "owner"},
		{"this user's, for all", entry{me, mine, 0o777}, false, "writable"},
		{"this user's, for all, sticky", entry{me, mine, 0o777 | fs.ModeSticky}, false, "writable"},
	} {
		err := safefile.Directory(here, c.dir, c.reading, nil)
		if errors.Is(err, store.ErrUnsafe) != (c.risk != "") || (err == nil) != (c.risk == "") {
			t.Errorf("%s: got %v, want the risk %q", c.what, err, c.risk)
		}
		for _, accepted := range []string{safefile.Link, safefile.Owner, safefile.Writable} {
			err := safefile.Directory(here, c.dir, c.reading, []string{accepted})
			if (err == nil) != (c.risk == "" || c.risk == accepted) {
				t.Errorf("%s, %s is accepted: got %v, want the risk %q", c.what, accepted, err, c.risk)
			}
		}
	}
	if err := safefile.Directory("/nowhere", entry{other, noGroup, 0o755}, true, nil); (err == nil) == root {
		t.Errorf("another's, only to show it, where this user may not write: got %v", err)
	}
}

// TestOpenDir: a symbolic link is followed only where it is accepted, and never below a directory.
func TestOpenDir(t *testing.T) {
	base := t.TempDir()
	must(t, os.Mkdir(filepath.Join(base, "dir"), 0o700), os.WriteFile(filepath.Join(base, "file"), nil, 0o600),
		os.Symlink("dir", filepath.Join(base, "link")), os.Symlink("file", filepath.Join(base, "filelink")))
	parent := root(t)
	must(t, parent.Mkdir("dir", 0o700), parent.Symlink("dir", "link"), parent.WriteFile("file", nil, 0o600))
	for _, c := range []struct {
		name     string
		accepted []string
		want     error
		below    error
	}{
		{"dir", nil, nil, nil},
		{"link", nil, store.ErrUnsafe, syscall.ENOTDIR},
		{"link", []string{safefile.Owner, safefile.Writable}, store.ErrUnsafe, syscall.ENOTDIR},
		{"link", []string{safefile.Link}, nil, syscall.ENOTDIR},
		{"filelink", []string{safefile.Link}, syscall.ENOTDIR, fs.ErrNotExist},
		{"file", nil, syscall.ENOTDIR, syscall.ENOTDIR},
		{"nothing", nil, fs.ErrNotExist, fs.ErrNotExist},
	} {
		dir, _, err := safefile.OpenDir(filepath.Join(base, c.name), false, c.accepted)
		if !errors.Is(err, c.want) {
			t.Errorf("%s, accepted %q: got %v, want %v", c.name, c.accepted, err, c.want)
		}
		if err == nil {
			dir.Close()
		}
		dir, _, err = safefile.OpenBelow(parent, c.name)
		if !errors.Is(err, c.below) {
			t.Errorf("%s, below: got %v, want %v", c.name, err, c.below)
		}
		if err == nil {
			dir.Close()
		}
	}
}

// TestOpenDirThatAllMayWrite: the directory that was opened is judged.
func TestOpenDirThatAllMayWrite(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	if root, _, err := safefile.OpenDir(dir, false, nil); !errors.Is(err, store.ErrUnsafe) {
		root.Close()
		t.Errorf("got %v, want unsafe", err)
	}
}

// TestExchangedDirectory: a directory that another one replaces while it is opened is not used.
func TestExchangedDirectory(t *testing.T) {
	base := t.TempDir()
	a, b := filepath.Join(base, "a"), filepath.Join(base, "b")
	must(t, os.Mkdir(a, 0o700), os.Mkdir(b, 0o700))
	named, err := os.Lstat(a)
	must(t, err)
	dir, _, err := safefile.OpenSame(a, named, func(path string) (*os.Root, error) {
		must(t, os.Rename(a, a+".old"), os.Rename(b, a))
		return os.OpenRoot(path)
	})
	if !errors.Is(err, safefile.ErrReplaced) {
		dir.Close()
		t.Errorf("got %v, want that it was replaced", err)
	}
}

// TestExchangedFile: the same for a file, whether another file takes its place or a link to one.
func TestExchangedFile(t *testing.T) {
	for _, c := range []struct {
		what  string
		plant func(dir *os.Root) error
	}{
		{"another file", func(dir *os.Root) error { return dir.Rename("theirs", "mine") }},
		{"a link", func(dir *os.Root) error { return errors.Join(dir.Remove("mine"), dir.Symlink("theirs", "mine")) }},
	} {
		dir := root(t)
		must(t, dir.WriteFile("mine", nil, 0o600), dir.WriteFile("theirs", nil, 0o600))
		named, err := dir.Lstat("mine")
		must(t, err)
		f, _, err := safefile.OpenSameFile("mine", named, func(name string, flag int, mode fs.FileMode) (*os.File, error) {
			must(t, dir.Link("mine", "kept"), c.plant(dir)) // no other file can get its number
			return dir.OpenFile(name, flag, mode)
		})
		if !errors.Is(err, safefile.ErrReplaced) {
			f.Close()
			t.Errorf("%s: got %v, want that it was replaced", c.what, err)
		}
	}
}

// TestMakePrivateIsEmpty: a directory into which another user has put something is not private.
func TestMakePrivateIsEmpty(t *testing.T) {
	parent := root(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = parent.WriteFile("d/theirs", nil, 0o600)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	refused := 0
	for end := time.Now().Add(10 * time.Second); refused == 0 && time.Now().Before(end); {
		dir, err := safefile.MakePrivate(parent, "d")
		if errors.Is(err, safefile.ErrReplaced) {
			refused++
		}
		if err == nil {
			dir.Close()
		}
		for parent.RemoveAll("d") != nil { // a file may come in between
		}
	}
	if refused == 0 {
		t.Error("a directory that was not empty was never refused")
	}
}

// TestMakeDirs: each directory that is made is reported by the one above it, and no other.
func TestMakeDirs(t *testing.T) {
	base := t.TempDir()
	var synced []string
	sync := func(parent string) error { synced = append(synced, parent); return nil }
	for range 2 {
		must(t, safefile.MakeDirs(filepath.Join(base, "a", "b"), sync))
	}
	if want := []string{base, filepath.Join(base, "a")}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	info, err := os.Stat(filepath.Join(base, "a", "b"))
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("made with %v", info.Mode())
	}
	must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	for _, name := range []string{"file", "file/below"} {
		if err := safefile.MakeDirs(filepath.Join(base, name), sync); err == nil {
			t.Errorf("%s: there is a file, and no error", name)
		}
	}
	no := errors.New("no")
	if err := safefile.MakeDirs(filepath.Join(base, "c"), func(string) error { return no }); !errors.Is(err, no) {
		t.Errorf("a sync that fails: got %v", err)
	}
}
