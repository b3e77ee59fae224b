// Package holding has the commands that take locks and hold them: for a command, for a program in
// another language, or for a script.
package holding

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
	return []*cobra.Command{a.runCommand(), a.leadCommand(), a.holdCommand(), a.lockCommand(), a.renewCommand(), a.unlockCommand()}
}
