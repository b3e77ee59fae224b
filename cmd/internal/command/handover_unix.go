//go:build unix

package command

import "syscall"

// become replaces this process by another program. It returns only an error.
func become(path string, argv, env []string) error { return syscall.Exec(path, argv, env) }
