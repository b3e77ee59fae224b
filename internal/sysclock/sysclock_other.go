//go:build !linux

package sysclock

import "time"

// Monotonic is not known here.
func Monotonic() (time.Duration, bool) { return 0, false }

// Boottime is not known here.
func Boottime() (time.Duration, bool) { return 0, false }

// Epoch is not known here, so that nothing read from the clocks of another process is
// ever compared.
func Epoch() string { return "" }
