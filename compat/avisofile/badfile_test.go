//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

// TestBadFilesAreLeftAlone: what cannot be read is an error at every door, and
// nothing is overwritten.
func TestBadFilesAreLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		want          error
	}{
		{"empty", "", avisofile.ErrMalformed},
		{"cut off", one(`{"last_committed_sequence":5}`)[:100], avisofile.ErrMalformed},
		{"negative", one(`{"last_committed_sequence":-5}`), avisofile.ErrMalformed},
		{"future version", file("2", "1", "{}", ""), avisofile.ErrFileVersion},
		{"future keys", file("1", "2", "{}", ""), avisofile.ErrKeyVersion},
		{"word as key", file("1", "1", `{"orders":{"last_committed_sequence":5}}`, ""), avisofile.ErrFileKey},
		{"deep", strings.Repeat("[", 1e6), avisofile.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := statePath(t)
			before := open(t, path, nil)
			advance(t, before, keyA, at(1), checkpoint.Advanced)
			do(t, os.WriteFile(path, []byte(tt.content), 0o600))
			ctx := t.Context()
			_, openErr := avisofile.Open(path, nil)
			_, getErr := before.Get(ctx, keyA, nil)
			_, advanceErr := before.Advance(ctx, keyA, at(2), nil)
			_, resetErr := before.Reset(ctx, keyA, at(2), nil)
			_, deleteErr := before.Delete(ctx, keyA, nil)
			_, fenceErr := before.Fence(ctx, keyA, 2)
			var listErr error
			for _, listErr = range before.List(ctx, "") {
			}
			for i, err := range []error{openErr, getErr, advanceErr, resetErr, deleteErr, fenceErr, listErr} {
				var e *avisofile.LoadError
				if !errors.Is(err, tt.want) || !errors.Is(err, store.ErrCorrupt) || !errors.As(err, &e) || e.Path != path {
					t.Errorf("%d: got %v, want %v", i, err, tt.want)
				}
				if store.OutcomeOf(err) != store.NotApplied {
					t.Errorf("%d: the outcome is %v", i, store.OutcomeOf(err))
				}
			}
			got, err := os.ReadFile(path)
			do(t, err)
			if !bytes.Equal(got, []byte(tt.content)) {
				t.Errorf("it was overwritten with %q", got)
			}
			if _, err := os.Stat(path + ".fence"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a fence was written: %v", err)
			}
			// After the repair everything works again.
			do(t, os.Remove(path))
			get(t, before, keyA)
			advance(t, before, keyA, at(2), checkpoint.Advanced)
		})
	}
}

func TestBadPlaces(t *testing.T) {
	dir := t.TempDir()
	do(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	do(t, os.WriteFile(filepath.Join(dir, "plain"), []byte(none), 0o600))
	do(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	do(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	do(t, os.Symlink("missing/state.json", filepath.Join(dir, "dangling")))
	huge, err := os.Create(filepath.Join(dir, "huge"))
	do(t, err)
	do(t, huge.Truncate(avisofile.MaxStateFile+1))
	do(t, huge.Close())
	for _, tt := range []struct {
		path string
		want error
	}{
		{"missing/state.json", fs.ErrNotExist},
		{"dangling", fs.ErrNotExist},
		{"plain/state.json", syscall.ENOTDIR},
		{"directory", syscall.EISDIR},
		{"directory/", syscall.EISDIR},
		{"directory/..", syscall.EISDIR},
		{"loop", nil},
		{"pipe", store.ErrUnsafe},
		{"huge", store.ErrTooLarge},
	} {
		_, err := avisofile.Open(dir+"/"+tt.path, nil)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.path, err, tt.want)
		}
		if errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: got %v, which blames the content", tt.path, err)
		}
	}
	// In the lock's place.
	path := filepath.Join(dir, "state.json")
	s := open(t, path, nil)
	for name, put := range map[string]func() error{
		"a directory":      func() error { return os.Mkdir(path+".lock", 0o700) },
		"a pipe":           func() error { return syscall.Mkfifo(path+".lock", 0o600) },
		"a link":           func() error { return os.Symlink(filepath.Join(dir, "elsewhere"), path+".lock") },
		"a link to a file": func() error { return os.Symlink(filepath.Join(dir, "plain"), path+".lock") },
	} {
		do(t, put())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := s.Advance(ctx, keyA, at(1), nil)
		cancel()
		if err == nil || store.OutcomeOf(err) != store.NotApplied || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s in the lock's place: got %v", name, err)
		}
		do(t, os.Remove(path+".lock"))
	}
	if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made where the link leads: %v", err)
	}
	advance(t, s, keyA, at(1), checkpoint.Advanced)
}

