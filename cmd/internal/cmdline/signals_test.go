//go:build unix

package cmdline

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestSameSignalTwice: timeout(1) sends its signal to the process and to its group. The
// second one does not end the command while it keeps what it has.
func TestSameSignalTwice(t *testing.T) {
	ctx, stop := UntilInterrupted(t.Context())
	defer stop()
	for range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
	}
	time.Sleep(20 * time.Millisecond) // the second is delivered
	var by Interrupted
	if err := context.Cause(ctx); !errors.As(err, &by) || by.Status() != 128+int(syscall.SIGTERM) {
		t.Errorf("the context ended with %v", err)
	}
}
