package holding

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/lease"
)

// lookUp finds the command before run takes any lock.
func lookUp(argv []string) (*exec.Cmd, error) {
	path, err := exec.LookPath(argv[0])
	switch {
	case err == nil:
	case errors.Is(err, os.ErrPermission):
		return nil, exit.With(exit.NotExec, fmt.Errorf("%s: not executable", argv[0]))
	case strings.ContainsRune(argv[0], os.PathSeparator) && exists(argv[0]):
		return nil, exit.With(exit.NotExec, fmt.Errorf("%s: not executable: %w", argv[0], err))
	default:
		return nil, exit.With(exit.NoCommand, fmt.Errorf("%s: command not found", argv[0]))
	}
	cmd := exec.Command(path, argv[1:]...)
	cmd.Args[0] = argv[0]
	return cmd, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// environment puts the held locks into the command's environment. It replaces the values of
// an outer run.
func environment(cmd *exec.Cmd, flags *pflag.FlagSet, first *openedStore, set *lease.GuardSet, url func(*lease.Guard) string) {
	locks := leases.InheritedLocks()
	// How leases are held here, and where, is for a run inside this one, too. For how long this one
	// waits, where it counts, and which slot it has, is not.
	own := map[string]bool{cmdline.SlotVariable: true, cmdline.VariableOf("store"): true}
	for _, name := range []string{"wait", "metrics"} {
		if flags.Lookup(name) != nil {
			own[cmdline.VariableOf(name)] = true
		}
	}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return own[name]
	})
	for _, g := range set.Guards() {
		locks = append(locks, leases.HeldLock{Store: url(g), Name: g.Name(), Token: g.Token(), Slot: g.Slot()})
		if g.Handle() == first.Handle {
			cmd.Env = append(cmd.Env, cmdline.LockVariable+"="+g.Name(), fmt.Sprintf("%s=%d", cmdline.TokenVariable, g.Token()), cmdline.VariableOf("store")+"="+first.again)
			if g.Slot() != 0 {
				cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", cmdline.SlotVariable, g.Slot()))
			}
		}
	}
	if all, err := json.Marshal(locks); err == nil {
		cmd.Env = append(cmd.Env, cmdline.LocksVariable+"="+string(all))
	}
}

// outcome is how a command ended.
type outcome struct {
	status  int
	started bool
	asked   bool        // another client asked for the lock, and the command got TERM
	signals []os.Signal // to this process, which ask a program to end; the command got them, too
}

// stopped reports whether a signal to this process has ended the command. Many programs handle some of these
// signals and continue, for example to read their configuration again: then only the status shows it.
func (o *outcome) stopped() bool {
	return slices.ContainsFunc(o.signals, func(sig os.Signal) bool {
		return !child.MayGoOn(sig) || o.status == 128+child.SignalNumber(sig)
	})
}

// err returns the error with the exit status of the command; nil for 0.
func (o *outcome) err() error {
	if o.status == exit.OK {
		return nil
	}
	return exit.With(o.status, nil)
}

// grant is what a command runs under.
type grant struct {
	set      *lease.GuardSet
	wanted   <-chan *lease.Guard // those whose holder has read a request to yield
	signals  chan os.Signal
	presence []presenceFiler
}

// notStarted is the error of run if a signal has come before the start of the command.
func notStarted(sig os.Signal) error {
	return exit.With(128+child.SignalNumber(sig), fmt.Errorf("the command was not started: %w", &signalled{sig}))
}

// toEnd returns a signal in the channel that asks this process to end; nil if there is none. It leaves others there.
func toEnd(signals chan os.Signal) os.Signal {
	for range len(signals) {
		sig := <-signals
		if child.Terminating(sig) {
			return sig
		}
		select {
		case signals <- sig:
		default: // full: as if it had come now
		}
	}
	return nil
}