func TestFutureFence(t *testing.T) {
	path := statePath(t)
	do(t, os.WriteFile(path+".fence", []byte(`{"holdfast":2}`), 0o600))
	if _, err := avisofile.Open(path, nil); !errors.Is(err, checkpoint.ErrFormat) || !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestNetworkFileSystemsAreRefused(t *testing.T) {
	// A file system that is certainly on no list, and that is there without a mount.
	const dir = "/proc/sys"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no /proc")
	}
	if _, err := avisofile.Open(dir+"/state.json", nil); !errors.Is(err, store.ErrUnsafe) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	if _, err := avisofile.Open(dir+"/state.json", &avisofile.Options{AllowNetwork: true}); err != nil {
		t.Errorf("with leave: got %v", err)
	}
	if _, err := avisofile.Restore(t.Context(), dir+"/state.json", nil); !errors.Is(err, store.ErrUnsafe) {
		t.Errorf("restore: got %v", err)
	}
	// A local link that leads there.
	link := filepath.Join(t.TempDir(), "state.json")
	do(t, os.Symlink(dir+"/state.json", link))
	if _, err := avisofile.Open(link, nil); !errors.Is(err, store.ErrUnsafe) {
		t.Errorf("by a link: got %v", err)
	}
}

// asUserWithoutRights runs the store's commands as a user without rights.
func asUserWithoutRights(t *testing.T, dir string) *process {
	return start(t, asUser(t, dir, "store", 65534))
}

// asUser returns a command that runs a role as another user, whose only group is 65534. The
// test binary is in a directory that only its owner may enter, so a copy in dir runs.
func asUser(t *testing.T, dir, role string, user uint32) *exec.Cmd {
	t.Helper()
	suitetest.NeedRoot(t, "a process of another user")
	self, err := os.Executable()
	do(t, err)
	b, err := os.ReadFile(self)
	do(t, err)
	program := filepath.Join(dir, "program")
	do(t, os.WriteFile(program, b, 0o755))
	for d := dir; d != "/"; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		do(t, err)
		do(t, os.Chmod(d, info.Mode().Perm()|0o055|info.Mode()&os.ModeSticky))
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: 65534}}
	return cmd
}

func TestNoRights(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	advance(t, open(t, path, nil), keyA, at(1), checkpoint.Advanced)
	do(t, os.Chmod(path, 0o644))
	p := asUserWithoutRights(t, dir)
	p.want("ok", "open %s", path)
	denied := func(what, line string) {
		t.Helper()
		if got := p.ask("%s", line); !strings.HasPrefix(got, "err not applied") || !strings.HasSuffix(got, "denied true") {
			t.Errorf("%s: got %q", what, got)
		}
	}
	denied("no rights to the lock", "put a 1 null")
	p.want("none", "read a")

	do(t, os.Chmod(path+".lock", 0o666))
	denied("no rights to the directory", "put a 1 null")

	// Another's file may not be taken away from its owner by replacing it.
	do(t, os.Chown(dir, 0, 65534))
	do(t, os.Chmod(dir, 0o775|os.ModeSticky))
	denied("another's file in a sticky directory", "put a 1 null")

	do(t, os.Chmod(path, 0o600))
	denied("no rights to read", "read a")
	if info, err := os.Stat(path); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("got %v, %v", info, err)
	}
	wantAt(t, open(t, path, nil), keyA, 1)

	do(t, os.Chmod(dir, 0o775))
	// In a group it may: every user who could write the file can still.
	do(t, os.Chmod(path, 0o664))
	do(t, os.Chown(path, 0, 65534))
	p.want("advanced", "put a 1 null")
	info, err := os.Stat(path)
	do(t, err)
	if sys := info.Sys().(*syscall.Stat_t); sys.Gid != 65534 || info.Mode().Perm() != 0o664 {
		t.Errorf("got group %d, mode %v", sys.Gid, info.Mode())
	}
}

func TestClockInThePast(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	for _, when := range []time.Time{time.Unix(0, 0), time.Now().Add(1000 * time.Hour)} {
		do(t, os.Chtimes(path, when, when))
		c := get(t, s, keyA)
		advance(t, s, keyA, at(c.Sequence+1), checkpoint.Advanced)
	}
	wantAt(t, s, keyA, 3)
}
