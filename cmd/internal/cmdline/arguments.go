package cmdline

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
)

// KnownCommand refuses the arguments of a command that only has subcommands, and says which
// subcommand the user may have meant.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = min(2, len(args[0])-1) // else all names of two letters are near to each other
	return exit.Usagef("unknown command %q (see %s --help)%s", Echoed(args[0]), cmd.CommandPath(), output.DidYouMean(cmd.SuggestionsFor(args[0])...))
}

// WrongFlag is the error for a flag that could not be parsed. For an unknown flag it says
// which flag the user may have meant; or where the command begins whose flag it may be.
func (a *Invocation) WrongFlag(cmd *cobra.Command, err error) error {
	if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
		return wrongValue(AsGiven(wrong.GetFlag()), wrong)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return exit.With(exit.Usage, err)
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	meant := ""
	if name := unknown.GetSpecifiedName(); len(name) > 1 {
		if meant = output.Nearest(name, known); meant != "" {
			meant = "--" + meant
		}
	}
	hint := output.DidYouMean(meant)
	if meant == "" && strings.Contains(cmd.Use, " -- ") && !slices.Contains(a.Args, "--") {
		hint = "; put -- before the command"
	}
	return exit.Usagef("%w (see %s --help)%s", err, cmd.CommandPath(), hint)
}

// NoDash is the error for a command line without --, of a command that runs another. It says
// which line to write.
func NoDash(cmd *cobra.Command, args []string) error {
	words := []string{"NAME", "COMMAND"}
	for i := range min(len(args), len(words)) {
		words[i] = output.Quote(Echoed(args[i]))
	}
	if len(args) > len(words) {
		words = append(words, "...")
	}
	return exit.Usagef("put -- before the command: %s %s -- %s", cmd.CommandPath(), words[0], strings.Join(words[1:], " "))
}

// ExplainArguments makes a command and its subcommands show their usage line after a wrong number of
// arguments. The error repeats no argument: one may hold a password.
func ExplainArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil || errors.As(err, new(*exit.Error)) {
				return err
			}
			return exit.Usagef("wrong number of arguments (%d): %s", len(args), cmd.UseLine())
		}
	}
	for _, sub := range cmd.Commands() {
		ExplainArguments(sub)
	}
}

// Echoed returns an argument for a message; dots for one that may hold a password, or is long.
func Echoed(arg string) string {
	if strings.ContainsAny(arg, ":@?#=%") || len(arg) > 100 {
		return "..."
	}
	return arg
}
