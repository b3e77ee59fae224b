package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

const (
	completeWithin = 2 * time.Second // a user does not wait longer for a key press
	completeAtMost = 200
)

type completion = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// addCompletions defines what the shell offers in place of files: the locks and the
// checkpoints of the store, and the values of flags that have only a few.
func (a *app) addCompletions(root *cobra.Command) {
	locks, keys := a.completeStored(a.lockNames), a.completeStored(a.checkpointKeys)
	all := map[string]completion{
		"run": a.beforeDash(locks), "lead": a.beforeDash(locks), "ask": once(locks), "leader": once(locks), "resize": once(locks), "hold": locks, "lock": locks,
		"ls": once(locks), "show": once(locks), "watch": once(locks), "break": once(locks), "sweep": once(locks),
		"checkpoint get": once(keys), "checkpoint advance": once(keys), "checkpoint reset": once(keys),
		"checkpoint rm": once(keys), "checkpoint watch": once(keys),
		"put": argument(objectURLs, 1), "get": argument(objectURLs, 0), "object put": argument(objectURLs, 1), "object get": argument(objectURLs, 0), "object stat": argument(objectURLs, 0),
		"object cp": argument(objectURLs, 0, 1), "object mv": argument(objectURLs, 0, 1), "object rm": argument(objectURLs, 0), "object ls": argument(objectURLs, 0), "object sweep": argument(objectURLs, 0), "object fence": once(objectURLs),
		"commit-log append": argument(objectURLs, 0), "commit-log read": once(objectURLs), "commit-log latest": once(objectURLs), "commit-log trim": once(objectURLs),
	}
	values := map[string][]string{
		"layout":     {layoutOwn, layoutMate},
		"on-ask":     {askTerm, askRefuse},
		"on-lost":    {"kill", "warn"},
		"once-per":   {"hour", "day", "week", "month", "year"},
		"state":      {"held", "shared", "free", "broken", "unreadable"},
		"store":      stores.Beginnings(false),
		"also-store": stores.Beginnings(false),
	}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if f := all[strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")]; f != nil {
			cmd.ValidArgsFunction = f
		}
		for name, choice := range values {
			if cmd.Flags().Lookup(name) == nil && cmd.PersistentFlags().Lookup(name) == nil {
				continue
			}
			directive := cobra.ShellCompDirectiveNoFileComp
			if name == "store" || name == "also-store" {
				directive |= cobra.ShellCompDirectiveNoSpace
			}
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(choice, directive)) // fails only for a flag that does not exist
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(root)
}

// objectURLs offers the beginnings of the URLs of objects.
func objectURLs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return stores.Beginnings(true), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// argument offers completions for the arguments at these places, and files for the others.
func argument(f completion, places ...int) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if !slices.Contains(places, len(args)) {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return f(cmd, args, begun)
	}
}

// once offers completions for the first argument only.
func once(f completion) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begun)
	}
}

// beforeDash offers completions before --, and then what a shell offers for another command:
// commands for the first word, files for the others.
func (a *app) beforeDash(f completion) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		// Not ArgsLenAtDash: cobra adds a dash of its own when it completes.
		dash := slices.Index(a.args, "--")
		switch {
		case dash < 0:
			return f(cmd, args, begun)
		case dash == len(a.args)-2: // the last argument is what is begun
			return commands(begun), cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// commands returns the programs in the directories of PATH whose names begin so. Where there
// are none, and after a slash, the shell offers files.
func commands(begun string) (found []string) {
	if strings.ContainsRune(begun, filepath.Separator) {
		return nil
	}
	const atMost = 10000 // names in a directory
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue
		}
		_ = safefile.EachName(root, ".", atMost, func(name string) {
			if !strings.HasPrefix(name, begun) || printable.Text(name) != name {
				return
			}
			if _, err := exec.LookPath(filepath.Join(root.Name(), name)); err == nil {
				found = append(found, name)
			}
		})
		root.Close()
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// completeStored offers those of the names that begin with the typed text. A store that
// does not answer soon, or refuses, offers nothing.
func (a *app) completeStored(names func(context.Context, *cobra.Command, func(name string) bool) error) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		a.Makes, a.OnlyReads = stores.MakesNone, true
		a.Quiet, a.storeGiven, a.StoreEmpty = true, false, emptyFlag(cmd.Flags(), "store")
		if fromEnvironment(cmd.Flags()) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.resolveStore()
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		var found []string
		_ = names(ctx, cmd, func(name string) bool {
			if strings.HasPrefix(name, begun) && printable.Text(name) == name && !slices.Contains(args, name) {
				found = append(found, name)
			}
			return len(found) < completeAtMost
		})
		slices.Sort(found)
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) lockNames(ctx context.Context, _ *cobra.Command, yield func(string) bool) error {
	client, st, err := a.client(ctx, a.StoreURL, &leaseFlags{})
	if err != nil {
		return err
	}
	defer clients{openClient{client, st}}.close(ctx)
	for name, err := range client.List(ctx, "") {
		if err != nil || !yield(name) {
			return err
		}
	}
	return nil
}

func (a *app) checkpointKeys(ctx context.Context, cmd *cobra.Command, yield func(string) bool) error {
	f := &checkpointFlags{}
	f.file, _ = cmd.Flags().GetString("file")
	f.network, _ = cmd.Flags().GetBool("allow-network")
	return a.withCheckpoints(ctx, f, func(ctx context.Context, k checkpoint.Store) error {
		for c, err := range k.List(ctx, "") {
			if err != nil || !yield(c.Key) {
				return err
			}
		}
		return nil
	})
}
