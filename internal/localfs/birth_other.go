//go:build unix && !linux && !darwin

package localfs

import "syscall"

// birth is not known here.
func birth(string, *syscall.Stat_t) string { return "" }
