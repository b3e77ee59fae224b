package locks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
	"github.com/holdfast-go/holdfast/store/filestore"
)

func (a *access) breakCommand() *cobra.Command {
	var (
		token           uint64
		yes, unreadable bool
		opts            lease.BreakOptions
	)
	cmd := &cobra.Command{
		Use:     "break NAME --token N [--now]",
		Short:   "End the work of a holder, and free its lock",
		GroupID: cmdline.GroupLocks,
		Long: `End the work of a holder, and free its lock. If several clients hold the lock, break ends the
work of all holders.

The holder sees the break at its next renewal, and stops. Then other clients can take the lock.
If the holder is dead, other clients can take the lock one TTL after its last renewal.

--now lets other clients take the lock at once. If the holder lives, two holders then work at the
same time. So use --now only if the holder is dead, or if the storage checks fencing tokens.
If --token is not the present token of the lock, break changes nothing. A break also ends a
--min-interval, and allows a job with --once-per to run again. --unreadable --now replaces the
damaged record of a lock, and keeps a copy of that record.`,
		Example: `  holdfast show nightly
  holdfast break nightly --token 1795220270042317
  holdfast break nightly --token 1795220270042317 --now   # only if the holder is certainly dead
  holdfast break nightly --unreadable --now               # only if no holder of the lock lives`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteLocks()),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if unreadable {
				if token != 0 || !opts.Immediate || opts.Reason != "" {
					return exit.Usagef("use --unreadable with --now, and without --token and --reason, because break cannot read the damaged record")
				}
				return a.WithClient(cmd.Context(), &leases.Flags{}, nil, func(client *lease.Client, st stores.Opened) error {
					return a.breakUnreadable(cmd.Context(), client, st, args[0], yes)
				})
			}
			if token == 0 {
				return exit.Usagef("--token N is missing: show prints the token of the lock")
			}
			return a.WithClient(cmd.Context(), &leases.Flags{}, nil, func(client *lease.Client, st stores.Opened) error {
				return a.breakLock(cmd.Context(), client, st, args[0], token, &opts, yes)
			})
		},
	}
	cmd.Flags().Uint64Var(&token, "token", 0, "present token of the lock, as show prints it; break does not use HOLDFAST_TOKEN")
	cmd.Flags().BoolVar(&opts.Immediate, "now", false, "let other clients take the lock at once, even if the holder lives")
	cmd.Flags().StringVar(&opts.Reason, "reason", "", "reason for the break; if the lock has a history, \"holdfast history\" prints at most 96 bytes of it")
	cmd.Flags().BoolVar(&unreadable, "unreadable", false, "replace the damaged record of a lock, and keep a copy of the damaged record")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func (a *access) breakLock(ctx context.Context, client *lease.Client, st stores.Opened, name string, token uint64, opts *lease.BreakOptions, yes bool) error {
	if !yes {
		if err := a.confirmBreak(ctx, client, name, opts.Immediate); err != nil {
			return err
		}
	}
	before, err := client.Inspect(ctx, name) // a break with --now leaves no holders
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	rec, err := client.Break(ctx, name, token, opts)
	if errors.Is(err, lease.ErrTokenMismatch) && before.Record.Token != token {
		return output.WithHints(fmt.Sprintf("lock %q on %s was not broken: its token is %d, and you gave %d", name, st.URL, before.Record.Token, token), err,
			[]string{fmt.Sprintf("the lock may have a new holder: holdfast --store %s show %s", output.Quote(st.Again), output.Quote(name))})
	}
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(leases.ViewOf(client, lease.Info{Record: rec}, st.URL))
	}
	again := ""
	if rec.Run != nil && rec.Run.RerunAllowed {
		again = "; the job may run again in this period"
	}
	if rec.State == lease.Free {
		a.Notef("lock %q on %s is free, and clients can take the lock now; its token is %d%s", name, st.URL, rec.Token, again)
		return nil
	}
	by := "the holder was " + leases.HoldersOf(ctx, client, before.Record)
	if before.Record.State == lease.Shared {
		by = "the lock had several holders"
	}
	a.Notef("lock %q on %s is broken: %s; the token is now %d; %s%s", name, st.URL, by, rec.Token, leases.AfterBreak(client, rec), again)
	return nil
}

