// Package locks has the commands that show and change locks, and take none.
package locks

import (
	"context"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/picture"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct {
	leases.Opener

	// history reads what the store has kept of a lock, the oldest event first. If it is nil, watch has no flag
	// --from-history.
	history func(ctx context.Context, client *lease.Client, name string) ([]picture.Event, error)
}

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	a := &access{Opener: leases.Opener{Invocation: in}}
	return cmdline.Commands{
		"ls": a.lsCommand, "show": a.showCommand, "watch": a.watchCommand, "ask": a.askCommand,
		"leader": a.leaderCommand, "resize": a.resizeCommand, "break": a.breakCommand, "sweep": a.sweepCommand,
	}
}
