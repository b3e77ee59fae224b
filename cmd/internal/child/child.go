// Package child starts the command of run as a child process, with the terminal and the signals that
// belong to it, and observes other processes.
package child

import (
	"runtime"
	"runtime/debug"
)

// WithOthers calls start, which starts a program, and lets other goroutines run meanwhile. On Unix the thread
// that starts a program blocks until the system has read the program, for example from a server. Go's
// runtime does not see that. So on a machine with one processor, no lease would be renewed in this time. And a
// garbage collection that falls due would stop all goroutines until the thread continues.
//
// Only one goroutine may call WithOthers at a time.
func WithOthers(start func() error) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	if before := runtime.GOMAXPROCS(0); before == 1 {
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(before)
	}
	return start()
}
