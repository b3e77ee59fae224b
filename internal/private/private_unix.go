//go:build unix

package private

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openFlags keep an open from waiting for a pipe that was put in the way.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// check looks at the owner and the rights of what was opened.
func check(path string, info fs.FileInfo) error {
	owner := -1
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = int(st.Uid)
	}
	switch mode := info.Mode().Perm(); {
	case owner != os.Geteuid():
		return &Error{Path: path, Reason: fmt.Sprintf("belongs to user %d, not to user %d, who runs this", owner, os.Geteuid())}
	case mode&0o077 != 0:
		return &Error{Path: path, Reason: fmt.Sprintf("can be read or written by others (mode %04o)", mode), Rights: true}
	}
	return nil
}
