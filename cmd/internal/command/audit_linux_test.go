package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// sha is the key of a checkpoint in a state file of aviso.
var sha = strings.Repeat("5", 64)

// TestReadOnlyDisk: on a file system that is mounted read-only, what writes ends with 77 and says
// so, and what reads works.
func TestReadOnlyDisk(t *testing.T) {
	suitetest.NeedRoot(t, "a mount")
	bin := holdfastBinary(t)
	base := t.TempDir()
	disk := filepath.Join(base, "disk")
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(os.Mkdir(disk, 0o700))
	do(syscall.Mount("holdfast", disk, "tmpfs", 0, "mode=0700"))
	defer func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) }()
	run := func(args ...string) (int, string) {
		cmd := exec.Command(bin, args...)
		cmd.Dir, cmd.Stdin = base, strings.NewReader("body")
		cmd.Env = append(os.Environ(), "HOME="+base, "HOLDFAST_STORE=file:"+disk+"/locks")
		return exitOf(t, cmd)
	}
	bucket, state := "file:"+disk+"/bucket/", disk+"/state.json"
	for _, args := range [][]string{
		{"run", "job", "--", "true"}, {"checkpoint", "advance", "k", "1"},
		{"put", "-", bucket + "key"}, {"checkpoint", "advance", "--file", state, sha, "1"},
	} {
		if status, out := run(args...); status != 0 {
			t.Fatalf("%q: %d: %s", args, status, out)
		}
	}
	do(syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	for _, args := range [][]string{
		{"run", "job", "--", "true"}, {"run", "new", "--", "true"}, {"lock", "job", "--handle", base + "/handle"},
		{"--store", "file:" + disk + "/new", "run", "job", "--", "true"}, {"doctor"}, {"checkpoint", "advance", "k", "2"},
		{"put", "-", bucket + "key"}, {"put", "-", bucket + "new"}, {"put", "-", "file:" + disk + "/new/key"}, {"object", "rm", bucket + "key"},
		{"object", "mv", bucket + "key", bucket + "other"}, {"get", bucket + "key", disk + "/copy"},
		{"checkpoint", "advance", "--file", state, sha, "2"}, {"checkpoint", "reset", "--file", state, sha, "1"},
		{"--store", "file:" + base + "/here", "run", "job", "--report", disk + "/report", "--", "true"},
		{"--store", "file:" + base + "/here", "lock", "job", "--handle", disk + "/handle"},
	} {
		if status, out := run(args...); status != exit.Denied || !strings.Contains(out, "read-only") || !strings.Contains(out, disk) {
			t.Errorf("%q: %d: %s", args, status, out)
		}
	}
	for _, args := range [][]string{
		{"ls"}, {"show", "job"}, {"checkpoint", "get", "k"}, {"get", bucket + "key", "-"}, {"object", "ls", "--recursive", bucket},
		{"checkpoint", "get", "--file", state, sha},
	} {
		if status, out := run(args...); status != 0 {
			t.Errorf("%q: %d: %s", args, status, out)
		}
	}
}

