//go:build unix

package filestore

import (
	"os"
	"syscall"
)

// openFlags keep an open from waiting for a FIFO that somebody put in the way.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// writeOnce writes with one system call, which on a file that is open for appending
// makes one piece of it. A rest is not written: others may have written meanwhile.
func writeOnce(f *os.File, b []byte) (int, error) {
	for {
		n, err := syscall.Write(int(f.Fd()), b)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// sizeOf returns the size of a file, and whether it has lost its last name for
// certain.
func sizeOf(f *os.File) (size int64, unlinked bool, err error) {
	var st syscall.Stat_t
	for {
		err = syscall.Fstat(int(f.Fd()), &st)
		if err != syscall.EINTR {
			return st.Size, st.Nlink == 0, err
		}
	}
}

// syncDir makes the names in a directory durable.
func syncDir(f *os.File) error { return f.Sync() }

// groupOf returns the group of a file.
func groupOf(info os.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Gid)
	}
	return -1
}

// chgrp gives a file to a group.
func chgrp(f *os.File, group int) error { return f.Chown(-1, group) }
