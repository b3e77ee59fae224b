package localfs

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// The drive types of GetDriveType that can be local.
const (
	driveRemovable = 2
	driveFixed     = 3
	driveRemote    = 4
	driveRAMDisk   = 6
)

func check(dir string) (string, bool, error) {
	fail := func(op string, err error) (string, bool, error) {
		return "", false, &os.PathError{Op: op, Path: dir, Err: err}
	}
	if _, err := os.Stat(dir); err != nil {
		return "", false, err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", false, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", false, err
	}
	path, err := syscall.UTF16PtrFromString(real)
	if err != nil {
		return fail("GetVolumePathName", err)
	}
	kernel := syscall.NewLazyDLL("kernel32.dll")
	root := make([]uint16, len(real)+syscall.MAX_PATH)
	ok, _, err := kernel.NewProc("GetVolumePathNameW").Call(
		uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&root[0])), uintptr(len(root)))
	if ok == 0 {
		return fail("GetVolumePathName", err)
	}
	drive, _, _ := kernel.NewProc("GetDriveTypeW").Call(uintptr(unsafe.Pointer(&root[0])))
	if drive == driveRemote {
		return "network drive", false, nil
	}
	name := make([]uint16, syscall.MAX_PATH+1)
	ok, _, err = kernel.NewProc("GetVolumeInformationW").Call(
		uintptr(unsafe.Pointer(&root[0])), 0, 0, 0, 0, 0,
		uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)))
	if ok == 0 {
		return fail("GetVolumeInformation", err)
	}
	kind := strings.ToLower(syscall.UTF16ToString(name))
	known := kind == "ntfs" || kind == "refs"
	placed := drive == driveFixed || drive == driveRemovable || drive == driveRAMDisk
	return kind, known && placed, nil
}
