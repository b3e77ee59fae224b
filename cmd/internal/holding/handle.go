package holding

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// defaultLockTTL is how long a user can rely on a lock that no process renews.
// defaultKeptTTL is the same for a lock that a process renews.
const (
	defaultLockTTL = time.Hour
	defaultKeptTTL = time.Minute
)

func (a *access) lockCommand() *cobra.Command {
	f := &runFlags{}
	var path, keep string
	cmd := &cobra.Command{
		Use:        "lock NAME",
		SuggestFor: []string{"acquire"},
		Short:      "Take a lock that stays held after this command has ended",
		GroupID:    cmdline.GroupLocks,
		Long: `Take a lock for several steps of a script or a pipeline. The lock stays held after this command
has ended. lock prints the path of a handle file. renew and unlock need this path. After lock or
renew, you can rely on the lock for the time --ttl. The handle file contains this deadline. Other
programs can take the lock only after the deadline, the margin and the grace.

By default no process renews the lock. --renew-until starts a background process that renews the
lock. With --renew-until unlock, the background process ends when you call unlock. With a process
id, or with --renew-until parent (the process that started lock), the background process releases
the lock when that process has ended.

--handle names the handle file. lock replaces an existing file only if the file is a handle and
the lease of that handle has ended.`,
		Example: `  set -e                         # end this script at the first error
  handle=$(holdfast lock deploy --renew-until $$)
  ./build.sh
  holdfast renew "$handle"       # status 76 if the lock is lost
  ./deploy.sh
  holdfast unlock "$handle"      # status 76 if the lock is lost

  # steps in separate processes, without a background process: renew before 20 minutes are over
  holdfast lock deploy --ttl 20m --handle deploy.json`,
		ValidArgsFunction: a.CompleteLocks(),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args, []string{"lock"}); err != nil {
				return err
			}
			if cmdline.EmptyFlag(cmd.Flags(), "renew-until") {
				return exit.Usagef("--renew-until is empty: give unlock, parent, or the id of a process")
			}
			if f.TTL == 0 {
				f.TTL = defaultLockTTL
				if keep != "" {
					f.TTL = defaultKeptTTL
				}
			}
			if err := trusted(&f.Flags); err != nil {
				return err
			}
			return a.lock(cmd.Context(), f, args[0], path, keep)
		},
	}
	flags := cmd.Flags()
	f.Flags.Add(flags)
	flags.Lookup("ttl").Usage = "how long you can rely on the lock without a renewal (default 1h, or 1m with --renew-until)"
	f.onLost = "kill"
	f.addWait(flags)
	flags.StringVar(&path, "handle", "", "path of the handle `FILE` (default: a new file in ~/.local/state/holdfast/handles; for root in /var/lib/holdfast/handles)")
	flags.StringVar(&keep, "renew-until", "", "renew the lock in the background until one of these: unlock (you call unlock), parent (the parent process ends), or a process id (that process ends)")
	return cmd
}

func (a *access) lock(ctx context.Context, f *runFlags, name, path, keep string) error {
	f.Detached = true
	until, err := keptFor(keep)
	if err != nil {
		return err
	}
	child.SurviveClosedPipe()
	place, err := openHandleDir(path)
	if err != nil {
		return err
	}
	defer place.close()
	out, err := place.create()
	if err != nil {
		return err
	}
	defer out.Discard() // unless it was renamed
	signals := make(chan os.Signal, 32)
	signal.Notify(signals, child.Forwardable()...)
	defer signal.Stop(signals)
	handles, clients, _, err := a.handles(ctx, f, []string{name})
	if err != nil {
		return err
	}
	defer clients.Close()
	old, err := a.vacant(ctx, place, handles[0])
	if err != nil {
		return err
	}
	set, err := a.acquire(ctx, f, handles, signals)
	if err != nil {
		return a.busy(ctx, f, handles, err)
	}
	fresh, err := place.claim(ctx, old)
	if err != nil {
		return errors.Join(err, set.Release(ctx))
	}
	guard := set.Guards()[0]
	file, err := detach(ctx, guard, handles[0].again, clients[0].Options())
	if err != nil {
		return errors.Join(err, set.Release(ctx))
	}
	file.Holder = f.Holder
	written, err := place.write(out, file, fresh)
	var kept *renewer
	if err == nil && keep != "" {
		if kept, err = startRenewer(written, file.Ticket.Grant, until); err == nil {
			err = kept.ready()
		}
	}
	if err == nil {
		result := file.result(written)
		if kept != nil {
			result["renewer_pid"] = kept.cmd.Process.Pid
		}
		err = a.Print(result, written)
	}
	if err == nil {
		if kept == nil {
			a.Notef("%s", file.heldUntil())
		}
		return nil
	}
	if kept != nil {
		_ = kept.cmd.Process.Kill()
		_ = kept.cmd.Wait()
	}
	// The file could not be written, or no user learned its name. So no command would
	// release the lock: release it now.
	releaseErr := clients[0].ReleaseTicket(ctx, *file.Ticket)
	if written != "" && releaseErr == nil {
		releaseErr = place.dir.Remove(filepath.Base(written))
	}
	return errors.Join(fmt.Errorf("no lock was taken: %w", err), releaseErr)
}

