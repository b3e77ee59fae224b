package dirbucket

import (
	"path/filepath"
)

// OnSync calls f with each directory that is made durable, and returns what ends that.
func OnSync(f func(dir string)) (end func()) {
	before := onSync
	onSync = func(dir string) { f(filepath.Clean(dir)) }
	return func() { onSync = before }
}
