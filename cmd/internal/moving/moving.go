// Package moving has the command that copies one store to another.
package moving

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ leases.Opener }

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	a := &access{leases.Opener{Invocation: in}}
	return cmdline.Commands{"copy-store": a.copyStoreCommand}
}

func (a *access) copyStoreCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "copy-store FROM TO",
		Short:   "Copy locks and checkpoints from one store to another",
		GroupID: cmdline.GroupStore,
		Long: `Copy the locks and checkpoints of the store FROM to the store TO. FROM and TO are URLs or names of
stores. docs/moving.md describes step by step how a fleet moves from one store to another.

Locks in TO get higher tokens than the locks in FROM. copy-store also copies the last runs of
--once-per, --min-interval, the slots and the data of a lock. A checkpoint gets the position, the
epoch and the token that it has in FROM. If TO is ahead, TO keeps its checkpoint, and copy-store
prints a note. If TO has another event at the same sequence, or moved the checkpoint back, TO also
keeps it, and the status is 73. Sessions, items, objects and states of OpenTofu are not copied.

If a lock is held in FROM or TO, or if a client uses FROM during the copy, the status is 75. After
any error, repeat the same command: it continues the copy. copy-store does not change FROM. So
stop all programs that use only FROM before you start a program that uses only TO.`,
		Example: `  holdfast copy-store file:/var/lib/locks 's3://bucket/locks' --dry-run
  holdfast copy-store file:/var/lib/locks 's3://bucket/locks'`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.StoreGiven {
				return exit.Usagef("copy-store has no --store: write holdfast copy-store FROM TO")
			}
			return a.copyStore(cmd.Context(), args[0], args[1], dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be copied, and change nothing")
	return cmd
}

// side is one of the two stores.
type side struct {
	leases.Client
	keeper *checkpoint.RegisterStore
}

