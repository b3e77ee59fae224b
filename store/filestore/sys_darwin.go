package filestore

import (
	"os"
	"syscall"
)

// syncData makes the contents of a file durable, through the cache of the disk too.
func syncData(f *os.File) error { return f.Sync() }

// bootID returns a text that is new with each start of the machine.
func bootID() (string, error) { return syscall.Sysctl("kern.bootsessionuuid") }
