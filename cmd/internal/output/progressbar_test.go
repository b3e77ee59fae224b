package output

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestBarOfAResumedTransfer: the rate that a bar shows is that of this run.
func TestBarOfAResumedTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBar(io.Discard, "file", 200<<20)
		b.Resume()
		for n := int64(100); n <= 104; n++ {
			b.Set(n << 20)
			time.Sleep(time.Second)
		}
		if s := b.line.State(); s.KBsPerSecond < 800 || s.KBsPerSecond > 1100 || s.Max != 100<<20 || s.CurrentNum != 4<<20 {
			t.Errorf("4 MiB in 5 seconds, of 100 MiB: %+v", s)
		}
	})
}
