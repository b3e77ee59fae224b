package filestore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

var kernel = syscall.NewLazyDLL("kernel32.dll")

// writeOnce writes with one system call. A file that is open for appending has the right
// to append only (FILE_APPEND_DATA), so the system appends the text as one contiguous
// piece.
func writeOnce(f *os.File, b []byte) (int, error) { return f.Write(b) }

// sizeOf returns the size of a file. It does not tell whether the file has lost its name, which can
// also happen to a file that is open: the next look at the name does.
func sizeOf(f *os.File) (size int64, unlinked bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	return info.Size(), false, nil
}

// syncData makes the contents of a file durable.
func syncData(f *os.File) error { return f.Sync() }

// bootID returns a text that is new with each start of a kernel. It is a hash of three values:
//
//   - the id of the installation, which copies of a disk and containers of one image share,
//   - the number of the start (BootId of KUSER_SHARED_DATA), which is 1 in each Hyper-V container,
//   - the reading of the clock at the start. Later changes of the clock do not change it: the
//     system adds them to BootTime and to BootTimeBias.
//
// All of them are those of the kernel that was saved to the disk: a hibernation and a fast startup
// keep this kernel. The hash does not show the id of the installation to readers of the store.
var bootID = sync.OnceValues(func() (string, error) {
	path, _ := syscall.UTF16PtrFromString(`SOFTWARE\Microsoft\Cryptography`) // without a zero
	name, _ := syscall.UTF16PtrFromString("MachineGuid")
	var key syscall.Handle
	if err := syscall.RegOpenKeyEx(syscall.HKEY_LOCAL_MACHINE, path, 0, syscall.KEY_QUERY_VALUE|syscall.KEY_WOW64_64KEY, &key); err != nil {
		return "", err
	}
	defer syscall.RegCloseKey(key)
	id := make([]byte, 256)
	size := uint32(len(id))
	if err := syscall.RegQueryValueEx(key, name, nil, nil, &id[0], &size); err != nil {
		return "", err
	}
	const timeOfDay = 3
	var clock struct { // SYSTEM_TIMEOFDAY_INFORMATION
		bootTime, _, _          int64
		_, _                    uint32
		bootTimeBias, sleepBias int64
	}
	query := syscall.NewLazyDLL("ntdll.dll").NewProc("NtQuerySystemInformation")
	if status, _, _ := query.Call(timeOfDay, uintptr(unsafe.Pointer(&clock)), unsafe.Sizeof(clock), 0); status != 0 {
		return "", fmt.Errorf("NtQuerySystemInformation: status %#x", status)
	}
	start := *(*uint32)(unsafe.Add(nil, 0x7ffe02c4))
	sum := sha256.Sum256(fmt.Appendf(id[:size], " %d %d", start, clock.bootTime-clock.bootTimeBias))
	return fmt.Sprintf("%x", sum[:16]), nil
})

// A presence file is locked while a handle is open that lets no other handle write to the file. So a
// process that wants to know opens the file for writing. Children that inherit the handle keep the
// lock after the end of this process. A lock of LockFileEx would end with this process.
const (
	shareNoWrite = syscall.FILE_SHARE_READ | syscall.FILE_SHARE_DELETE
	shareAll     = shareNoWrite | syscall.FILE_SHARE_WRITE

	errSharing = syscall.Errno(32) // ERROR_SHARING_VIOLATION
)

// lockPresence locks a new presence file, until the returned handle and its duplicates are closed.
// It closes f: no handle can forbid writing while another handle has this right.
func lockPresence(f *os.File) (fd uintptr, err error) {
	reader, err := reopen(f.Fd(), syscall.GENERIC_READ, shareAll)
	f.Close()
	if err != nil {
		return 0, err
	}
	defer closeFD(reader)
	return reopen(reader, syscall.GENERIC_READ, shareNoWrite)
}

// lockFile reports whether a presence file is not locked. It locks nothing. Other files have no locks.
func lockFile(f *os.File, _ bool) (free bool, err error) {
	writer, err := reopen(f.Fd(), syscall.GENERIC_WRITE, shareAll)
	if errors.Is(err, errSharing) {
		return false, nil
	}
	if err == nil {
		closeFD(writer)
	}
	return err == nil, err
}

func unlockFile(*os.File) error { return errors.ErrUnsupported }

// reopen opens the file of a handle again, whatever its name is. No child inherits the new handle.
func reopen(fd uintptr, access, share uint32) (uintptr, error) {
	h, _, err := kernel.NewProc("ReOpenFile").Call(fd, uintptr(access), uintptr(share), 0)
	if syscall.Handle(h) == syscall.InvalidHandle {
		return 0, os.NewSyscallError("ReOpenFile", err)
	}
	return h, nil
}

// dupFile duplicates a handle; no child inherits the duplicate.
func dupFile(fd uintptr, name string) (*os.File, error) {
	var h syscall.Handle
	self, _ := syscall.GetCurrentProcess() // a constant
	if err := syscall.DuplicateHandle(self, syscall.Handle(fd), self, &h, 0, false, syscall.DUPLICATE_SAME_ACCESS); err != nil {
		return nil, os.NewSyscallError("DuplicateHandle", err)
	}
	return os.NewFile(uintptr(h), name), nil
}

func closeFD(fd uintptr) { _ = syscall.CloseHandle(syscall.Handle(fd)) }

// fileID identifies an open file.
func fileID(f *os.File) (dev, ino uint64) {
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(f.Fd()), &info); err != nil {
		return 0, 0
	}
	return uint64(info.VolumeSerialNumber), uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow)
}
