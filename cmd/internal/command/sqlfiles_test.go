//go:build linux

package command

import (
	"encoding/binary"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// hotJournal writes a rollback journal next to a database of SQLite, which names a file
// that SQLite removes after it has rolled back.
func hotJournal(db, victim string) error {
	data, err := os.ReadFile(db)
	if err != nil {
		return err
	}
	data[18], data[19] = 1, 1 // with a rollback journal, and not in WAL mode
	magic := []byte{0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7}
	pages := uint32(len(data) / 4096)
	j := append([]byte(nil), magic...)
	for _, n := range []uint32{0, 0, pages, 512, 4096} {
		j = binary.BigEndian.AppendUint32(j, n)
	}
	j = append(j, make([]byte, 512-len(j))...)
	sum := uint32(0)
	for _, c := range []byte(victim) {
		sum += uint32(c)
	}
	j = binary.BigEndian.AppendUint32(j, 0x40000000/4096+1)
	j = append(j, victim...)
	j = binary.BigEndian.AppendUint32(j, uint32(len(victim)))
	j = binary.BigEndian.AppendUint32(j, sum)
	j = append(j, magic...)
	return errors.Join(os.WriteFile(db, data, 0o600), os.WriteFile(db+"-journal", j, 0o600))
}

// A user who can write next to a database of SQLite decides which files SQLite removes for a
// user who opens it. So the command refuses a database that other users can write next to,
// before SQLite opens anything.
func TestDatabaseOfOthers(t *testing.T) {
	t.Parallel()
	suitetest.NeedRoot(t, "files of other users")
	own := func(paths ...string) (err error) {
		for _, path := range paths {
			err = errors.Join(err, os.Lchown(path, stranger, stranger))
		}
		return err
	}
	for what, c := range map[string]struct {
		prepare func(dir string) error
		insist  string // what accepts the risk; empty: nothing does
	}{
		"another user's directory":         {func(dir string) error { return own(dir) }, "owner"},
		"all another user's":               {func(dir string) error { return own(dir, dir+"/l.db", dir+"/l.db-journal") }, "owner"},
		"another user's file":              {func(dir string) error { return own(dir + "/l.db") }, "owner"},
		"another user's journal":           {func(dir string) error { return own(dir + "/l.db-journal") }, "owner"},
		"every user's directory":           {func(dir string) error { return os.Chmod(dir, 0o777) }, "writable"},
		"every user's, sticky":             {func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, "writable"},
		"a group's directory":              {func(dir string) error { return os.Chmod(dir, 0o770|os.ModeSetgid) }, "writable"},
		"a group's file":                   {func(dir string) error { return os.Chmod(dir+"/l.db", 0o660) }, "writable"},
		"a directory below another user's": {func(dir string) error { return own(filepath.Dir(dir)) }, "owner"},
		"a link to the file": {func(dir string) error {
			return errors.Join(os.Rename(dir+"/l.db", dir+"/x"), os.Symlink("x", dir+"/l.db"), os.Rename(dir+"/l.db-journal", dir+"/x-journal"))
		}, "link"},
		"another user's link to the directory": {func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir+"2", dir), own(dir), os.Chmod(filepath.Dir(dir), 0o755|os.ModeSticky))
		}, "link"},
		"a pipe": {func(dir string) error { return errors.Join(os.Remove(dir+"/l.db"), syscall.Mkfifo(dir+"/l.db", 0o600)) }, ""},
		"a device": {func(dir string) error {
			return errors.Join(os.Remove(dir+"/l.db"), syscall.Mknod(dir+"/l.db", syscall.S_IFCHR|0o600, 1<<8|5))
		}, ""},
		"a link for a WAL": {func(dir string) error { return os.Symlink("/etc/passwd", dir+"/l.db-wal") }, ""},
		"a pipe for a WAL": {func(dir string) error { return syscall.Mkfifo(dir+"/l.db-wal", 0o600) }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			base := publicDir(t)
			dir, victim := filepath.Join(base, "above", "dir"), filepath.Join(base, "victim")
			db := filepath.Join(dir, "l.db")
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(victim, []byte("of root's"), 0o600)); err != nil {
				t.Fatal(err)
			}
			try := func(args ...string) (int, string) {
				cmd := exec.Command(holdfastBinary(t), args...)
				cmd.Env = append(os.Environ(), "HOME="+base)
				return exitOf(t, cmd)
			}
			if status, out := try("--store", "sqlite:"+db, "init"); status != 0 {
				t.Fatalf("init: %d, %s", status, out)
			}
			if info, err := os.Stat(db); err != nil || info.Mode() != 0o600 {
				t.Errorf("init made %v, %v", info.Mode(), err)
			}
			if err := errors.Join(hotJournal(db, victim), c.prepare(dir)); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"ls"}, {"run", "-n", "job", "--", "true"}, {"init"}, {"doctor"}} {
				if status, out := try(append([]string{"--store", "sqlite:" + db}, args...)...); status != exit.Unsafe {
					t.Errorf("%q: got %d, want %d: %s", args, status, exit.Unsafe, out)
				}
			}
			if _, err := os.Stat(victim); err != nil {
				t.Errorf("a file of root's is gone: %v", err)
			}
			if c.insist == "" {
				return
			}
			// The control: the journal does what it says.
			if status, out := try("--store", "sqlite:"+db+"?unsafe="+c.insist, "ls"); status != 0 {
				t.Errorf("unsafe=%s: got %d: %s", c.insist, status, out)
			}
			if _, err := os.Stat(victim); err == nil {
				t.Error("control: the journal removed nothing")
			}
		})
	}
}