// confirmBreak asks the user, if stdin is a terminal. Elsewhere the token is enough.
func (a *access) confirmBreak(ctx context.Context, client *lease.Client, name string, now bool) error {
	if !a.Interactive() {
		return nil
	}
	info, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	held := fmt.Sprintf("Lock %q is held by %s (token %d). The process of the holder is %s.", name, info.Record.Holder, info.Record.Token, livenessWords[info.Liveness])
	if n := len(info.Record.Holders); n > 0 {
		held = fmt.Sprintf("Lock %q has %d holders (token %d).", name, n, info.Record.Token)
	}
	question := fmt.Sprintf("%s A break ends the work of the holder: %s. Break the lock?", held, leases.AfterBreak(client, info.Record))
	switch {
	case info.Record.State == lease.Free:
		question = fmt.Sprintf("Lock %q is free, but clients cannot take it yet. Let other clients take it now?", name)
	case now:
		question = held + " With --now, other clients can take the lock at once. If the holder lives, two holders work at the same time. Is the holder certainly dead?"
	}
	return a.Confirm(question, notBroken(name))
}

// livenessWords say to people what is known of a holder's process.
var livenessWords = map[store.Liveness]string{store.Alive: "ALIVE", store.Dead: "dead", store.LivenessUnknown: "possibly alive"}

func notBroken(name string) string { return fmt.Sprintf("lock %q was not broken", name) }

// breakUnreadable makes a lock usable again when its record cannot be read.
func (a *access) breakUnreadable(ctx context.Context, client *lease.Client, st stores.Opened, name string, yes bool) error {
	if !yes && a.Interactive() {
		question := fmt.Sprintf("After this command, other clients can take lock %q on %s at once. If a holder lives, two holders work at the same time. Are all holders certainly dead?", name, st.URL)
		if err := a.Confirm(question, notBroken(name)); err != nil {
			return err
		}
	}
	kept := ""
	rec, err := client.BreakUnreadable(ctx, name, func(ctx context.Context, key string, value []byte) (err error) {
		kept, err = repair(ctx, st.Store, key, value)
		return err
	})
	if kept != "" {
		a.Notef("a copy of the damaged record of lock %q on %s is in %s", name, st.URL, kept)
	}
	if err != nil {
		return err
	}
	view := map[string]any{"lock": name, "token": rec.Token, "store": st.URL, "copy": kept}
	return a.PrintOrNote(view, "lock %q on %s can be used again: its token is %d", name, st.URL, rec.Token)
}

// mover is a store that moves away a register that it cannot read, and returns where to.
type mover interface {
	Repair(ctx context.Context, key string) (where string, err error)
}

// remover is a store that removes a register that it cannot read, after keep has made a copy of it.
type remover interface {
	Repair(ctx context.Context, key string, keep func(version string, body []byte) error) error
}

var (
	_ mover   = (*filestore.Store)(nil)
	_ remover = (*engine.Store)(nil) // and the store of compat/s3verstore
)

// repair keeps the unreadable content of a key, and returns where. It copies a value into
// the directory of this user's locks. If the store itself cannot read the register (value
// is nil), repair moves the register away, or copies and removes it, where the store can
// do so.
func repair(ctx context.Context, st store.Store, key string, value []byte) (where string, err error) {
	if moves, ok := store.As[mover](st); ok && value == nil {
		return moves.Repair(ctx, key)
	}
	removes, ok := store.As[remover](st)
	if value == nil && !ok {
		return "", fmt.Errorf("%w: this store cannot remove a damaged record: copy the record, and remove it with the tools of the store", errors.ErrUnsupported)
	}
	base, err := stores.DefaultDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(base, "unreadable")
	dir, err := safefile.MakePrivateDir(path)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	file, err := dir.Create(".copy-")
	if err != nil {
		return "", err
	}
	defer file.Discard()
	name := fmt.Sprintf("%s-%s", leases.FlatName(key), time.Now().UTC().Format("20060102T150405.000000"))
	install := func() error {
		if err := file.Sync(); err != nil {
			return err
		}
		if err := file.InstallNew(name); err != nil {
			return err
		}
		where = filepath.Join(path, name)
		return dir.Sync()
	}
	if value != nil {
		if _, err := file.Write(value); err != nil {
			return "", err
		}
		err = install()
		return where, err
	}
	err = removes.Repair(ctx, key, func(version string, body []byte) error {
		if version == "" { // the last call: every version is copied, and may be removed now
			return install()
		}
		_, err := fmt.Fprintf(file, "%s\n%s\n", version, body)
		return err
	})
	return where, err
}
