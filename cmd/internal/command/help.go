package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the width at which texts of flags are wrapped.
const helpWidth = 100

// flagGroup is a group of flags in the help of a command.
type flagGroup struct {
	title, flags string
}

// runGroups are the groups of run and lead, whose flags are too many for one list. A flag that is in
// no group comes under "Flags:".
var runGroups = []flagGroup{
	{"Waiting:", "wait nonblock fair conflict-exit-code"},
	{"How often, how long:", "once-per retries min-interval timeout"},
	{"Several holders:", "shared slots"},
}

// advanced are the flags that few users need, of all commands.
var advanced = flagGroup{"Advanced:", "ttl grace margin max-clock-drift holder also-store on-ask on-lost on-acquire on-release wait-group kill-group metrics report"}

// rootNotes end the help of holdfast itself.
const rootNotes = `If you name no store, locks are in /var/lib/holdfast (root) or ~/.local/state/holdfast.
Two machines or two users exclude each other only if both name the same store, by
--store, HOLDFAST_STORE or /etc/holdfast.conf. "holdfast doctor" tests a store.

All commands: holdfast help commands    Stores, URLs: holdfast help stores
Exit status:  holdfast help exit-status Permissions:  holdfast help permissions
Global flags: --store URL, --json, -q/--quiet, -v/--verbose, --help, --version
`

// showUsage prints what follows the prose in the help of a command: the rare flags last.
func showUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	line := cmd.UseLine()
	if !cmd.HasParent() {
		line = "holdfast [--store URL] COMMAND [ARG...]"
	}
	fmt.Fprintf(w, "Usage:\n  %s\n", line)
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if !cmd.HasParent() {
		fmt.Fprintf(w, "\n%s", rootNotes)
		return nil
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nCommands:\n%s", commandList(cmd.Commands()))
	}
	groups := []flagGroup{advanced}
	if cmd.HasParent() && (cmd.Name() == "run" || cmd.Name() == "lead") {
		groups = append(slices.Clone(runGroups), advanced)
	}
	own, grouped := &pflag.FlagSet{}, make([]pflag.FlagSet, len(groups))
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		i := slices.IndexFunc(groups, func(g flagGroup) bool { return slices.Contains(strings.Fields(g.flags), f.Name) })
		switch {
		case f.Name == "help":
		case i < 0 || f.Name == "ttl" && cmd.Name() == "lock" || f.Name == "holder" && cmd.Name() == "ask":
			own.AddFlag(f)
		default:
			grouped[i].AddFlag(f)
		}
	})
	last := len(groups) - 1
	for i, g := range groups[:last] {
		showFlags(w, g, &grouped[i])
	}
	showFlags(w, flagGroup{title: "Flags:"}, own)
	showFlags(w, flagGroup{title: "Flags of " + cmd.Parent().CommandPath() + ":"}, ownFlags(cmd))
	fmt.Fprint(w, "\nGlobal flags:\n      --store URL, --json, -q/--quiet, -v/--verbose, --help     (see holdfast help commands)\n")
	showFlags(w, advanced, &grouped[last])
	return nil
}

// ownFlags returns the flags that a command inherits from a group of commands.
func ownFlags(cmd *cobra.Command) *pflag.FlagSet {
	flags := &pflag.FlagSet{}
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if cmd.Root().PersistentFlags().Lookup(f.Name) != f {
			flags.AddFlag(f)
		}
	})
	return flags
}

// showFlags prints the flags of a group in the order of its list, or by name.
func showFlags(w io.Writer, g flagGroup, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	ordered := flags
	if g.flags != "" {
		ordered = &pflag.FlagSet{SortFlags: false}
		for name := range strings.FieldsSeq(g.flags) {
			if f := flags.Lookup(name); f != nil {
				ordered.AddFlag(f)
			}
		}
	}
	fmt.Fprintf(w, "\n%s\n%s", g.title, ordered.FlagUsagesWrapped(helpWidth))
}

// commandList returns a line for each command that people see, and the names of the commands below it.
func commandList(commands []*cobra.Command) string {
	var list strings.Builder
	for _, cmd := range commands {
		if !cmd.IsAvailableCommand() {
			continue
		}
		fmt.Fprintf(&list, "  %-12s %s\n", cmd.Name(), cmd.Short)
		if names := subcommandNames(cmd); names != "" {
			fmt.Fprintf(&list, "  %-12s   %s\n", "", names)
		}
	}
	return list.String()
}

func subcommandNames(cmd *cobra.Command) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return strings.Join(names, ", ")
}

// commandsTopic lists all commands by group, the topics, and the global flags.
func commandsTopic(root *cobra.Command, topics []*cobra.Command) string {
	var list strings.Builder
	list.WriteString("holdfast COMMAND --help prints the help of a command.\n")
	for _, group := range root.Groups() {
		members := slices.DeleteFunc(slices.Clone(root.Commands()), func(cmd *cobra.Command) bool { return cmd.GroupID != group.ID })
		fmt.Fprintf(&list, "\n%s\n%s", group.Title, commandList(members))
	}
	list.WriteString("\nTopics: holdfast help TOPIC\n")
	for _, t := range topics {
		fmt.Fprintf(&list, "  %-12s %s\n", t.Name(), t.Short)
	}
	fmt.Fprintf(&list, "\nGlobal flags:\n%s", root.PersistentFlags().FlagUsagesWrapped(helpWidth))
	return strings.TrimSuffix(list.String(), "\n")
}