// vacant returns the handle that lock may write over, nil if there is none in the place.
// lock writes over a handle only if its lease has ended; any other file is an error. A
// handle of the same lock needs no check: once lock has taken the lock, the lease of that
// handle has ended.
func (a *access) vacant(ctx context.Context, place *handleDir, wanted *openedStore) (*handleFile, error) {
	if place.name == "" {
		return nil, nil
	}
	f, err := place.read()
	switch {
	case exit.Status(err) == exit.NotFound:
		return nil, nil
	case err != nil:
		return nil, exit.Usagef("--handle names an existing file, and lock does not replace this file: %w", err)
	}
	if bare, _, _ := strings.Cut(f.Store, "?"); bare == wanted.url && f.Ticket.Name == wanted.Name() {
		return f, nil
	}
	makes := a.Makes
	a.Makes = stores.MakesNone
	client, st, err := a.Client(ctx, f.Store, &leases.Flags{Detached: true})
	a.Makes = makes
	if err == nil {
		defer st.Close()
		var info lease.Info
		info, err = client.Inspect(ctx, f.Ticket.Name)
		if errors.Is(err, store.ErrNotFound) || err == nil && (info.Record.State != lease.Held || info.Record.Grant != f.Ticket.Grant) {
			return f, nil
		}
	}
	if err != nil {
		return nil, exit.Usagef("--handle %s is the handle of lock %q, and the state of this lock cannot be read: %w", place.path, f.Ticket.Name, err)
	}
	return nil, exit.Usagef("--handle %s is the handle of lock %q, and this lock is held until %s: unlock it, or name another file",
		place.path, f.Ticket.Name, f.Deadline.Local().Format(time.RFC3339))
}

// detach makes the handle file of a guard. The lease then continues without the guard.
func detach(ctx context.Context, guard *lease.Guard, url string, o lease.Options) (*handleFile, error) {
	deadline := guard.Deadline()
	ticket, err := guard.Detach(ctx)
	if err != nil {
		return nil, err
	}
	return &handleFile{
		Holdfast: 1, Kind: handleKind, Store: url, TTL: o.TTL.String(), Margin: o.Margin.String(),
		Grace: o.Grace.String(), Deadline: deadline, Ticket: &ticket,
	}, nil
}

// use reads a handle file, makes a client for its lease, and calls do. Meanwhile no other command uses the file. If
// grant is not empty, the handle must be of that grant.
func (a *access) use(ctx context.Context, path, grant string, do func(*handleDir, *handleFile, *lease.Client) error) error {
	if path == "" {
		return exit.Usagef("name the handle file")
	}
	place, err := openHandleDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noHandle(path)
	case err != nil:
		return exit.With(exit.Denied, fmt.Errorf("handle: %w", err))
	}
	defer place.close()
	if err := place.lock(ctx); err != nil {
		return err
	}
	f, err := place.read()
	if err != nil {
		return err
	}
	if grant != "" && grant != f.Ticket.Grant {
		return noHandle(path)
	}
	url, err := a.storeOf(ctx, f, path)
	if err != nil {
		return err
	}
	flags := &leases.Flags{Detached: true, Holder: f.Holder}
	for _, d := range []struct {
		text string
		to   *time.Duration
	}{{f.TTL, &flags.TTL}, {f.Margin, &flags.Margin}, {f.Grace, &flags.Grace}} {
		if *d.to, err = time.ParseDuration(d.text); err != nil {
			return exit.With(exit.Unsafe, fmt.Errorf("handle %s: %w", path, err))
		}
	}
	if flags.Grace == 0 {
		flags.Grace = -1 // no grace, and not the default one
	}
	client, st, err := a.Client(ctx, url, flags)
	if err != nil {
		return err
	}
	defer st.Close()
	f.Store = st.Again
	return do(place, f, client)
}

// storeOf returns the URL of the store of a handle. The parameters of --store, or of its variable, replace those of
// the handle, because the address of a server can change. --store must name the store of the handle. The variable
// is only a default, so it may name another store, or none.
func (a *access) storeOf(ctx context.Context, f *handleFile, path string) (string, error) {
	kind, _, _ := strings.Cut(f.Store, ":")
	if !a.StoreChosen || !a.StoreGiven && !strings.HasPrefix(strings.ToLower(a.StoreURL), kind+":") {
		return f.Store, nil
	}
	given, err := a.OpenURL(ctx, a.StoreURL)
	bare, _, _ := strings.Cut(f.Store, "?")
	switch {
	case err == nil:
		_ = given.Close()
	case !a.StoreGiven:
		return f.Store, nil
	case exit.Status(err) == exit.NotFound:
		return "", exit.Usagef("handle %s belongs to the store %s: remove --store: %w", path, bare, err)
	default:
		return "", err
	}
	switch {
	case given.URL == bare || stores.Escaped(given.URL) == bare:
		return given.Again, nil
	case a.StoreGiven:
		return "", exit.Usagef("handle %s belongs to the store %s, not to %s: remove --store", path, bare, given.URL)
	}
	return f.Store, nil
}

