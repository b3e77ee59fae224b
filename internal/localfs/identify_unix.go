//go:build unix

package localfs

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

func identify(path string, info fs.FileInfo) (string, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("the system does not report its inode")
	}
	// The inode comes first, since it is all that machines which share a file system
	// agree on.
	if born := birth(path, st); born != "" {
		return fmt.Sprintf("%016x:%s", uint64(st.Ino), born), nil
	}
	return fmt.Sprintf("%016x:%x", uint64(st.Ino), uint64(st.Dev)), nil
}
