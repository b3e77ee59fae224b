//go:build unix && !linux && !darwin

package filestore

import "os"

// syncData makes the contents of a file durable.
func syncData(f *os.File) error { return f.Sync() }

// bootID is not known here.
func bootID() (string, error) { return "", nil }
