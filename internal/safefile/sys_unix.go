//go:build unix

package safefile

import (
	"io/fs"
	"syscall"
)

const (
	// noWait keeps an open from waiting for the other end of a pipe.
	noWait = syscall.O_NONBLOCK

	// NoFollow is a flag for an open: it does not follow a symbolic link at the end of the path, and
	// does not wait for a pipe. In spite of the flag, an [os.Root] follows a link to a file within
	// itself.
	NoFollow = noWait | syscall.O_NOFOLLOW
)

// ErrNotDirectory says that a file has the name of a directory.
var ErrNotDirectory error = syscall.ENOTDIR

// OwnerOf returns the user who owns a file, or -1 if the owner is not known.
func OwnerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// GroupOf returns the group that owns a file, or -1 if the group is not known.
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
