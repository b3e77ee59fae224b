package filestore_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// mount mounts something for as long as the test runs.
func mount(t *testing.T, source, target, kind string, flags uintptr, options string) {
	t.Helper()
	suitetest.NeedRoot(t, "a mount")
	if err := syscall.Mount(source, target, kind, flags, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(target, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// mountTmpfs mounts a file system in memory.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, strings.TrimPrefix(options+",mode=0700", ","))
	return dir
}

func wantOutcome(t *testing.T, what string, err error, want store.Outcome, is error) {
	t.Helper()
	if got := store.OutcomeOf(err); got != want || !errors.Is(err, is) {
		t.Errorf("%s: got %v (%v), want one that matches %q (%v)", what, err, got, is, want)
	}
}

// TestFull: on a full disk writes fail with the outcome "not applied", and reads work.
// Writes work again when there is room.
func TestFull(t *testing.T) {
	ctx := t.Context()
	for _, opts := range []*filestore.Options{nil, filestore.Tiny()} {
		dir := mountTmpfs(t, "size=192k")
		s := open(t, dir, opts)
		ballast := filepath.Join(dir, "ballast")
		v := put(t, s, "key", "", "0")
		last := "0"
		for round := range 3 {
			fill := []byte{}
			for ; ; fill = append(fill, make([]byte, 4096)...) {
				if err := os.WriteFile(ballast, fill, 0o600); err != nil {
					break
				}
			}
			failed := 0
			for i := 0; failed < 5 && i < 10_000; i++ {
				value := fmt.Sprintf("%d.%d %x", round, i, make([]byte, 300))
				next, err := s.Put(ctx, "key", v, []byte(value))
				if err == nil {
					v, last = next, value
					continue
				}
				failed++
				wantOutcome(t, "put", err, store.NotApplied, store.ErrUnavailable)
				got, now, err := s.Get(ctx, "key")
				if err != nil || now != v || string(got) != last {
					t.Fatalf("get: got %.20q, %q, %v, want %.20q, %q", got, now, err, last, v)
				}
				_, err = s.Put(ctx, "new", "", nil)
				wantOutcome(t, "create", err, store.NotApplied, store.ErrUnavailable)
			}
			if failed == 0 {
				t.Fatal("the disk does not get full")
			}
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			v = put(t, s, "key", v, "room again")
			last = "room again"
		}
		again := open(t, dir, opts)
		if got, now, err := again.Get(ctx, "key"); err != nil || now != v || string(got) != last {
			t.Errorf("opened again: got %.20q, %q, %v", got, now, err)
		}
	}
}

// TestShortWrite: a write that was cut is void, unless only its last byte is missing:
// then the next writer completes it, and its outcome is unknown until then.
func TestShortWrite(t *testing.T) {
	cmd := worker(t, "short", memoryDir(t))
	if out, err := cmd.Output(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// short meets a limit of the size of files, which the test itself must not have.
func short(args []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := testContext()
	s, err := filestore.Open(args[0], nil)
	if err != nil {
		return err
	}
	other, err := filestore.Open(args[0], nil)
	if err != nil {
		return err
	}
	value := []byte(`"value"`)
	v, err := s.Put(ctx, "key", "", value)
	if err != nil {
		return err
	}
	file := filepath.Join(args[0], "k/key/000000000001")
	size := func() uint64 {
		info, err := os.Stat(file)
		if err != nil {
			panic(err)
		}
		return uint64(info.Size())
	}
	var length uint64 // of an entry whose number has three digits
	for range 100 {
		before := size()
		if v, err = s.Put(ctx, "key", v, value); err != nil {
			return err
		}
		length = size() - before
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for cut := range length {
		short := limit
		short.Cur = size() + cut
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &short); err != nil {
			return err
		}
		_, err := s.Put(ctx, "key", v, []byte(`"short"`))
		want := store.NotApplied
		if cut == length-1 {
			want = store.Unknown
		}
		if got := store.OutcomeOf(err); got != want {
			return fmt.Errorf("cut to %d of %d bytes: got %v (%v), want %v", cut, length, err, got, want)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
		got, now, err := other.Get(ctx, "key")
		if err != nil || now != v || !bytes.Equal(got, value) {
			return fmt.Errorf("cut to %d of %d bytes: then %s %s %v", cut, length, got, now, err)
		}
		next, err := other.Put(ctx, "key", v, value)
		if cut < length-1 {
			if err != nil {
				return fmt.Errorf("cut to %d of %d bytes: the next write: %w", cut, length, err)
			}
			v = next
			continue
		}
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) || string(conflict.Value) != `"short"` {
			return fmt.Errorf("the last byte cut: the next write: got %v, want a conflict with the cut value", err)
		}
	}
	return nil
}

// TestReadOnly: on a read-only file system everything can be read, a log that ends
// with a seal too, and writes fail for certain.
func TestReadOnly(t *testing.T) {
	ctx := t.Context()
	dir := mountTmpfs(t, "")
	s := open(t, dir, filestore.Tiny())
	v := put(t, s, "key", "", "1")
	for range 5 {
		v = put(t, s, "key", v, "2")
	}
	plain := put(t, s, "plain", "", "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// As if a process had been killed between sealing a segment and making the next.
	logs, err := filepath.Glob(filepath.Join(dir, "k/key/*"))
	if err != nil || len(logs) != 2 {
		t.Fatal(logs, err)
	}
	if err := os.Rename(logs[1], filepath.Join(dir, "kept")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(logs[0], filepath.Join(dir, "k/key/000000000001")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, nil)
	value, now, err := s.Get(ctx, "key")
	if string(value) != "2" || err != nil {
		t.Errorf("get: got %q, %v", value, err)
	}
	if got := keys(t, s, ""); len(got) != 2 {
		t.Errorf("list: got %v", got)
	}
	_, err = s.Put(ctx, "key", now, nil)
	wantOutcome(t, "put", err, store.NotApplied, store.ErrDenied)
	_, err = s.Put(ctx, "plain", plain, nil)
	wantOutcome(t, "put", err, store.NotApplied, store.ErrDenied)
	_, err = s.Put(ctx, "new", "", nil)
	wantOutcome(t, "create", err, store.NotApplied, store.ErrDenied)
	wantOutcome(t, "delete", s.Delete(ctx, "key", now), store.NotApplied, store.ErrDenied)
	if _, err := s.Announce(ctx); !errors.Is(err, store.ErrDenied) {
		t.Errorf("announce: got %v", err)
	}
	// A segment that was opened for reading only is opened again once it can be written.
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		_, err := s.Put(ctx, "plain", plain, nil)
		if err == nil {
			break
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("put: got %v, want none in the end", err)
		}
	}
}

// TestUnmounted: a directory whose file system is mounted no more is not empty.
func TestUnmounted(t *testing.T) {
	dir := mountTmpfs(t, "")
	s, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := put(t, s, "key", "", "1")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
		s.Close()
	}()
	_, _, err = s.Get(t.Context(), "other")
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("get: got %v, want unavailable", err)
	}
	if _, err = s.Put(t.Context(), "key", v, nil); err == nil || errors.Is(err, store.ErrConflict) {
		t.Errorf("put: got %v", err)
	}
}

// TestModes: what the store makes is for this user alone, or for the group that its
// directory was made for, whatever the umask; and what root makes for another user
// belongs to that user.
func TestModes(t *testing.T) {
	base := memoryDir(t)
	const group = 54321
	tests := []struct {
		name        string
		mode        fs.FileMode // of the directory before; 0: none
		umask       int
		dir, file   fs.FileMode
		top         fs.FileMode // of the directories of the layout; 0: that of dir
		ofDirectory bool
		owner       int
		unsafe      []string
	}{
		{name: "made", umask: 0, dir: 0o700, file: 0o600},
		{name: "plain", mode: 0o755, umask: 0o022, dir: 0o700, file: 0o600},
		{name: "readable", mode: 0o750, umask: 0, dir: 0o700, file: 0o600},
		{name: "group", mode: 0o770, umask: 0o077, dir: 0o770, file: 0o660, ofDirectory: true},
		{name: "setgid", mode: 0o2775, umask: 0o077, dir: 0o2775, file: 0o664, ofDirectory: true},
		{name: "owned", mode: 0o700, umask: 0, dir: 0o700, file: 0o600, owner: 54322, ofDirectory: true, unsafe: []string{"owner"}},
		{name: "sticky", mode: 0o1777, umask: 0o022, dir: 0o777, top: 0o1777, file: 0o666, ofDirectory: true, unsafe: []string{"writable"}},
		{name: "sticky group", mode: 0o3770, umask: 0o022, dir: 0o2770, top: 0o3770, file: 0o660, ofDirectory: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(base, test.name)
			if test.mode != 0 {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if os.Getuid() == 0 {
					if err := os.Chown(dir, test.owner, group); err != nil {
						t.Fatal(err)
					}
				}
				if err := syscall.Chmod(dir, uint32(test.mode)); err != nil {
					t.Fatal(err)
				}
			}
			defer syscall.Umask(syscall.Umask(test.umask))
			opts := filestore.Tiny()
			opts.Unsafe = test.unsafe
			s := open(t, dir, opts)
			v := put(t, s, "a/b", "", "1")
			for range 5 {
				v = put(t, s, "a/b", v, "1")
			}
			if _, err := s.Announce(t.Context()); err != nil {
				t.Fatal(err)
			}
			found := 0
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || path == dir {
					return err
				}
				var st syscall.Stat_t
				if err := syscall.Stat(path, &st); err != nil {
					return err
				}
				want := test.file
				if d.IsDir() {
					want = test.dir
					if filepath.Dir(path) == dir && test.top != 0 {
						want = test.top
					}
				} else if in := filepath.Base(filepath.Dir(path)); in == "alive" || d.Name() == "floor" {
					// Who may only read could lock it.
					want = want&0o222 | want&0o222<<1
				}
				if got := fs.FileMode(st.Mode & 0o7777); got != want {
					t.Errorf("%s: mode %o, want %o", path, got, want)
				}
				if test.ofDirectory && os.Getuid() == 0 && (st.Gid != group || int(st.Uid) != test.owner) {
					t.Errorf("%s: owner %d, group %d, want %d, %d", path, st.Uid, st.Gid, test.owner, group)
				}
				found++
				return nil
			})
			if err != nil || found < 7 {
				t.Errorf("%d files and directories, %v", found, err)
			}
		})
	}
}

