package cmdline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

// Unwritable is the error for a file that a flag names and that cannot be made. It is one of usage,
// unless rights or room are missing.
func Unwritable(what, path string, err error) error {
	err = fmt.Errorf("%s: %w", what, output.Under(path, err))
	if exit.Status(err) == exit.Denied || safefile.Full(err) {
		return err
	}
	return exit.With(exit.Usage, err)
}

// ReplacedFile is a file that a flag names, and that the command replaces by a new one, as a whole.
type ReplacedFile struct {
	flag, path string
	dir        *safefile.Dir
}

// OpenReplaced checks that the command can write an SVG file. It replaces no link, device or pipe, and changes
// nothing yet.
func OpenReplaced(flag, path string) (*ReplacedFile, error) {
	if path == "" {
		return nil, exit.Usagef("%s: the name of the file is empty", flag)
	}
	f := &ReplacedFile{flag: flag, path: path}
	if _, err := f.mode(); err != nil {
		return nil, err
	}
	if !strings.EqualFold(filepath.Ext(path), ".svg") {
		return nil, exit.Usagef("%s: the name %s does not end in .svg, and the picture is an SVG file", flag, path)
	}
	var err error
	if f.dir, err = safefile.OpenAnyDir(filepath.Dir(path)); err != nil {
		return nil, Unwritable(flag, path, err)
	}
	file, err := f.create()
	if err != nil {
		f.Close()
		return nil, err
	}
	file.Discard()
	return f, nil
}

// mode returns the mode of the file that is there, or that of a new one.
func (f *ReplacedFile) mode() (fs.FileMode, error) {
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0o666, nil
	case err != nil:
		return 0, Unwritable(f.flag, f.path, err)
	case !info.Mode().IsRegular():
		return 0, exit.Usagef("%s: %s exists, and is not a regular file", f.flag, f.path)
	}
	return info.Mode().Perm(), nil
}

func (f *ReplacedFile) create() (*safefile.File, error) {
	mode, err := f.mode()
	if err != nil {
		return nil, err
	}
	file, err := f.dir.CreateUnnamed(".holdfast-new-", mode)
	if err != nil {
		return nil, Unwritable(f.flag, f.path, err)
	}
	return file, nil
}

// Write replaces the file. Readers see the old content or the new one.
func (f *ReplacedFile) Write(content []byte) error {
	file, err := f.create()
	if err != nil {
		return err
	}
	defer file.Discard()
	if _, err = file.Write(content); err == nil {
		err = file.Install(filepath.Base(f.path))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.flag, output.Under(f.path, err))
	}
	return nil
}

func (f *ReplacedFile) Close() { f.dir.Close() }
