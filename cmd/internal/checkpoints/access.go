// Package checkpoints has the commands about checkpoints, in a store or in a state file.
package checkpoints

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ leases.Opener }

// Command makes the command "checkpoint".
func Command(in *cmdline.Invocation) *cobra.Command {
	return (&access{leases.Opener{Invocation: in}}).checkpointCommand()
}
