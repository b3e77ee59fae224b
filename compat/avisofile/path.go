package avisofile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/localfs"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// The suffixes of the files that belong to a state file.
const (
	lockSuffix  = ".lock"  // the format's lock
	fenceSuffix = ".fence" // tokens and epochs
	goodSuffix  = ".good"  // the last good copy
	badSuffix   = ".bad"   // the file that a restore replaced
)

// filePath is where a path leads: every name from the given path through symbolic links to
// the state file itself. The directory of each name is a path without links.
type filePath struct {
	names []string
}

// file returns the path of the state file itself.
func (p filePath) file() string { return p.names[len(p.names)-1] }

func (p filePath) equal(q filePath) bool { return slices.Equal(p.names, q.names) }

// resolve follows path. The state file need not exist; its directory must.
func resolve(path string) (filePath, error) {
	const maxLinks = 40
	var p filePath
	for next := path; len(p.names) < maxLinks; {
		dir, base := filepath.Split(next)
		if base == "" || base == "." || base == ".." {
			return filePath{}, &os.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
		}
		dir = cmp.Or(dir, ".")
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return filePath{}, err
		}
		name := filepath.Join(dir, base)
		p.names = append(p.names, name)
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			// If dir is a file, most systems return another error; some return this one.
			if d, err := os.Stat(dir); err == nil && !d.IsDir() {
				return filePath{}, &os.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
			}
			return p, nil
		}
		if err != nil {
			return filePath{}, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return p, nil
		}
		target, err := os.Readlink(name)
		if err != nil {
			return filePath{}, err
		}
		if !filepath.IsAbs(target) {
			// Not filepath.Join: only the system knows what ".." means after a link.
			target = dir + string(filepath.Separator) + target
		}
		next = target
	}
	return filePath{}, &os.PathError{Op: "open", Path: path, Err: errors.New("too many symbolic links")}
}

// check refuses a file system that is not known to be local, and a directory that untrusted
// users could change or exchange.
func (p filePath) check(network bool, unsafe []string) error {
	for i, name := range p.names {
		dir := filepath.Dir(name)
		kind, local, err := localfs.Check(dir)
		if err != nil {
			return err
		}
		if !local && !network {
			return fmt.Errorf("%w: %s is on the file system %s; there, the lock of the state file may not exclude programs on other machines", store.ErrUnsafe, dir, kind)
		}
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if err := safefile.Directory(dir, info, false, unsafe); err != nil {
			return err
		}
		if i == len(p.names)-1 {
			break
		}
		if info, err = os.Lstat(name); err != nil {
			return err
		}
		if err := safefile.ForeignLink(name, info, unsafe); err != nil {
			return err
		}
	}
	return nil
}
