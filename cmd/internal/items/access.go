// Package items has the commands about items of tables, whose large attributes are objects.
package items

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ *cmdline.Invocation }

// Command makes the command "item".
func Command(in *cmdline.Invocation) *cobra.Command { return (&access{in}).itemCommand() }
