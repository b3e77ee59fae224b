//go:build unix

package serving

import (
	"os"
	"syscall"
)

// openSecret opens a file, and does not wait if it is a pipe.
func openSecret(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
