package dirbucket

import (
	"os"
	"path/filepath"
)

// OnSync calls f with each directory that is made durable, and returns what ends that.
func OnSync(f func(dir string)) (end func()) {
	onSync = func(d *os.File) { f(filepath.Clean(d.Name())) }
	return func() { onSync = nil }
}
