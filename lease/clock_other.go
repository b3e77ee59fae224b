//go:build !linux

package lease

import "time"

// suspended is not known here; the wall clock tells of sleep.
func suspended() time.Duration { return 0 }

// epoch is not known here, so that nothing read from the monotonic clock of
// another process is ever compared.
func epoch() string { return "" }

func systemMonotonic() (time.Duration, bool) { return 0, false }

func systemBoottime() (time.Duration, bool) { return 0, false }
