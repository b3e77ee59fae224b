//go:build unix

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
)

// lockResult is what lock --json prints.
type lockResult struct {
	Handle   string    `json:"handle"`
	Token    uint64    `json:"token"`
	Deadline time.Time `json:"deadline"`
	Keeper   int       `json:"renewer_pid"`
}

// take takes a lock with lock.
func (p *place) take(t *testing.T, store string, args ...string) (r lockResult) {
	t.Helper()
	out := p.must(t, store, append([]string{"lock", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// The time that --ttl of lock names is the time that can be relied on, from lock and
// from each renew on: margin and grace are added to it.
func TestLockCanBeReliedOnForItsTTL(t *testing.T) {
	t.Parallel()
	p, store := newPlaceOfFiles(t)
	for _, flags := range []string{"--ttl 20m", "--ttl 20m --margin 1m --grace 30s", "--ttl 20m --grace -1s", "--ttl 20s", ""} {
		asked := time.Hour
		if f := strings.Fields(flags); len(f) > 0 {
			asked, _ = time.ParseDuration(f[1])
		}
		before := time.Now()
		r := p.take(t, store, append([]string{"job", "--handle", "h.json"}, strings.Fields(flags)...)...)
		if r.Deadline.Before(before.Add(asked)) || r.Deadline.After(time.Now().Add(asked)) {
			t.Errorf("%s: relied on until %v after it was taken", flags, r.Deadline.Sub(before))
		}
		var view leases.LockView
		if err := json.Unmarshal([]byte(p.must(t, store, "show", "job", "--json")), &view); err != nil {
			t.Fatal(err)
		}
		if lasts := time.Duration(view.TTL) * time.Millisecond; lasts <= asked {
			t.Errorf("%s: others wait for %v", flags, lasts)
		}
		before = time.Now()
		p.must(t, store, "renew", "h.json")
		text, err := os.ReadFile(filepath.Join(p.dir, "h.json"))
		if err != nil {
			t.Fatal(err)
		}
		var f struct{ Deadline time.Time }
		if err := json.Unmarshal(text, &f); err != nil || f.Deadline.Before(before.Add(asked)) {
			t.Errorf("%s: renewed until %v after that (%v)", flags, f.Deadline.Sub(before), err)
		}
		p.must(t, store, "unlock", "h.json")
	}
}

// job starts a process that lasts until it is killed, and returns its id.
func job(t *testing.T) (pid int, kill func()) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	return cmd.Process.Pid, kill
}

// waitEnded waits until a process that is no child of this one has ended.
func waitEnded(t *testing.T, pid int) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, alive := child.StartOf(pid); !alive {
			return
		}
		if time.Now().After(limit) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d goes on", pid)
		}
	}
}

// A lock that is kept outlives its TTL, until the process ends for which it is kept;
// without --renew-until it is lost.
func TestLockIsKeptUntilItsProcessEnds(t *testing.T) {
	t.Parallel()
	p, store := newPlaceOfFiles(t)
	pid, kill := job(t)
	p.take(t, store, "control", "--ttl", "2s", "--handle", "control.json")
	kept := p.take(t, store, "kept", "--ttl", "2s", "--handle", "kept.json", "--renew-until", fmt.Sprint(pid))
	time.Sleep(3 * time.Second)
	if _, _, status := p.run(t, store, "renew", "control.json"); status != exit.Lost {
		t.Errorf("a lock that is not kept: status %d", status)
	}
	if _, _, status := p.run(t, store, "run", "-n", "kept", "--", "true"); status != exit.Busy {
		t.Errorf("a lock that is kept: status %d", status)
	}
	if token := number(t, tokenOf(p.must(t, store, "show", "kept", "--json"))); token != kept.Token {
		t.Errorf("it was taken anew: token %d, before %d", token, kept.Token)
	}
	kill()
	waitEnded(t, kept.Keeper)
	p.must(t, store, "run", "-n", "kept", "--", "true")
	if _, err := os.Stat(kept.Handle); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its handle is left (%v)", err)
	}
}

