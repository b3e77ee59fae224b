//go:build unix

package safefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A directory is used only if it is this user's alone.
func TestPrivateDir(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(path string) error
		want string // in the error; empty: private
		root bool
	}{
		{name: "own", make: func(p string) error { return os.Mkdir(p, 0o700) }},
		{name: "readable by others", want: "mode 0755", make: func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o755)) }},
		{name: "writable by the group", want: "mode 0720", make: func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o720)) }},
		{name: "writable by all", want: "mode 0777", make: func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o777)) }},
		{name: "another's", root: true, want: "belongs to user 12345", make: func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chown(p, 12345, 0)) }},
		{name: "link", want: "is not a directory", make: func(p string) error { return errors.Join(os.Mkdir(p+".real", 0o700), os.Symlink(p+".real", p)) }},
		{name: "dangling link", want: "is not a directory", make: func(p string) error { return os.Symlink("nowhere", p) }},
		{name: "file", want: "is not a directory", make: func(p string) error { return os.WriteFile(p, nil, 0o600) }},
		{name: "pipe", want: "is not a directory", make: func(p string) error { return syscall.Mkfifo(p, 0o600) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root {
				suitetest.NeedRoot(t, "a directory of another user")
			}
			path := filepath.Join(t.TempDir(), "state")
			must(t, c.make(path))
			for _, open := range []func(string) (*safefile.Dir, error){safefile.OpenPrivateDir, safefile.MakePrivateDir} {
				d, err := open(path)
				if err == nil {
					d.Close()
				}
				var not *safefile.PrivateError
				if (err == nil) != (c.want == "") || err != nil && (!errors.As(err, &not) || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			}
		})
	}
}

// A directory that is made is private, whatever the umask.
func TestMakePrivateDir(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	base := filepath.Join(t.TempDir(), "a")
	if _, err := safefile.OpenPrivateDir(base); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	d, err := safefile.MakePrivateDir(filepath.Join(base, "b"))
	must(t, err)
	d.Close()
	for _, path := range []string{base, filepath.Join(base, "b")} {
		info, err := os.Lstat(path)
		must(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v", path, info.Mode())
		}
	}
}

// A file is read only if it is this user's alone, a regular one, and not too large. No
// open waits.
func TestReadFile(t *testing.T) {
	const limit = 16
	for _, c := range []struct {
		name string
		make func(path string) error
		want string
		root bool
	}{
		{name: "own", make: func(p string) error { return os.WriteFile(p, []byte("text"), 0o600) }},
		{name: "own, read only", make: func(p string) error { return os.WriteFile(p, []byte("text"), 0o400) }},
		{name: "readable by others", want: "mode 0644", make: func(p string) error {
			return errors.Join(os.WriteFile(p, []byte("text"), 0o600), os.Chmod(p, 0o644))
		}},
		{name: "another's", root: true, want: "belongs to user 12345", make: func(p string) error {
			return errors.Join(os.WriteFile(p, []byte("text"), 0o600), os.Chown(p, 12345, 0))
		}},
		{name: "link beside", want: "is not a regular file", make: func(p string) error {
			return errors.Join(os.WriteFile(p+".real", []byte("text"), 0o600), os.Symlink(filepath.Base(p)+".real", p))
		}},
		{name: "link elsewhere", want: "is not a regular file", make: func(p string) error { return os.Symlink("/etc/passwd", p) }},
		{name: "pipe", want: "is not a regular file", make: func(p string) error { return syscall.Mkfifo(p, 0o600) }},
		{name: "device", root: true, want: "is not a regular file", make: func(p string) error { return syscall.Mknod(p, syscall.S_IFCHR|0o600, 1<<8|5) }},
		{name: "directory", want: "is not a regular file", make: func(p string) error { return os.Mkdir(p, 0o700) }},
		{name: "too large", want: "is larger than 16 bytes", make: func(p string) error { return os.WriteFile(p, make([]byte, limit+1), 0o600) }},
		{name: "100 GB with holes", want: "is larger than 16 bytes", make: func(p string) error {
			return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, 100<<30))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root {
				suitetest.NeedRoot(t, c.name)
			}
			base := t.TempDir()
			must(t, c.make(filepath.Join(base, "file")))
			d, err := safefile.OpenAnyDir(base)
			must(t, err)
			defer d.Close()
			began := time.Now()
			b, err := d.ReadFile("file", limit)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			var not *safefile.PrivateError
			switch {
			case c.want == "":
				if err != nil || string(b) != "text" {
					t.Errorf("%q, %v", b, err)
				}
			case !errors.As(err, &not) || !strings.Contains(err.Error(), c.want) || b != nil:
				t.Errorf("%q, %v, want %q", b, err, c.want)
			}
		})
	}
}

