package filestore

import (
	"encoding/binary"
	"syscall"
)

// WatchOnce waits for events of a directory.
func WatchOnce(dir string) (woken <-chan struct{}, stop func()) {
	w, err := process.add(dir, logEvents, "")
	if err != nil {
		panic(err)
	}
	return w.wake, w.stop
}

// Overflow does what is done when the system lost events.
func Overflow() {
	event := make([]byte, syscall.SizeofInotifyEvent)
	binary.NativeEndian.PutUint32(event, ^uint32(0))
	binary.NativeEndian.PutUint32(event[4:], syscall.IN_Q_OVERFLOW)
	process.lock()
	defer process.unlock()
	process.in.dispatch(event)
}