// TestTwoUsersAndRoot: what users who are not trusted with a store can do to those who use it. A
// stranger makes the store of a victim, alice shares one with her group, and root and others work
// with them.
func TestTwoUsersAndRoot(t *testing.T) {
	suitetest.NeedRoot(t, "processes of two users")
	const team, alice, bob, mallory = 54321, 54322, 54323, stranger
	base := publicDir(t)
	bin := programIn(t, base)
	do := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	homes := map[int]string{}
	for _, uid := range []int{alice, bob, mallory} {
		homes[uid] = filepath.Join(base, "home"+string(rune('a'+uid%3)))
		do(os.Mkdir(homes[uid], 0o700), os.Chown(homes[uid], uid, uid))
	}
	run := func(uid int, args ...string) (int, string) {
		t.Helper()
		cmd := exec.Command(bin, args...)
		if uid == 0 {
			cmd.Env = append(os.Environ(), "HOME="+base)
		} else {
			cmd = as(t, uint32(uid), homes[uid], append([]string{bin}, args...)...)
			if uid != mallory {
				cmd.SysProcAttr.Credential.Groups = []uint32{team}
			}
		}
		cmd.Stdin = strings.NewReader("body")
		return exitOf(t, cmd)
	}
	want := func(status int, text string, uid int, args ...string) {
		t.Helper()
		if got, out := run(uid, args...); got != status || !strings.Contains(out, text) {
			t.Errorf("user %d, %q: status %d, want %d and %q: %s", uid, args, got, status, text, out)
		}
	}
	dir := func(name string, owner, group int, mode uint32) string {
		t.Helper()
		path := filepath.Join(base, name)
		do(os.Mkdir(path, 0o700), os.Chown(path, owner, group), syscall.Chmod(path, mode))
		return path
	}
	open := func(path string) {
		t.Helper()
		if out, err := exec.Command("chmod", "-R", "a+rX", path).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}

	// A stranger's directory in the place of a store, also below one where all users may write.
	dir("tmp", 0, 0, 0o1777)
	for _, name := range []string{"trap", "tmp/trap"} {
		trap := dir(name, mallory, mallory, 0o755)
		locks, bucket, state := "file:"+trap, "file:"+trap+"/bucket/", trap+"/state.json"
		want(0, "", mallory, "--store", locks, "run", "job", "--once-per", "24h", "--", "true")
		want(0, "", mallory, "--store", locks, "checkpoint", "advance", "k", "9")
		want(0, "", mallory, "put", "-", bucket+"key")
		want(0, "", mallory, "checkpoint", "advance", "--file", state, sha, "9")
		open(trap)
		for _, args := range [][]string{
			{"--store", locks, "run", "job", "--once-per", "24h", "--", "true"}, {"--store", locks, "run", "new", "--", "true"},
			{"--store", locks, "hold", "job"}, {"--store", locks, "lock", "job", "--handle", "h"},
			{"--store", locks, "checkpoint", "get", "k"}, {"--store", locks, "checkpoint", "ls"}, {"--store", locks, "checkpoint", "advance", "k", "10"},
			{"put", "-", bucket + "key", "--if-absent"}, {"object", "rm", bucket + "key"}, {"object", "mv", bucket + "key", bucket + "new"},
			{"checkpoint", "get", "--file", state, sha}, {"checkpoint", "advance", "--file", state, sha, "10"},
		} {
			want(exit.Unsafe, "unsafe=owner", alice, args...)
			want(exit.Unsafe, "unsafe=owner", 0, args...)
		}
		for _, args := range [][]string{{"--store", locks, "ls"}, {"--store", locks, "show", "job"}, {"get", bucket + "key", "-"}, {"object", "ls", "--recursive", bucket}, {"object", "stat", bucket + "key"}} {
			want(0, "", alice, args...)
			want(exit.Unsafe, "unsafe=owner", 0, args...)
		}
	}

	// A group's store and bucket, which others may read: members share all, others change nothing.
	shared := dir("shared", 0, team, 0o2775)
	locks, bucket := "file:"+shared+"/locks", "file:"+shared+"/bucket/"
	for _, sub := range []string{"shared/locks", "shared/bucket"} {
		dir(sub, 0, team, 0o2775)
	}
	do(os.Mkdir(shared+"/bucket/data", 0o700), os.Mkdir(shared+"/bucket/index", 0o700))
	for _, sub := range []string{"data", "index"} {
		path := shared + "/bucket/" + sub
		do(os.Chown(path, 0, team), syscall.Chmod(path, 0o2775))
	}
	want(0, "", alice, "put", "-", bucket+"key")
	want(0, "body", bob, "get", bucket+"key", "-")
	want(0, "", bob, "put", "-", bucket+"key")
	want(0, "body", alice, "get", bucket+"key", "-")
	want(0, "body", 0, "get", bucket+"key", "-")
	want(exit.Denied, "", mallory, "object", "rm", bucket+"key")
	want(0, "body", mallory, "get", bucket+"key", "-")
	want(0, "", bob, "object", "rm", bucket+"key")

	// A dead holder's presence, and the lock of the floor, in the group's store: mallory cannot
	// keep them locked, so that bob gets the lock of a holder that was killed at once.
	up := filepath.Join(homes[alice], "up")
	holder := as(t, alice, homes[alice], bin, "--store", locks, "run", "job", "--ttl", "60s", "--", "sh", "-c", "touch "+up+"; exec sleep 100")
	holder.SysProcAttr.Credential.Groups = []uint32{team}
	do(holder.Start())
	await(t, "the job has begun", isThere(up))
	presence, err := filepath.Glob(shared + "/locks/alive/*")
	do(err)
	for _, file := range append(presence, shared+"/locks/floor") {
		cmd := as(t, mallory, homes[mallory], "sh", "-c", `: < "$0"`, file)
		if cmd.Run() == nil {
			t.Errorf("a stranger can open %s", file)
		}
	}
	want(0, "held", mallory, "--store", locks, "show", "job")
	do(holder.Process.Kill())
	_ = holder.Wait()
	start := time.Now()
	want(0, "", bob, "--store", locks, "run", "job", "--wait", "50s", "--", "true")
	if took := time.Since(start); took > 20*time.Second || len(presence) == 0 {
		t.Errorf("bob waited for %v; the presence was %q", took, presence)
	}

	// Links that are swapped in for what a member's next command writes.
	precious := filepath.Join(base, "precious")
	do(os.WriteFile(precious, []byte("precious"), 0o644))
	for _, name := range []string{shared + "/locks/k/lock+swapped", shared + "/locks/floor"} {
		do(os.RemoveAll(name), os.Symlink(precious, name), os.Lchown(name, bob, team))
	}
	for _, uid := range []int{alice, 0} {
		if status, out := run(uid, "--store", locks, "run", "swapped", "--", "true"); status == 0 {
			t.Errorf("user %d got a lock through a link: %s", uid, out)
		}
		if status, out := run(uid, "--store", locks, "run", "another", "--", "true"); status == 0 {
			t.Errorf("user %d made a lock above a floor that is a link: %s", uid, out)
		}
	}
	if text, err := os.ReadFile(precious); string(text) != "precious" {
		t.Errorf("what the links lead to: %q, %v", text, err)
	}

	// Root in a user's directory: not unless root insists, and then what root makes is the user's.
	own := dir("own", alice, alice, 0o700)
	want(exit.Unsafe, "unsafe=owner", 0, "--store", "file:"+own, "run", "job", "--", "true")
	want(0, "", 0, "--store", "file:"+own+"?unsafe=owner", "run", "job", "--", "true")
	want(0, "", alice, "--store", "file:"+own, "run", "job", "--", "true")
	do(filepath.WalkDir(own, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil || st.Uid != alice {
			t.Errorf("%s belongs to user %d, %v", path, st.Uid, err)
		}
		return nil
	}))
}

