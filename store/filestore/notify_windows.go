package filestore

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// The system signals a handle when a directory changes, or when a process ends. It has no such
// handle for the opening of a file, so no process can wake a single waiter.

// maxReports is how many waiters of this process get reports at a time, because each of them has a
// goroutine and a thread. The others poll.
const maxReports = 64

var reports atomic.Int32

// log waits for changes of a log, or of the directory where it would appear. The system may report
// a write only when the writer makes it durable. So the waiter polls, too.
func (n *notify) log(dir, name string) (waiter, bool) {
	if n.poll {
		return waiter{}, false
	}
	filter := uintptr(syscall.FILE_NOTIFY_CHANGE_FILE_NAME | syscall.FILE_NOTIFY_CHANGE_SIZE | syscall.FILE_NOTIFY_CHANGE_LAST_WRITE)
	keys := filepath.Join(dir, keysDir)
	for _, path := range []string{filepath.Join(keys, name), keys, dir} {
		text, _ := syscall.UTF16PtrFromString(path) // without a zero, since the store was opened
		const subtree = 0
		h, _, err := kernel.NewProc("FindFirstChangeNotificationW").Call(uintptr(unsafe.Pointer(text)), subtree, filter)
		if syscall.Handle(h) != syscall.InvalidHandle {
			w, ok := report(h, "FindCloseChangeNotification")
			w.mayMiss = func() bool { return true }
			return w, ok
		}
		if !notExist(err) {
			break
		}
		filter = syscall.FILE_NOTIFY_CHANGE_DIR_NAME
	}
	return waiter{}, false
}

// alive waits for the end of a process that announced itself. The id in its file may be that of a
// later process by now. Then the waiter notices the end when it polls.
func (n *notify) alive(path string) (waiter, bool) {
	f, err := os.OpenInRoot(filepath.Split(path))
	if n.poll || err != nil {
		return waiter{}, false
	}
	defer f.Close()
	var p presenceRecord
	if json.NewDecoder(io.LimitReader(f, maxPresence)).Decode(&p) != nil {
		return waiter{}, false
	}
	h, err := syscall.OpenProcess(syscall.SYNCHRONIZE, false, uint32(p.PID))
	if err != nil {
		return waiter{}, false
	}
	if event, _ := syscall.WaitForSingleObject(h, 0); event != syscall.WAIT_TIMEOUT {
		closeFD(uintptr(h)) // the process has ended, and only its children can have the lock
		return waiter{}, false
	}
	return report(uintptr(h), "CloseHandle")
}

// report wakes a waiter when the system signals a handle. The end of the waiter closes the handle.
func report(h uintptr, closer string) (waiter, bool) {
	stop, _, _ := kernel.NewProc("CreateEventW").Call(0, 0, 0, 0)
	wake, ended := make(chan struct{}, 1), make(chan struct{})
	end := func() {
		kernel.NewProc("SetEvent").Call(stop)
		<-ended
		reports.Add(-1)
		closeFD(stop)
		kernel.NewProc(closer).Call(h)
	}
	if reports.Add(1) > maxReports || stop == 0 {
		close(ended)
		end()
		return waiter{}, false
	}
	go func() {
		defer close(ended)
		handles := [2]uintptr{h, stop}
		const all = 0
		first, _, _ := kernel.NewProc("WaitForMultipleObjects").Call(2, uintptr(unsafe.Pointer(&handles)), all, syscall.INFINITE)
		if first == 0 {
			wake <- struct{}{}
		}
	}()
	return waiter{wake: wake, stop: end}, true
}

// opened is not supported here.
func (n *notify) opened(path string, signal func()) (stop func(), err error) { return nil, noWake() }

// close has nothing to end: the goroutine of a waiter ends before its call returns.
func (n *notify) close() {}