// open opens a store. from is the URL of FROM when it opens TO.
func (a *access) open(ctx context.Context, given string, makes stores.Making, from string) (*side, error) {
	if given == "" {
		return nil, exit.Usagef("the name of a store is empty: write holdfast copy-store FROM TO")
	}
	url, err := a.Named(given)
	if err == nil {
		err = a.apart(from, url)
	}
	if err != nil {
		return nil, err
	}
	saved := a.Makes
	a.Makes = makes
	client, st, err := a.Client(ctx, url, &leases.Flags{})
	a.Makes = saved
	if err != nil {
		return nil, err
	}
	s := &side{Client: leases.Client{Client: client, Store: st}}
	if s.keeper, err = checkpoint.New(st.Store, nil); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

func (s *side) close(ctx context.Context) {
	if s.keeper != nil {
		_ = s.keeper.Close(context.WithoutCancel(ctx)) // each call has reported its own error
	}
	_ = s.Store.Close()
}

func (a *access) copyStore(ctx context.Context, fromURL, toURL string, dryRun bool) error {
	from, err := a.open(ctx, fromURL, stores.MakesNone, "")
	if err != nil {
		return err
	}
	defer from.close(ctx)
	makes := a.Makes
	if dryRun {
		makes = stores.MakesNone
	}
	to, err := a.open(ctx, toURL, makes, from.Store.URL)
	if err != nil {
		return err
	}
	defer to.close(ctx)
	if f, t := store.TraitsOf(from.Store.Store), store.TraitsOf(to.Store.Store); f.ID == t.ID && f.Prefix == t.Prefix {
		return exit.Usagef("FROM and TO are the same store, %s", to.Store.URL)
	}
	c := &copier{from: from, to: to, progress: a.Progress()}
	defer c.progress("")
	err = c.run(ctx, dryRun)
	c.progress("")
	if err != nil {
		return err
	}
	return a.report(c, dryRun)
}

// apart returns an error if both stores are directories, and one of them is inside the other: who removes the old store
// could remove the new one. It runs before TO is opened, which can make it. Opening TO reports all other errors.
func (a *access) apart(from, url string) error {
	outer, isDirectory := strings.CutPrefix(from, "file:")
	u, err := a.ParseStore(url)
	if err != nil || !isDirectory || u.Scheme != "file" {
		return nil
	}
	dir, _, err := stores.DirectoryOf(u)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	inner, _ := stores.IsWithin(dir, outer)
	around, _ := stores.IsWithin(outer, dir)
	if err == nil && inner != around { // both are true of one directory
		return exit.Usagef("one of the stores %s and file:%s is inside the other: name a directory that is outside", from, dir)
	}
	return nil
}

// report prints the result of a copy.
func (a *access) report(c *copier, dryRun bool) error {
	v := view{From: c.from.Store.URL, To: c.to.Store.URL, DryRun: dryRun, Locks: c.locks, Checkpoints: c.checkpoints, NotCopied: c.others}
	changed, refused := 0, 0
	for _, l := range v.Locks {
		if l.Changed {
			changed++
		}
		if l.Changed && !a.JSON {
			a.Printf("lock %s: token %d\n", printable.Text(l.Name), l.Token)
		}
	}
	for _, p := range v.Checkpoints {
		if p.Status == checkpoint.Advanced.String() {
			changed++
		}
		if p.Status == checkpoint.Advanced.String() && !a.JSON {
			a.Printf("checkpoint %s: sequence %d\n", printable.Text(p.Key), p.Sequence)
		}
		if why := kept[p.Status]; why != "" {
			if p.Status != checkpoint.Behind.String() {
				refused++
			}
			a.Warnf("checkpoint %q was not copied: %s; the sequence is %d in %s and %d in %s", p.Key, why, p.Sequence, v.From, p.Present, v.To)
		}
	}
	if v.NotCopied > 0 {
		a.Notef("%d other records of %s, such as items, are not copied", v.NotCopied, v.From)
	}
	all, verb := len(v.Locks)+len(v.Checkpoints), "were copied from"
	if dryRun {
		verb = "would be copied from"
	}
	a.Notef("%d of %d locks and checkpoints %s %s to %s; %d need no change", changed, all, verb, v.From, v.To, all-changed-refused)
	if err := a.PrintIfJSON(v); err != nil {
		return err
	}
	if refused > 0 {
		return exit.With(exit.Condition, fmt.Errorf("%d checkpoints are not copied to %s, which has other positions", refused, v.To))
	}
	return nil
}

// kept says, for each status of a copy that has not changed a position, why the store keeps its own.
var kept = map[string]string{
	checkpoint.Behind.String():     "the new store is ahead",
	checkpoint.Mismatch.String():   "the new store has another event at the same sequence",
	checkpoint.RolledBack.String(): "it was moved back or deleted in the new store",
}

// view is the result of copy-store as it is printed with --json. Its fields are stable.
type view struct {
	From        string           `json:"from"`
	To          string           `json:"to"`
	DryRun      bool             `json:"dry_run"`
	Locks       []lockView       `json:"locks"`
	Checkpoints []checkpointView `json:"checkpoints"`
	NotCopied   int              `json:"not_copied"` // other records, such as items
}

// lockView is a lock that was copied.
type lockView struct {
	Name    string `json:"name"`
	Token   uint64 `json:"token"` // in the new store
	Changed bool   `json:"changed"`
}

// checkpointView is a checkpoint that was copied, or that the new store has kept.
type checkpointView struct {
	Key      string `json:"key"`
	Status   string `json:"status"`   // as in checkpoint advance
	Sequence uint64 `json:"sequence"` // in the old store
	Present  uint64 `json:"present"`  // the sequence in the new store
}

// busy is the error for stores that are in use. Each text names a lock or a checkpoint.
func (c *copier) busy(what string, texts []string, hints ...string) error {
	slices.Sort(texts)
	return output.WithHints(what+": "+shortened(texts), exit.With(exit.Busy, lease.ErrHeld), hints)
}

// shortened joins texts, at most ten of them.
func shortened(texts []string) string {
	const most = 10
	if n := len(texts) - most; n > 0 {
		texts = append(slices.Clone(texts[:most]), fmt.Sprintf("and %d more", n))
	}
	return strings.Join(texts, "; ")
}

// unreadable returns an error if some records cannot be read.
func (c *copier) unreadable() error {
	if len(c.bad) == 0 {
		return nil
	}
	var texts []string
	for _, err := range c.bad {
		texts = append(texts, output.OneLine(err))
	}
	slices.Sort(texts)
	what := "nothing was copied"
	if c.writes {
		what = "the copy is incomplete"
	}
	return output.WithHints(what+", because some records cannot be read: "+shortened(texts), errors.Join(c.bad...), []string{
		"if no holder of such a lock lives: holdfast --store " + output.Quote(c.from.Store.Again) + " break NAME --unreadable --now (break keeps a copy)",
	})
}
