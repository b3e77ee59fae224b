// Package holding has the commands that take locks and hold them: for a command, for a program in
// another language, or for a script.
package holding

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/lease"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ leases.Opener }

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	a := &access{leases.Opener{Invocation: in}}
	return cmdline.Commands{
		"run": a.runCommand, "lead": a.leadCommand, "hold": a.holdCommand,
		"lock": a.lockCommand, "renew": a.renewCommand, "unlock": a.unlockCommand,
	}
}

// runFlags are the flags of run.
type runFlags struct {
	leases.Flags
	wait           time.Duration
	once           bool
	conflictStatus int
	minInterval    time.Duration
	timeout        time.Duration
	per            string
	period         lease.Period // of per
	retries        int
	waitGroup      bool
	killGroup      bool
	shared         lease.LockOptions // of a lock that several can hold, or wait for in order
	onLost         string
	onAsk          string
	answered       bool // the store has answered since lead began
	also           []string
	report         string
	metrics        string
	hooks          hooks
}

func (a *access) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "run [flags] NAME... [flags] -- COMMAND [ARG...]",

		DisableFlagsInUseLine: true,
		Short:                 "Run a command while holding a lock",
		GroupID:               cmdline.GroupLocks,
		Long: `Run COMMAND while holding the lock NAME, or several locks.

If another holder has the lock, run waits. With -n, run ends at once with status 75.
COMMAND gets stdin, stdout, stderr, signals and the terminal. The environment of COMMAND has
HOLDFAST_LOCK and HOLDFAST_TOKEN. run ends with the status of COMMAND.

If the lease is lost, run sends TERM and then KILL to COMMAND, before another holder can take
the lock. The status is then 76. After "holdfast ask NAME", run sends TERM to COMMAND. When
COMMAND has ended, run releases the lock, even if processes that COMMAND started still run.

See also holdfast help: processes, once-per, sharing, hooks, leases, exit-status.`,
		Example: `  holdfast run nightly -- ./job.sh
  holdfast run deploy --wait 5m -- make deploy
  holdfast run -n report -- python3 report.py      # end at once if report already runs
  holdfast run report --once-per day -- ./report.sh        # once a day, even if three hosts start it
  holdfast run -n hourly --min-interval 50m -- ./job.sh`,
		ValidArgsFunction: a.BeforeDash(a.CompleteLocks()),
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 {
				return cmdline.NoDash(cmd, args)
			}
			if err := cmdline.NotEmpty(cmd.Flags(), "once-per", "metrics", "on-ask", "on-lost", "on-acquire", "on-release"); err != nil {
				return err
			}
			if cmd.Flags().Changed("retries") && f.per == "" {
				return exit.Usagef("--retries needs --once-per")
			}
			return a.run(cmd.Context(), f, args[:dash], args[dash:])
		},
	}
	flags := cmd.Flags()
	f.Flags.Add(flags)
	f.addWait(flags)
	flags.DurationVar(&f.minInterval, "min-interval", 0, "minimum time between the beginnings of two runs")
	flags.DurationVar(&f.timeout, "timeout", 0, "stop COMMAND if it runs for longer than this; the status is then 124")
	flags.StringVar(&f.per, "once-per", "", "run COMMAND at most once in each period, such as day, week, 6h or 'day Europe/Zurich'")
	flags.Var(cmdline.Whole(&f.retries, 0, lease.MaxRetries), "retries", "with --once-per: maximum number of retries after a failed run in the same period (default 0)")
	flags.BoolVar(&f.shared.Shared, "shared", false, "take the lock as a reader; several readers can hold it at the same time")
	flags.Var(cmdline.Whole(&f.shared.Slots, 1, lease.MaxMembers), "slots", "number of slots of the semaphore: at most this many commands run at the same time")
	flags.BoolVar(&f.shared.Fair, "fair", false, "wait in the queue of the lock: runs with --fair get the lock in the order of their arrival")
	flags.BoolVar(&f.waitGroup, "wait-group", false, "hold the lock until all processes in the process group of COMMAND have ended (not on Windows)")
	flags.BoolVar(&f.killGroup, "kill-group", false, "when COMMAND has ended, stop all other processes of its process group")
	flags.StringVar(&f.onLost, "on-lost", "kill", "action after a loss: kill (stop COMMAND), warn (only print a warning), or the path of a program (start it and stop COMMAND)")
	f.addOnAsk(cmd)
	flags.StringVar(&f.hooks.acquire, "on-acquire", "", "program to start when run has taken the lock, before COMMAND (see holdfast help hooks)")
	flags.StringVar(&f.hooks.release, "on-release", "", "program to start when run has released the lock")
	flags.StringVar(&f.metrics, "metrics", "", "add this run to the counters in `FILE` (*.prom) for the node exporter of Prometheus")
	flags.StringArrayVar(&f.also, "also-store", nil, "also take the same locks in the store with this `URL`")
	flags.StringVar(&f.report, "report", "", "write the result of the run to `FILE`, as JSON")
	cmdline.CompleteFlag(cmd, "on-lost", "kill", "warn")
	cmdline.CompleteFlag(cmd, "once-per", "hour", "day", "week", "month", "year")
	cmdline.CompleteStore(cmd, "also-store")
	return cmd
}

