//go:build unix

package locks

import (
	"os"
	"os/signal"
	"syscall"
)

// resizes returns a channel that gets a value when the terminal has another size.
func resizes() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
