package output

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestBarOfAResumedTransfer: the rate that a bar shows is that of this run.
func TestBarOfAResumedTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		b := newBar(&said, "file\x1b", 200<<20, true)
		b.Resume()
		for n := int64(100); n <= 104; n++ {
			b.Set(n << 20)
			time.Sleep(time.Second)
		}
		b.End()
		lines := strings.Split(said.String(), "\r\x1b[K")
		if got, want := lines[len(lines)-2], "file\\x1b   4% |"+strings.Repeat(" ", 10)+"| (4.0 MiB of 100.0 MiB, 1.0 MiB/s, 1m36s left)"; got != want || lines[len(lines)-1] != "" {
			t.Errorf("4 MiB in 4 seconds, of 100 MiB: %q, want %q", lines, want)
		}
		for range 3 {
			b.Set(105 << 20) // within the same moment it is drawn once
		}
		if n := strings.Count(said.String(), "\r"); n != len(lines) {
			t.Errorf("drawn %d times, want %d", n, len(lines))
		}
	})
}
