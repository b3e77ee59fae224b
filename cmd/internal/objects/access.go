// Package objects has the commands about objects in buckets, and about commit logs.
package objects

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ *cmdline.Invocation }

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	a := &access{in}
	return cmdline.Commands{"put": a.putCommand, "get": a.getCommand, "object": a.objectCommand, "commit-log": a.commitLogCommand}
}

// objectCommand is the group of the commands on objects. The two that are used most, put and get,
// are commands of their own, too.
func (a *access) objectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "object",
		SuggestFor: []string{"cp", "mv", "rm", "stat"},
		Short:      "Write, read, list, copy and remove objects",
		GroupID:    cmdline.GroupObjects,
		Long: `Read and change objects in a bucket of S3 or Google Cloud Storage, in a container of Azure, or in a
directory that is used as a bucket. The URL of an object is the URL of the bucket and the key of the
object: s3://BUCKET/KEY, gs://BUCKET/KEY, azblob://ACCOUNT/CONTAINER/KEY or file:DIR/KEY.`,
		Example: `  holdfast object ls s3://bucket/reports/
  holdfast object stat s3://bucket/reports/today.pdf
  holdfast object cp report.pdf s3://bucket/reports/`,
		Args: cmdline.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	put, get := a.putCommand(), a.getCommand()
	put.GroupID, get.GroupID = "", "" // they are groups of the root command
	cmd.AddCommand(put, get, a.objectLs(), a.objectStat(), a.objectCp(), a.objectMv(), a.objectRm(), a.objectFence(), a.objectSweep(), a.objectReservations())
	return cmd
}

// objectURLs offers the beginnings of the URLs of objects.
func objectURLs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return stores.Beginnings(true), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
