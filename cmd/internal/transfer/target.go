package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/object"
)

// Target is the file, or the standard output, that get writes to.
type Target struct {
	io.Writer
	name string // empty: standard output

	dir  *safefile.Dir
	File *safefile.File
	mode fs.FileMode
	was  bool // a file of that name exists; the new file gets its mode
}

// OpenTarget opens what get writes to: a file, or standard output for "-" and for no name.
// It writes a file without a name, or under a temporary one, in the same directory, and
// renames it at the end.
// So other programs see the old file or the whole new one. It does not follow a link, and
// replaces no device or pipe. The caller discards the target at the end.
func OpenTarget(stdout io.Writer, name string, given bool) (*Target, error) {
	if name == "" && given {
		return nil, exit.Usagef("the name of the file is empty")
	}
	if name == "" || name == "-" {
		if name == "" && output.Terminal(stdout) != nil {
			return nil, exit.Usagef("standard output is a terminal: name a file; or name - to print the object on the terminal")
		}
		return &Target{Writer: stdout}, nil
	}
	if os.IsPathSeparator(name[len(name)-1]) {
		return nil, exit.Usagef("%s is the name of a directory: name a file in it", name)
	}
	dir, err := os.OpenRoot(filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.With(exit.NotFound, fmt.Errorf("there is no directory %s", filepath.Dir(name)))
	}
	if err != nil {
		return nil, err
	}
	return TargetIn(dir, name)
}

// TargetIn is [OpenTarget] of a file in a directory, which it closes with the target.
func TargetIn(dir *os.Root, name string) (_ *Target, err error) {
	t := &Target{name: name, mode: 0o666, dir: safefile.DirIn(dir)}
	defer func() {
		if err != nil {
			dir.Close()
		}
	}()
	info, err := dir.Lstat(filepath.Base(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, exit.Usagef("%s is a directory: name a file in it", name)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, exit.Usagef("%s is a symbolic link: name the target of the link", name)
	case !info.Mode().IsRegular():
		return nil, exit.Usagef("%s is not a regular file: name -, and redirect the output of get", name)
	default:
		t.mode, t.was = info.Mode().Perm(), true
	}
	if t.File, err = t.dir.CreateUnnamed(".holdfast-get-", t.mode); err != nil {
		return nil, output.Under(name, err)
	}
	t.Writer = t.File
	return t, nil
}

// Named puts the name that the file is to get in the place of its temporary one in an error of the
// system.
func (t *Target) Named(err error) error {
	var of *fs.PathError
	if t.File != nil && errors.As(err, &of) && of.Path == t.File.Name() {
		of.Path = t.name
	}
	return err
}

// Commit gives the file its name, after the last byte. If the transfer has failed, Commit returns its error.
func (t *Target) Commit(failed error) (err error) {
	if failed != nil || t.File == nil {
		return failed
	}
	defer func() { err = t.Named(err) }()
	if t.was {
		if err := t.File.Chmod(t.mode); err != nil { // the umask may have removed some permissions
			return err
		}
	}
	if err := t.File.Sync(); err != nil {
		return err
	}
	if err := t.File.Install(filepath.Base(t.name)); err != nil {
		return err
	}
	return t.dir.Sync()
}

// Discard closes what is open, and removes the temporary file if it was not renamed.
func (t *Target) Discard() {
	if t.File != nil {
		t.File.Discard()
		t.dir.Close()
	}
}

// Part describes the partial file that an earlier get has kept: which object it is the
// beginning of. The description is at the end of that file: as JSON, followed by its
// length. Only this user can read the file.
type Part struct {
	Object  string         `json:"object"` // its bucket and key
	Version object.Version `json:"version"`
	Done    int64          `json:"done"` // bytes
}

// partDigits is how many digits the length of a part's JSON has.
const partDigits = 8

// partName is the name of the partial file that is kept for this file.
func (t *Target) partName() string {
	sum := sha256.Sum256([]byte(filepath.Base(t.name)))
	return ".holdfast-part-" + hex.EncodeToString(sum[:16])
}

// Keep keeps what get has written so far.
func (t *Target) Keep(p Part) error {
	label, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := t.File.Truncate(p.Done); err != nil {
		return err
	}
	if _, err := t.File.WriteAt(fmt.Appendf(label, "%0*d", partDigits, len(label)), p.Done); err != nil {
		return err
	}
	if err := t.File.Chmod(0o600); err != nil {
		return err
	}
	if err := t.File.Sync(); err != nil {
		return err
	}
	return t.File.Install(t.partName())
}

// Resume copies the kept beginning of an object into the file. It returns the zero part if
// no beginning was kept. It removes the partial file in every case.
func (t *Target) Resume(of string) (Part, error) {
	f, info, err := t.dir.Open(t.partName())
	if err != nil {
		return Part{}, nil // most often there is none; one that other users can change is not used
	}
	defer func() {
		f.Close()
		_ = t.dir.Remove(t.partName())
	}()
	tail := make([]byte, min(info.Size(), 4<<10))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil || len(tail) < partDigits {
		return Part{}, nil
	}
	label, digits := tail[:len(tail)-partDigits], tail[len(tail)-partDigits:]
	n, err := strconv.Atoi(string(digits))
	var p Part
	if err != nil || n < 0 || n > len(label) || json.Unmarshal(label[len(label)-n:], &p) != nil ||
		p.Object != of || p.Version == "" || p.Done != info.Size()-int64(n)-partDigits || p.Done <= 0 {
		return Part{}, nil
	}
	if _, err := io.Copy(t.File, io.NewSectionReader(f, 0, p.Done)); err != nil {
		return Part{}, err
	}
	return p, nil
}
