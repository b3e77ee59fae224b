package holding

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/lease"
)

// renewerCommand is the hidden command of the process that renews a lock for lock --renew-until.
const renewerCommand = "help-keep"

// maxKeptMargin bounds the margin of a lock that a handle file holds. The margin covers a
// command that is slow to start, and that time does not grow with the TTL.
const maxKeptMargin = 10 * time.Second

// trusted makes the lease long enough that the user can rely on it for the requested time:
// it adds the margin and the grace.
func trusted(f *leases.Flags) error {
	asked := f.TTL
	if asked <= 0 || asked > lease.MaxTTL {
		return exit.Usagef("--ttl must be from %v to %v, not %v", lease.MinLocalTTL, lease.MaxTTL, asked)
	}
	f.Grace = cmp.Or(f.Grace, min(asked/4, lease.MaxDefaultGrace))
	grace := max(f.Grace, 0)
	unit := time.Millisecond
	if asked >= maxKeptMargin { // show then prints a TTL of whole seconds
		unit = time.Second
	}
	if f.Margin == 0 { // a tenth of the whole lease
		f.Margin = min((asked+grace)/9+unit, maxKeptMargin).Truncate(unit)
	}
	f.TTL = (asked + f.Margin + grace).Truncate(time.Millisecond)
	if f.TTL > lease.MaxTTL || f.TTL < asked {
		return exit.Usagef("--ttl %v is too long: with the margin (%v) and the grace (%v) a lease lasts at most %v", asked, f.Margin, grace, lease.MaxTTL)
	}
	return nil
}

// process is another process of this machine. Its start time distinguishes it from a later
// process with the same pid.
type process struct {
	pid   int
	start string // start time in the system's own form; empty where the system does not tell it
}

// keptFor reads the value of --renew-until: "unlock", "parent" or a process id. For "unlock" and nothing it
// returns the zero process.
func keptFor(text string) (process, error) {
	var p process
	switch {
	case text == "", text == "unlock":
		return p, nil
	case text == "parent":
		p.pid = os.Getppid()
	default:
		pid, err := strconv.Atoi(text)
		if err != nil || pid <= 0 {
			return p, exit.Usagef("--renew-until must be unlock, parent, or the id of a process, not %q", text)
		}
		p.pid = pid
	}
	start, alive := child.StartOf(p.pid)
	if !alive {
		return p, exit.Usagef("--renew-until %s: there is no process %d", text, p.pid)
	}
	p.start = start
	return p, nil
}

// ended reports whether a process has ended.
func (p process) ended() bool {
	if p.pid == 0 {
		return false
	}
	start, alive := child.StartOf(p.pid)
	return !alive || start != p.start
}

// renewer is the process that renews a lock after lock has taken it.
type renewer struct {
	cmd  *exec.Cmd
	said *bufio.Reader
}

// startRenewer starts a process, in a session of its own, that renews the lock of a handle
// file. It begins when this process no longer uses the handle file.
func startRenewer(path, grant string, until process) (*renewer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "renew", renewerCommand, path, grant, strconv.Itoa(until.pid), until.start)
	// The root of its file system, so that it keeps no other directory busy. It is there
	// even where no directory for temporary files is.
	cmd.Dir = filepath.VolumeName(self) + string(filepath.Separator)
	child.Detach(cmd)
	// The handle says what the keeper has to do. Holdfast's variables in the environment
	// are for other commands.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_") })
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &renewer{cmd, bufio.NewReader(out)}, nil
}

// ready waits, for a few seconds, until the keeper has begun its work.
func (k *renewer) ready() error {
	done := make(chan error, 1)
	go func() {
		line, err := k.said.ReadString('\n')
		if err == nil && line != renewerReady {
			err = errors.New(strings.TrimSpace(line))
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			return nil
		}
		return fmt.Errorf("the background process that renews the lock has ended: %w", err)
	case <-time.After(10 * time.Second):
		return errors.New("the background process that renews the lock does not start")
	}
}

const renewerReady = "ready\n"

// keeperCommand is the command that the keeper process runs.
func (a *access) keeperCommand() *cobra.Command {
	return &cobra.Command{
		Use:    renewerCommand,
		Hidden: true,
		Args:   cobra.ExactArgs(4),
		RunE: func(cmd *cobra.Command, args []string) error {
			pid, err := strconv.Atoi(args[2])
			if err != nil {
				return exit.Usagef("%q is not a process id", args[2])
			}
			a.Quiet = true
			return a.keepAlive(cmd.Context(), args[0], args[1], process{pid, args[3]})
		},
	}
}

// lookAtJob is how often a keeper checks whether the process that it keeps the lock for
// still runs.
const lookAtJob = 500 * time.Millisecond

// keepAlive renews the lock of a handle file until the file does not exist or belongs to another grant.
// It also ends when the process in until has ended: then it releases the lock. Until the TTL is over, it outlasts a
// store that does not exist or does not answer, and a path that cannot be read.
func (a *access) keepAlive(ctx context.Context, path, grant string, until process) error {
	fmt.Fprint(a.Stdout, renewerReady)
	due := time.Now() // the first renewal learns the TTL
	last, ttl := due, lease.MaxTTL
	for ; ; time.Sleep(min(lookAtJob, max(time.Until(due), 10*time.Millisecond))) {
		release := until.ended()
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !release && time.Now().Before(due) {
			continue
		}
		var f *handleFile
		var err error
		if release {
			err = a.unlock(ctx, path, grant)
		} else {
			f, err = a.renewed(ctx, path, grant)
		}
		switch {
		case err == nil && release:
			return nil
		case err == nil:
			last, ttl = time.Now(), f.Ticket.TTL
			due = last.Add(ttl / 3)
		case errors.Is(err, lease.ErrLost), errors.Is(err, lease.ErrReleased), errors.Is(err, errNoHandle), time.Since(last) > ttl:
			return err
		default: // retry as soon as the store is there and answers
			due = time.Now().Add(lookAtJob)
		}
	}
}
