package holding

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
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

// start starts a hook, and returns a function that waits for its end. The hook's output
// goes to stderr, since stdout belongs to the command.
func (a *access) start(ctx context.Context, event, line string, env []string) (wait func() error) {
	if line == "" {
		return func() error { return nil }
	}
	words := strings.Fields(line)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(slices.Clone(env), cmdline.HookVariable+"="+event)
	cmd.Stdout, cmd.Stderr = a.Stderr, a.Stderr
	cmd.WaitDelay = time.Second
	err := child.WithOthers(cmd.Start)
	return func() error {
		if err == nil {
			err = cmd.Wait()
		}
		if err != nil {
			return fmt.Errorf("--on-%s %s: %w", event, words[0], err)
		}
		return nil
	}
}

// onLost runs the hook for a lost lease, while run ends the command: the system may need longer to start the hook
// than the command may take to stop. It returns a function that waits for the end of the hook.
func (a *access) onLost(line string, env []string) (wait func()) {
	var hook sync.WaitGroup
	hook.Go(func() { a.hook("lost", line, env) })
	return hook.Wait
}

// hook runs a hook to its end, for a minute at most, and reports its failure.
func (a *access) hook(event, line string, env []string) {
	ctx, cancel := context.WithTimeout(context.Background(), hookTime)
	defer cancel()
	if err := a.start(ctx, event, line, env)(); err != nil {
		a.Notef("%s", output.OneLine(err))
	}
}

// onAcquire runs the hook for a lock that was taken. The hook must end before the lease
// does. If the hook fails, the command is not started.
func (a *access) onAcquire(ctx context.Context, line string, env []string) error {
	err := a.start(ctx, "acquire", line, env)()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return exit.With(exit.Lost, errors.Join(cause, err))
	}
	return exit.With(exit.Failed, fmt.Errorf("the command was not started: %w", err))
}
