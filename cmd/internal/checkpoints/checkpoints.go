// Package checkpoints has the commands about checkpoints, in a store or in a state file.
package checkpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ leases.Opener }

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	a := &access{leases.Opener{Invocation: in}}
	return cmdline.Commands{"checkpoint": a.checkpointCommand}
}

// checkpointFlags are the flags of all checkpoint commands.
type checkpointFlags struct {
	flags   *pflag.FlagSet
	file    string
	network bool
	unsafe  []string
	history bool          // keep a history of the checkpoints that the command changes
	wait    time.Duration // for the lock of the file; negative: for ever
}

// checkpointView is a checkpoint as it is printed with --json, exported and
// imported. Its fields are stable. Sequence and epoch are JSON integers up to
// 2^64-1.
type checkpointView struct {
	Key      string     `json:"key"`
	Exists   bool       `json:"exists"`
	Sequence uint64     `json:"sequence"`
	EventID  string     `json:"event_id,omitempty"`
	Data     *string    `json:"data,omitempty"`
	Base64   []byte     `json:"data_base64,omitempty"`
	Epoch    uint64     `json:"epoch,omitempty"`
	Token    uint64     `json:"token,omitempty"`
	Written  *time.Time `json:"written,omitempty"`
	Status   string     `json:"status,omitempty"` // of advance
}

func viewCheckpoint(c checkpoint.Checkpoint) checkpointView {
	v := checkpointView{Key: c.Key, Exists: c.Exists, Sequence: c.Sequence, EventID: c.EventID, Epoch: c.Epoch, Token: c.Token, Written: printable.Time(c.Written)}
	v.Data, v.Base64 = leases.TextOrBytes(c.Data)
	return v
}

// position is the position of an exported checkpoint.
func (v *checkpointView) position() checkpoint.Position {
	p := checkpoint.Position{Sequence: v.Sequence, EventID: v.EventID, Data: v.Base64}
	if v.Data != nil {
		p.Data = []byte(*v.Data)
	}
	return p
}

func (a *access) checkpointCommand() *cobra.Command {
	f := &checkpointFlags{}
	cmd := &cobra.Command{
		Use:     "checkpoint",
		Short:   "Save positions in streams; a position never moves back",
		GroupID: cmdline.GroupCheckpoints,
		Long: `Save positions in streams. advance never moves a checkpoint back, even if several processes write
it. A saved checkpoint survives crashes and power cuts.

By default checkpoints are in a store. With --file they are in a JSON state file. aviso programs
can use this file at the same time. With --file and --store, reset and rm look in the store for a
lock with the name of the checkpoint. If another process holds this lock, reset and rm refuse the
change.`,
		Example: `  holdfast checkpoint advance orders 17
  holdfast checkpoint get orders
  holdfast checkpoint --file state.json ls`,
	}
	flags := cmd.PersistentFlags()
	f.flags = flags
	flags.StringVar(&f.file, "file", "", "JSON state file to use in place of a store")
	f.wait = -1
	flags.VarP((*cmdline.Seconds)(&f.wait), "wait", "w", "with --file: maximum wait for the lock of the file, such as 5m or 300 (seconds); then the status is 75 (default: no limit)")
	flags.Lookup("wait").DefValue = "" // the text says what is
	flags.BoolVar(&f.network, "allow-network", false, "with --file: allow a file system that is not known to be local")
	flags.StringSliceVar(&f.unsafe, "unsafe", nil, "with --file: accept a risk that other users change the file: owner, writable or link")
	return cmdline.Group(cmd,
		a.checkpointGet(f), a.checkpointAdvance(f), a.checkpointReset(f), a.checkpointRemove(f), a.checkpointList(f),
		a.checkpointHistory(f), a.checkpointWatch(f), a.checkpointExport(f), a.checkpointImport(f), a.checkpointRestore(f), a.resumeKeyCommand(),
	)
}

// addHistory adds the flag of the commands that change a checkpoint.
func (f *checkpointFlags) addHistory(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.history, "history", false, "keep a history, which \"holdfast checkpoint history\" prints; a state file has none")
}

