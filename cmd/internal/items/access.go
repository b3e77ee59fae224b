// Package items has the commands about items of tables, whose large attributes are objects.
package items

import (
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ *cmdline.Invocation }

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	return cmdline.Commands{"item": (&access{in}).itemCommand}
}
