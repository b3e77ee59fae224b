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

// synonyms are what other programs call commands, with what they are called here, the best
// last. One of two words counts where its first word is a command.
var synonyms = map[string][]string{
	"list": {"ls"}, "dir": {"ls"}, "scan": {"ls"},
	"delete": {"object rm", "rm"}, "del": {"object rm", "rm"}, "remove": {"object rm", "rm"}, "rm": {"object rm"},
	"create": {"put", "init"}, "make": {"put", "init"}, "add": {"put"}, "set": {"advance", "put"}, "update": {"advance", "put"}, "write": {"put"}, "upload": {"put"},
	"read": {"show", "get"}, "cat": {"show", "get"}, "download": {"get"}, "describe": {"stat", "show"}, "info": {"stat", "show"}, "status": {"stat", "show"}, "stat": {"object stat"},
	"acquire": {"lock"}, "release": {"unlock"}, "check": {"doctor", "verify"},
	"clean": {"sweep", "trim"}, "cleanup": {"sweep", "trim"}, "gc": {"sweep", "trim"}, "prune": {"sweep", "trim"}, "truncate": {"trim"},
	"move": {"object mv", "mv"}, "rename": {"object mv", "mv"}, "mv": {"object mv"}, "copy": {"object cp", "cp"}, "cp": {"object cp"},
	"objects": {"object ls"}, "fence": {"object fence"}, "reservations": {"object reservations"}, "log": {"commit-log"}, "logs": {"commit-log"}, "items": {"item"},
}

// KnownCommand refuses the arguments of a command that only has subcommands, and says which
// subcommand the user may have meant.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	name := args[0]
	if strings.ContainsAny(name, ":@?#=%") {
		name = "..." // a store in the wrong place; its URL may hold a password
	}
	meant := output.Nearest(args[0], known)
	for _, word := range synonyms[args[0]] {
		if first, _, _ := strings.Cut(word, " "); slices.Contains(known, first) {
			meant = word
		}
	}
	return exit.Usagef("unknown command %q (see %s --help)%s", name, cmd.CommandPath(), output.DidYouMean(meant))
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

// ExplainArguments makes a command and its subcommands say which arguments are missing, or
// how many are too many.
func ExplainArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil || errors.As(err, new(*exit.Error)) {
				return err
			}
			return wrongArguments(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		ExplainArguments(sub)
	}
}

// wrongArguments is the error for too few or too many arguments. It repeats none of them:
// one may hold a password.
func wrongArguments(cmd *cobra.Command, args []string) error {
	names, needed := ArgumentsOf(cmd.Use)
	switch more := len(args) - len(names); {
	case len(args) < needed-1:
		return exit.Usagef("%s and %s are missing: %s", strings.Join(names[len(args):needed-1], ", "), names[needed-1], cmd.UseLine())
	case len(args) < needed:
		return exit.Usagef("%s is missing: %s", names[needed-1], cmd.UseLine())
	case more == 1:
		return exit.Usagef("one argument too many: %s", cmd.UseLine())
	default:
		return exit.Usagef("%d arguments too many: %s", more, cmd.UseLine())
	}
}

// MissingFlag is the error for a command line that lacks a flag, or gives its value as an
// argument. It says which line to write. It repeats no argument that may hold a password.
func MissingFlag(cmd *cobra.Command, flag, name, value string) error {
	return exit.Usagef("--%s is missing: %s %s --%s %s", flag, cmd.CommandPath(), output.Quote(Echoed(name)), flag, output.Quote(Echoed(value)))
}

// Echoed returns an argument for a message; dots for one that may hold a password, or is long.
func Echoed(arg string) string {
	if strings.ContainsAny(arg, ":@?#=%") || len(arg) > 100 {
		return "..."
	}
	return arg
}

// ArgumentsOf returns the names of the arguments in a usage line such as
// "get URL [FILE] --flag VALUE [--other]", and how many of them are needed.
func ArgumentsOf(use string) (names []string, needed int) {
	words := strings.Fields(use)[1:]
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case strings.HasPrefix(word, "--"):
			i++ // its value
		case strings.HasPrefix(word, "[-"):
			for ; i < len(words) && !strings.HasSuffix(words[i], "]"); i++ {
				continue
			}
		case strings.HasPrefix(word, "["):
			names = append(names, strings.Trim(word, "[]"))
		default:
			names = append(names, word)
			needed++
		}
	}
	return names, needed
}
