package localfs

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// statxCalls are the numbers of statx(2), which package syscall does not have.
var statxCalls = map[string]uintptr{
	"386": 383, "amd64": 332, "arm": 397, "arm64": 291, "loong64": 291, "mips": 4366, "mips64": 5326, "mips64le": 5326,
	"mipsle": 4366, "ppc64": 383, "ppc64le": 383, "riscv64": 291, "s390x": 379,
}

// statx is what statx(2) answers.
type statx struct {
	mask     uint32
	_        [28]byte
	ino      uint64
	_        [40]byte
	bornSec  int64
	bornNsec uint32
	_        [164]byte
}

const (
	atFDCWD    = -100
	statxBTime = 0x800
)

// birth returns when a file was made; empty where that is not known. On file systems whose
// snapshots are file systems with the same inodes, it also has the number of that.
func birth(path string, st *syscall.Stat_t) string {
	call, known := statxCalls[runtime.GOARCH]
	name, err := syscall.BytePtrFromString(path)
	if !known || err != nil {
		return ""
	}
	var x statx
	at := atFDCWD
	_, _, errno := syscall.Syscall6(call, uintptr(at), uintptr(unsafe.Pointer(name)), 0, statxBTime, uintptr(unsafe.Pointer(&x)), 0)
	if errno != 0 || x.mask&statxBTime == 0 || x.ino != uint64(st.Ino) {
		return ""
	}
	born := fmt.Sprintf("%x.%x", x.bornSec, x.bornNsec)
	var on syscall.Statfs_t
	if syscall.Statfs(path, &on) != nil {
		return ""
	}
	if kind, _ := classify(uint32(on.Type)); kind == "btrfs" || kind == "zfs" {
		born += fmt.Sprintf(".%08x%08x", uint32(on.Fsid.X__val[0]), uint32(on.Fsid.X__val[1]))
	}
	return born
}