func (a *access) renewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "renew HANDLE",
		Short:   "Renew a lock that \"holdfast lock\" has taken",
		GroupID: cmdline.GroupLocks,
		Long: `Renew a lock that "lock" has taken. After renew you can rely on the lock for another --ttl. renew
replaces the handle file. Copies of the old handle file are then invalid.

If the lease has expired, or if a user broke the lock, the status is 76. Then stop all work that
needs the lock. In this case renew also releases the lock, unless another holder has taken it.

If HANDLE is an old copy, the status is also 76. Then renew changes nothing.`,
		Example: `  holdfast renew "$handle" || exit   # status 76: the lock is lost, so stop`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.renewed(cmd.Context(), args[0], "")
			if err != nil {
				return err
			}
			return a.PrintOrNote(f.result(args[0]), "%s", f.heldUntil())
		},
	}
	cmd.AddCommand(a.keeperCommand())
	return cmd
}

// result is what lock and renew print with --json. Its fields are stable.
func (f *handleFile) result(path string) map[string]any {
	return map[string]any{"handle": path, "lock": f.Ticket.Name, "token": f.Ticket.Token, "deadline": f.Deadline, "store": f.Store}
}

// heldUntil says until when the user can rely on a lock.
func (f *handleFile) heldUntil() string {
	return fmt.Sprintf("lock %q is held until %s", f.Ticket.Name, f.Deadline.Local().Format(time.RFC3339))
}

// renewed renews the lock of a handle file, and returns the file's new content. If grant is
// not empty, the handle of another grant counts as missing.
func (a *access) renewed(ctx context.Context, path, grant string) (renewed *handleFile, err error) {
	err = a.use(ctx, path, grant, func(place *handleDir, f *handleFile, client *lease.Client) error {
		// If this command dies in the middle, the file still holds a good handle.
		ticket, err := client.RenewTicket(ctx, *f.Ticket, func(t lease.Ticket) error {
			f.Ticket = &t
			return place.replace(f)
		})
		if err != nil {
			return handleError(path, err)
		}
		o := client.Options()
		f.Ticket, f.Deadline = &ticket, ticket.Sent.Add(o.TTL-o.Margin-o.Grace)
		if err := place.replace(f); err != nil {
			return fmt.Errorf("lock %q was renewed, but the handle file could not be written; use the old handle again: %w", ticket.Name, err)
		}
		renewed = f
		return nil
	})
	return renewed, err
}

func (a *access) unlockCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "unlock HANDLE",
		SuggestFor: []string{"release"},
		Short:      "Release a lock that \"holdfast lock\" has taken",
		GroupID:    cmdline.GroupLocks,
		Long: `Release a lock that "lock" has taken, and remove its handle file.

If the lease ended before this command, the status is 76. Then another holder may have had the
lock during your work.

If HANDLE is an old copy from before a renewal, the status is also 76. Then unlock changes
nothing, and the newer handle remains valid.`,
		Example: `  handle=$(holdfast lock deploy --renew-until $$) || exit
  ./deploy.sh || exit
  holdfast unlock "$handle" || exit  # status 76 if the lock was lost`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.unlock(cmd.Context(), args[0], ""); err != nil {
				return err
			}
			return a.PrintIfJSON(map[string]any{"handle": args[0], "released": true})
		},
	}
}

// unlock releases the lock of a handle file. The parameter grant means the same as in
// [app.renewed].
func (a *access) unlock(ctx context.Context, path, grant string) error {
	return a.use(ctx, path, grant, func(place *handleDir, f *handleFile, client *lease.Client) error {
		err := handleError(path, client.ReleaseTicket(ctx, *f.Ticket))
		if errors.Is(err, lease.ErrTicketUsed) {
			return err
		}
		if errors.Is(err, lease.ErrReleased) {
			err = fmt.Errorf("%w before this command: the lock is free; your deadline was %s (%s)", err, f.Deadline.Local().Format(time.RFC3339), output.Away(time.Until(f.Deadline)))
		}
		if err == nil || errors.Is(err, lease.ErrLost) || errors.Is(err, lease.ErrReleased) {
			err = errors.Join(err, place.dir.Remove(place.name)) // the handle is of no use any more
		}
		return err
	})
}
