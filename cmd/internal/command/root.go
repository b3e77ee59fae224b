// Package command is the command holdfast: its root command with all groups of commands, the help, and the
// hand-over to the program that has the libraries of the store.
package command

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/checkpoints"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/holding"
	"github.com/holdfast-go/holdfast/cmd/internal/items"
	"github.com/holdfast-go/holdfast/cmd/internal/locks"
	"github.com/holdfast-go/holdfast/cmd/internal/moving"
	"github.com/holdfast-go/holdfast/cmd/internal/objects"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/serving"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// app is one invocation of the command: what all subcommands share.
type app struct {
	cmdline.Invocation
	root    *cobra.Command
	servers *serving.Servers
	started bool  // the command line was accepted
	helpErr error // what help was asked of does not exist

	caller string // the version of the program that has handed this command line over
	called bool
}

// Main runs the command line of this process with these drivers, and ends the process. If the servers of the
// command serve are nil, the companion serves.
func Main(drivers stores.Drivers, servers *serving.Servers) {
	growStack()
	os.Exit(runProgram(drivers, servers, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// growStack makes room on the stack of the first goroutine. Otherwise this stack grows several times during a
// start, and each time the runtime reads tables of all frames, which are not in memory yet. That is 3 to 8 % of a
// start of run.
//
//go:noinline
func growStack() byte {
	var room [28 << 10]byte
	return room[len(os.Args)&1]
}

// runProgram runs the command line and returns the exit status.
func runProgram(drivers stores.Drivers, servers *serving.Servers, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	log.SetOutput(io.Discard) // net/http logs what unknown servers send
	a := &app{servers: servers, Invocation: cmdline.Invocation{Args: args, Stdin: stdin, Access: stores.Access{Drivers: drivers, Printer: output.Printer{Stdout: stdout, Stderr: stderr}}}}
	a.HandOver = a.handOver
	a.caller, a.called = os.LookupEnv(callerVariable)
	_ = os.Unsetenv(callerVariable)
	a.root = a.command()
	a.root.SetArgs(args)
	a.root.SetIn(stdin)
	a.root.SetOut(stdout)
	a.root.SetErr(stderr)
	err := a.root.ExecuteContext(context.Background())
	err = cmp.Or(err, a.helpErr)
	if a.Err() != nil { // a lost list of what was done
		err = errors.Join(err, a.Err())
	}
	a.Wait.End(a.Messages(), "")
	defer a.FlushMessages(lastMessages)
	if errors.As(err, new(*stores.NotBuiltInError)) {
		err = a.handOver()
	}
	if err == nil {
		return exit.OK
	}
	var busy *holding.BusyError
	status := exit.Status(err)
	if !a.started {
		status = exit.Usage // cobra has refused the command line
		a.JSON = a.JSON || slices.Contains(args, "--json")
	}
	err = a.inWords(err)
	if exit.Reportable(err) && !(a.Quiet && errors.As(err, &busy)) {
		p := output.Problem{Level: "error", Message: output.OneLine(err) + a.where(err), Status: status, Kind: exit.Kinds[status], Hints: a.hints(err)}
		if busy != nil || errors.As(err, &busy) {
			r := busy.Record
			p.Kind = exit.Kinds[exit.Busy] // whatever status -E names
			p.Lock, p.Store, p.Holder, p.Token = busy.Name, busy.Store, busy.By, r.Token
			if !r.Granted.IsZero() {
				p.Since = &r.Granted
			}
		}
		a.Report(p)
	}
	return status
}

// lastMessages is how long a program that ends waits for the reader of its messages. The program holds no lock then.
const lastMessages = 5 * time.Second

// where names the store in which something was not found, or rights are missing, since a user may
// have named the wrong one.
func (a *app) where(err error) string {
	of := errors.Is(err, store.ErrNotFound) || errors.Is(err, lease.ErrNoLeader) || errors.Is(err, store.ErrDenied)
	if !of || a.Opened == "" || output.NamesStore(err) || strings.Contains(err.Error(), stores.Escaped(a.Opened)) {
		return ""
	}
	return " on " + a.Opened
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Locks, commits and checkpoints on the storage you already have",
		Long:  "Locks, commits and checkpoints on the storage you already have.",
		Example: `  holdfast run nightly -- ./job.sh            # run a command while holding a lock
  holdfast ls                                 # list locks: who holds what, since when
  holdfast ask nightly --wait 5m              # ask a holder to release its lock
  holdfast put state.json s3://bucket/state   # write an object, also with conditions
  holdfast checkpoint advance orders 17       # save a position that never moves back`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			a.started = true
			if err := a.checkCaller(); err != nil {
				return err
			}
			a.StoreGiven = cmd.Flags().Changed("store")
			a.StoreEmpty = cmdline.EmptyFlag(cmd.Flags(), "store")
			a.Path = cmd.CommandPath()
			a.Makes, a.OnlyReads = makes[a.Path], reads[a.Path]
			if err := cmdline.FromEnvironment(cmd.Flags()); err != nil {
				return err
			}
			a.ResolveStore()
			if a.namesOthers(cmd, args) && findCompanion() != "" {
				return a.handOver() // before anything is done or said
			}
			return a.checkVariables()
		},
		Args: cmdline.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(a.WrongFlag)
	root.SetUsageFunc(showUsage)
	root.SetVersionTemplate("{{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&a.StoreURL, "store", "", "URL or name of the store, such as s3://BUCKET/PREFIX (see holdfast help stores)")
	cmdline.CompleteStore(root, "store")
	flags.BoolVar(&a.JSON, "json", false, "print results as JSON; also print messages and errors as JSON on stderr, one object per line")
	flags.BoolVarP(&a.Quiet, "quiet", "q", false, "print only results and errors; also omit the error that another holder has the lock")
	flags.BoolVarP(&a.Verbose, "verbose", "v", false, "also print each event of a lease, such as a renewal")
	root.AddGroup(&cobra.Group{ID: cmdline.GroupLocks, Title: "Locks:"}, &cobra.Group{ID: cmdline.GroupObjects, Title: "Objects:"}, &cobra.Group{ID: cmdline.GroupCheckpoints, Title: "Checkpoints:"}, &cobra.Group{ID: cmdline.GroupStore, Title: "Stores:"})
	in := &a.Invocation
	all := cmdline.Commands{"init": a.initCommand, "doctor": a.doctorCommand, "bench": a.benchCommand, "version": a.versionCommand}
	for _, group := range []cmdline.Commands{locks.Commands(in), holding.Commands(in), objects.Commands(in), items.Commands(in), checkpoints.Commands(in), moving.Commands(in), serving.Commands(in, a.servers)} {
		maps.Copy(all, group)
	}
	if command := all[a.firstWord()]; command != nil {
		root.AddCommand(command()) // each start would pay for the others
		root.CompletionOptions.DisableDefaultCmd = true
	} else {
		for _, command := range all {
			root.AddCommand(command())
		}
		root.AddCommand(topicCommands(root)...)
		root.Version = versionText()
	}
	a.refuseUnknownHelp(root)
	cmdline.ExplainArguments(root)
	return root
}

// firstWord returns the first argument that is no flag of the root command. It is empty if that is not
// certain.
func (a *app) firstWord() string {
	for args := a.Args; len(args) > 0; args = args[1:] {
		switch arg := args[0]; {
		case arg == "--store" && len(args) > 1:
			args = args[1:]
		case strings.HasPrefix(arg, "--store="), slices.Contains([]string{"--json", "--quiet", "-q", "--verbose", "-v"}, arg):
		case strings.HasPrefix(arg, "-"):
			return ""
		default:
			return arg
		}
	}
	return ""
}

// refuseUnknownHelp makes help on what does not exist an error: "help bogus", "bogus --help".
func (a *app) refuseUnknownHelp(root *cobra.Command) {
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasSubCommands() {
			if a.helpErr = cmdline.KnownCommand(cmd, cmd.Flags().Args()); a.helpErr != nil {
				a.started = true
				return
			}
		}
		show(cmd, args)
	})
	root.InitDefaultHelpCmd()
	for _, help := range root.Commands() {
		if help.Name() == "help" {
			help.RunE = func(_ *cobra.Command, args []string) error {
				cmd, rest, err := root.Find(args)
				if err == nil {
					err = cmdline.KnownCommand(cmd, rest)
				}
				if err != nil {
					return err
				}
				cmd.InitDefaultHelpFlag()
				return cmd.Help()
			}
		}
	}
}

// ownVariables are the variables that belong to no flag.
var ownVariables = []string{cmdline.LockVariable, cmdline.TokenVariable, cmdline.LocksVariable, cmdline.SlotVariable, cmdline.HookVariable, stores.ConfigVariable}

// checkVariables reports variables that look as if they were ours, and are not: most likely they
// are misspelt. A program of a later version may set them for its command, so that they are no
// error; but the default store must not take the place of one that was named. A later
// version names the store of its command, too.
func (a *app) checkVariables() error {
	known := slices.AppendSeq(slices.Clone(ownVariables), maps.Values(cmdline.FlagVariables))
	var flags []string // of all commands
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "HOLDFAST_") || slices.Contains(known, name) {
			continue
		}
		if flags == nil {
			flags = flagNames((&app{}).command())
		}
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "HOLDFAST_"), "_", "-"))
		meant := cmp.Or(cmdline.VariableOf(flag), output.Nearest(name, known))
		if strings.HasPrefix(name, cmdline.VariableOf("store")) {
			meant = cmdline.VariableOf("store")
		}
		_, store := os.LookupEnv(cmdline.VariableOf("store"))
		_, config := os.LookupEnv(stores.ConfigVariable)
		switch {
		case !a.StoreGiven && !store && (meant == cmdline.VariableOf("store") || meant == stores.ConfigVariable && !config):
			return exit.Usagef("%s is not a variable of holdfast, and no store is named%s", name, output.DidYouMean(meant))
		case cmdline.VariableOf(flag) == "" && slices.Contains(flags, flag):
			a.Notef("%s is not a variable of holdfast, and is ignored: write --%s on the command line", name, flag)
		default:
			a.Notef("%s is not a variable of holdfast, and is ignored (see holdfast help environment)%s", name, output.DidYouMean(meant))
		}
	}
	return nil
}

// flagNames returns the names of the flags of a command and those below it.
func flagNames(cmd *cobra.Command) (names []string) {
	note := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.Flags().VisitAll(note)
	cmd.PersistentFlags().VisitAll(note)
	for _, sub := range cmd.Commands() {
		names = append(names, flagNames(sub)...)
	}
	return names
}
