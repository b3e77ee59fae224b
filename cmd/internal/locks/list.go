// Package locks has the commands that show and change locks, and take none.
package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ leases.Opener }

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	a := &access{leases.Opener{Invocation: in}}
	return cmdline.Commands{
		"ls": a.lsCommand, "show": a.showCommand, "watch": a.watchCommand, "ask": a.askCommand,
		"leader": a.leaderCommand, "history": a.historyCommand, "resize": a.resizeCommand, "break": a.breakCommand, "sweep": a.sweepCommand,
	}
}

// inspect reads one lock, without the sessions that its record names. For a lock that cannot be
// read it returns a view, too.
func inspect(ctx context.Context, client *lease.Client, st store.Store, name, url string) (leases.LockView, error) {
	info, err := client.Inspect(ctx, name)
	if errors.Is(err, store.ErrCorrupt) {
		return leases.LockView{Name: name, State: "unreadable", Liveness: store.LivenessUnknown.String(), Store: url, Error: output.OneLine(err)}, nil
	}
	if err != nil {
		return leases.LockView{}, err
	}
	v := leases.ViewOf(client, info, url)
	if info.Liveness == store.Alive {
		if pids, any := leases.OrphansOf(ctx, st, info.Record); any {
			v.Liveness, v.Orphans = "orphans", pids
		}
	}
	return v, nil
}

