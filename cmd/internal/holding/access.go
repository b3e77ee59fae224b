// Package holding has the commands that take locks and hold them: for a command, for a program in
// another language, or for a script.
package holding

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
		"run": a.runCommand, "lead": a.leadCommand, "hold": a.holdCommand,
		"lock": a.lockCommand, "renew": a.renewCommand, "unlock": a.unlockCommand,
	}
}