// withCheckpoints opens the keeper that the flags name, calls do, and closes it.
func (a *access) withCheckpoints(ctx context.Context, f *checkpointFlags, do func(context.Context, checkpoint.Store) error) (err error) {
	if f.file != "" {
		return a.withFile(ctx, f, do)
	}
	if cmdline.EmptyFlag(f.flags, "file") {
		return exit.Usagef("the name of the state file is empty: name a file; or remove --file and %s to use the store", cmdline.VariableOf("file"))
	}
	return a.WithClient(ctx, &leases.Flags{}, nil, func(client *lease.Client, st stores.Opened) error {
		keeper, err := checkpoint.New(st.Store, &checkpoint.Options{HeldBy: heldBy(client), History: f.history})
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, keeper), keeper.Close(context.WithoutCancel(ctx)))
	})
}

// withFile is withCheckpoints for a state file.
func (a *access) withFile(ctx context.Context, f *checkpointFlags, do func(context.Context, checkpoint.Store) error) error {
	o := &avisofile.Options{AllowNetwork: f.network, Unsafe: f.unsafe, Logger: a.Log()}
	if a.StoreGiven && a.Path != "holdfast checkpoint reset" && a.Path != "holdfast checkpoint rm" {
		return exit.Usagef("--file and --store exclude each other, except for reset and rm: remove one of them")
	}
	if a.StoreGiven { // the locks that guard the file's checkpoints lie there
		a.Makes = stores.MakesNone
		client, st, err := a.Client(ctx, a.StoreURL, &leases.Flags{})
		if err != nil {
			return err
		}
		defer st.Close()
		o.HeldBy = heldBy(client)
	}
	if _, err := os.Stat(filepath.Dir(f.file)); errors.Is(err, fs.ErrNotExist) {
		return exit.With(exit.NotFound, fmt.Errorf("the directory of the state file does not exist: %w", err))
	}
	keeper, err := avisofile.Open(f.file, o)
	if err != nil {
		return err
	}
	err = a.waitingForFile(ctx, f, func(ctx context.Context) error { return do(ctx, keeper) })
	return errors.Join(err, keeper.Close(context.WithoutCancel(ctx)))
}

// waitingForFile calls do, which waits for the lock of the state file for as long as the
// flags allow, and prints a note about a wait.
func (a *access) waitingForFile(ctx context.Context, f *checkpointFlags, do func(context.Context) error) error {
	if f.wait >= 0 {
		// With a wait of zero, allow the time that it takes to lock a free file.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cmp.Or(f.wait, time.Second), errFileBusy)
		defer cancel()
	}
	if a.Verbose || output.Terminal(a.Stderr) != nil {
		waits := time.AfterFunc(leases.ShowAfter, func() {
			a.Notef("waiting for %s: another program has locked the file, or the disk is slow", f.file)
		})
		defer waits.Stop()
	}
	err := do(ctx)
	if context.Cause(ctx) == errFileBusy && err != nil && !store.InDoubt(err) {
		err = exit.With(exit.Busy, fmt.Errorf("%w: another program has locked %s for %v", errFileBusy, f.file, f.wait))
	}
	return err
}

// errFileBusy ends the wait for the lock of a state file.
var errFileBusy = errors.New("the state file is locked")

// heldBy returns a function that looks up the holder of the lock with the name of a
// checkpoint.
func heldBy(client *lease.Client) func(context.Context, string) (checkpoint.Holder, bool, error) {
	return func(ctx context.Context, key string) (checkpoint.Holder, bool, error) {
		info, err := client.Inspect(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			err = nil // info is empty
		}
		held := info.Record.State == lease.Held && info.Liveness != store.Dead
		return checkpoint.Holder{Name: info.Record.Holder, Token: info.Record.Token}, held, err
	}
}

func parseSequence(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, exit.Usagef("a sequence must be an integer from 0 to 18446744073709551615, not %q", text)
	}
	return n, nil
}

func (a *access) checkpointGet(f *checkpointFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get KEY",
		Short: "Print the sequence of a checkpoint",
		Long:  `Print the sequence of a checkpoint. The status is 66 if there is none.`,
		Example: `  holdfast checkpoint get orders
  holdfast checkpoint get orders --json | jq -r .event_id`,
		ValidArgsFunction: a.completeKey(f),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCheckpoints(cmd.Context(), f, func(ctx context.Context, k checkpoint.Store) error {
				c, err := k.Get(ctx, args[0], nil)
				return a.printCheckpoint(c, "", err)
			})
		},
	}
}

