package cmdline

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

const (
	completeWithin = 2 * time.Second // a user does not wait longer for a key press
	completeAtMost = 200
)

// CompleteAt offers completions for the arguments at these places, and files for the others.
func CompleteAt(f cobra.CompletionFunc, places ...int) cobra.CompletionFunc {
	return completeAt(f, cobra.ShellCompDirectiveDefault, places...)
}

// CompleteFirst offers completions for the first argument only.
func CompleteFirst(f cobra.CompletionFunc) cobra.CompletionFunc {
	return completeAt(f, cobra.ShellCompDirectiveNoFileComp, 0)
}

// completeAt offers completions for the arguments at these places, and what otherwise says for the others.
func completeAt(f cobra.CompletionFunc, otherwise cobra.ShellCompDirective, places ...int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if !slices.Contains(places, len(args)) {
			return nil, otherwise
		}
		return f(cmd, args, begun)
	}
}

// BeforeDash offers completions before --, and files after it.
func (a *Invocation) BeforeDash(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if slices.Contains(a.Args, "--") { // not ArgsLenAtDash: cobra adds a dash of its own when it completes
			return nil, cobra.ShellCompDirectiveDefault
		}
		return f(cmd, args, begun)
	}
}

// CompleteFlag defines what the shell offers as the value of a flag.
func CompleteFlag(cmd *cobra.Command, flag string, values ...string) {
	completeFlag(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteStore offers the beginnings of the URLs of stores as the value of a flag.
func CompleteStore(cmd *cobra.Command, flag string) {
	completeFlag(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return stores.Beginnings(false), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

func completeFlag(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag does not exist
	}
}

// CompleteStored offers those of the names that begin with the typed text. A store that
// does not answer soon, or refuses, offers nothing.
func (a *Invocation) CompleteStored(names func(context.Context, func(name string) bool) error) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		a.Makes, a.OnlyReads = stores.MakesNone, true
		a.Quiet, a.StoreGiven, a.StoreEmpty = true, false, EmptyFlag(cmd.Flags(), "store")
		if FromEnvironment(cmd.Flags()) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.ResolveStore()
		if a.NeedsDriver(a.StoreURL) && a.HandOver() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		var found []string
		_ = names(ctx, func(name string) bool {
			if strings.HasPrefix(name, begun) && printable.Text(name) == name && !slices.Contains(args, name) {
				found = append(found, name)
			}
			return len(found) < completeAtMost
		})
		slices.Sort(found)
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
