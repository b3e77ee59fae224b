package dirbucket_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestStrangersDirectory: a directory that strangers can change is refused, by Open and by
// New, and nothing is made there, unless it is accepted.
func TestStrangersDirectory(t *testing.T) {
	suitetest.NeedRoot(t, "a directory of another user")
	const alice = 54322
	for risk, prepare := range map[string]func(dir string) (string, error){
		"owner":    func(dir string) (string, error) { return dir, os.Chown(dir, alice, alice) },
		"writable": func(dir string) (string, error) { return dir, os.Chmod(dir, 0o777) },
		"link":     func(dir string) (string, error) { return dir + ".link", os.Symlink(dir, dir+".link") },
	} {
		t.Run(risk, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			name, err := prepare(dir)
			if err != nil {
				t.Fatal(err)
			}
			_, openErr := dirbucket.Open(name, nil)
			_, newErr := dirbucket.New(name, memstore.New())
			for what, err := range map[string]error{"open": openErr, "new": newErr} {
				if !errors.Is(err, store.ErrUnsafe) || !strings.HasSuffix(err.Error(), "(unsafe="+risk+")") {
					t.Errorf("%s: got %v, want unsafe=%s", what, err, risk)
				}
			}
			if names, err := os.ReadDir(dir); len(names) > 0 || err != nil {
				t.Errorf("the directory holds %v, %v", names, err)
			}
			b, err := dirbucket.Open(name, &dirbucket.Options{Unsafe: []string{risk}})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if _, err := b.Put(t.Context(), "key", strings.NewReader("body"), nil); err != nil {
				t.Error(err)
			}
			var want, is syscall.Stat_t
			for _, err := range []error{syscall.Stat(dir, &want), syscall.Stat(files(t, filepath.Join(dir, "data"))[0], &is)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if is.Uid != want.Uid {
				t.Errorf("the body belongs to user %d, the directory to %d", is.Uid, want.Uid)
			}
		})
	}
}

// TestGroupBucket: what the members of a group put into the bucket of their group, the others
// read, replace and remove, whatever the group and the umask of each.
func TestGroupBucket(t *testing.T) {
	suitetest.NeedRoot(t, "processes of two users")
	const team, alice, bob = 54321, 54322, 54323
	for _, mode := range []uint32{0o2770, 0o770, 0o2775} {
		t.Run(fmt.Sprintf("%o", mode), func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "dir")
			for _, err := range []error{os.Chmod(filepath.Dir(base), 0o755), os.Chmod(base, 0o755), os.Mkdir(dir, 0o700), os.Chown(dir, 0, team), syscall.Chmod(dir, mode)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			as := func(uid uint32, do string) {
				t.Helper()
				cmd := exec.Command("/proc/self/exe", "-test.run=^TestMember$")
				cmd.Dir = "/"
				cmd.Env = []string{"HOLDFAST_MEMBER=" + do + " " + dir}
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{team}}}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("user %d, %s: %v\n%s", uid, do, err, out)
				}
			}
			as(alice, "put-alice")
			as(bob, "get-alice")
			as(bob, "put-bob")
			as(alice, "get-bob")
			as(bob, "copy")
			as(alice, "delete")
			for _, file := range files(t, dir) {
				var is syscall.Stat_t
				if err := syscall.Stat(file, &is); err != nil || is.Gid != team {
					t.Errorf("%s belongs to group %d, %v", file, is.Gid, err)
				}
			}
		})
	}
}

// TestMember is what a member of the group does; see [TestGroupBucket].
func TestMember(t *testing.T) {
	do, dir, ok := strings.Cut(os.Getenv("HOLDFAST_MEMBER"), " ")
	if !ok {
		return // it is no test of its own
	}
	syscall.Umask(0o077)
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	verb, what, _ := strings.Cut(do, "-")
	switch verb {
	case "put":
		_, err = b.Put(t.Context(), "key", strings.NewReader(what), nil)
	case "get":
		var body []byte
		if body, _, err = object.ReadAll(t.Context(), b, "key", 100, nil); err == nil && string(body) != what {
			t.Errorf("got %q", body)
		}
	case "copy":
		_, err = b.Copy(t.Context(), "key", "copy", nil)
	case "delete":
		err = b.Delete(t.Context(), "key", nil)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestInTheWay: what others put in the place of a body is neither followed nor waited for,
// and a sweep removes nothing through a link.
func TestInTheWay(t *testing.T) {
	dir := t.TempDir()
	b := newBucket(t, dir, memstore.New())
	old := time.Now().Add(-dirbucket.OrphanAge - time.Hour)
	precious := filepath.Join(t.TempDir(), strings.Repeat("A", 24))
	for _, err := range []error{os.WriteFile(precious, []byte("body"), 0o600), os.Chtimes(precious, old, old)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, put := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink(precious, path) },
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"hole": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 8<<40)) },
	} {
		if _, err := b.Put(t.Context(), what, strings.NewReader("body"), nil); err != nil {
			t.Fatal(err)
		}
		path := files(t, dir)[0]
		if err := errors.Join(os.Remove(path), put(path)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := b.Get(t.Context(), what, nil)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: got %v", what, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the reader waits", what)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	// A directory elsewhere in the place of one of ours.
	if err := os.Symlink(filepath.Dir(precious), filepath.Join(dir, "AA")); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("the sweep removed %d files, %v", n, err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// TestSweepsStages: what a process that was killed left of a directory in the making is
// removed, and nothing else of a name like that.
func TestSweepsStages(t *testing.T) {
	dir := t.TempDir()
	b := newBucket(t, dir, memstore.New())
	old := time.Now().Add(-dirbucket.OrphanAge - time.Hour)
	leave := func(name, inner string, when time.Time) string {
		path := filepath.Join(dir, name)
		for _, err := range []error{os.MkdirAll(filepath.Join(path, inner), 0o700), os.Chtimes(path, when, when)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	gone := leave("tmp-"+rand.Text(), rand.Text(), old)
	stay := []string{
		leave("tmp-"+rand.Text(), rand.Text(), time.Now()),
		leave("tmp-"+rand.Text(), "precious", old),
		leave("tmp-precious", "x", old),
	}
	if _, err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", gone, err)
	}
	for _, path := range stay {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestMoved: nothing is put where no other process would find it.
func TestMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bodies")
	b := newBucket(t, dir, memstore.New())
	if err := errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	_, err := b.Put(t.Context(), "key", strings.NewReader("body"), nil)
	if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v (%v), want unavailable, not applied", err, store.OutcomeOf(err))
	}
}