// printCheckpoint prints a checkpoint, with the status of an Advance or an empty one, if there was no error.
func (a *access) printCheckpoint(c checkpoint.Checkpoint, status string, err error) error {
	if err != nil {
		return err
	}
	v := viewCheckpoint(c)
	v.Status = status
	return a.Print(v, v.Sequence)
}

// changeFlags are the flags of reset and rm.
type changeFlags struct {
	checkpoint.ChangeOptions
	text string // of --expect
	yes  bool
}

func (c *changeFlags) add(cmd *cobra.Command, f *checkpointFlags) {
	f.addHistory(cmd)
	flags := cmd.Flags()
	flags.StringVar(&c.text, "expect", "", "change the checkpoint only if it has this sequence")
	flags.Uint64Var(&c.Token, "fence", 0, "fencing token of your grant; if the checkpoint carries a higher token, the status is 76")
	flags.BoolVar(&c.Force, "force", false, "change the checkpoint without --fence, and even if another process holds the lock of the checkpoint")
	flags.BoolVarP(&c.yes, "yes", "y", false, "do not ask for confirmation on a terminal")
}

func (c *changeFlags) options() (*checkpoint.ChangeOptions, error) {
	if c.text != "" {
		n, err := parseSequence(c.text)
		if err != nil {
			return nil, err
		}
		c.ExpectedSequence = &n
	}
	return &c.ChangeOptions, nil
}

func (a *access) checkpointReset(f *checkpointFlags) *cobra.Command {
	c := &changeFlags{}
	p := &positionFlags{}
	cmd := &cobra.Command{
		Use:   "reset KEY SEQUENCE",
		Short: "Set a checkpoint to any sequence, also a lower one",
		Long: `Set a checkpoint to any sequence, also to a lower one. reset begins a new epoch. A worker that
read the checkpoint before the reset must read it again before the worker can save a sequence.
If no checkpoint has this name, reset creates it, and prints a note.

On a terminal reset first shows the change, and asks for confirmation.`,
		Example: `  holdfast checkpoint reset orders 10
  holdfast checkpoint reset orders 10 --expect 17   # status 73 if the sequence is not 17`,
		ValidArgsFunction: a.completeKey(f),
		Args:              cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := p.position(args[1])
			if err != nil {
				return err
			}
			opts, err := c.options()
			if err != nil {
				return err
			}
			return a.withCheckpoints(cmd.Context(), f, func(ctx context.Context, k checkpoint.Store) error {
				what := fmt.Sprintf("Reset %q to %d", args[0], to.Sequence)
				if err := a.confirmChange(ctx, k, args[0], what, c); err != nil {
					return err
				}
				_, absent := k.Get(ctx, args[0], nil)
				now, err := k.Reset(ctx, args[0], to, opts)
				if err == nil && errors.Is(absent, store.ErrNotFound) { // the key may be misspelled
					a.Notef("checkpoint %q did not exist: reset created it", args[0])
				}
				return a.printCheckpoint(now, "", err)
			})
		},
	}
	c.add(cmd, f)
	p.add(cmd)
	return cmd
}

func (a *access) checkpointRemove(f *checkpointFlags) *cobra.Command {
	c := &changeFlags{}
	cmd := &cobra.Command{
		Use:               "rm KEY",
		SuggestFor:        []string{"delete"},
		Short:             "Delete a checkpoint",
		Example:           `  holdfast checkpoint rm orders --expect 17`,
		ValidArgsFunction: a.completeKey(f),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := c.options()
			if err != nil {
				return err
			}
			return a.withCheckpoints(cmd.Context(), f, func(ctx context.Context, k checkpoint.Store) error {
				if err := a.confirmChange(ctx, k, args[0], fmt.Sprintf("Delete %q", args[0]), c); err != nil {
					return err
				}
				before, err := k.Delete(ctx, args[0], opts)
				if op := (*store.OpError)(nil); errors.As(err, &op) && op.Op == "checkpoint delete" {
					op.Op = "checkpoint rm"
				}
				if err == nil && a.JSON {
					return a.PrintJSON(map[string]any{"key": args[0], "deleted": before.Exists})
				}
				return err
			})
		},
	}
	c.add(cmd, f)
	return cmd
}

