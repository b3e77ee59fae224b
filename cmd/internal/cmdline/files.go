package cmdline

import (
	"fmt"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

// Unwritable is the error for a file that a flag names and that cannot be made. It is one of usage,
// unless rights or room are missing.
func Unwritable(what, path string, err error) error {
	err = fmt.Errorf("%s: %w", what, output.Under(path, err))
	if exit.Status(err) == exit.Denied || safefile.Full(err) {
		return err
	}
	return exit.With(exit.Usage, err)
}
