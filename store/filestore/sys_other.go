//go:build unix && !linux && !darwin

package filestore

import "os"

// syncData makes the contents of a file durable.
func syncData(f *os.File) error { return f.Sync() }

// fileSystem knows none here.
func fileSystem(string) (name string, local bool, err error) {
	return "not known on this system", false, nil
}

// bootID is not known here.
func bootID() (string, error) { return "", nil }
