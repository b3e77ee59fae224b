//go:build unix

package allstores

import (
	"errors"
	"io/fs"
	"syscall"
)

// canRead reports whether this user may read a file, and may if there is none. It does not open the file.
func canRead(path string) bool {
	const read = 4 // R_OK
	return !errors.Is(syscall.Access(path, read), syscall.EACCES)
}

// links returns how many hard links a file has.
func links(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