// What is written is private and goes through no link; what was there is left as it
// was under its other names.
func TestInstall(t *testing.T) {
	t.Run("named", func(t *testing.T) {
		testInstall(t, func(d *safefile.Dir) (*safefile.File, error) { return d.Create(".new-") })
	})
	t.Run("unnamed", func(t *testing.T) {
		testInstall(t, func(d *safefile.Dir) (*safefile.File, error) { return d.CreateUnnamed(".new-", 0o600) })
	})
}

func testInstall(t *testing.T, create func(*safefile.Dir) (*safefile.File, error)) {
	base := t.TempDir()
	victim := filepath.Join(base, "victim")
	must(t, os.WriteFile(victim, []byte("precious"), 0o644))
	d, err := safefile.OpenAnyDir(base)
	must(t, err)
	defer d.Close()
	for name, plant := range map[string]func(path string) error{
		"nothing":   func(string) error { return nil },
		"link":      func(p string) error { return os.Symlink(victim, p) },
		"hard link": func(p string) error { return os.Link(victim, p) },
	} {
		path := filepath.Join(base, name)
		must(t, plant(path))
		f, err := create(d)
		must(t, err)
		_, err = f.WriteString("new")
		must(t, err, f.Install(name))
		f.Discard() // which leaves what is installed
		b, err := d.ReadFile(name, 100)
		if err != nil || string(b) != "new" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("the victim holds %q, %v", b, err)
	}
	for name, want := range map[string]error{"new": nil, "link": fs.ErrExist, "victim": fs.ErrExist} {
		f, err := create(d)
		must(t, err)
		if err := f.InstallNew(name); !errors.Is(err, want) {
			t.Errorf("%s as a new file: %v, want %v", name, err, want)
		}
		f.Discard()
	}
	f, err := create(d)
	must(t, err)
	must(t, os.Mkdir(filepath.Join(base, "dir"), 0o700))
	if err := f.Install("dir"); err == nil {
		t.Error("a directory was replaced")
	}
	f.Discard()
	left, err := filepath.Glob(filepath.Join(base, ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestUnnamed: a file that is being written has no name, so that a process which is killed
// leaves nothing. Where there are no such files it has one.
func TestUnnamed(t *testing.T) {
	base := t.TempDir()
	d, err := safefile.OpenAnyDir(base)
	must(t, err)
	defer d.Close()
	f, err := d.CreateUnnamed(".new-", 0o640)
	must(t, err)
	defer f.Discard()
	_, err = f.WriteString("new")
	must(t, err)
	names, err := d.Names()
	must(t, err)
	named := 0
	if !safefile.HasUnnamed(base) {
		named = 1
	}
	if len(names) != named {
		t.Errorf("while it is written there are the names %q, want %d", names, named)
	}
	must(t, f.Install("f"))
	names, err = d.Names()
	must(t, err)
	if len(names) != 1 || names[0] != "f" {
		t.Errorf("at the end there are the names %q", names)
	}
	info, err := os.Stat(filepath.Join(base, "f"))
	must(t, err)
	if mode := info.Mode().Perm(); mode&^0o640 != 0 || info.Size() != 3 {
		t.Errorf("%v, %d bytes", mode, info.Size())
	}
}

// Both look at what was opened: a link that is exchanged with a file while it is opened
// is not read through.
func TestExchangeWhileOpening(t *testing.T) {
	base := t.TempDir()
	must(t, os.WriteFile(filepath.Join(base, "own"), []byte("own"), 0o600))
	must(t, os.WriteFile(filepath.Join(base, "other"), []byte("other"), 0o600))
	must(t, os.Symlink("other", filepath.Join(base, "link")))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			// In turn the file and the link stand under the name.
			for _, from := range []string{"own", "link"} {
				tmp := filepath.Join(base, "tmp")
				if from == "own" {
					_ = os.Link(filepath.Join(base, from), tmp)
				} else {
					_ = os.Symlink("other", tmp)
				}
				_ = os.Rename(tmp, filepath.Join(base, "file"))
			}
		}
	}()
	d, err := safefile.OpenAnyDir(base)
	must(t, err)
	defer d.Close()
	read := 0
	for end := time.Now().Add(time.Second); read == 0 || time.Now().Before(end); {
		b, err := d.ReadFile("file", 100)
		if err == nil {
			read++
		}
		if string(b) == "other" {
			t.Fatal("read through the link")
		}
	}
	close(stop)
	<-stopped
	if read == 0 {
		t.Error("the file was never read: the test shows nothing")
	}
}
