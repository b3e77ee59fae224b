//go:build unix

package private

import "syscall"

// openFlags keep an open from waiting for a pipe that was put in the way.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW
