//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

// alice is a user that nothing else has.
const alice = 54322

// owned describes the owner, group and mode of a file.
type owned struct {
	uid, gid uint32
	mode     os.FileMode
}

func ownerOf(t *testing.T, path string) owned {
	t.Helper()
	info, err := os.Lstat(path)
	do(t, err)
	sys := info.Sys().(*syscall.Stat_t)
	return owned{sys.Uid, sys.Gid, info.Mode().Perm()}
}

// TestWithAnotherUser: a program of another user replaces the file with its own owner and
// mode, in a directory that both share. Both programs continue, and the Store logs it once.
func TestWithAnotherUser(t *testing.T) {
	const group, nobody = 65534, 65534
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	theirs := asUser(t, t.TempDir(), "peer", alice)
	do(t, os.Chmod(filepath.Dir(dir), 0o755))
	do(t, os.Chown(dir, 0, group))
	do(t, os.Chmod(dir, 0o770|os.ModeSetgid))
	old := syscall.Umask(0o022)
	p := start(t, theirs)
	syscall.Umask(old)
	p.want("ok", "open %s", path)
	p.want("ok", "put a 1 null")
	if got, want := ownerOf(t, path), (owned{alice, group, 0o644}); got != want {
		t.Fatalf("the other program made %+v, want %+v", got, want)
	}

	ours := asUser(t, t.TempDir(), "store", nobody)
	var said bytes.Buffer
	ours.Stderr = &said
	s := start(t, ours)
	s.want("ok", "open %s", path)
	for n := 2; n < 8; n += 2 {
		s.want("advanced", "put a %d null", n)
		if got, want := ownerOf(t, path), (owned{nobody, group, 0o664}); got != want {
			t.Errorf("ours made %+v, want %+v", got, want)
		}
		p.want("ok", "put a %d null", n+1)
	}
	s.want("ok", "fence a 5")
	s.want("7 epoch 1 token 5", "read a")

	// What only its group could read, only its group can read.
	do(t, os.Chown(path, alice, group))
	do(t, os.Chmod(path, 0o640))
	s.want("ok", "fence a 6")
	s.want("ok", "reset a 3")
	if got, want := ownerOf(t, path), (owned{nobody, group, 0o660}); got != want {
		t.Errorf("ours made %+v, want %+v", got, want)
	}
	s.in.Close()
	_ = ours.Wait()
	if got := strings.Count(said.String(), "a program of another user replaced"); got != 1 || !strings.Contains(said.String(), "before: user 54322, group 65534, mode -rw-r--r--") {
		t.Errorf("logged %d times, want once: %s", got, &said)
	}
}

// TestFileIsNotTakenAway: ours does not replace a file of another user where that user could
// not read or replace the new one.
func TestFileIsNotTakenAway(t *testing.T) {
	const group, nobody, other = 65534, 65534, 12345
	for name, tt := range map[string]struct {
		dir, file owned
		sticky    os.FileMode
	}{
		"sticky":                       {owned{0, group, 0o770}, owned{alice, group, 0o644}, os.ModeSticky},
		"private":                      {owned{0, group, 0o770}, owned{alice, group, 0o600}, 0},
		"read by a group of another's": {owned{nobody, other, 0o700}, owned{alice, group, 0o640}, 0},
		"read by a group, not shared":  {owned{nobody, group, 0o700}, owned{alice, group, 0o640}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state.json")
			cmd := asUser(t, t.TempDir(), "store", nobody)
			do(t, os.Chmod(filepath.Dir(dir), 0o755))
			do(t, os.WriteFile(path, []byte(none), 0o600))
			do(t, os.WriteFile(path+".lock", nil, 0o600))
			do(t, os.Chmod(path+".lock", 0o666))
			do(t, os.Chown(path, int(tt.file.uid), int(tt.file.gid)))
			do(t, os.Chmod(path, tt.file.mode))
			do(t, os.Chown(dir, int(tt.dir.uid), int(tt.dir.gid)))
			do(t, os.Chmod(dir, tt.dir.mode|tt.sticky))
			s := start(t, cmd)
			if tt.file.mode == 0o600 {
				if got := s.ask("open %s", path); !strings.HasSuffix(got, "denied true") {
					t.Errorf("open: got %q", got)
				}
				return
			}
			s.want("ok", "open %s", path)
			if got := s.ask("put a 1 null"); !strings.HasPrefix(got, "err not applied") || !strings.HasSuffix(got, "denied true") {
				t.Errorf("got %q", got)
			}
			if got := ownerOf(t, path); got != tt.file {
				t.Errorf("the file is %+v now, want %+v", got, tt.file)
			}
			assertNoLeftOvers(t, path)
		})
	}
}

// TestStrangersCannotLock: a user who may only read the state file cannot open its lock file,
// and so cannot stop its writers, whichever program made it. Those who may write, or replace the
// file since they share its directory, can lock it.
func TestStrangersCannotLock(t *testing.T) {
	const group, nobody, stranger = 65534, 65534, 12345
	for name, tt := range map[string]struct {
		dir    owned
		setgid os.FileMode
		peer   bool // the other program makes the lock file
		want   os.FileMode
	}{
		"ours":              {owned{alice, alice, 0o755}, 0, false, 0o600},
		"theirs":            {owned{alice, alice, 0o755}, 0, true, 0o600},
		"ours, of a group":  {owned{0, group, 0o775}, os.ModeSetgid, false, 0o660},
		"theirs of a group": {owned{0, group, 0o775}, os.ModeSetgid, true, 0o660},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state.json")
			theirs, ours := asUser(t, t.TempDir(), "peer", alice), asUser(t, t.TempDir(), "store", alice)
			for _, cmd := range []*exec.Cmd{theirs, ours} {
				cmd.SysProcAttr.Credential.Groups = []uint32{group}
			}
			do(t, os.Chmod(filepath.Dir(dir), 0o755))
			do(t, os.Chown(dir, int(tt.dir.uid), int(tt.dir.gid)))
			do(t, os.Chmod(dir, tt.dir.mode|tt.setgid))
			if tt.peer {
				old := syscall.Umask(0o022)
				p := start(t, theirs)
				syscall.Umask(old)
				p.want("ok", "open %s", path)
				p.want("ok", "put a 1 null")
			} else {
				do(t, os.WriteFile(path, []byte(none), 0o600))
				do(t, os.Chown(path, alice, int(tt.dir.gid)))
				do(t, os.Chmod(path, 0o644))
			}
			s := start(t, ours)
			s.want("ok", "open %s", path)
			s.want("advanced", "put a 2 null")
			if got := ownerOf(t, path+".lock"); got.mode != tt.want || got.gid != group {
				t.Errorf("the lock file is %+v, want mode %o", got, tt.want)
			}
			reads := func(uid uint32, groups []uint32, file string) bool {
				cmd := exec.Command("sh", "-c", `: < "$0"`, file)
				cmd.Dir = "/"
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}}
				return cmd.Run() == nil
			}
			if !reads(stranger, nil, path) {
				t.Error("a stranger cannot read the state file")
			}
			if reads(stranger, nil, path+".lock") {
				t.Error("a stranger can open the lock file")
			}
			if tt.setgid != 0 && !reads(nobody, []uint32{group}, path+".lock") {
				t.Error("a member of the group cannot open the lock file")
			}
		})
	}
}

// TestLockThatIsALink: ours follows no link in the place of the lock file, and says where
// other programs have their lock.
func TestLockThatIsALink(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	target := filepath.Join(t.TempDir(), "lock")
	do(t, os.Symlink(target, path+".lock"))
	_, err := s.Advance(t.Context(), keyA, at(1), nil)
	if !errors.Is(err, store.ErrUnsafe) || !strings.Contains(err.Error(), "is a symbolic link (to \""+target) {
		t.Errorf("got %v, want unsafe and the target", err)
	}
}

// TestLostFencesAreReported: another program replaces the link to the state file by a file, so
// that the fence file of the other place is out of use; or the fence file is removed.
func TestLostFencesAreReported(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, link, target string){
		"link replaced": func(t *testing.T, link, _ string) { do(t, mustPeer(t, link).put(keyB, mark{Sequence: 1})) },
		"fence removed": func(t *testing.T, _, target string) { do(t, os.Remove(target+".fence")) },
		"nothing":       func(t *testing.T, _, target string) { do(t, mustPeer(t, target).put(keyB, mark{Sequence: 1})) },
	} {
		t.Run(name, func(t *testing.T) {
			target := statePath(t)
			link := filepath.Join(t.TempDir(), "link.json")
			do(t, os.Symlink(target, link))
			var said bytes.Buffer
			s := open(t, link, &avisofile.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
			advance(t, s, keyA, at(1), checkpoint.Advanced)
			_, err := s.Fence(t.Context(), keyA, 7)
			do(t, err)
			lose(t, link, target)
			for n := range uint64(3) {
				advance(t, s, keyB, at(n+2), checkpoint.Advanced)
			}
			want := 1
			if name == "nothing" {
				want = 0
			}
			if got := strings.Count(said.String(), "are lower than before"); got != want {
				t.Errorf("logged %d times, want %d: %s", got, want, &said)
			}
		})
	}
}
