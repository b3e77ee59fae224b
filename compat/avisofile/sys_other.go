//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd && !windows

package avisofile

import (
	"fmt"
	"os"
	"runtime"

	"github.com/holdfast-go/holdfast/store"
)

const keepOpen = false

// lock fails: this system has no flock, so nothing would exclude the others.
func lock(*os.File, bool) (bool, error) {
	return false, fmt.Errorf("%w: the operating system %s has no flock", store.ErrUnsafe, runtime.GOOS)
}

func unlock(*os.File) {}

func rename(from, to string) error { return os.Rename(from, to) }

func keepOwner(f *os.File, old os.FileInfo) (changed string, err error) {
	return "", f.Chmod(old.Mode().Perm())
}

func cannotSync(error) bool { return false }

// hasOneName is not known here, where no file has an owner.
func hasOneName(os.FileInfo) bool { return false }
