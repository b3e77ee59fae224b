package filestore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// Users and a group that nothing else has.
const (
	alice = 54322
	bob   = 54323
	team  = 54321
)

// workerAs returns a worker that runs as another user, who is in these groups.
func workerAs(t *testing.T, uid uint32, groups []uint32, name string, args ...string) *exec.Cmd {
	t.Helper()
	suitetest.NeedRoot(t, "a process of another user")
	cmd := worker(t, name, args...)
	cmd.Path = "/proc/self/exe" // the file may lie where others cannot go
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}}
	return cmd
}

// sharedDir returns a new directory that every user can reach, and that belongs to one.
func sharedDir(t *testing.T, owner, group int, mode uint32) string {
	t.Helper()
	suitetest.NeedRoot(t, "a directory of another user")
	base := memoryDir(t)
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, owner, group); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// neighbour opens a store, writes to it, and prints the result in a few words. Its
// arguments: the directory, and the accepted risks.
func neighbour(args []string) error {
	fmt.Println(useOnce(args[0], args[1:]))
	return nil
}

func useOnce(dir string, accepted []string) string {
	reading := slices.Equal(accepted, []string{"read"})
	if reading {
		accepted = nil
	}
	s, err := filestore.Open(dir, &filestore.Options{Unsafe: accepted, ReadOnly: reading})
	switch {
	case errors.Is(err, store.ErrUnsafe):
		for _, risk := range []string{"owner", "writable", "link"} {
			if strings.HasSuffix(err.Error(), "(unsafe="+risk+")") {
				return "unsafe " + risk
			}
		}
		return err.Error()
	case err != nil:
		return word(err)
	}
	defer s.Close()
	value, v, err := s.Get(testContext(), "key")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "get " + word(err)
	}
	if reading {
		_, putErr := s.Put(testContext(), "key", v, []byte("x"))
		_, announceErr := s.Announce(testContext())
		for _, err := range []error{putErr, announceErr, s.Erase(testContext(), "key")} {
			if !errors.Is(err, store.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
				return fmt.Sprint("a write: ", err)
			}
		}
		return "read " + string(value)
	}
	_, err = s.Put(testContext(), "key", v, []byte("x"))
	return word(err)
}

// TestWhoTakesPart: who may use which directory: its owner, the members of its group,
// and no user who would have to trust a stranger without having said so.
func TestWhoTakesPart(t *testing.T) {
	tests := []struct {
		name                 string
		owner                int
		mode                 uint32
		root, alice, bob     string // alice is in the team, bob only where it is his directory
		accepted             []string
		rootToo, aliceAccept string // with what is accepted
	}{
		{name: "alice's own", owner: alice, mode: 0o700, root: "unsafe owner", alice: "ok", bob: "denied", accepted: []string{"owner"}, rootToo: "ok", aliceAccept: "ok"},
		{name: "readable", owner: alice, mode: 0o755, root: "unsafe owner", alice: "ok", bob: "unsafe owner", accepted: []string{"owner"}, rootToo: "ok", aliceAccept: "ok"},
		{name: "root's for the team", owner: 0, mode: 0o2770, root: "ok", alice: "ok", bob: "denied"},
		{name: "bob's for the team", owner: bob, mode: 0o2770, root: "unsafe owner", alice: "ok", bob: "ok", accepted: []string{"owner"}, rootToo: "ok", aliceAccept: "ok"},
		{name: "team without setgid", owner: alice, mode: 0o770, root: "unsafe owner", alice: "ok", bob: "denied", accepted: []string{"owner"}, rootToo: "ok", aliceAccept: "ok"},
		{name: "for all", owner: 0, mode: 0o777, root: "unsafe writable", alice: "unsafe writable", bob: "unsafe writable", accepted: []string{"writable"}, rootToo: "ok", aliceAccept: "ok"},
		{name: "for all, sticky", owner: 0, mode: 0o1777, root: "unsafe writable", alice: "unsafe writable", bob: "unsafe writable", accepted: []string{"writable"}, rootToo: "ok", aliceAccept: "ok"},
		{name: "alice's for all", owner: alice, mode: 0o777, root: "unsafe owner", alice: "unsafe writable", bob: "unsafe owner", accepted: []string{"owner", "writable"}, rootToo: "ok", aliceAccept: "ok"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := sharedDir(t, test.owner, team, test.mode)
			as := func(uid uint32, accepted ...string) string {
				var groups []uint32
				if uid == alice || test.owner == bob {
					groups = []uint32{team}
				}
				out, err := workerAs(t, uid, groups, "neighbour", append([]string{dir}, accepted...)...).Output()
				if err != nil {
					t.Fatal(err)
				}
				return strings.TrimSpace(string(out))
			}
			got := []string{useOnce(dir, nil), as(alice), as(bob)}
			if want := []string{test.root, test.alice, test.bob}; !slices.Equal(got, want) {
				t.Errorf("root, alice and bob: got %q, want %q", got, want)
			}
			if test.accepted == nil {
				return
			}
			if got := useOnce(dir, test.accepted); got != test.rootToo {
				t.Errorf("root with %q: got %q, want %q", test.accepted, got, test.rootToo)
			}
			if got := as(alice, test.accepted...); got != test.aliceAccept {
				t.Errorf("alice with %q: got %q, want %q", test.accepted, got, test.aliceAccept)
			}
		})
	}
}

