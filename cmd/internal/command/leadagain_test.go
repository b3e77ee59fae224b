//go:build linux

package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// candidates are running programs that lead, or wait to lead, the election "line".
type candidates struct {
	t      *testing.T
	dir    string
	bin    string
	store  *filestore.Store
	client *lease.Client
}

// candidate is one of them. Each of its terms adds a line to its file: the token, and the id of
// the process of its command.
type candidate struct {
	cmd  *exec.Cmd
	errs string // a file
	file string
}

func newCandidates(t *testing.T) *candidates {
	t.Helper()
	c := &candidates{t: t, dir: t.TempDir(), bin: holdfastBinary(t)}
	var err error
	if c.store, err = filestore.Open(filepath.Join(c.dir, "store"), nil); err != nil {
		t.Fatal(err)
	}
	if c.client, err = lease.New(c.store, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.client.Close(t.Context())
		_ = c.store.Close()
	})
	return c
}

func (c *candidates) start(name string, flags ...string) *candidate {
	c.t.Helper()
	p := &candidate{errs: filepath.Join(c.dir, name+".err"), file: filepath.Join(c.dir, name)}
	errs, err := os.Create(p.errs)
	if err != nil {
		c.t.Fatal(err)
	}
	defer errs.Close()
	args := append([]string{"lead", "line", "--ttl", "3s", "--holder", name, "--value", name}, flags...)
	p.cmd = exec.Command(c.bin, append(args, "--", "sh", "-c", `echo $HOLDFAST_TOKEN $$ >>"$0"; exec sleep 600`, p.file)...)
	p.cmd.Env, p.cmd.Stderr = environ(c.dir, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true"), errs
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if p.cmd.ProcessState != nil {
			return
		}
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
	})
	return p
}

// end ends a candidate with TERM.
func (c *candidates) end(p *candidate) {
	c.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != 128+int(syscall.SIGTERM) {
		c.t.Errorf("%s: status %d: %s", p.file, got, p.said())
	}
}

// ledTerm is one run of the command of a candidate.
type ledTerm struct {
	token uint64
	pid   int
}

func (p *candidate) terms() (all []ledTerm) {
	text, _ := os.ReadFile(p.file) // not there before the first term
	for _, line := range strings.SplitAfter(string(text), "\n") {
		var one ledTerm
		if n, _ := fmt.Sscanf(line, "%d %d\n", &one.token, &one.pid); n == 2 && strings.HasSuffix(line, "\n") {
			all = append(all, one)
		}
	}
	return all
}

// last returns the newest term of a candidate that has led.
func (p *candidate) last() ledTerm {
	all := p.terms()
	return all[len(all)-1]
}

func (p *candidate) said() string {
	text, _ := os.ReadFile(p.errs)
	return string(text)
}

// runs reports whether the command of a term continues.
func (one ledTerm) runs() bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(one.pid) + "/stat")
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// record returns the record of the election.
func (c *candidates) record() lease.Record {
	c.t.Helper()
	info, err := c.client.Inspect(c.t.Context(), "line")
	if err != nil {
		c.t.Fatal(err)
	}
	return info.Record
}

// remove removes the record of a session.
func (c *candidates) remove(session string) {
	c.t.Helper()
	await(c.t, "a write between two renewals", func() bool {
		_, version, err := c.store.Get(c.t.Context(), "lock.session/"+session)
		if err != nil {
			c.t.Fatal(err)
		}
		return c.store.Delete(c.t.Context(), "lock.session/"+session, version) == nil
	})
}

// TestLeadAfterTheLossOfItsSession: a leader whose session is lost ends its command, and leads
// again under another session, with a higher token: when the record of the session is removed,
// and when the leader was stopped for so long that another candidate leads meanwhile.
func TestLeadAfterTheLossOfItsSession(t *testing.T) {
	t.Parallel()
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		c := newCandidates(t)
		a := c.start("a", "--fair")
		await(t, "a term", func() bool { return len(a.terms()) > 0 })
		before := a.last()
		session := c.record().Session
		c.remove(session)
		await(t, "the next term", func() bool { return a.last().token > before.token })
		if before.runs() {
			t.Error("the command of the term before goes on")
		}
		await(t, "its record", func() bool { return c.record().State == lease.Held })
		if rec := c.record(); rec.Session == session || rec.Session == "" || string(rec.Data) != "a" {
			t.Errorf("it leads under session %q, after %q, with %q", rec.Session, session, rec.Data)
		}
		if said := a.said(); !strings.Contains(said, "its record was removed from the store. The command was stopped; lead waits for the lock again") {
			t.Errorf("it says %s", said)
		}
		c.end(a)
		if rec := c.record(); rec.State != lease.Free || len(rec.Queue) > 0 {
			t.Errorf("in the end the lock is %+v", rec)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		c := newCandidates(t)
		a := c.start("a", "--fair")
		await(t, "a term", func() bool { return len(a.terms()) > 0 })
		b := c.start("b", "--fair")
		await(t, "a candidate in line", func() bool { return len(c.record().Queue) == 1 })
		before := a.last()
		if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		await(t, "the other's term", func() bool { return len(b.terms()) > 0 })
		if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		await(t, "the end of its command", func() bool { return !before.runs() })
		await(t, "a candidate in line again", func() bool { return len(c.record().Queue) == 1 && c.record().State == lease.Held })
		c.end(b)
		last := b.last()
		await(t, "its next term", func() bool { return a.last().token > last.token })
		if said := a.said(); !strings.Contains(said, "The command was stopped; lead waits for the lock again") {
			t.Errorf("it says %s", said)
		}
		c.end(a)
		if rec := c.record(); rec.State != lease.Free || len(rec.Queue) > 0 {
			t.Errorf("in the end the lock is %+v", rec)
		}
	})
}

