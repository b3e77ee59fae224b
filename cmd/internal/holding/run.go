package holding

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

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
	stopping       bool // a signal asked this process to end
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
	}
	if err := f.checkOnAsk(); err != nil {
		return err
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
	defer child.SurviveClosedPipe()()

	// From here on this process handles signals. While run waits for the lock, they end the
	// wait. Later run passes them on to the child. No signal is lost in between.
	signals := make(chan os.Signal, 32)
	handled := handleSignals(signals)
	defer func() {
		<-handled
		signal.Stop(signals)
	}()

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
	defer clients.Close(ctx)
	tally.store = handles[0].url
	set, err := a.acquire(ctx, f, handles, signals)
	if ran := (*lease.AlreadyRanError)(nil); errors.As(err, &ran) {
		return a.ranAlready(ran, handles[0])
	}
	if err != nil {
		return a.busy(ctx, f, handles, err)
	}
	tally.acquired = time.Now()
	clients.Flush() // write these messages before the command writes
	report.acquired(set, urls(handles))
	environment(cmd, f.FlagSet, handles[0], set, urls(handles))
	status, ran := 0, false
	<-handled
	if err = a.onAcquire(set.Context(), f.hooks.acquire, cmd.Env); err == nil {
		status, ran, err = a.supervise(f, cmd, set, signals, presence)
	}
	defer a.hook("release", f.hooks.release, cmd.Env)
	for _, g := range set.Guards() {
		switch {
		case !ran && (f.per == "" || err != nil):
			g.AllowRerun()
		case f.per != "":
			g.SetRunResult(endOf(status, err))
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
	if status != exit.OK {
		return exit.With(status, nil)
	}
	return nil
}

// handleSignals makes all signals that run passes on come to the channel: those that end or
// suspend the wait for the lock at once, the others by the time at which the returned
// channel is closed. Each costs two changes of thread, all of them half a millisecond, in
// which the lock is taken.
func handleSignals(signals chan os.Signal) (handled chan struct{}) {
	handled = make(chan struct{})
	first := func(sig os.Signal) bool { return child.Terminating(sig) || child.Suspends(sig) }
	all := child.Forwardable()
	now := slices.DeleteFunc(slices.Clone(all), func(sig os.Signal) bool { return !first(sig) })
	later := slices.DeleteFunc(all, first)
	if len(now) > 0 { // no signal would mean all
		signal.Notify(signals, now...)
	}
	go func() {
		defer close(handled)
		if len(later) > 0 {
			signal.Notify(signals, later...)
		}
	}()
	return handled
}

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

// handles opens the stores and makes a handle for each lock in each of them.
func (a *access) handles(ctx context.Context, f *runFlags, names []string) (handles []*openedStore, all leases.Clients, presence []presenceFiler, err error) {
	defer func() {
		if err != nil {
			all.Close(ctx)
		}
	}()
	inherited := leases.InheritedLocks()
	if cmdline.EmptyFlag(f.FlagSet, "also-store") || slices.Contains(f.also, "") {
		return nil, nil, nil, exit.Usagef("--also-store is empty: name a store, or remove the flag")
	}
	for i, also := range f.also {
		if f.also[i], err = a.Named(also); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, url := range append([]string{a.StoreURL}, f.also...) {
		f.Flags.MinInterval = f.minInterval
		client, st, err := a.Client(ctx, url, &f.Flags)
		if err != nil {
			return nil, all, nil, err
		}
		all = append(all, leases.Client{Client: client, Store: st})
		for _, other := range all[:len(all)-1] {
			if other.Store.URL == st.URL {
				return nil, all, nil, exit.Usagef("--also-store names the store %s, which --store already names", st.URL)
			}
		}
		if p, ok := store.As[presenceFiler](st.Store); ok {
			presence = append(presence, p)
		}
		for _, name := range names {
			if err := leases.HeldAround(ctx, client, inherited, st.URL, name); err != nil {
				return nil, all, nil, err
			}
			h := &openedStore{client: client, store: st.Store, url: st.URL, again: st.Again}
			if f.inSession() {
				h.open = func(ctx context.Context, open map[*lease.Client]*lease.Session) (err error) {
					if open[client] == nil {
						if open[client], err = client.OpenSession(ctx); err != nil {
							return err
						}
					}
					h.Handle, err = open[client].Handle(name, &f.shared)
					return err
				}
			} else if h.Handle, err = f.handle(client, name); err != nil {
				return nil, all, nil, err
			}
			handles = append(handles, h)
		}
	}
	return handles, all, presence, nil
}

// presenceFiler is a store on which a child can keep the holder's presence up.
type presenceFiler interface {
	store.Presence
	PresenceFile(ctx context.Context) (*os.File, error)
}

var _ presenceFiler = (*filestore.Store)(nil)

// openedStore is a handle together with its store.
type openedStore struct {
	*lease.Handle
	client *lease.Client
	store  store.Store
	url    string
	again  string // the URL of the store, with its parameters

	// open makes the handle of a lock under a session, of which each client opens one. It is
	// nil for other locks, whose handle is there.
	open func(context.Context, map[*lease.Client]*lease.Session) error
}

// acquire takes the locks, as awaited says.
func (a *access) acquire(ctx context.Context, f *runFlags, handles []*openedStore, signals chan os.Signal) (*lease.GuardSet, error) {
	take := lease.AcquireAll
	if f.wait == 0 {
		take = lease.TryAcquireAll
	}
	return a.awaited(ctx, f, storesOf(handles), signals, func(ctx context.Context) (*lease.GuardSet, error) {
		sessions := map[*lease.Client]*lease.Session{}
		plain := make([]*lease.Handle, len(handles))
		for i, h := range handles {
			if h.open != nil {
				if err := h.open(ctx, sessions); err != nil {
					return nil, err
				}
			}
			plain[i] = h.Handle
		}
		return take(ctx, plain...)
	})
}

// awaited calls take. It waits for as long as the flags say, or until a signal comes. A
// signal that awaited takes from the channel takes effect, even if the lock was acquired
// at the same instant. A signal that it does not take stays in the channel.
func (a *access) awaited(ctx context.Context, f *runFlags, stores []string, signals chan os.Signal, take func(context.Context) (*lease.GuardSet, error)) (*lease.GuardSet, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f.wait > 0 {
		timer := time.AfterFunc(f.wait, func() {
			cancel(&leases.WaitedError{Limit: f.wait})
		})
		defer timer.Stop()
	}
	done := make(chan struct{})
	stopped := make(chan struct{})
	var late <-chan time.Time // only for a single try; a wait reports it by an event
	if f.wait == 0 {
		timer := time.NewTimer(lease.UnresponsiveAfter)
		defer timer.Stop()
		late = timer.C
	}
	go func() {
		defer close(stopped)
		for {
			select {
			case <-late:
				a.Notef("%s has not answered yet", strings.Join(stores, ", "))
			case sig := <-signals:
				switch {
				case child.Terminating(sig):
					cancel(&signalled{sig})
					return
				case child.Suspends(sig):
					child.Suspend()
				}
			case <-done:
				return
			}
		}
	}()
	set, err := take(ctx)
	close(done)
	<-stopped
	var sig *signalled
	if err == nil && errors.As(context.Cause(ctx), &sig) {
		return nil, errors.Join(sig, set.Release(ctx))
	}
	return set, err
}

// storesOf returns the URLs of the stores of locks.
func storesOf(handles []*openedStore) (all []string) {
	for _, h := range handles {
		if !slices.Contains(all, h.url) {
			all = append(all, h.url)
		}
	}
	return all
}

// signalled says that a signal has ended the wait.
type signalled struct{ sig os.Signal }

func (e *signalled) Error() string { return "ended by " + child.SignalName(e.sig) }

// busy turns the error of an acquire into the message and the error of run.
func (a *access) busy(ctx context.Context, f *runFlags, handles []*openedStore, err error) error {
	var sig *signalled
	if errors.As(err, &sig) {
		return exit.With(128+child.SignalNumber(sig.sig), fmt.Errorf("no lock was taken: %w", sig))
	}
	var held *lease.HeldError
	if !errors.As(err, &held) || errors.Is(err, lease.ErrUnresponsive) {
		return err
	}
	b := &BusyError{HeldError: held, on: held.Store}
	var client *lease.Client
	for _, h := range handles {
		if h.url == held.Store {
			b.on, client, b.orphans = h.again, h.client, leftRunning(ctx, h.store, held.Record)
		}
	}
	b.By = leases.HoldersOf(ctx, client, held.Record)
	return exit.With(f.conflictStatus, b)
}

// leftRunning says that the holder of a lock is dead, and what it has left running.
func leftRunning(ctx context.Context, st store.Store, r lease.Record) string {
	pids, any := leases.OrphansOf(ctx, st, r)
	if r.State != lease.Held || !any {
		return ""
	}
	return (&leases.LockView{Liveness: "orphans", Orphans: pids}).Explained()
}

// urls returns a function that returns the URL of a guard's store.
func urls(handles []*openedStore) func(*lease.Guard) string {
	of := map[*lease.Handle]string{}
	for _, h := range handles {
		of[h.Handle] = h.url
	}
	return func(g *lease.Guard) string { return of[g.Handle()] }
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

// supervise runs the command until it ends, and returns its status. ran is true if the
// command was started and no signal asked this process to end.
func (a *access) supervise(f *runFlags, cmd *exec.Cmd, set *lease.GuardSet, signals chan os.Signal, presence []presenceFiler) (_ int, ran bool, _ error) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, a.Stdout, a.Stderr
	for _, p := range presence {
		// The child keeps the holder's presence up. If this process dies while the child
		// still works, no waiter takes the holder for dead.
		if _, err := p.Announce(set.Context()); err != nil {
			continue // waiters then rely on the TTL alone
		}
		inherited, err := inheritPresence(set.Context(), p)
		if err != nil {
			return 0, false, cmp.Or(set.Err(), fmt.Errorf("run did not start the command, because the command could not inherit the proof that the lock is in use: %w", err))
		}
		defer inherited.Close()
	}
	// The system ties the child's life to the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := set.Err(); err != nil {
		return 0, false, exit.With(exit.Lost, err) // this process may have been stopped for a while
	}
	c, err := child.Start(cmd)
	if err != nil {
		return 0, false, exit.With(exit.NotExec, err)
	}
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
		status  = exit.Failed
		wasLost bool
		timeOut bool // it ran for longer than --timeout allows
		asked   bool // a signal, or another client, asked this process to end
		killed  bool // the whole group should be dead
		again   <-chan time.Time
		said    bool
		wanted  = guardsWithRequests(set)
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
			if killed || asked {
				left = c.Left(!killed)
			}
			switch {
			case left == "" && f.waitGroup && !killed && c.Left(false) != "":
			case left != "" && !said:
				said = true
				a.unstoppable(left, wasLost)
			case left != "":
			case wasLost:
				end := "was stopped"
				if said {
					end = "has ended by itself"
				}
				return 0, !asked, exit.With(exit.Lost, &lostError{context.Cause(set.Context()), end})
			case timeOut:
				return 0, true, exit.With(exit.TimedOut, fmt.Errorf("%w: run stopped it after %v (--timeout)", errTimedOut, f.timeout))
			default:
				return status, !asked, nil
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
				status = child.ExitStatus(ws)
			}
		case sig := <-signals:
			f.stopping = f.stopping || child.Terminating(sig)
			asked = asked || f.stopping
			if child.Continues(sig) && !mayGoOn() {
				continue
			}
			if err := c.Forward(sig); err != nil && ended != nil {
				a.Warnf("run could not send %s to the command: %v: %s; run keeps the lock until the command ends", child.SignalName(sig), err, c.Left(true))
			}
		case g := <-wanted:
			if f.onAsk == askRefuse {
				a.refuse(set.Context(), g)
				continue
			}
			asked = true
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
			if f.hooks.lost != "" {
				defer a.onLost(f.hooks.lost, cmd.Env)()
			}
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

// rereadDelay is how often run checks whether processes that it could not end have ended.
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

// inheritPresence opens a descriptor that a child inherits. While the descriptor is open,
// the presence of this process on a store stays up.
func inheritPresence(ctx context.Context, p presenceFiler) (*os.File, error) {
	file, err := p.PresenceFile(ctx)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return child.Inheritable(file)
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
