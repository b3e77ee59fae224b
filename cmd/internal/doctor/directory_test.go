package doctor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// helperVar makes this program a helper process, a good one or a broken one.
const helperVar = "HOLDFAST_DOCTOR_TEST_HELPER"

func helper(kind string) func(context.Context, ...string) *exec.Cmd {
	return func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0], args...)
		cmd.Env = append(os.Environ(), helperVar+"="+kind)
		return cmd
	}
}

func help() {
	args := os.Args[1:]
	var err error
	if kind := os.Getenv(helperVar); args[0] == "append" && kind != "good" {
		err = appendBadly(kind, args[1], args[2], args[3])
	} else {
		err = doctor.Help(args, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// appendBadly stands for a file system with broken appends. It lets the good helper append
// to a separate file, and copies the entries from there.
func appendBadly(kind, path, id, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	if kind == "fails" {
		return errors.New("no")
	}
	own := path + id
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		w.Close()
	}()
	said, answer := io.Pipe()
	go func() { answer.CloseWithError(doctor.Help([]string{"append", own, id, strconv.Itoa(n)}, r, answer)) }()
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if lines.Text() == "ready" {
			fmt.Println("ready")
		}
	}
	body, err := os.ReadFile(own)
	if err != nil {
		return err
	}
	flags := os.O_RDWR | os.O_APPEND
	if kind == "overwrites" {
		flags = os.O_RDWR // all at the same offset
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	empty := "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	switch kind {
	case "loses":
		body = body[:0]
	case "tears":
		for len(body) > 3 {
			if _, err := f.Write(body[:3]); err != nil {
				return err
			}
			body = body[3:]
			time.Sleep(time.Microsecond)
		}
	case "unseen":
		fmt.Println("unseen 0")
		return nil
	case "another":
		empty = "00" + empty[2:]
	}
	if _, err := f.Write(body); err != nil {
		return err
	}
	fmt.Println(0, empty)
	return nil
}

func local(string) (string, bool, error)  { return "ext", true, nil }
func remote(string) (string, bool, error) { return "nfs", false, nil }

// TestDirectory: a file store passes. Nothing is left, not even a directory above it that
// doctor made.
func TestDirectory(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	root := filepath.Join(top, "a", "b")
	r := examine(t, doctor.Directory(root, doctor.DirectoryOptions{Helper: helper("good")}.On(local, 0)), nil)
	good().check(t, r)
	if left, err := os.ReadDir(top); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	r.Store = "file:/DIR"
	for i := range r.Checks {
		if r.Checks[i].ID == "flush" {
			r.Checks[i].Means = "" // it reports a disk that is very fast, as memory is
		}
	}
	golden(t, "file", r)
}

// TestDirectories: doctor reports what is wrong with a directory, and keeps what was in it.
func TestDirectories(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		helper string
		mode   os.FileMode
		kind   func(string) (string, bool, error)
		allow  bool
		want   want
	}{
		{"group", "good", 0o770, local, false, good()},
		{"network", "good", 0o700, remote, false, found(doctor.NotSafe, "file-system=unsafe notify=warning")},
		{"network allowed", "good", 0o700, remote, true, found(doctor.Safe, "file-system=warning notify=warning")},
		{"network that tears", "tears", 0o700, remote, true, found(doctor.NotSafe, "file-system=warning notify=warning append=unsafe")},
		{"tmpfs", "good", 0o700, func(string) (string, bool, error) { return "tmpfs", true, nil }, false, found(doctor.Safe, "file-system=warning")},
		{"tears", "tears", 0o700, local, false, found(doctor.NotSafe, "append=unsafe")},
		{"loses", "loses", 0o700, local, false, found(doctor.NotSafe, "append=unsafe")},
		{"overwrites", "overwrites", 0o700, local, false, found(doctor.NotSafe, "append=unsafe")},
		{"unseen", "unseen", 0o700, local, false, found(doctor.NotSafe, "append=unsafe")},
		{"another", "another", 0o700, local, false, found(doctor.NotSafe, "append=unsafe")},
		{"fails", "fails", 0o700, local, false, found(doctor.NotProven, "append=not_tested")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if err := os.Chmod(root, tt.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "theirs"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := examine(t, doctor.Directory(root, doctor.DirectoryOptions{Helper: helper(tt.helper), AllowNetwork: tt.allow}.On(tt.kind, 50)), doctor.Quick())
			tt.want.check(t, r)
			if left, err := os.ReadDir(root); err != nil || len(left) != 1 || left[0].Name() != "theirs" {
				t.Errorf("in the directory: %v, %v", left, err)
			}
		})
	}
}

