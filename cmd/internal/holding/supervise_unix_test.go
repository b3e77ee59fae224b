//go:build unix

package holding

import (
	"os"
	"syscall"
	"testing"
)

// TestSignalBeforeTheStart: a signal that asks run to end, and that has come before the command is started, is found
// behind others, which stay for the command.
func TestSignalBeforeTheStart(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 4)
	other := os.Signal(syscall.SIGUSR1)
	signals <- other
	if sig := toEnd(signals); sig != nil || len(signals) != 1 {
		t.Errorf("%v asks run to end, and %d signals are left", sig, len(signals))
	}
	signals <- syscall.SIGTERM
	if sig := toEnd(signals); sig != syscall.SIGTERM || len(signals) != 1 || <-signals != other {
		t.Errorf("%v asks run to end, and %d signals are left", sig, len(signals))
	}
}
