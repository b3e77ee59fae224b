package filestore

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
)

// syncData makes the contents of a file durable.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return err
		}
	}
}

// bootID returns a text that is new with each start of the machine.
func bootID() (string, error) {
	if id := knownBoot.Load(); id != nil {
		return *id, nil
	}
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(b))
	knownBoot.Store(&id)
	return id, nil
}

var knownBoot atomic.Pointer[string] // it cannot change while this process lives

// A child that inherits a presence file has a read lock of its own open file description.
// Such locks do not interact with those of flock.
const (
	ofdGetLock = 36 // F_OFD_GETLK
	ofdSetLock = 37 // F_OFD_SETLK
)

// lockHeir locks a presence file that is open for reading, for this open file and its
// duplicates. Any number of open files can hold it, also while another holds the lock of
// flock.
func lockHeir(f *os.File) error {
	return ofdLock(f, ofdSetLock, &syscall.Flock_t{Type: syscall.F_RDLCK})
}

// hasHeirs reports whether another open file has the lock of an heir.
func hasHeirs(f *os.File) (bool, error) {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	err := ofdLock(f, ofdGetLock, &lock)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil // no process on this system could have taken one
	}
	return lock.Type != syscall.F_UNLCK, err
}

func ofdLock(f *os.File, command int, lock *syscall.Flock_t) error {
	for {
		switch err := syscall.FcntlFlock(f.Fd(), command, lock); err {
		case syscall.EINTR:
		case syscall.EINVAL: // not every system that calls itself Linux has these locks
			return errors.ErrUnsupported
		default:
			return err
		}
	}
}
