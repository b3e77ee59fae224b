// Package locks has the commands that show and change locks, and take none.
package locks

import (
	"context"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/lease"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct {
	leases.Opener

	// readHistory reads the history of a lock, the oldest entry first. If it is nil, watch has no flag
	// --from-history.
	readHistory func(ctx context.Context, client *lease.Client, name string) ([]entry, error)
}

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	a := &access{Opener: leases.Opener{Invocation: in}}
	return cmdline.Commands{
		"ls": a.lsCommand, "show": a.showCommand, "watch": a.watchCommand, "ask": a.askCommand,
		"leader": a.leaderCommand, "history": a.historyCommand, "resize": a.resizeCommand, "break": a.breakCommand, "sweep": a.sweepCommand,
	}
}
