package localfs

import (
	"fmt"
	"syscall"
)

// birth returns when a file was made.
func birth(_ string, st *syscall.Stat_t) string {
	return fmt.Sprintf("%x.%x", st.Birthtimespec.Sec, st.Birthtimespec.Nsec)
}
