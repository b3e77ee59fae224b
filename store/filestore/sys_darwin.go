package filestore

import (
	"os"
	"syscall"
)

// syncData makes the contents of a file durable, through the cache of the disk too.
func syncData(f *os.File) error { return f.Sync() }

// fileSystem names the file system of a directory, and tells whether it is known to
// be local and to append atomically.
func fileSystem(dir string) (name string, local bool, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	var b []byte
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	name = string(b)
	return name, name == "apfs" || name == "hfs", nil
}

// bootID returns a text that is new with each start of the machine.
func bootID() (string, error) { return syscall.Sysctl("kern.bootsessionuuid") }
