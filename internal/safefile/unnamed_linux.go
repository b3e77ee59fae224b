package safefile

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	unnamedFile   = 0x400000 | syscall.O_DIRECTORY // O_TMPFILE
	followSymlink = 0x400                          // AT_SYMLINK_FOLLOW
)

// createUnnamed makes a file in a directory that has no name. The system removes it when
// its last descriptor is closed.
func createUnnamed(dir *os.Root, mode fs.FileMode) (*os.File, error) {
	// Without that directory the file could not be given a name.
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return nil, err
	}
	return dir.OpenFile(".", os.O_WRONLY|unnamedFile|NoFollow, mode)
}

// linkUnnamed gives a file that has no name a name in the directory in which it was made.
func linkUnnamed(f *os.File, dir *os.Root, name string) error {
	in, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer in.Close()
	from, err := syscall.BytePtrFromString("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return err
	}
	to, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_LINKAT, 0, uintptr(unsafe.Pointer(from)), in.Fd(), uintptr(unsafe.Pointer(to)), followSymlink, 0)
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return errno
		}
	}
}
