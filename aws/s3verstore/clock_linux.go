package s3verstore

import (
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
// boot-time clock counts and the monotonic clock does not.
func suspended() time.Duration {
	boot, ok1 := clockGettime(clockBoottime)
	mono, ok2 := clockGettime(clockMonotonic)
	if !ok1 || !ok2 {
		return 0
	}
	return boot - mono
}
