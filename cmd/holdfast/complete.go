package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// addCompletions defines what the shell offers in place of files: the locks and the
// checkpoints of the store, and the values of flags that have only a few.
func (a *app) addCompletions(root *cobra.Command) {
	locks, keys := a.CompleteStored(a.lockNames), a.CompleteStored(a.checkpointKeys)
	all := map[string]cmdline.Completion{
		"run": a.BeforeDash(locks), "lead": a.BeforeDash(locks), "ask": cmdline.CompleteFirst(locks), "leader": cmdline.CompleteFirst(locks), "resize": cmdline.CompleteFirst(locks), "hold": locks, "lock": locks,
		"ls": cmdline.CompleteFirst(locks), "show": cmdline.CompleteFirst(locks), "watch": cmdline.CompleteFirst(locks), "break": cmdline.CompleteFirst(locks), "sweep": cmdline.CompleteFirst(locks),
		"checkpoint get": cmdline.CompleteFirst(keys), "checkpoint advance": cmdline.CompleteFirst(keys), "checkpoint reset": cmdline.CompleteFirst(keys),
		"checkpoint rm": cmdline.CompleteFirst(keys), "checkpoint watch": cmdline.CompleteFirst(keys),
		"put": cmdline.CompleteAt(objectURLs, 1), "get": cmdline.CompleteAt(objectURLs, 0), "object put": cmdline.CompleteAt(objectURLs, 1), "object get": cmdline.CompleteAt(objectURLs, 0), "object stat": cmdline.CompleteAt(objectURLs, 0),
		"object cp": cmdline.CompleteAt(objectURLs, 0, 1), "object mv": cmdline.CompleteAt(objectURLs, 0, 1), "object rm": cmdline.CompleteAt(objectURLs, 0), "object ls": cmdline.CompleteAt(objectURLs, 0), "object sweep": cmdline.CompleteAt(objectURLs, 0), "object fence": cmdline.CompleteFirst(objectURLs),
		"commit-log append": cmdline.CompleteAt(objectURLs, 0), "commit-log read": cmdline.CompleteFirst(objectURLs), "commit-log latest": cmdline.CompleteFirst(objectURLs), "commit-log trim": cmdline.CompleteFirst(objectURLs),
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
	f := &checkpointFlags{flags: cmd.Flags()}
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