// TestListingsWithDamage: a listing shows what can be read, and then says what cannot, with 78.
// A sweep removes nothing then.
func TestListingsWithDamage(t *testing.T) {
	t.Parallel()
	bin := holdfastBinary(t)
	base := t.TempDir()
	locks, bucket := filepath.Join(base, "locks"), filepath.Join(base, "bucket")
	run := func(args ...string) (int, string) {
		cmd := exec.Command(bin, args...)
		cmd.Dir, cmd.Stdin = base, strings.NewReader("body")
		cmd.Env = append(os.Environ(), "HOME="+base, "HOLDFAST_STORE=file:"+locks)
		return exitOf(t, cmd)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		for _, args := range [][]string{{"run", name, "--", "true"}, {"checkpoint", "advance", name, "1"}, {"put", "-", "file:" + bucket + "/" + name}} {
			if status, out := run(args...); status != 0 {
				t.Fatalf("%q: %d: %s", args, status, out)
			}
		}
	}
	const segment = "000000000001"
	for _, dir := range []string{locks + "/k/lock+", locks + "/k/checkpoint+", bucket + "/index/k/k+"} {
		for name, damage := range map[string]func(string) error{
			"b": os.Remove, // an empty directory
			"c": func(file string) error { return os.Truncate(file, 20) },
		} {
			if err := damage(filepath.Join(dir+name, segment)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{{"ls"}, {"checkpoint", "ls"}, {"object", "ls", "--recursive", "file:" + bucket}} {
		status, out := run(append(args, "--json")...)
		if status != exit.Unsafe || !strings.Contains(out, `"a"`) || !strings.Contains(out, `"d"`) || strings.Count(out, "unreadable") < 2 {
			t.Errorf("%q: %d: %s", args, status, out)
		}
	}
	if status, out := run("object", "sweep", "file:"+bucket); status != exit.Unsafe {
		t.Errorf("object sweep: %d: %s", status, out)
	}
}

// TestConfigOfOthers: a file of stores that other users can change is refused, before it says
// where locks lie.
func TestConfigOfOthers(t *testing.T) {
	suitetest.NeedRoot(t, "files of another user")
	bin := holdfastBinary(t)
	for name, prepare := range map[string]func(dir, file string) error{
		"its file":           func(_, file string) error { return os.Chmod(file, 0o666) },
		"its directory":      func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"a group's":          func(dir, _ string) error { return os.Chmod(dir, 0o770) },
		"another user's":     func(_, file string) error { return os.Chown(file, stranger, stranger) },
		"in another's place": func(dir, _ string) error { return os.Chown(dir, stranger, stranger) },
		"a link":             func(_, file string) error { return errors.Join(os.Rename(file, file+"2"), os.Symlink(file+"2", file)) },
		"":                   func(string, string) error { return nil },
	} {
		home := t.TempDir()
		dir := filepath.Join(home, ".config")
		file := filepath.Join(dir, "holdfast.conf")
		text := "store there = file:" + home + "/there\ndefault = there\n"
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, []byte(text), 0o600), prepare(dir, file)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bin, "run", "job", "--", "true")
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		status, out := exitOf(t, cmd)
		want := exit.Unsafe
		if name == "" {
			want = 0
		}
		if _, err := os.Stat(home + "/there"); status != want || (err == nil) != (want == 0) {
			t.Errorf("%s: status %d, want %d (%v): %s", name, status, want, err, out)
		}
	}
}
