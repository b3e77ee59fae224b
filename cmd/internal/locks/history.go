package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// historyView is what history prints with --json for each entry. Its fields are stable.
type historyView struct {
	Name    string     `json:"name"`
	Seq     uint64     `json:"seq"`
	Time    *time.Time `json:"time"` // by the clock of the client that wrote the entry
	Kind    string     `json:"kind"`
	Token   uint64     `json:"token,omitempty"`
	Holder  string     `json:"holder,omitempty"`
	By      string     `json:"by,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Slot    int        `json:"slot,omitempty"`
	Missing uint64     `json:"missing,omitempty"`
	Store   string     `json:"store"`

	place time.Time // its place among the entries of all locks: no earlier than the entry before it
}

func viewOfEntry(name string, e lease.HistoryEntry, url string) historyView {
	return historyView{Name: name, Seq: e.Seq, Time: printable.Time(e.Time), Kind: strings.ReplaceAll(string(e.Kind), " ", "_"), Token: e.Token, Holder: e.Holder, By: e.By, Reason: e.Reason, Slot: e.Slot, Missing: e.Missing, Store: url}
}

func (a *access) historyCommand() *cobra.Command {
	since := ""
	cmd := &cobra.Command{
		Use:     "history [NAME]",
		Short:   "Print what happened to a lock, or to all locks",
		GroupID: cmdline.GroupLocks,
		Long: `Print what happened to a lock, or to all locks: which holders took and released it, takeovers and
breaks with their reasons, and requests to yield. If entries are missing, a line says how many.

The programs that take a lock keep its history if HOLDFAST_HISTORY is 1 for them, or with
--history. The history has the newest entries, about 60 KiB for each lock. The times are from the
clocks of the holders.`,
		Example: `  holdfast history nightly
  holdfast history --since 24h
  holdfast history --since "2026-11-24 02:00" --json | jq '.[] | select(.kind == "taken_over")'`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteLocks()),
		Args:              cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := cmdline.Since(since, time.Now())
			if err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), &leases.Flags{}, args, func(client *lease.Client, st stores.Opened) error {
				return a.listHistory(cmd.Context(), client, st.URL, args, from)
			})
		},
	}
	cmdline.AddSince(cmd, &since)
	return cmd
}

func (a *access) listHistory(ctx context.Context, client *lease.Client, url string, names []string, from time.Time) error {
	all := len(names) == 0
	if all {
		for name, err := range client.List(ctx, "") {
			if err != nil {
				return err
			}
			names = append(names, name)
		}
	}
	var (
		mu    sync.Mutex
		views = []historyView{}
		found bool
	)
	errs := workerpool.Each(len(names), leases.InParallel, func(i int) error {
		entries, err := client.History(ctx, names[i])
		mu.Lock()
		defer mu.Unlock()
		if all && errors.Is(err, store.ErrNotFound) { // removed after it was listed
			err = nil
		}
		found = found || len(entries) > 0
		var place time.Time
		for _, e := range entries {
			if e.Time.After(place) {
				place = e.Time
			}
			if from.IsZero() || !e.Time.Before(from) {
				view := viewOfEntry(names[i], e, url)
				view.place = place
				views = append(views, view)
			}
		}
		return err
	})
	err := errors.Join(errs...)
	// The entries of one lock stay in their order: its clients have different clocks.
	slices.SortStableFunc(views, func(a, b historyView) int {
		return cmp.Or(a.place.Compare(b.place), cmp.Compare(a.Name, b.Name))
	})
	if a.JSON {
		if len(views) == 0 && err != nil {
			return err
		}
		return errors.Join(a.PrintJSON(views), err)
	}
	if len(views) == 0 && err == nil {
		if found {
			a.Notef("no entries since %s on %s", from.Local().Format(time.DateTime), url)
			return nil
		}
		a.Notef("no history on %s: programs keep one with --history, or if HOLDFAST_HISTORY is 1", url)
		return nil
	}
	return errors.Join(a.printHistory(views, all), err)
}

func (a *access) printHistory(views []historyView, names bool) error {
	w := output.Columns(a.Stdout)
	name := func(text string) string {
		if !names {
			return ""
		}
		return printable.Line(text) + "\t"
	}
	for _, v := range views {
		if v.Missing > 0 {
			fmt.Fprintf(w, "\t%s(%d missing)\n", name(v.Name), v.Missing)
		}
		if v.Time == nil {
			continue
		}
		token := ""
		if v.Token > 0 {
			token = fmt.Sprint(v.Token)
		}
		line := fmt.Sprintf("%s\t%s%s\t%s\t%s", v.Time.Local().Format(time.DateTime), name(v.Name), printable.Line(strings.ReplaceAll(v.Kind, "_", " ")), token, printable.Line(v.who()))
		fmt.Fprintln(w, strings.TrimRight(line, "\t"))
	}
	return w.Flush()
}

// who names the clients of an entry, and the reason.
func (v *historyView) who() string {
	text := v.Holder
	if v.Slot > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s (slot %d)", text, v.Slot))
		if v.Kind == "resized" {
			text = fmt.Sprintf("%d slots", v.Slot)
		}
	}
	if v.By != "" {
		text = strings.TrimSpace(text + " by " + v.By)
	}
	if v.Reason != "" {
		text = strings.TrimPrefix(text+": "+v.Reason, ": ")
	}
	return text
}
