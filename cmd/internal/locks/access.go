// Package locks has the commands that show and change locks, and take none.
package locks

import (
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ leases.Opener }

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	a := &access{leases.Opener{Invocation: in}}
	return cmdline.Commands{
		"ls": a.lsCommand, "show": a.showCommand, "watch": a.watchCommand, "ask": a.askCommand,
		"leader": a.leaderCommand, "history": a.historyCommand, "resize": a.resizeCommand, "break": a.breakCommand, "sweep": a.sweepCommand,
	}
}