func (a *access) lsCommand() *cobra.Command {
	var state string
	var all bool
	states := []string{"held", "shared", "free", "broken", "unreadable"}
	f := &leases.Flags{}
	cmd := &cobra.Command{
		Use:     "ls [PREFIX]",
		Short:   "List locks with their states, tokens and holders",
		GroupID: cmdline.GroupLocks,
		Long: `List locks with their states, tokens and holders. PREFIX selects the lock with that name and all
locks below it: jobs selects jobs and jobs/a, but not jobs-old.

By default ls lists only some free locks: locks for which clients wait, locks that --min-interval
still blocks, and locks with a last run (--once-per). --all, --state free and --json list all free
locks.

On a terminal ls cuts lines to the width of the terminal. "holdfast help leases" explains the
states, such as "held (dead)" and "expired?". "holdfast object ls" lists objects.`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteLocks()),
		Args:              cobra.MaximumNArgs(1),
		Example: `  holdfast ls
  holdfast ls jobs --state held
  holdfast ls --json | jq '.[] | select(.liveness == "dead")'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := strings.Join(args, "") // at most one
			switch {
			case stores.IsURL(prefix):
				return exit.Usagef("ls lists locks: for objects use holdfast object ls URL")
			case state != "" && !slices.Contains(states, state):
				return exit.Usagef("--state must be held, shared, free, broken or unreadable, not %q", state)
			}
			return a.WithClient(cmd.Context(), f, nil, func(client *lease.Client, st stores.Opened) error {
				return a.ls(cmd.Context(), client, st, strings.TrimSuffix(prefix, "/"), state, all || state != "")
			})
		},
	}
	f.AddClockDrift(cmd.Flags())
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also list all free locks")
	cmd.Flags().StringVar(&state, "state", "", "list only locks in this state: held, shared, free, broken or unreadable")
	cmdline.CompleteFlag(cmd, "state", states...)
	return cmd
}

func (a *access) ls(ctx context.Context, client *lease.Client, st stores.Opened, prefix, state string, all bool) error {
	views, err := list(ctx, client, st.Store, prefix, state, st.URL)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	// A lock whose name cannot even be shown does not hide the others.
	if a.JSON {
		return errors.Join(a.PrintJSON(views), err)
	}
	free := 0
	if !all {
		listed := len(views)
		views = slices.DeleteFunc(views, (*leases.LockView).Idle)
		free = listed - len(views)
	}
	if len(views) == 0 {
		if err != nil {
			return err
		}
		if free > 0 {
			a.Notef("no locks are in use on %s; --all lists the free locks (%d)", st.URL, free)
			return nil
		}
		below, that := "", ""
		if prefix != "" {
			below = fmt.Sprintf(" at or below %q", prefix)
		}
		if state != "" {
			that = " that are " + state
		}
		a.Notef("no locks%s on %s%s", below, st.URL, that)
		return nil
	}
	out := a.Table()
	w := output.Columns(out)
	runs := slices.ContainsFunc(views, func(v *leases.LockView) bool { return v.LastRun != nil })
	// The column of runs is there only if one of the locks has a run.
	run := func(text string) string {
		if !runs {
			return ""
		}
		return text + "\t"
	}
	fmt.Fprintf(w, "NAME\tSTATE\tTOKEN\tSINCE\t%sHOLDER\n", run("LAST RUN"))
	for _, v := range views {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s%s\n", out.Name(printable.Text(v.Name)), v.ShortState(), v.Token, v.Since(time.Now()), run(v.LastRun.Short()), printable.Text(v.Whose()))
	}
	return errors.Join(w.Flush(), out.Close(), err)
}

// list reads the lock with the name prefix, and those below it, a few at the same time, in the
// order of their names. With an error that matches [store.ErrCorrupt] it also returns the locks
// that could be read.
func list(ctx context.Context, client *lease.Client, st store.Store, prefix, state, url string) ([]*leases.LockView, error) {
	var mu sync.Mutex
	views, bad := []*leases.LockView{}, []error(nil)
	names := func(yield func(string, error) bool) {
		if prefix != "" && !yield(prefix, nil) {
			return
		}
		for name, err := range client.List(ctx, prefix) {
			if errors.Is(err, store.ErrCorrupt) {
				bad = append(bad, err)
			} else if !yield(name, err) {
				return
			}
		}
	}
	err := each(ctx, names, func(ctx context.Context, name string) error {
		view, err := inspect(ctx, client, st, name, url)
		if errors.Is(err, store.ErrNotFound) {
			return nil // it never existed, or another process has deleted it
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil && (state == "" || view.State == state) {
			views = append(views, &view)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(views, func(a, b *leases.LockView) int { return cmp.Compare(a.Name, b.Name) })
	if err := under(ctx, client, st, url, views...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(views, func(v *leases.LockView) bool { return state != "" && v.State != state }), errors.Join(bad...)
}

// each calls f for each name, a few at the same time, until a call or the sequence has an error.
func each(ctx context.Context, names iter.Seq2[string, error], f func(ctx context.Context, name string) error) error {
	pool := workerpool.New(ctx, leases.InParallel, 0)
	for name, err := range names {
		if err != nil {
			pool.Stop(err, true)
		}
		if !pool.WaitRoom(0) {
			break
		}
		pool.Go(0, func(ctx context.Context) error { return f(ctx, name) })
	}
	return pool.Wait()
}

// maxRereads is how often under reads a lock again. The listing ends, even if a lock changes at every
// read.
const maxRereads = 5

// under adds what the records of sessions say of their locks. A holder can release its lock after the read of
// the lock, and then close its session. So under reads a lock again if one of its sessions has ended.
func under(ctx context.Context, client *lease.Client, st store.Store, url string, views ...*leases.LockView) error {
	for n := 0; len(views) > 0; n++ {
		if err := leases.UnderAll(ctx, client, views...); err != nil || n == maxRereads {
			return err
		}
		views = slices.DeleteFunc(slices.Clone(views), func(v *leases.LockView) bool { return !v.NamesDead() })
		errs := workerpool.Each(len(views), leases.InParallel, func(i int) error {
			now, err := inspect(ctx, client, st, views[i].Name, url)
			if errors.Is(err, store.ErrNotFound) || err == nil && now.IsOf(views[i]) {
				views[i] = nil
				return nil
			}
			*views[i] = now
			return err
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		views = slices.DeleteFunc(views, func(v *leases.LockView) bool { return v == nil })
	}
	return nil
}

func (a *access) showCommand() *cobra.Command {
	f := &leases.Flags{}
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show one lock",
		GroupID: cmdline.GroupLocks,
		Long: `Show one lock: its state, its token, and its present or last holder. show also computes when
other clients can take the lock. For this, show needs the same --max-clock-drift as the programs
that use the lock.

If no holder has ever taken the lock, or if "sweep" has removed its record, the status is 66.`,
		Example: `  holdfast show nightly
  holdfast show nightly --json | jq .token`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteLocks()),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), f, nil, func(client *lease.Client, st stores.Opened) error { return a.show(cmd.Context(), client, st, args[0]) })
		},
	}
	f.AddClockDrift(cmd.Flags())
	return cmd
}

func (a *access) show(ctx context.Context, client *lease.Client, st stores.Opened, name string) error {
	v, err := inspect(ctx, client, st.Store, name, st.URL)
	if err != nil {
		return err
	}
	if err := under(ctx, client, st.Store, st.URL, &v); err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(v)
	}
	w := output.Columns(a.Stdout)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", label, printable.Text(fmt.Sprintf(format, args...)))
	}
	line("name", "%s", v.Name)
	line("store", "%s", v.Store)
	line("state", "%s", v.ShortState())
	if v.Error != "" {
		line("error", "%s", v.Error)
		return w.Flush()
	}
	if what := v.Explained(); what != "" {
		line("", "%s", what)
	}
	line("token", "%d", v.Token)
	if len(v.Holders) == 0 {
		line("holder", "%s", v.Holder)
	}
	if v.Session != "" {
		line("session", "%s", v.Session)
	}
	if v.Slots > 0 {
		line("slots", "%d, of which %s free", v.Slots, leases.AreOf(v.Slots-len(v.Holders)))
	}
	for _, m := range v.Holders {
		label := "reader"
		if m.Mode == string(lease.ModeSlot) {
			label = fmt.Sprintf("slot %d", m.Slot)
		}
		line(label, "%s", m.Line())
	}
	for i, m := range v.Queue {
		line(fmt.Sprintf("waits, %d.", i+1), "%s", m.Line())
	}
	if v.Asked != nil && v.State != "free" {
		line("asked", "%s", v.Asked.Line(v.Session == "" && len(v.Holders) == 0))
	}
	if v.Linger > 0 {
		line("kept", "the holder keeps the lock for %v after its work, unless a client asks for the lock", time.Duration(v.Linger)*time.Millisecond)
	}
	if v.Granted != nil {
		line("granted", "%s (%s ago)", v.Granted.Local().Format(time.RFC3339), output.Ago(time.Since(*v.Granted)))
	}
	if v.Renewed != nil {
		line("renewed", "%s (%s ago)", v.Renewed.Local().Format(time.RFC3339), output.Ago(time.Since(*v.Renewed)))
	}
	line("ttl", "%v, with the margin and the grace of the holder", time.Duration(v.TTL)*time.Millisecond)
	if v.Expires != nil {
		unless := ", unless it is renewed"
		if v.State == "broken" && v.Session == "" {
			unless = ""
		}
		line("expires", "%s (%s)"+unless, v.Expires.Local().Format(time.RFC3339), output.Away(time.Until(*v.Expires)))
	}
	if v.After != nil {
		line("not before", "%s (%s)", v.After.Local().Format(time.RFC3339), output.Away(time.Until(*v.After)))
	}
	v.LastRun.Lines(line)
	if v.Data != nil {
		line("data", "%s", *v.Data)
	}
	return w.Flush()
}
