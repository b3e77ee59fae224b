package sysclock

import (
	"os"
	"strings"
	"sync/atomic"
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

// Monotonic reads the monotonic clock, which all processes with the same [Epoch] share.
func Monotonic() (time.Duration, bool) { return clockGettime(clockMonotonic) }

// Boottime reads the boot-time clock: the monotonic clock plus the time that the machine slept.
func Boottime() (time.Duration, bool) { return clockGettime(clockBoottime) }

// Epoch identifies the boot of the machine and the time namespace of the process. Processes with the same
// epoch can compare their readings of these clocks. The result is empty if the epoch is not known.
func Epoch() string {
	if epoch := known.Load(); epoch != nil {
		return *epoch
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	// Kernels before 5.6 have no time namespaces, and no such file.
	namespace, _ := os.Readlink("/proc/self/ns/time")
	epoch := strings.TrimSpace(string(boot)) + " " + namespace
	known.Store(&epoch)
	return epoch
}

var known atomic.Pointer[string] // it cannot change while this process lives
