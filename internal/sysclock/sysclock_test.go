package sysclock_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
)

func TestClocks(t *testing.T) {
	if runtime.GOOS != "linux" {
		if _, ok := sysclock.Monotonic(); ok || sysclock.Epoch() != "" {
			t.Error("clocks are known here that no test looks at")
		}
		return
	}
	began := time.Now()
	m1, ok1 := sysclock.Monotonic()
	b1, ok2 := sysclock.Boottime()
	time.Sleep(time.Millisecond)
	m2, _ := sysclock.Monotonic()
	b2, _ := sysclock.Boottime()
	most := time.Since(began)
	if !ok1 || !ok2 || m2-m1 < time.Millisecond || b2-b1 < time.Millisecond || m2-m1 > most || b2-b1 > most {
		t.Errorf("monotonic %v to %v, boot time %v to %v, within %v", m1, m2, b1, b2, most)
	}
	if first, second := sysclock.Epoch(), sysclock.Epoch(); first == "" || first != second {
		t.Errorf("epoch %q, then %q", first, second)
	}
}
