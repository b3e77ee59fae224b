//go:build unix

package allstores

import (
	"errors"
	"syscall"
)

// canRead reports whether this user may read a file, and may if there is none. It does not open the file.
func canRead(path string) bool {
	const read = 4 // R_OK
	return !errors.Is(syscall.Access(path, read), syscall.EACCES)
}
