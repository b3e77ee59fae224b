package lease

import (
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1
	clockBoottime  = 7
)

func clockGettime(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}

// suspended returns how long the machine has slept since it booted: what the
// boot-time clock counts and the monotonic clock does not. Read in this order the
// difference is never too large, however long the goroutine is kept between the
// two; a value that is too small for once is made good by the next look.
func suspended() time.Duration {
	boot, ok1 := clockGettime(clockBoottime)
	mono, ok2 := clockGettime(clockMonotonic)
	if !ok1 || !ok2 {
		return 0
	}
	return boot - mono
}

// epoch names the span in which readings of the system's monotonic clock can be
// compared between processes: this boot, in this time namespace. It is empty where
// that cannot be known.
func epoch() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	// Kernels before 5.6 have no time namespaces, and no such file.
	namespace, _ := os.Readlink("/proc/self/ns/time")
	return strings.TrimSpace(string(boot)) + " " + namespace
}

// systemMonotonic reads the monotonic clock that all processes of an epoch share.
func systemMonotonic() (time.Duration, bool) { return clockGettime(clockMonotonic) }

// systemBoottime is systemMonotonic with the time slept.
func systemBoottime() (time.Duration, bool) { return clockGettime(clockBoottime) }