// confirmChange shows the current checkpoint on a terminal, and asks. The change then
// succeeds only if the checkpoint is still the one that was shown.
func (a *access) confirmChange(ctx context.Context, k checkpoint.Store, key, what string, c *changeFlags) error {
	if c.yes || !a.Interactive() {
		return nil
	}
	now, err := k.Get(ctx, key, nil)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	present := fmt.Sprintf("Checkpoint %q does not exist.", key)
	if now.Exists {
		present = fmt.Sprintf("Checkpoint %q has the sequence %d.", key, now.Sequence)
	}
	if err := a.Confirm(fmt.Sprintf("%s %s?", present, what), fmt.Sprintf("checkpoint %q was not changed", key)); err != nil {
		return err
	}
	if now.Exists && c.ExpectedSequence == nil {
		c.ExpectedSequence = &now.Sequence
	}
	return nil
}

func (a *access) checkpointList(f *checkpointFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List checkpoints",
		Example: `  holdfast checkpoint ls
  holdfast checkpoint ls orders --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCheckpoints(cmd.Context(), f, func(ctx context.Context, k checkpoint.Store) error {
				views, err := a.checkpoints(ctx, k, args)
				if a.JSON {
					return errors.Join(a.PrintJSON(views), err)
				}
				w := output.Columns(a.Stdout)
				if len(views) > 0 {
					fmt.Fprintln(w, "KEY\tSEQUENCE\tEVENT\tTOKEN\tWRITTEN")
				}
				for _, v := range views {
					written, token := "-", "-"
					if v.Written != nil {
						written = output.Ago(time.Since(*v.Written))
					}
					if v.Token != 0 {
						token = fmt.Sprint(v.Token)
					}
					fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", printable.Text(v.Key), v.Sequence, printable.Text(cmp.Or(v.EventID, "-")), token, written)
				}
				return errors.Join(w.Flush(), err)
			})
		},
	}
}

// checkpoints reads all checkpoints below a prefix, sorted. A checkpoint that cannot be
// read does not hide the others.
func (a *access) checkpoints(ctx context.Context, k checkpoint.Store, args []string) ([]checkpointView, error) {
	views := []checkpointView{}
	var problems []error
	for c, err := range k.List(ctx, strings.Join(args, "")) { // at most one
		if err != nil {
			problems = append(problems, err)
			continue
		}
		views = append(views, viewCheckpoint(c))
	}
	slices.SortFunc(views, func(a, b checkpointView) int { return cmp.Compare(a.Key, b.Key) })
	return views, errors.Join(problems...)
}

func (a *access) checkpointWatch(f *checkpointFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "watch KEY",
		Short:             "Print a checkpoint, and each change to it",
		Example:           `  holdfast checkpoint watch orders --json`,
		ValidArgsFunction: a.completeKey(f),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := cmdline.UntilSignal(cmd.Context())
			defer stop()
			return a.withCheckpoints(ctx, f, func(ctx context.Context, k checkpoint.Store) error {
				seen := false
				for c, err := range k.Watch(ctx, args[0]) {
					switch {
					case ctx.Err() != nil:
						return nil
					case err != nil && (!seen || store.Permanent(err)):
						return err
					case err != nil:
						a.Notef("%s", output.OneLine(err))
						continue
					}
					seen = true
					if !c.Exists && !a.JSON {
						a.Notef("checkpoint %q does not exist", args[0])
						continue
					}
					if err := a.PrintLine(viewCheckpoint(c), c.Sequence); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// completeKey offers the keys of checkpoints for the first argument.
func (a *access) completeKey(f *checkpointFlags) cobra.CompletionFunc {
	return cmdline.CompleteFirst(a.CompleteStored(func(ctx context.Context, yield func(string) bool) error {
		return a.withCheckpoints(ctx, f, func(ctx context.Context, k checkpoint.Store) error {
			for c, err := range k.List(ctx, "") {
				if err != nil || !yield(c.Key) {
					return err
				}
			}
			return nil
		})
	}))
}
