package filestore

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

const openFlags = 0

// writeOnce writes with one system call. A file that is open for appending has the
// right to append only (FILE_APPEND_DATA), which makes one piece of it.
func writeOnce(f *os.File, b []byte) (int, error) { return f.Write(b) }

// sizeOf returns the size of a file. One that is open keeps its name.
func sizeOf(f *os.File) (size int64, unlinked bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	return info.Size(), false, nil
}

// syncData makes the contents of a file durable.
func syncData(f *os.File) error { return f.Sync() }

// syncDir does nothing: NTFS keeps names in its journal, and offers no sync of them.
func syncDir(*os.File) error { return nil }

// ownerOf knows nothing: owners are not a matter of modes here.
func ownerOf(os.FileInfo) (user, group int) { return -1, -1 }

// identify names a directory by its path without links.
func identify(dir string, _ os.FileInfo) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	return "file:" + strings.ToLower(real), err
}

// fileSystem tells whether a directory lies on a drive of this machine.
func fileSystem(dir string) (name string, local bool, err error) {
	volume := filepath.VolumeName(dir)
	if strings.HasPrefix(volume, `\\`) {
		return "a network share", false, nil
	}
	root, err := syscall.UTF16PtrFromString(volume + `\`)
	if err != nil {
		return "", false, err
	}
	const fixed, ramDisk = 3, 6
	driveType := syscall.NewLazyDLL("kernel32.dll").NewProc("GetDriveTypeW")
	kind, _, _ := driveType.Call(uintptr(unsafe.Pointer(root)))
	if kind != fixed && kind != ramDisk {
		return "no fixed drive", false, nil
	}
	return "a fixed drive", true, nil
}

// bootID is not known here.
func bootID() (string, error) { return "", nil }

// Nothing is known of processes here, as there is no boot id.
func lockFile(*os.File, bool) (bool, error) { return false, errNoPresence }
func dup(*os.File) (int, error)             { return -1, errNoPresence }
func dupFile(int, string) (*os.File, error) { return nil, errNoPresence }
func closeFD(int)                           {}
func fileID(*os.File) (dev, ino uint64)     { return 0, 0 }
