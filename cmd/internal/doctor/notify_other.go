//go:build !linux

package doctor

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// told reports whether the system tells of a change of a file.
func told(*os.Root, string) (bool, error) {
	return false, fmt.Errorf("not used on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