// TestStrangersStore: a stranger's directory that every user may read is refused to who locks,
// also where its files can be read; a program that only shows what is there may read it, but
// not root. What others could change is refused to both.
func TestStrangersStore(t *testing.T) {
	for mode, want := range map[uint32][]string{
		0o755:  {"unsafe owner", "read forged"},
		0o775:  {"unsafe owner", "read forged"}, // of a group that bob is not in
		0o2750: {"unsafe owner", "read forged"}, // of a group that he is in, and that may only read
		0o777:  {"unsafe owner", "unsafe owner"},
		0o1777: {"unsafe owner", "unsafe owner"},
	} {
		t.Run(fmt.Sprintf("%o", mode), func(t *testing.T) {
			dir := sharedDir(t, alice, team, mode)
			s := open(t, dir, &filestore.Options{Unsafe: []string{"owner", "writable"}})
			put(t, s, "key", "", "forged")
			if out, err := exec.Command("chmod", "-R", "a+rX", filepath.Join(dir, "k")).CombinedOutput(); err != nil {
				t.Fatal(err, string(out))
			}
			as := func(uid uint32, args ...string) string {
				var groups []uint32
				if mode == 0o2750 {
					groups = []uint32{team}
				}
				out, err := workerAs(t, uid, groups, "neighbour", append([]string{dir}, args...)...).Output()
				if err != nil {
					t.Fatal(err)
				}
				return strings.TrimSpace(string(out))
			}
			if got := []string{as(bob), as(bob, "read")}; !slices.Equal(got, want) {
				t.Errorf("bob: got %q, want %q", got, want)
			}
			if got := useOnce(dir, []string{"read"}); got != "unsafe owner" {
				t.Errorf("root, reading: got %q", got)
			}
			if got := as(bob, "owner", "writable"); got != "denied" && mode&0o002 == 0 {
				t.Errorf("bob, who accepts it: got %q", got)
			}
		})
	}
}

