package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
)

// syncData makes the contents of a file durable.
func syncData(f *os.File) error {
	return uninterrupted(func() error { return syscall.Fdatasync(int(f.Fd())) })
}

// startSync begins to write what was appended after an offset, and does not wait for that: only
// [syncData] makes it durable. The error is of a write that failed.
func startSync(f *os.File, off int64) error {
	err := syscall.SyncFileRange(int(f.Fd()), off, 0, 2) // SYNC_FILE_RANGE_WRITE
	if err == syscall.EINTR || err == syscall.EINVAL || err == syscall.ENOSYS || err == syscall.EPERM {
		return nil // nothing was begun
	}
	return err
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

// lockInheritable locks a presence file that is open for reading, for this open file and its
// duplicates. Any number of open files can hold it, also while another holds the lock of
// flock.
func lockInheritable(f *os.File) error {
	return ofdLock(f, ofdSetLock, &syscall.Flock_t{Type: syscall.F_RDLCK})
}

// isInherited reports whether another open file has the lock of an heir.
func isInherited(f *os.File) (bool, error) {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	err := ofdLock(f, ofdGetLock, &lock)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil // no process on this system could have taken one
	}
	return lock.Type != syscall.F_UNLCK, err
}

func ofdLock(f *os.File, command int, lock *syscall.Flock_t) error {
	err := uninterrupted(func() error { return syscall.FcntlFlock(f.Fd(), command, lock) })
	if err == syscall.EINVAL { // not every system that calls itself Linux has these locks
		return errors.ErrUnsupported
	}
	return err
}

// lockHolder names a process that has the lock of flock on a file, and reports whether it is
// stopped. A stopped one comes first. The name is empty where the system does not show it: in
// another PID namespace, and on file systems of several devices.
func lockHolder(f *os.File) (process string, stopped bool) {
	table, err := os.Open("/proc/locks")
	if err != nil {
		return "", false
	}
	defer table.Close()
	locks, err := io.ReadAll(io.LimitReader(table, 1<<20)) // any process can make it long
	if err != nil {
		return "", false
	}
	dev, ino := fileID(f)
	file := fmt.Sprintf("%02x:%02x:%d", dev>>8&0xfff, dev&0xff|dev>>12&0xfff00, ino)
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
		field := strings.Fields(line)
		if len(field) < 6 || field[1] != "FLOCK" || field[5] != file {
			continue
		}
		stat, err := os.ReadFile("/proc/" + field[4] + "/stat") // 4711 (name) T ...
		start, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if err != nil || start < 0 || end+2 >= len(stat) {
			continue
		}
		process = fmt.Sprintf("process %s (%q)", field[4], stat[start+1:end])
		if state := stat[end+2]; state == 'T' || state == 't' {
			return process, true
		}
	}
	return process, false
}
