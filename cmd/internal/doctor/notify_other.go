//go:build !linux

package doctor

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// reportsChanges reports whether the system sends a notification when a file changes.
func reportsChanges(*os.Root, string) (bool, error) {
	return false, fmt.Errorf("not used on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
