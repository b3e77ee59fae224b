// Package cmdline is one invocation of the command: its stores and output, its flags and their
// variables, its arguments, the completion of arguments, questions and signals.
package cmdline

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// Invocation is one invocation of the command: what all subcommands share.
type Invocation struct {
	stores.Access
	Stdin       io.Reader
	Args        []string
	Path        string // of the command: "holdfast checkpoint get"
	StoreGiven  bool   // --store is on the command line
	StoreChosen bool   // --store or its variable names the store: it is not the default

	// HandOver makes another program do this command line, which can open all stores. On Unix it
	// returns only an error.
	HandOver func() error
}

// Commands are functions that make commands, by the names of the commands.
type Commands map[string]func() *cobra.Command

// The groups of commands in the help of the root command.
const (
	GroupLocks       = "locks"
	GroupObjects     = "objects"
	GroupCheckpoints = "checkpoints"
	GroupStore       = "store"
)

// Group makes a command that only has subcommands.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.Args = KnownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(subcommands...)
	return cmd
}

// ResolveStore replaces the name of a store by its URL. If no store is given, it uses the
// default one of holdfast.conf.
func (a *Invocation) ResolveStore() {
	a.StoreChosen = a.StoreURL != ""
	if a.StoreURL == "" && a.StoreEmpty {
		return // a command that needs the store reports this error
	}
	url, err := a.Named(a.StoreURL)
	if err != nil {
		a.StoreErr = err
		return
	}
	a.StoreURL = url
}