// supervise runs the command until it ends.
func (a *access) supervise(f *runFlags, cmd *exec.Cmd, under *grant) (end outcome, _ error) {
	set := under.set
	for _, p := range under.presence {
		// The child keeps the holder's presence up. If this process dies while the child
		// still works, no waiter takes the holder for dead.
		if _, err := p.Announce(set.Context()); err != nil {
			continue // waiters then rely on the TTL alone
		}
		inherited, err := inheritPresence(set.Context(), p, cmd)
		if err != nil {
			return end, cmp.Or(set.Err(), fmt.Errorf("run did not start the command, because the command could not inherit the proof that the lock is in use: %w", err))
		}
		defer inherited.Close()
	}
	// The system ties the child's life to the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := set.Err(); err != nil {
		return end, exit.With(exit.Lost, err) // this process may have been stopped for a while
	}
	if sig := toEnd(under.signals); sig != nil {
		return end, notStarted(sig)
	}
	c, err := child.Start(cmd, a.Stdin)
	if err != nil {
		return end, exit.With(exit.NotExec, err)
	}
	end.started, end.status = true, exit.Failed
	defer c.Close()
	var tooLong <-chan time.Time
	if f.timeout > 0 {
		timer := time.NewTimer(f.timeout)
		defer timer.Stop()
		tooLong = timer.C
	}
	var (
		lost    = set.Context().Done()
		ended   = c.Events // nil when the command has ended
		wasLost bool
		timeOut bool // it ran for longer than --timeout allows
		killed  bool // the whole group should be dead
		again   <-chan time.Time
		said    bool
	)
	// stop ends the group. If it cannot end all of it, it says so at once. The locks that
	// can be kept are then kept.
	stop := func(grace time.Duration) {
		killed = true
		c.Kill(grace)
		if left := c.Left(false); left != "" {
			said = true
			a.unstoppable(left, wasLost)
		}
	}
	// mayGoOn reports whether a command that was stopped may be continued. If the lock was
	// lost meanwhile, the command is ended without having continued.
	mayGoOn := func() bool { return f.onLost == "warn" || set.Err() == nil }
	for {
		if ended == nil {
			if !wasLost && lost != nil && set.Err() != nil {
				// The child has ended and the lock is lost: the rest of the group must not
				// continue.
				wasLost = true
				stop(0)
			}
			if f.killGroup && !killed && c.Left(false) != "" {
				stop(graceLeft(set))
			}
			left := ""
			if killed || end.asked || end.signals != nil {
				left = c.Left(!killed)
			}
			switch {
			case left == "" && f.waitGroup && !killed && c.Left(false) != "":
			case left != "" && !said:
				said = true
				a.unstoppable(left, wasLost)
			case left != "":
			case wasLost:
				how := "was stopped"
				if said {
					how = "has ended by itself"
				}
				return end, exit.With(exit.Lost, &lostError{context.Cause(set.Context()), how})
			case timeOut:
				return end, exit.With(exit.TimedOut, fmt.Errorf("%w: run stopped it after %v (--timeout)", errTimedOut, f.timeout))
			default:
				return end, nil
			}
			again = time.After(lookAgain)
		}
		select {
		case <-again:
		case ws, ok := <-ended:
			switch {
			case !ok:
				ended = nil
			case ws.Stopped():
				c.Stopped(mayGoOn)
			default:
				end.status = child.ExitStatus(ws)
			}
		case sig := <-under.signals:
			if child.Terminating(sig) {
				end.signals = append(end.signals, sig)
			}
			if child.Continues(sig) && !mayGoOn() {
				continue
			}
			if err := c.Forward(sig); err != nil && ended != nil {
				a.Warnf("run could not send %s to the command: %v: %s; run keeps the lock until the command ends", child.SignalName(sig), err, c.Left(true))
			}
		case g := <-under.wanted:
			if f.onAsk == askRefuse {
				a.refuse(set.Context(), g)
				continue
			}
			end.asked = true
			a.Notef("%s: stopping the command", requestText(g))
			if err := c.Forward(syscall.SIGTERM); err != nil && ended != nil {
				a.Warnf("run could not send TERM to the command: %v: %s; run keeps the lock until the command ends", err, c.Left(true))
			}
		case <-lost:
			lost = nil
			if f.onLost == "warn" {
				a.Notef("%s: the command continues (--on-lost warn)", lostText(context.Cause(set.Context())))
				continue
			}
			wasLost = true
			// The hook runs while run ends the command: the system may need longer to start the hook than the
			// command may take to stop.
			var hook sync.WaitGroup
			hook.Go(func() { a.hook("lost", f.hooks.lost, cmd.Env) })
			defer hook.Wait()
			stop(graceLeft(set))
		case <-tooLong:
			tooLong = nil
			if ended != nil || f.waitGroup {
				timeOut = true
			}
			stop(graceLeft(set))
		}
	}
}

// lookAgain is how often run checks whether processes that it could not end have ended.
const lookAgain = 200 * time.Millisecond

// unstoppable warns of processes that still run although they got the signals that end a
// command.
func (a *access) unstoppable(left string, lost bool) {
	if lost {
		a.Warnf("THE COMMAND STILL RUNS WITHOUT ITS LOCK: run could not stop the command: %s", left)
		return
	}
	a.Warnf("run could not stop the command: %s; run keeps the lock until the command ends", left)
}

// inheritPresence opens a descriptor that the command inherits. While the descriptor is open,
// the presence of this process on a store stays up.
func inheritPresence(ctx context.Context, p presenceFiler, cmd *exec.Cmd) (*os.File, error) {
	file, err := p.PresenceFile(ctx)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return child.Inheritable(cmd, file)
}

// errTimedOut says that the command ran for longer than --timeout allows.
var errTimedOut = errors.New("the command timed out")

// graceLeft is how long the command may take to stop before another holder can have one of
// its locks.
func graceLeft(set *lease.GuardSet) time.Duration {
	left := set.Guards()[0].Grace()
	for _, g := range set.Guards() {
		left = min(left, g.GraceRemaining())
	}
	return left
}