// A database that this user may not read is one without rights, and not one that init makes.
func TestDatabaseWithoutRights(t *testing.T) {
	t.Parallel()
	suitetest.NeedRoot(t, "files of other users")
	base := publicDir(t)
	db, bin := filepath.Join(base, "l.db"), programIn(t, base)
	if status, out := exitOf(t, exec.Command(bin, "--store", "sqlite:"+db, "init")); status != 0 {
		t.Fatalf("init: %d, %s", status, out)
	}
	home := filepath.Join(base, "home")
	if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(home, 0o700), os.Chown(home, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"", "-wal", "-shm"} {
		if of != "" { // that of another process
			if err := errors.Join(os.Chmod(db, 0o644), os.WriteFile(db+of, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"ls"}, {"run", "-n", "job", "--", "true"}, {"show", "job"}} {
			cmd := as(t, stranger, home, append([]string{bin, "--store", "sqlite:" + db}, args...)...)
			if status, out := exitOf(t, cmd); status != exit.Denied || strings.Contains(out, "init") || !strings.Contains(out, "may not read "+db+of) {
				t.Errorf("%q, %q: got %d, want %d: %s", args, of, status, exit.Denied, out)
			}
		}
		if of != "" {
			_ = os.Remove(db + of)
		}
	}
}

// The store that a command is given, and that a handle names, is the one that is meant,
// whatever characters its path has: %41 in a name is not an A.
func TestPathsWithAnyCharacters(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "a %41?b#c\x1b\u202e")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(base, "a A?b#c\x1b\u202e"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"file", "sqlite"} {
		store := scheme + ":" + (&url.URL{Path: dir}).EscapedPath() + "/" + scheme
		t.Run(scheme, func(t *testing.T) {
			try := func(args ...string) string {
				t.Helper()
				cmd := exec.Command(holdfastBinary(t), args...)
				cmd.Dir = base
				cmd.Env = append(os.Environ(), "HOME="+base)
				status, out := exitOf(t, cmd)
				if status != 0 {
					t.Fatalf("%q: %d, %s", args, status, out)
				}
				return out
			}
			handle := scheme + ".json"
			try("--store", store, "init")
			try("--store", store, "lock", "job", "--handle", handle)
			try("renew", handle)
			out := try("--store", store, "run", "other", "--", holdfastBinary(t), "ls")
			if !strings.Contains(out, "job") {
				t.Errorf("the command's store is another one: %s", out)
			}
			try("unlock", handle)
		})
	}
	for _, shown := range []string{"postgres://db:5432/a%41/b", "postgres://db/app", "postgres:///app", "file:/a b", "sqlite:/%?"} {
		u, err := url.Parse(stores.Escaped(shown))
		if err != nil || u.Scheme+":"+strings.TrimSuffix("//"+u.Host, map[bool]string{true: "//"}[u.Scheme != "postgres"])+u.Path != shown {
			t.Errorf("%s: %s, %v", shown, u, err)
		}
	}
}

// Names of databases control no terminal, wherever they are repeated.
func TestDatabaseNamesArePrintedEscaped(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("PGPASSWORD", "")
	const evil = "%1b[31m%e2%80%ae%c2%9b%0d"
	for _, store := range []string{
		"sqlite:" + dir + "/" + evil, "sqlite:" + dir + "/" + evil + "/x.db", "sqlite:" + dir + "/x.db?table=" + evil, "sqlite:" + dir + "/x.db?prefix=" + evil,
		"postgres://127.0.0.1:1/" + evil, "postgres://127.0.0.1:1/db/" + evil, "postgres://127.0.0.1:1/db?user=" + evil, "postgres://127.0.0.1:1/db?search_path=" + evil,
		"mysql://127.0.0.1:1/" + evil, "mysql://127.0.0.1:1/db/" + evil, "mysql://127.0.0.1:1/db?user=" + evil, "mysql://127.0.0.1:1/db?socket=/" + evil, "mysql://127.0.0.1:1/db?" + evil + "=1",
	} {
		for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"init"}, {"run", "-v", "-n", "job", "--", "true"}, {"lock", "-n", "job"}, {"doctor"}} {
			// A file, which the command and its child can write at the same time.
			f, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			execute(append([]string{"--store", store}, args...), strings.NewReader(""), f, f)
			out, err := os.ReadFile(f.Name())
			f.Close()
			if err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(string(out), "\x1b\u202e\u009b\r") {
				t.Errorf("--store %s %q: %q", store, args, out)
			}
		}
	}
}
