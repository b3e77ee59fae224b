//go:build unix

package command

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// The rows of docs/migrating.md on flock and setlock: where the lock is free, and where
// another has it, the other program's line and ours end with the same status, and both are
// quiet or both say something. What is not installed here is reported.
func TestRowsOfOtherPrograms(t *testing.T) {
	page, err := os.ReadFile("../../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Dir(holdfastBinary(t))
	run := func(line string) (status int, said, ran bool) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = environ(dir, "PATH="+bin+":"+os.Getenv("PATH"))
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), errs.Len() > 0, strings.Contains(out.String(), "ran")
	}
	flags := regexp.MustCompile("`([^`]*)`")
	for _, c := range []struct{ tool, row, with string }{
		{"flock", "| `-n` |", ""}, {"flock", "| `-w 30` |", "0.1"}, {"flock", "| `-E 7` |", "-n"}, {"flock", "| `-s` (shared)", "-n"},
		{"setlock", "| `-n`, `-nX` (says", ""}, {"setlock", "| `-nx` (says nothing", ""},
	} {
		_, rest, found := strings.Cut(string(page), "\n"+c.row)
		theirs := flags.FindStringSubmatch(c.row)
		row, _, _ := strings.Cut(rest, "\n")
		ours := flags.FindStringSubmatch(row)
		if !found || theirs == nil {
			t.Errorf("no row %s", c.row)
			continue
		}
		if ours == nil { // the row was cut within its first column
			t.Errorf("no flags of ours in %s%s", c.row, row)
			continue
		}
		t.Run(c.row, func(t *testing.T) {
			suitetest.NeedProgram(t, c.tool)
			with := strings.NewReplacer("30", "0.2").Replace
			a := fmt.Sprintf("%s %s %s lock", c.tool, with(theirs[1]), map[bool]string{true: c.with}[c.with == "-n"])
			b := fmt.Sprintf("holdfast run %s %s job --", with(ours[1]), map[bool]string{true: c.with}[c.with == "-n"])
			for _, state := range []string{"free", "taken"} {
				x, y := a+" echo ran", b+" echo ran"
				if state == "taken" {
					x, y = fmt.Sprintf("%s lock sh -c '%s'", c.tool, x), fmt.Sprintf("holdfast run job -- env -u HOLDFAST_LOCKS sh -c '%s'", y)
				}
				status, said, ran := run(x)
				ourStatus, weSaid, weRan := run(y)
				if c.tool == "flock" && state == "taken" {
					said = weSaid // flock never says anything; ours does, unless -q
					if !strings.Contains(a, "-E") && status == 1 {
						status = exit.Busy // theirs without -E
					}
				}
				if status != ourStatus || said != weSaid || ran != weRan || ran != (state == "free") {
					t.Errorf("%s: %q ends with %d, says %v, runs %v; %q with %d, %v, %v", state, x, status, said, ran, y, ourStatus, weSaid, weRan)
				}
			}
		})
	}
	// Lines that wait until the lock is free, and those with a shell.
	for _, c := range []struct{ tool, theirs, ours string }{
		{"flock", "flock lock -c 'true && echo ran'", "holdfast run job -- sh -c 'true && echo ran'"},
		{"setlock", "setlock lock echo ran", "holdfast run job -- echo ran"},
	} {
		t.Run(c.tool+" that waits", func(t *testing.T) {
			suitetest.NeedProgram(t, c.tool)
			for line, holder := range map[string]string{c.theirs: c.tool + " lock sh -c", c.ours: "holdfast run job -- sh -c"} {
				held := fmt.Sprintf("%s 'touch held; sleep 0.3; rm held' & while [ ! -e held ]; do sleep 0.01; done; %s && [ ! -e held ] && wait", holder, line)
				if status, _, ran := run(held); status != 0 || !ran {
					t.Errorf("%s: status %d, ran %v", line, status, ran)
				}
			}
		})
	}
}

// What docs/migrating.md says of etcdctl lock: its command finds the key, continues at the same time as the
// next holder's when the lease is lost, and does not get the TERM that etcdctl gets. A command
// of ours is ended when its lock is broken, and gets the TERM.
func TestSectionOnEtcdctl(t *testing.T) {
	t.Parallel()
	etcd, etcdctl := suitetest.NeedProgram(t, "etcd"), suitetest.NeedProgram(t, "etcdctl")
	dir := t.TempDir()
	// An address of its own on the loopback device, so that no other program has these ports.
	host := fmt.Sprintf("http://127.%d.%d.%d", 1+rand.IntN(200), rand.IntN(250), 2+rand.IntN(250))
	server := exec.CommandContext(t.Context(), etcd, "--name", "x", "--data-dir", filepath.Join(dir, "data"), "--initial-cluster", "x="+host+":2380",
		"--listen-client-urls", host+":2379", "--advertise-client-urls", host+":2379", "--listen-peer-urls", host+":2380", "--initial-advertise-peer-urls", host+":2380")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	const steps = `
		await() { until [ -e "$1" ]; do sleep 0.01; done; }
		lock lost sh -c 'env >env; touch begun; until [ -e after ]; do sleep 0.01; done; touch went-on' & first=$!
		await begun
		lose
		(lock lost sh -c 'touch second')
		touch after
		wait $first
		lock told sh -c 'trap "touch got-term" TERM; touch told; until [ -e end -o -e got-term ]; do sleep 0.01; done' & first=$!
		await told
		kill -TERM $first
		told
		wait $first || true
		true`
	for _, c := range []struct {
		tool, functions, variable string
		goesOn                    bool
	}{
		{"etcdctl", `lock() { name=$1; shift; exec etcdctl lock "$name" -- "$@"; }
			lose() { etcdctl lease revoke "$(etcdctl lease list | tail -n 1)"; }
			told() { sleep 0.5; touch end; }
			until etcdctl endpoint health; do sleep 0.05; done`, "ETCD_LOCK_KEY=lost/", true},
		{"holdfast", `lock() { name=$1; shift; exec holdfast run --ttl 3s "$name" -- "$@"; }
			told() { true; }
			lose() { holdfast break lost --token "$(sed -n s/^HOLDFAST_TOKEN=//p env)"; }`, "HOLDFAST_LOCK=lost\n", false},
	} {
		at := filepath.Join(dir, c.tool)
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", c.functions+steps)
		cmd.Dir = at
		cmd.Env = environ(at, "PATH="+filepath.Dir(holdfastBinary(t))+":"+filepath.Dir(etcdctl)+":"+os.Getenv("PATH"), "ETCDCTL_API=3", "ETCDCTL_ENDPOINTS="+host+":2379")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c.tool, err, out)
		}
		there := func(name string) bool {
			_, err := os.Stat(filepath.Join(at, name))
			return err == nil
		}
		if env, err := os.ReadFile(filepath.Join(at, "env")); err != nil || !strings.Contains(string(env), c.variable) {
			t.Errorf("%s: the command does not find %s (%v)", c.tool, c.variable, err)
		}
		if !there("second") || there("went-on") != c.goesOn || there("got-term") == c.goesOn {
			t.Errorf("%s: the next had it: %v; the command went on: %v; it got the TERM: %v", c.tool, there("second"), there("went-on"), there("got-term"))
		}
	}
}
