package holding

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/lease"
)

// hooks are commands that run starts in addition to its own command. Each is a program and its
// arguments, separated by blanks. No shell takes part.
type hooks struct {
	acquire, lost, release string
}

// hookTime bounds the time of a hook that run does not wait for otherwise.
const hookTime = time.Minute

// check finds the programs before run takes any lock.
func (h *hooks) check() error {
	for _, hook := range []struct{ flag, line string }{{"--on-acquire", h.acquire}, {"--on-release", h.release}, {"--on-lost", h.lost}} {
		if hook.line == "" {
			continue
		}
		words := strings.Fields(hook.line)
		if len(words) == 0 {
			return exit.Usagef("%s contains only blanks: name a program", hook.flag)
		}
		if _, err := exec.LookPath(words[0]); err != nil {
			if hook.flag == "--on-lost" {
				return exit.Usagef("--on-lost must be kill, warn or a program, not %q: %w", hook.line, err)
			}
			return exit.Usagef("%s: %w", hook.flag, err)
		}
	}
	return nil
}

// hook runs a hook to its end, for a minute at most, and reports its failure. The hook's output goes to stderr, since
// stdout belongs to the command.
func (a *access) hook(event, line string, env []string) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hookTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(slices.Clone(env), cmdline.HookVariable+"="+event)
	cmd.Stdout, cmd.Stderr = a.Stderr, a.Stderr
	cmd.WaitDelay = time.Second
	err := child.WithOthers(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		a.Notef("--on-%s %s: %s", event, words[0], output.OneLine(err))
	}
}

// onAcquire runs the hook for a lock that was taken, as supervise runs the command: the hook works under the lock, too.
// If the hook fails, or is asked to end, the command is not started.
func (a *access) onAcquire(f *runFlags, env []string, under *grant) error {
	words := strings.Fields(f.hooks.acquire)
	if len(words) == 0 {
		return nil
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(slices.Clone(env), cmdline.HookVariable+"=acquire")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, a.Stderr, a.Stderr
	end, err := a.supervise(&runFlags{onLost: "kill", onAsk: f.onAsk}, cmd, under)
	switch {
	case errors.Is(err, lease.ErrLost):
		return exit.With(exit.Lost, &lostError{context.Cause(under.set.Context()), "was not started"})
	case len(end.signals) > 0:
		return notStarted(end.signals[0])
	case err != nil && !end.started && exit.Status(err) != exit.NotExec:
		return err // a signal has come before, or the hook cannot inherit the proof that the lock is in use
	case end.asked:
		return notStarted(syscall.SIGTERM)
	}
	if err = endOf(end.status, err); err != nil {
		return exit.With(exit.Failed, fmt.Errorf("the command was not started: --on-acquire %s: %w", words[0], err))
	}
	return nil
}
