package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// reportsChanges reports whether the system sends a notification when a file changes. It makes the
// file in a directory of our own.
func reportsChanges(own *os.Root, path string) (bool, error) {
	name := filepath.Base(path)
	if err := own.WriteFile(name, nil, 0o600); err != nil {
		return false, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return false, fmt.Errorf("the system has no free inotify instance (fs.inotify.max_user_instances): %w", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	defer f.Close()
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY); err != nil {
		return false, fmt.Errorf("inotify (fs.inotify.max_user_watches): %w", err)
	}
	if err := own.WriteFile(name, []byte("x"), 0o600); err != nil {
		return false, err
	}
	if err := f.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return false, err
	}
	n, err := f.Read(make([]byte, 4096))
	if os.IsTimeout(err) {
		return false, nil
	}
	return n > 0, err
}