// What keeps a lock needs no directory for temporary files.
func TestKeeperWithoutTemporaryDirectory(t *testing.T) {
	p, store := newPlaceOfFiles(t)
	t.Setenv("TMPDIR", filepath.Join(p.dir, "missing"))
	kept := p.take(t, store, "job", "--handle", "h.json", "--renew-until", "unlock")
	p.must(t, store, "unlock", "h.json")
	waitEnded(t, kept.Keeper)
}

// unlock ends what keeps a lock, and so does the loss of the lock. The handle of another
// grant in the same place is not touched.
func TestKeeperEndsWithItsLock(t *testing.T) {
	t.Parallel()
	p, store := newPlaceOfFiles(t)
	first := p.take(t, store, "job", "--handle", "h.json", "--renew-until", "unlock", "--ttl", "2s")
	p.must(t, store, "unlock", "h.json")
	second := p.take(t, store, "job", "--handle", "h.json", "--renew-until", "unlock", "--ttl", "2s")
	waitEnded(t, first.Keeper)
	if _, alive := child.StartOf(second.Keeper); !alive {
		t.Error("the second keeper has ended with the first")
	}
	p.must(t, store, "break", "job", "--now", "--token", fmt.Sprint(second.Token))
	waitEnded(t, second.Keeper)
	if _, _, status := p.run(t, store, "unlock", "h.json"); status != exit.Lost {
		t.Errorf("unlock of the broken one: status %d", status)
	}
	// parent is the process that started lock: this one.
	third := p.take(t, store, "job", "--handle", "h.json", "--renew-until", "parent")
	time.Sleep(2 * 500 * time.Millisecond)
	p.must(t, store, "renew", "h.json")
	p.must(t, store, "unlock", "h.json")
	waitEnded(t, third.Keeper)
}

// A store that is away for less than the TTL, and a path that cannot be read in this time, end no keeper. The keeper of
// a process that has ended meanwhile releases the lock when the store is back. renew, unlock and lock leave an absent
// store alone, and the handle.
func TestKeeperOutlastsAbsentStore(t *testing.T) {
	t.Parallel()
	p, store := newPlaceOfFiles(t)
	dir := strings.TrimPrefix(store, "file:")
	for _, name := range []string{"released", "renewed"} {
		if err := os.Mkdir(filepath.Join(p.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pid, kill := job(t)
	released := p.take(t, store, "released", "--handle", "released/h.json", "--ttl", "12s", "--renew-until", fmt.Sprint(pid))
	renewed := p.take(t, store, "renewed", "--handle", "renewed/h.json", "--ttl", "12s", "--renew-until", "unlock")
	p.take(t, store, "other", "--handle", "o.json")
	away := func(path string) (back func()) {
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.Rename(path+".away", path); err != nil {
				t.Fatal(err)
			}
		}
	}
	back := away(dir)
	linked := filepath.Dir(renewed.Handle)
	linkedBack := away(linked)
	if err := os.Symlink(linked, linked); err != nil { // its path cannot be read: too many links
		t.Fatal(err)
	}
	kill()
	for _, c := range []struct {
		args   []string
		status int
	}{
		{[]string{"renew", "o.json"}, exit.NotFound},
		{[]string{"unlock", "o.json"}, exit.NotFound},
		{[]string{"--store", "file:" + filepath.Join(p.dir, "elsewhere"), "lock", "job", "--handle", "o.json"}, exit.Usage},
	} {
		if _, stderr, status := p.run(t, "", c.args...); status != c.status || !strings.Contains(stderr, "there is no store") {
			t.Errorf("%q without the store: status %d, %s", c.args, status, stderr)
		}
	}
	time.Sleep(6 * time.Second) // both renewals were due
	for _, r := range []lockResult{released, renewed} {
		if _, alive := child.StartOf(r.Keeper); !alive {
			t.Errorf("the keeper of %s has ended", r.Handle)
		}
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a store was made in the place of the absent one (%v)", err)
	}
	if err := os.Remove(linked); err != nil {
		t.Fatal(err)
	}
	linkedBack()
	back()
	waitEnded(t, released.Keeper)
	p.must(t, store, "run", "-n", "released", "--", "true")
	p.must(t, store, "renew", renewed.Handle)
	p.must(t, store, "unlock", renewed.Handle)
	p.must(t, store, "unlock", "o.json")
	waitEnded(t, renewed.Keeper)
}