// TestUnsafe: a file system that is not known to append atomically is refused, unless
// it is allowed.
func TestUnsafe(t *testing.T) {
	const dir = "/proc/1"
	if _, err := filestore.Open(dir, nil); !errors.Is(err, store.ErrUnsafe) {
		t.Errorf("got %v, want unsafe", err)
	}
	s := open(t, dir, &filestore.Options{AllowNetwork: true})
	if traits := s.Traits(); traits.Local || traits.Trusted {
		t.Errorf("allowed: got %+v", traits)
	}
	if _, err := s.Announce(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("announce: got %v", err)
	}
}

// opened counts the descriptors of this process.
func opened(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// TestManyKeys: the number of keys is not bound by that of descriptors, and Close
// gives all of them back.
func TestManyKeys(t *testing.T) {
	n := 1500
	if torture {
		n = 10_000
	}
	before := opened(t)
	s, err := filestore.Open(memoryDir(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := make([]store.Version, n)
	for i := range n {
		versions[i] = put(t, s, "key/"+strconv.Itoa(i), "", "1")
	}
	for i := range n {
		versions[i] = put(t, s, "key/"+strconv.Itoa(i), versions[i], "2")
	}
	if got := len(keys(t, s, "key")); got != n {
		t.Errorf("%d keys are listed, want %d", got, n)
	}
	if got := opened(t) - before; got > 266 {
		t.Errorf("%d descriptors are open", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := opened(t); got > before {
		t.Errorf("%d descriptors after close, %d before", got, before)
	}
}

// TestForeignUser: without rights the errors say so. It needs a process of another
// user.
func TestForeignUser(t *testing.T) {
	suitetest.NeedRoot(t, "a process of another user")
	base := memoryDir(t)
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	closed, shown := filepath.Join(base, "closed"), filepath.Join(base, "shown")
	put(t, open(t, closed, nil), "key", "", "1")
	put(t, open(t, shown, nil), "key", "", "1")
	for _, path := range []string{shown, shown + "/k", shown + "/k/key", shown + "/k/key/000000000001"} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string][]string{
		closed: {"open denied"},
		shown:  {"get ok", "put denied not applied", "create denied not applied", "judge unknown", "announce denied"},
	} {
		cmd := worker(t, "foreign", dir)
		cmd.Path = "/proc/self/exe"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range bytes.Lines(out) {
			got = append(got, string(bytes.TrimSpace(line)))
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Errorf("%s: got %s, want %s", dir, a, b)
		}
	}
}

// foreign prints the results of a user without rights.
func foreign(args []string) error {
	s, err := filestore.Open(args[0], nil)
	if err != nil {
		fmt.Println("open", word(err))
		return nil
	}
	_, v, err := s.Get(testContext(), "key")
	fmt.Println("get", word(err))
	_, err = s.Put(testContext(), "key", v, nil)
	fmt.Println("put", word(err), store.OutcomeOf(err))
	_, err = s.Put(testContext(), "new", "", nil)
	fmt.Println("create", word(err), store.OutcomeOf(err))
	fmt.Println("judge", s.Liveness(testContext(), "boot/name/1.1"))
	_, err = s.Announce(testContext())
	fmt.Println("announce", word(err))
	return nil
}

func word(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrDenied):
		return "denied"
	}
	return err.Error()
}