// TestStrangers: for a directory that strangers can change, doctor reports what run
// reports. It tries nothing there, unless the user accepts the risk.
func TestStrangers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, risk string
		make       func(t *testing.T, dir string) string
	}{
		{"every user", "writable", func(t *testing.T, dir string) string {
			chmod(t, dir, 0o777)
			return dir
		}},
		{"a link", "link", func(t *testing.T, dir string) string {
			if err := os.Symlink(dir, dir+".link"); err != nil {
				t.Fatal(err)
			}
			return dir + ".link"
		}},
		{"root in a user's directory", "owner", func(t *testing.T, dir string) string {
			suitetest.NeedRoot(t, "a directory of another user")
			if err := os.Chown(dir, 54322, 54322); err != nil {
				t.Fatal(err)
			}
			return dir
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "dir")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			dir = tt.make(t, dir)
			o := doctor.DirectoryOptions{Helper: helper("good")}.On(local, 10)
			r := examine(t, doctor.Directory(dir, o), doctor.Quick())
			found(doctor.NotSafe, "permissions=unsafe").check(t, r)
			_, err := filestore.Open(dir, nil)
			if last := r.Checks[len(r.Checks)-1]; err == nil || last.Found != err.Error() || !strings.Contains(last.Found, "unsafe="+tt.risk) {
				t.Errorf("doctor says %q, a run would say %v", last.Found, err)
			}
			o.Unsafe = []string{tt.risk}
			found(doctor.Safe, "permissions=warning").check(t, examine(t, doctor.Directory(dir, o), doctor.Quick()))
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func chmod(t *testing.T, dir string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
}

// TestExchanged: a member of the group replaces doctor's directory by a private directory
// of doctor's user, under the same name. doctor removes and overwrites nothing in that one.
func TestExchanged(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	chmod(t, root, 0o770)
	theirs := filepath.Join(root, "theirs")
	for _, name := range []string{"link-from", "flush", "append", "dir-to/full/file"} {
		file := filepath.Join(theirs, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exchanged := ""
	o := doctor.Quick()
	o.Progress = func(string) {
		made, _ := filepath.Glob(filepath.Join(root, ".holdfast-doctor-*"))
		if exchanged != "" || len(made) != 1 {
			return
		}
		exchanged = made[0]
		for _, move := range [][2]string{{exchanged, exchanged + ".old"}, {theirs, exchanged}} {
			if err := os.Rename(move[0], move[1]); err != nil {
				t.Error(err)
			}
		}
	}
	r, err := doctor.Run(t.Context(), doctor.Directory(root, doctor.DirectoryOptions{Helper: helper("good")}.On(local, 10)), o)
	if exchanged == "" {
		t.Fatalf("nothing was exchanged: %v, %v", r, err)
	}
	for _, name := range []string{"link-from", "flush", "append", "dir-to/full/file"} {
		if data, err := os.ReadFile(filepath.Join(exchanged, name)); string(data) != "precious" {
			t.Errorf("%s: got %q, %v", name, data, err)
		}
	}
}

// TestNoHelper: without helper processes nothing is proved.
func TestNoHelper(t *testing.T) {
	t.Parallel()
	r := examine(t, doctor.Directory(t.TempDir(), doctor.DirectoryOptions{}.On(local, 0)), nil)
	found(doctor.NotProven, "append=not_tested presence=not_tested").check(t, r)
}
