//go:build unix

package safefile

import (
	"io/fs"
	"syscall"
)

const (
	// noWait keeps an open from waiting for the other end of a pipe.
	noWait = syscall.O_NONBLOCK

	// NoFollow also keeps an open from following a symbolic link at the end of its path. An
	// [os.Root] follows a link within itself whatever the flag.
	NoFollow = noWait | syscall.O_NOFOLLOW
)

// OwnerOf returns the user that a file belongs to, and -1 where that is not known.
func OwnerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// GroupOf returns the group that a file belongs to, and -1 where that is not known.
func GroupOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Gid)
	}
	return -1
}

// canWrite reports whether this user may write to a directory. An access list can allow
// it where the mode does not.
func canWrite(path string) bool {
	const write = 2 // W_OK
	return syscall.Access(path, write) == nil
}