// addWait adds the flags of commands that can wait for a lock.
func (f *runFlags) addWait(flags *pflag.FlagSet) {
	f.wait = -1
	flags.VarP((*cmdline.Seconds)(&f.wait), "wait", "w", "maximum wait for the lock, such as 5m or 300 (seconds); 0 tries once (default: no limit)")
	flags.Lookup("wait").DefValue = "" // the text says what is
	flags.BoolVarP(&f.once, "nonblock", "n", false, "do not wait: the same as --wait 0")
	f.conflictStatus = exit.Busy
	flags.VarP(cmdline.Whole(&f.conflictStatus, 0, 255), "conflict-exit-code", "E", "exit status if another holder has the lock")
}

func (f *runFlags) check(names, argv []string) error {
	switch {
	case len(names) == 0:
		return exit.Usagef("name the lock: holdfast run NAME -- COMMAND")
	case len(argv) == 0:
		return exit.Usagef("name the command: holdfast run %s -- COMMAND", output.Quote(cmdline.Echoed(names[0])))
	case f.shared.Shared && f.shared.Slots != 0:
		return exit.Usagef("--shared and --slots exclude each other")
	case f.inSession() && (f.minInterval != 0 || f.per != ""):
		return exit.Usagef("--min-interval and --once-per cannot be combined with --shared, --slots or --fair")
	case f.minInterval < 0:
		return exit.Usagef("--min-interval is %v; it must not be negative", f.minInterval)
	case f.timeout < 0:
		return exit.Usagef("--timeout is %v; it must not be negative", f.timeout)
	case f.waitGroup && f.killGroup:
		return exit.Usagef("--wait-group and --kill-group exclude each other")
	case f.waitGroup && runtime.GOOS == "windows":
		return exit.Usagef("--wait-group: this system has no process groups")
	case f.onAsk != "" && f.onAsk != askTerm && f.onAsk != askRefuse:
		return exit.Usagef("--on-ask must be %s or %s, not %q", askTerm, askRefuse, f.onAsk)
	}
	if f.onLost != "kill" && f.onLost != "warn" {
		f.hooks.lost = f.onLost
	}
	if err := f.hooks.check(); err != nil {
		return err
	}
	if err := f.checkPeriod(names); err != nil {
		return err
	}
	if err := metricsFile(f.metrics); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, name := range names {
		if err := leases.CheckLockName(name); err != nil {
			return err
		}
		if seen[name] {
			return exit.Usagef("lock %q is named twice", name)
		}
		seen[name] = true
	}
	if f.once {
		f.wait = 0
	}
	return nil
}

// inSession reports whether the locks need a session.
func (f *runFlags) inSession() bool { return f.shared != lease.LockOptions{} }

func (a *access) run(ctx context.Context, f *runFlags, names, argv []string) (err error) {
	if err := f.check(names, argv); err != nil {
		return err
	}
	cmd, err := lookUp(argv)
	if err != nil {
		return err
	}
	report, err := openReport(f.report, names, argv)
	if err != nil {
		return err
	}
	defer func() { err = a.finish(report, err) }()

	// A closed pipe on stdout or stderr must not end this process either: the command
	// continues.
	child.SurviveClosedPipe()
	a.QueueMessages()

	// From here on this process handles signals. While run waits for the lock, they end the
	// wait. Later run passes them on to the child. No signal is lost in between. The process
	// handles signals until it ends: to stop that would take half a millisecond.
	signals := make(chan os.Signal, 32)
	handled := handleSignals(signals)

	tally := &tally{file: f.metrics, names: names, began: time.Now()}
	if f.metrics != "" {
		defer func() {
			if failed := tally.add(ctx, err); failed != nil {
				a.Notef("--metrics: %s", output.OneLine(failed)) // run itself is over, so this is no error
			}
		}()
	}
	handles, clients, presence, err := a.handles(ctx, f, names)
	if err != nil {
		return err
	}
	defer clients.Close()
	tally.store = handles[0].url
	if f.metrics != "" {
		_ = tally.begin(ctx) // add reports an error
	}
	set, err := a.acquire(ctx, f, handles, signals)
	if ran := (*lease.AlreadyRanError)(nil); errors.As(err, &ran) {
		return a.ranAlready(ran, handles[0])
	}
	if err != nil {
		return a.busy(ctx, f, handles, err)
	}
	tally.acquired = time.Now()
	clients.Flush() // write these messages before the command writes
	a.FlushMessages(time.Second)
	report.acquired(set, urls(handles))
	environment(cmd, f.FlagSet, handles[0], set, urls(handles))
	var end outcome
	<-handled
	under := &grant{set, guardsWithRequests(set), signals, presence}
	if err = a.onAcquire(f, cmd.Env, under); err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, a.Stdout, a.Stderr
		end, err = a.supervise(f, cmd, under)
	}
	report.started = end.started
	defer a.hook("release", f.hooks.release, cmd.Env)
	ran := end.started && !end.asked && !end.stopped()
	for _, g := range set.Guards() {
		switch {
		case !ran && (f.per == "" || err != nil):
			g.AllowRerun()
		case f.per != "":
			g.SetRunResult(endOf(end.status, err))
		}
	}
	releaseErr := set.Release(ctx)
	switch {
	case err != nil:
		return err
	case errors.Is(releaseErr, lease.ErrLost):
		return exit.With(exit.Lost, &lostError{releaseErr, "had ended"})
	case releaseErr != nil:
		a.Notef("%s", output.OneLine(releaseErr)) // no error: the command has run under the lock
	}
	return end.err()
}
