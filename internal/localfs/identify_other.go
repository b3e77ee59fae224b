//go:build !unix

package localfs

import (
	"io/fs"
	"path/filepath"
	"strings"
)

func identify(path string, _ fs.FileInfo) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	return strings.ToLower(real), err
}
