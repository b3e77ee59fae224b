package safefile

import "os"

// OpenSame and OpenSameFile let a test exchange a directory or a file while it is opened.
var (
	OpenSame     = openSame
	OpenSameFile = openSameFile
)

// HasUnnamed reports whether a directory can have files without names.
func HasUnnamed(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	f, err := createUnnamed(root, 0o600)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