// TestRootGetsAdvice: the refusal of a user's directory names the user and what root
// can do.
func TestRootGetsAdvice(t *testing.T) {
	dir := sharedDir(t, alice, alice, 0o700)
	_, err := filestore.Open(dir, nil)
	if !errors.Is(err, store.ErrUnsafe) {
		t.Fatalf("got %v, want unsafe", err)
	}
	for _, want := range []string{"user 54322", "sudo -u '#54322'", "crontab", "unsafe=owner"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if names, err := os.ReadDir(dir); len(names) > 0 || err != nil {
		t.Errorf("the refused directory holds %v, %v", names, err)
	}
}

// TestLinkAsStore: a symbolic link as the store's directory is refused, and what it leads
// to is left alone, unless it is accepted.
func TestLinkAsStore(t *testing.T) {
	base := memoryDir(t)
	dir, link := filepath.Join(base, "dir"), filepath.Join(base, "link")
	for _, err := range []error{os.Mkdir(dir, 0o700), os.Symlink(dir, link), os.Symlink("nowhere", link+"2")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{link, link + "/", link + "2"} {
		if got := useOnce(name, nil); got != "unsafe link" {
			t.Errorf("%s: got %q, want that it is refused", name, got)
		}
	}
	if names, err := os.ReadDir(dir); len(names) > 0 || err != nil {
		t.Errorf("the directory holds %v, %v", names, err)
	}
	if _, err := os.Stat(filepath.Join(base, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the link leads to: %v", err)
	}
	if got := useOnce(link, []string{"link"}); got != "ok" {
		t.Errorf("accepted: got %q", got)
	}
}

// prize is a directory of root's that a user has got hold of, and what is in it.
type prize struct {
	dir  string
	info fs.FileInfo
}

// newPrize makes a directory with a file, old enough to be swept.
func newPrize(t *testing.T, dir, file string) prize {
	t.Helper()
	old := time.Now().Add(-48 * time.Hour)
	file = filepath.Join(dir, file)
	for _, err := range []error{
		os.Mkdir(dir, 0o700),
		os.WriteFile(file, []byte("precious\n"), 0o600),
		os.Chtimes(file, old, old), os.Chtimes(dir, old, old),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	return prize{dir, info}
}

// check looks for the prize below a directory: it still is root's alone, with its file.
func (p prize) check(t *testing.T, below, file string) {
	t.Helper()
	found := false
	err := filepath.WalkDir(below, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		info, err := os.Stat(path)
		if err != nil || !os.SameFile(info, p.info) {
			return err
		}
		found = true
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 || info.Mode().Perm() != 0o700 {
			t.Errorf("the directory of root's has user %d and mode %v now", st.Uid, info.Mode())
		}
		if data, err := os.ReadFile(filepath.Join(path, file)); string(data) != "precious\n" {
			t.Errorf("root's file: got %q, %v", data, err)
		}
		return nil
	})
	if err != nil || !found {
		t.Errorf("the directory of root's is not there any more (%v)", err)
	}
}

// TestNothingOfRootsIsGivenAway: a user moves a directory, or a file, of root's to where
// root's next run gives things away, writes and sweeps. It stays root's and as it was.
func TestNothingOfRootsIsGivenAway(t *testing.T) {
	name := rand.Text()
	for _, c := range []struct{ at, file string }{
		{"k", "secret"}, {"tmp", "secret"}, {"alive", "secret"}, {"k/key", "secret"}, {"k/key", "000000000001"},
		{"tmp/" + name, "secret"}, {"tmp/" + name, "000000000001"}, {"tmp/" + name + "-", "secret"},
		{"tmp-" + name, name}, {"alive/" + name, "secret"}, {"alive", name}, {"tmp", name}, {"k", "key"},
	} {
		t.Run(c.at+"+"+c.file, func(t *testing.T) {
			dir := sharedDir(t, alice, alice, 0o700)
			for _, sub := range []string{"k", "tmp", "alive"} {
				path := filepath.Join(dir, sub)
				if sub == c.at {
					continue
				}
				if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, alice, alice)); err != nil {
					t.Fatal(err)
				}
			}
			p := newPrize(t, filepath.Join(dir, c.at), c.file)
			opts := filestore.Impatient()
			opts.Unsafe = []string{"owner"}
			for range 2 {
				s, err := filestore.Open(dir, opts)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = s.Put(t.Context(), "key", "", []byte("x")) // it may well be refused
				_, _ = s.Put(t.Context(), rand.Text(), "", []byte("x"))
				_, _ = s.Announce(t.Context())
				for range s.List(t.Context(), "") {
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			p.check(t, dir, c.file)
		})
	}
}

// TestExchangeRace: a user exchanges what root makes, in the moment in which it is made,
// with a directory of root's. The directory stays root's.
//
// The control does what a store must not do: it makes a directory and opens it by its
// name, to give away what it has opened.
func TestExchangeRace(t *testing.T) {
	dir := sharedDir(t, alice, alice, 0o700)
	opts := &filestore.Options{Unsafe: []string{"owner"}}
	if got := useOnce(dir, opts.Unsafe); got != "ok" { // the directories of the layout
		t.Fatal(got)
	}
	tmp := filepath.Join(dir, "tmp")
	p := newPrize(t, filepath.Join(tmp, "prize"), "secret")
	racer := workerAs(t, alice, nil, "exchange", tmp, "prize")
	if err := racer.Start(); err != nil {
		t.Fatal(err)
	}
	defer kill(racer)
	lost := false
	for i := 0; i < 2000 && !lost; i++ {
		name := filepath.Join(tmp, rand.Text())
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if lost = err == nil && os.SameFile(info, p.info); !lost && err == nil {
			err = f.Chown(alice, alice)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(name) // or what is there by now, if it is empty
	}
	if !lost {
		t.Fatal("the control was never hit: the race is not run")
	}
	s := open(t, dir, opts)
	made := 0
	for i := range 1000 {
		if _, err := s.Put(t.Context(), "race/"+strconv.Itoa(i), "", []byte("x")); err == nil {
			made++
		}
	}
	kill(racer)
	t.Logf("%d of 1,000 keys could be made", made)
	p.check(t, dir, "secret")
}

// exchange exchanges each new name in a directory with one that it has, for ever.
func exchange(args []string) error {
	dir, held := args[0], args[1]
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	for {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		names, err := f.Readdirnames(-1)
		f.Close()
		if err != nil {
			return err
		}
		for _, name := range names {
			if name != held && renameExchange(fd, held, name) == nil {
				held = name
			}
		}
	}
}

// renameExchange is renameat2(2) with RENAME_EXCHANGE.
func renameExchange(dir int, a, b string) error {
	const exchange = 2
	renameat2 := map[string]uintptr{"amd64": 316, "arm64": 276}[runtime.GOARCH]
	from, err := syscall.BytePtrFromString(a)
	if err != nil {
		return err
	}
	to, err := syscall.BytePtrFromString(b)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(renameat2, uintptr(dir), uintptr(unsafe.Pointer(from)), uintptr(dir), uintptr(unsafe.Pointer(to)), exchange, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// TestDeviceInTheWay: a device in the place of a log, of a presence file or of a temporary
// is not read, and keeps no caller waiting.
func TestDeviceInTheWay(t *testing.T) {
	suitetest.NeedRoot(t, "a device")
	dir := t.TempDir()
	s := open(t, dir, filestore.Impatient())
	put(t, s, "key", "", "1")
	own, err := s.Announce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := rand.Text()
	old := time.Now().Add(-48 * time.Hour)
	for _, path := range []string{"k/zero/000000000001", "k/key/tmp-" + rand.Text(), "alive/" + name, "tmp/" + rand.Text()} {
		path = filepath.Join(dir, path)
		const zero = 1<<8 | 5 // /dev/zero, which has no end
		for _, err := range []error{os.MkdirAll(filepath.Dir(path), 0o700), syscall.Mknod(path, syscall.S_IFCHR|0o600, zero), os.Chtimes(path, old, old)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, err := filestore.Open(dir, filestore.Impatient())
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		if _, _, err := s.Get(t.Context(), "zero"); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("get: got %v, want corrupt", err)
		}
		if _, err := s.Announce(t.Context()); err != nil {
			t.Error(err)
		}
		boot, _, _ := strings.Cut(own, "/")
		if got := s.Liveness(t.Context(), boot+"/"+name+"/1.1"); got != store.LivenessUnknown {
			t.Errorf("judge: got %v, want unknown", got)
		}
		put(t, s, "another", "", "1")
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("a caller waits for a device")
	}
}

// TestForgedPresence: a presence file that another user has put in the place of an announced
// one, or announced for a process that has none, says nothing of the process.
func TestForgedPresence(t *testing.T) {
	dir := memoryDir(t)
	s, other := open(t, dir, nil), open(t, dir, nil)
	own, err := s.Announce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "alive", strings.Split(own, "/")[1])
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file, file+".kept"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil { // no process holds its lock
		t.Fatal(err)
	}
	if got := other.Liveness(t.Context(), own); got != store.LivenessUnknown {
		t.Errorf("another file of the same name: got %v, want unknown", got)
	}
	if err := os.Rename(file+".kept", file); err != nil {
		t.Fatal(err)
	}
	if got := other.Liveness(t.Context(), own); got != store.Alive {
		t.Errorf("the file itself: got %v, want alive", got)
	}
}
