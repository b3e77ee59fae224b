// Package locks has the commands that show and change locks, and take none.
package locks

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ leases.Opener }

// Commands makes the commands of this package.
func Commands(in *cmdline.Invocation) []*cobra.Command {
	a := &access{leases.Opener{Invocation: in}}
	return []*cobra.Command{
		a.lsCommand(), a.showCommand(), a.watchCommand(), a.askCommand(), a.leaderCommand(), a.resizeCommand(), a.breakCommand(), a.sweepCommand(),
	}
}
