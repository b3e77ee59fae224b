//go:build linux

package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// stranger is a user that no test is run by.
const stranger = 12345

// publicDir returns a directory that every user can enter, and that is removed after
// the test.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "holdfast-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// as is a command that another user runs, in a directory and with a home of his own.
func as(t *testing.T, uid uint32, home string, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"), raceOptions + "=" + os.Getenv(raceOptions)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: false}}
	return cmd
}

// exitOf runs a command, and returns its status and what it said.
func exitOf(t *testing.T, cmd *exec.Cmd) (int, string) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// A handle file that another user can have written, or that is none, is not parsed:
// nothing is made, and no credential is sent to where it points.
func TestHandlesOfOthers(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	bin := holdfastBinary(t)
	base := t.TempDir()
	run := func(args ...string) (int, string) {
		cmd := exec.Command(bin, args...)
		cmd.Dir = base
		cmd.Env = append(os.Environ(), "HOME="+base,
			"AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true")
		return exitOf(t, cmd)
	}
	if status, out := run("--store", "file:"+filepath.Join(base, "store"), "lock", "job", "--handle", "good.json"); status != 0 {
		t.Fatalf("%d: %s", status, out)
	}
	good, err := os.ReadFile(filepath.Join(base, "good.json"))
	if err != nil {
		t.Fatal(err)
	}
	// pointing is the handle with another store.
	pointing := func(store string) []byte {
		var h map[string]any
		if err := json.Unmarshal(good, &h); err != nil {
			t.Fatal(err)
		}
		h["store"] = store
		b, _ := json.Marshal(h)
		return b
	}
	made := filepath.Join(base, "made")
	stores := map[string]string{
		"directory": "file:" + made,
		"server":    "s3://bucket/app?region=us-east-1&endpoint=" + url.QueryEscape(server.URL),
	}
	spoils := map[string]func(path string, text []byte) error{
		"another user's": func(path string, text []byte) error {
			suitetest.NeedRoot(t, "a file of another user")
			return errors.Join(os.WriteFile(path, text, 0o600), os.Chown(path, stranger, stranger))
		},
		"writable by others": func(path string, text []byte) error {
			return errors.Join(os.WriteFile(path, text, 0o600), os.Chmod(path, 0o602))
		},
		"behind a link": func(path string, text []byte) error {
			return errors.Join(os.WriteFile(path+".real", text, 0o600), os.Symlink(filepath.Base(path)+".real", path))
		},
		"a pipe": func(path string, _ []byte) error { return syscall.Mkfifo(path, 0o600) },
		"100 GB": func(path string, text []byte) error {
			return errors.Join(os.WriteFile(path, text, 0o600), os.Truncate(path, 100<<30))
		},
		"above 1 MiB": func(path string, text []byte) error {
			return os.WriteFile(path, append(bytes.Repeat([]byte(" "), 1<<20), text...), 0o600)
		},
		"a directory": func(path string, _ []byte) error { return os.Mkdir(path, 0o700) },
	}
	i := 0
	for name, spoil := range spoils {
		for kind, store := range stores {
			i++
			path := filepath.Join(base, fmt.Sprintf("h%d.json", i))
			if err := spoil(path, pointing(store)); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"renew", "unlock"} {
				began := time.Now()
				if status, out := run(command, path); status != exit.Unsafe || strings.Count(out, "holdfast: ") != 1 {
					t.Errorf("%s, %s, %s: status %d, want %d: %s", name, kind, command, status, exit.Unsafe, out)
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("%s, %s, %s: %v", name, kind, command, took)
				}
			}
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("%s: it was removed", name)
			}
		}
	}
	if _, err := os.Lstat(made); err == nil {
		t.Error("a directory was made")
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	// Control: the same text in a file of our own goes to the server.
	path := filepath.Join(base, "own.json")
	if err := os.WriteFile(path, pointing(stores["server"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out := run("unlock", path); status == exit.Unsafe || requests.Load() == 0 {
		t.Errorf("control: status %d, %d requests: %s", status, requests.Load(), out)
	}
}

// The handles of this user lie in a directory that is his alone, or are not written.
func TestHandleDirectoryOfOthers(t *testing.T) {
	suitetest.NeedRoot(t, "another user")
	dir := publicDir(t)
	bin := programIn(t, dir)
	home := filepath.Join(dir, "home")
	handles := filepath.Join(home, "state", "holdfast", "handles")
	if err := errors.Join(os.MkdirAll(handles, 0o777), os.Chmod(handles, 0o777), os.Chown(home, stranger, stranger),
		os.Chown(filepath.Join(home, "state"), stranger, stranger), os.Chown(filepath.Join(home, "state", "holdfast"), stranger, stranger),
		os.Chown(handles, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	if status, out := exitOf(t, as(t, stranger, home, bin, "lock", "job")); status != exit.Unsafe || !strings.Contains(out, "mode 0777") {
		t.Errorf("status %d: %s", status, out)
	}
	if err := os.Chmod(handles, 0o700); err != nil {
		t.Fatal(err)
	}
	if status, out := exitOf(t, as(t, stranger, home, bin, "lock", "job")); status != 0 {
		t.Errorf("control: status %d: %s", status, out)
	}
}

// A report is a file of its own, which only this user can read, and goes through no
// link: neither what a link names nor what has a second name is written over.
func TestReportOfOthers(t *testing.T) {
	bin := holdfastBinary(t)
	base := t.TempDir()
	victim := filepath.Join(base, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(report string) (int, string) {
		cmd := exec.Command(bin, "run", "job", "--report", report, "--", "echo", "a secret argument")
		cmd.Dir = base
		cmd.Env = append(os.Environ(), "HOME="+base, "HOLDFAST_STORE=file:"+filepath.Join(base, "store"))
		return exitOf(t, cmd)
	}
	for name, c := range map[string]struct {
		plant  func(path string) error
		status int
	}{
		"new":            {func(string) error { return nil }, 0},
		"old, of others": {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o666)) }, 0},
		"hard link":      {func(p string) error { return os.Link(victim, p) }, 0},
		"link":           {func(p string) error { return os.Symlink(victim, p) }, exit.Usage},
		"dangling link":  {func(p string) error { return os.Symlink(filepath.Join(base, "new-victim"), p) }, exit.Usage},
		"pipe":           {func(p string) error { return syscall.Mkfifo(p, 0o666) }, exit.Usage},
		"directory":      {func(p string) error { return os.Mkdir(p, 0o700) }, exit.Usage},
		"another user's": {func(p string) error {
			suitetest.NeedRoot(t, "a file of another user")
			return errors.Join(os.WriteFile(p, nil, 0o666), os.Chown(p, stranger, stranger))
		}, 0},
	} {
		path := filepath.Join(base, strings.ReplaceAll(name, " ", "-")+".json")
		if err := c.plant(path); err != nil {
			t.Fatal(err)
		}
		status, out := run(path)
		if status != c.status {
			t.Errorf("%s: status %d, want %d: %s", name, status, c.status, out)
		}
		if c.status != 0 {
			if strings.Contains(out, "a secret argument") {
				t.Errorf("%s: the command ran", name)
			}
			continue
		}
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "a secret argument") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("the victim: %q, %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(base, "new-victim")); err == nil {
		t.Error("a file was made through a dangling link")
	}
}

// A sighting that another user planted takes no lock from a living holder: the
// directory is not believed, and that is said once.
func TestPlantedSightings(t *testing.T) {
	suitetest.NeedRoot(t, "another user")
	dir := publicDir(t)
	bin := programIn(t, dir)
	home := filepath.Join(dir, "home")
	state := filepath.Join(home, "state", "holdfast")
	store := "file:" + filepath.Join(home, "store")
	if err := errors.Join(os.MkdirAll(home, 0o755), os.Chown(home, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	if status, out := exitOf(t, as(t, stranger, home, bin, "--store", store, "lock", "job", "--ttl", "1h", "--handle", "h.json")); status != 0 {
		t.Fatalf("%d: %s", status, out)
	}
	try := func() (int, string) {
		return exitOf(t, as(t, stranger, home, bin, "--store", store, "run", "-n", "job", "--also-store", store+"2", "--", "echo", "taken over"))
	}
	if status, out := try(); status != exit.Busy || strings.Contains(out, "is not used") {
		t.Fatalf("%d: %s", status, out)
	}
	// The neighbour makes the sighting two hours older than it is.
	files, err := filepath.Glob(filepath.Join(state, "seen", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	plant := func() {
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var sighting map[string]any
			dec := json.NewDecoder(bytes.NewReader(b))
			dec.UseNumber()
			if err := dec.Decode(&sighting); err != nil {
				t.Fatal(err)
			}
			n, _ := sighting["monotonic_ns"].(json.Number).Int64()
			sighting["monotonic_ns"] = n - int64(2*time.Hour)
			b, _ = json.Marshal(sighting)
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	plant()
	seen := filepath.Join(state, "seen")
	if err := os.Chmod(seen, 0o777); err != nil {
		t.Fatal(err)
	}
	status, out := try()
	if status != exit.Busy || strings.Count(out, seen+" can be read or written by other users (mode 0777)") != 1 {
		t.Errorf("%d: %s", status, out)
	}
	if err := errors.Join(os.Chmod(seen, 0o700), os.Chown(seen, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if status, out := try(); status != exit.Busy {
		t.Errorf("%d: %s", status, out)
	}
	// Control: believed, the same sighting takes the lock.
	if err := os.Chown(seen, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	if status, out := try(); status != 0 || !strings.Contains(out, "taken over") {
		t.Errorf("control: %d: %s", status, out)
	}
}

// The standard store of a user who never had a lock is an empty one: those who read it
// make nothing, and the first lock makes it with all that leads to it.
func TestStandardStoreOfANewUser(t *testing.T) {
	suitetest.NeedRoot(t, "a user who is not root")
	dir := publicDir(t)
	bin := programIn(t, dir)
	home := filepath.Join(dir, "home")
	if err := errors.Join(os.Mkdir(home, 0o755), os.Chown(home, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{"ls": 0, "show x": exit.NotFound, "checkpoint ls": 0, "sweep --older-than 24h": 0, "break x --token 1": exit.NotFound} {
		if status, out := exitOf(t, as(t, stranger, home, append([]string{bin}, strings.Fields(args)...)...)); status != want {
			t.Errorf("%s: status %d, want %d: %s", args, status, want, out)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("reading made %v, %v", left, err)
	}
	watch := as(t, stranger, home, bin, "watch", "--poll-interval", "50ms")
	lines, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Process.Kill(); _ = watch.Wait() }()
	if status, out := exitOf(t, as(t, stranger, home, bin, "run", "-n", "x", "--", "true")); status != 0 {
		t.Errorf("the first lock: %d: %s", status, out)
	}
	b := make([]byte, 1000)
	if n, err := lines.Read(b); !strings.Contains(string(b[:n]), "  x  ") {
		t.Errorf("who watches sees %q, %v", b[:n], err)
	}
	if status, out := exitOf(t, as(t, stranger, home, bin, "ls")); status != 0 || !strings.Contains(out, "file:") && !strings.HasPrefix(out, "NAME") {
		t.Errorf("afterwards: %d: %s", status, out)
	}
}
