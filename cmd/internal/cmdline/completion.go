package cmdline

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

const (
	completeWithin = 2 * time.Second // a user does not wait longer for a key press
	completeAtMost = 200
)

type Completion = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// CompleteAt offers completions for the arguments at these places, and files for the others.
func CompleteAt(f Completion, places ...int) Completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if !slices.Contains(places, len(args)) {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return f(cmd, args, begun)
	}
}

// CompleteFirst offers completions for the first argument only.
func CompleteFirst(f Completion) Completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begun)
	}
}

// BeforeDash offers completions before --, and then what a shell offers for another command:
// commands for the first word, files for the others.
func (a *Invocation) BeforeDash(f Completion) Completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		// Not ArgsLenAtDash: cobra adds a dash of its own when it completes.
		dash := slices.Index(a.Args, "--")
		switch {
		case dash < 0:
			return f(cmd, args, begun)
		case dash == len(a.Args)-2: // the last argument is what is begun
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

// CompleteStored offers those of the names that begin with the typed text. A store that
// does not answer soon, or refuses, offers nothing.
func (a *Invocation) CompleteStored(names func(context.Context, *cobra.Command, func(name string) bool) error) Completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		a.Makes, a.OnlyReads = stores.MakesNone, true
		a.Quiet, a.StoreGiven, a.StoreEmpty = true, false, EmptyFlag(cmd.Flags(), "store")
		if FromEnvironment(cmd.Flags()) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.ResolveStore()
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