// TestLeadQueuesAfterTheLossOfItsSession: a candidate whose session is lost while it waits in
// line is in line again, under another session, and leads when its turn has come.
func TestLeadQueuesAfterTheLossOfItsSession(t *testing.T) {
	t.Parallel()
	c := newCandidates(t)
	a := c.start("a", "--fair")
	await(t, "a term", func() bool { return len(a.terms()) > 0 })
	b := c.start("b", "--fair")
	session := ""
	await(t, "a candidate in line", func() bool {
		if queue := c.record().Queue; len(queue) == 1 {
			session = queue[0].Session
		}
		return session != ""
	})
	c.remove(session)
	await(t, "it stands in line anew, and its old place is gone", func() bool {
		queue := c.record().Queue
		return len(queue) == 1 && queue[0].Session != session
	})
	if said := b.said(); !strings.Contains(said, "session "+session+" lost") || !strings.Contains(said, "; lead waits for the lock again") {
		t.Errorf("it says %s", said)
	}
	if len(b.terms()) > 0 && a.terms()[0].runs() {
		t.Error("it leads beside the leader")
	}
	c.end(a)
	await(t, "its term", func() bool { return len(b.terms()) > 0 })
	if a.terms()[0].token >= b.terms()[0].token {
		t.Errorf("tokens %v, then %v", a.terms(), b.terms())
	}
	c.end(b)
	if rec := c.record(); rec.State != lease.Free || len(rec.Queue) > 0 {
		t.Errorf("in the end the lock is %+v", rec)
	}
}

// TestLeadWhenTheStoreIsSilent: a leader and a candidate continue when the store has not answered
// for longer than a command waits for it, and lead when it answers again. A store that has never
// answered ends a candidate.
func TestLeadWhenTheStoreIsSilent(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"": nil, "fair": {"--fair"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCandidates(t)
			var silent atomic.Bool
			url, _ := serveS3(t, func(s *awstest.S3) {
				s.AddWhen(func(awstest.Request) bool { return silent.Load() }, 0, -1, awstest.Fault{Drop: true})
			})
			flags := append([]string{"-v", "--store", url}, flags...)
			a := c.start("a", flags...)
			await(t, "a term", func() bool { return len(a.terms()) == 1 })
			b := c.start("b", flags...)
			await(t, "a candidate", func() bool { return strings.Contains(b.said(), "waiting") })
			silent.Store(true)
			for _, p := range []*candidate{a, b} {
				await(t, "a candidate that goes on", func() bool {
					return strings.Contains(p.said(), "has not answered for 30s; lead tries again")
				})
			}
			silent.Store(false)
			await(t, "the next term", func() bool { return len(a.terms())+len(b.terms()) > 1 })
			c.end(a)
			await(t, "the term of the other", func() bool { return len(b.terms()) > 0 })
			c.end(b)
		})
	}
	t.Run("never answered", func(t *testing.T) {
		t.Parallel()
		c := newCandidates(t)
		url, _ := serveS3(t, func(s *awstest.S3) {
			s.AddWhen(func(awstest.Request) bool { return true }, 0, -1, awstest.Fault{Drop: true})
		})
		a := c.start("a", "--store", url)
		_ = a.cmd.Wait()
		if got := a.cmd.ProcessState.ExitCode(); got != exit.Unreachable {
			t.Errorf("status %d: %s", got, a.said())
		}
	})
}

// TestLeadEndsByASignal: a signal ends a candidate whose session may have been opened with the
// status of the signal. Such a session holds nothing.
func TestLeadEndsByASignal(t *testing.T) {
	t.Parallel()
	c := newCandidates(t)
	var wrote atomic.Bool
	url, _ := serveS3(t, func(s *awstest.S3) {
		s.AddWhen(func(r awstest.Request) bool {
			session := r.Op == "PutObject" && strings.Contains(r.Key, "session")
			if session {
				wrote.Store(true)
			}
			return session
		}, 0, -1, awstest.Fault{Drop: true})
	})
	a := c.start("a", "--store", url, "--fair")
	await(t, "a session", wrote.Load)
	c.end(a)
}

// TestRunWhenTheStoreFallsSilent: a run that waits for a lock that is held, and whose store then
// does not answer, ends with the status of a store that cannot be reached. "Busy" would be a guess,
// and --quiet would hide it.
func TestRunWhenTheStoreFallsSilent(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	url, _ := serveS3(t, func(s *awstest.S3) {
		s.AddWhen(func(awstest.Request) bool { return silent.Load() }, 0, -1, awstest.Fault{Drop: true})
	})
	p := newPlace(t)
	if _, said, status := p.run(t, url, "lock", "--ttl", "1h", "job"); status != exit.OK {
		t.Fatal(status, said)
	}
	time.AfterFunc(2*time.Second, func() { silent.Store(true) })
	_, said, status := p.run(t, url, "run", "-q", "--wait", "10m", "job", "--", "true")
	if status != exit.Unreachable || !strings.Contains(said, "the store has answered no request for 30s") {
		t.Errorf("status %d: %s", status, said)
	}
}
