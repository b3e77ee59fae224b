package child

import (
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestOthersRunWhileAProgramStarts: other goroutines run while a thread is blocked in a way that Go's runtime does
// not know, as during the start of a program, even if they leave garbage.
func TestOthersRunWhileAProgramStarts(t *testing.T) {
	start, stop := make(chan struct{}), make(chan struct{})
	longest := make(chan time.Duration)
	go func() {
		<-start
		var pause time.Duration
		var garbage []byte
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-stop:
				longest <- pause
				return
			case <-time.After(time.Millisecond):
				garbage = make([]byte, 1<<20)
				garbage[0] = 1
				pause = max(pause, time.Since(last))
			}
		}
	}()
	err := WithOthers(func() error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var was, all unix.Sigset_t
		for i := range all.Val {
			all.Val[i]--
		}
		if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &was); err != nil {
			return err
		}
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &was, nil)
		close(start)
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&syscall.Timespec{Sec: 2})), 0, 0)
		return nil
	})
	close(stop)
	if err != nil {
		t.Error(err)
	}
	if pause := <-longest; pause > time.Second {
		t.Errorf("the other goroutine did not run for %v", pause)
	}
}
