package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// maxDir is how many entries of a directory of [FS] are in memory at most.
const maxDir = 100_000

// FS returns the objects of a client as a read-only file system, for templates,
// [net/http.FileServerFS] and other users of an [fs.FS]. Slashes in keys separate the names of
// directories. [fs.Sub] returns a directory. The context bounds all calls on the file system and
// its files.
//
// A directory exists while there is an object below it. Objects whose keys are not valid paths
// ([fs.ValidPath]), for example with two slashes in a row, are not in the file system. If the
// objects "a" and "a/b" both exist, "a" is a file, and "a/b" can be opened only by its name. Files
// have the mode 0444, and the time of [Info].Modified in whole seconds. The method Sys of a file's
// [fs.FileInfo] returns the [Info].
//
// An open file reads one state of its object. If another program changes or deletes the object, a
// read continues with the old state or fails. A file never mixes two states. Files implement
// [io.Seeker] and [io.ReaderAt].
//
// These are the costs. To open a file and read it from its beginning takes one request. A read
// after a seek takes one more request, and each ReadAt takes one request. To open a directory takes
// two requests. To read a directory takes a listing ([ListDir]). A directory of more than 100,000
// entries can only be read in pieces ([fs.ReadDirFile] with n > 0). After the first 100,000
// entries, ReadDir returns the other entries in the order of the listing. If a name is both a file
// and a directory, it can then occur twice.
func FS(ctx context.Context, c *Client) fs.FS { return &fileSystem{ctx: ctx, c: c} }

// fileSystem is the part of a client's objects below a prefix, which is empty or ends with
// a slash.
type fileSystem struct {
	ctx    context.Context
	c      *Client
	prefix string
}

var (
	_ fs.ReadDirFS  = (*fileSystem)(nil)
	_ fs.ReadFileFS = (*fileSystem)(nil)
	_ fs.StatFS     = (*fileSystem)(nil)
	_ fs.SubFS      = (*fileSystem)(nil)
)

// pathError is the error of an operation on a name, in the words of package fs.
func pathError(op, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		err = fs.ErrNotExist
	case errors.Is(err, store.ErrDenied):
		err = fmt.Errorf("%w: %w", fs.ErrPermission, err)
	case errors.Is(err, store.ErrKey):
		err = fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements [fs.FS].
func (f *fileSystem) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, pathError("open", name, fs.ErrInvalid)
	}
	if name != "." {
		r, err := f.c.Get(f.ctx, f.prefix+name, nil)
		if err == nil {
			return &file{f: f, name: name, info: r.Info, body: r}, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, pathError("open", name, err)
		}
	}
	if err := f.isDir(name); err != nil {
		return nil, pathError("open", name, err)
	}
	return &directory{f: f, name: name}, nil
}

// Stat implements [fs.StatFS].
func (f *fileSystem) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, pathError("stat", name, fs.ErrInvalid)
	}
	if name != "." {
		info, err := f.c.Stat(f.ctx, f.prefix+name)
		if err == nil {
			return fileInfo{path.Base(name), &info}, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, pathError("stat", name, err)
		}
	}
	if err := f.isDir(name); err != nil {
		return nil, pathError("stat", name, err)
	}
	return fileInfo{name: path.Base(name)}, nil
}

// ReadFile implements [fs.ReadFileFS].
func (f *fileSystem) ReadFile(name string) ([]byte, error) {
	opened, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if _, ok := opened.(*directory); ok {
		return nil, pathError("read", name, errors.New("is a directory"))
	}
	return io.ReadAll(opened)
}

// ReadDir implements [fs.ReadDirFS].
func (f *fileSystem) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, pathError("readdir", name, fs.ErrInvalid)
	}
	d := &directory{f: f, name: name}
	defer d.Close()
	entries, err := d.read(-1)
	if err == nil && len(entries) == 0 && name != "." {
		err = f.isDir(name)
	}
	return entries, pathError("readdir", name, err)
}

// Sub implements [fs.SubFS].
func (f *fileSystem) Sub(dir string) (fs.FS, error) {
	if !fs.ValidPath(dir) {
		return nil, pathError("sub", dir, fs.ErrInvalid)
	}
	return &fileSystem{f.ctx, f.c, f.below(dir)}, nil
}

// below is how the keys of what is in a directory begin.
func (f *fileSystem) below(dir string) string {
	if dir == "." {
		return f.prefix
	}
	return f.prefix + dir + "/"
}

// isDir returns store.ErrNotFound if there is no such directory.
func (f *fileSystem) isDir(name string) error {
	if name == "." {
		return nil
	}
	for _, err := range ListDir(f.ctx, f.c.bucket, f.below(name)) {
		return err
	}
	return store.ErrNotFound
}

// entries yields what is in a directory, as the listing has it.
func (f *fileSystem) entries(dir string) iter.Seq2[fileInfo, error] {
	return func(yield func(fileInfo, error) bool) {
		below := f.below(dir)
		for info, err := range f.c.ListDir(f.ctx, below) {
			if err != nil {
				yield(fileInfo{}, err)
				return
			}
			name, isDir := strings.CutSuffix(info.Key[len(below):], "/")
			if name == "." || strings.Contains(name, "/") || !fs.ValidPath(name) {
				continue
			}
			entry := fileInfo{name: name}
			if !isDir {
				entry.info = &info
			}
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// sorted returns entries in the order of their names. Of a file and a directory of one name
// the directory is left out.
func sorted(found []fileInfo) []fs.DirEntry {
	slices.SortFunc(found, func(a, b fileInfo) int {
		if c := strings.Compare(a.name, b.name); c != 0 || a.IsDir() == b.IsDir() {
			return c
		} else if b.IsDir() {
			return -1
		}
		return 1
	})
	found = slices.CompactFunc(found, func(a, b fileInfo) bool { return a.name == b.name })
	entries := make([]fs.DirEntry, len(found))
	for i, info := range found {
		entries[i] = fs.FileInfoToDirEntry(info)
	}
	return entries
}

// fileInfo describes a file, or a directory if it has no info.
type fileInfo struct {
	name string
	info *Info
}

func (i fileInfo) Name() string { return i.name }
func (i fileInfo) IsDir() bool  { return i.info == nil }

func (i fileInfo) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

func (i fileInfo) Size() int64 {
	if i.IsDir() {
		return 0
	}
	return i.info.Size
}

// ModTime is in whole seconds: listings of some stores are more exact than their answers
// to a Get.
func (i fileInfo) ModTime() time.Time {
	if i.IsDir() {
		return time.Time{}
	}
	return i.info.Modified.Truncate(time.Second)
}

func (i fileInfo) Sys() any {
	if i.IsDir() {
		return nil
	}
	return *i.info
}

// file is an open object.
type file struct {
	f      *fileSystem
	name   string
	info   Info
	body   *Reader // from offset on; nil if it must be opened there
	offset int64
	closed bool
}

func (o *file) Stat() (fs.FileInfo, error) { return fileInfo{path.Base(o.name), &o.info}, nil }

func (o *file) Read(p []byte) (int, error) {
	switch {
	case o.closed:
		return 0, pathError("read", o.name, fs.ErrClosed)
	case len(p) == 0:
		return 0, nil
	case o.offset >= o.info.Size:
		return 0, io.EOF
	}
	if o.body == nil {
		body, err := o.open(o.offset, 0)
		if err != nil {
			return 0, pathError("read", o.name, err)
		}
		o.body = body
	}
	n, err := o.body.Read(p)
	o.offset += int64(n)
	if err != nil && err != io.EOF {
		err = pathError("read", o.name, err)
	}
	return n, err
}

// open opens the state of the object that the file is.
func (o *file) open(offset, length int64) (*Reader, error) {
	return o.f.c.bucket.Get(o.f.ctx, o.info.Key, &GetOptions{Offset: offset, Length: length, IfMatch: o.info.Version})
}

// ReadAt implements [io.ReaderAt], without the position of the file.
func (o *file) ReadAt(p []byte, offset int64) (int, error) {
	switch {
	case o.closed:
		return 0, pathError("read", o.name, fs.ErrClosed)
	case offset < 0:
		return 0, pathError("read", o.name, fs.ErrInvalid)
	case len(p) == 0:
		return 0, nil
	case offset >= o.info.Size:
		return 0, io.EOF
	}
	r, err := o.open(offset, int64(len(p)))
	if err != nil {
		return 0, pathError("read", o.name, err)
	}
	defer r.Close()
	n, err := io.ReadFull(r, p)
	if errors.Is(err, io.ErrUnexpectedEOF) && offset+int64(n) == o.info.Size {
		err = io.EOF
	} else if err != nil {
		err = pathError("read", o.name, err)
	}
	return n, err
}

// Seek implements [io.Seeker]. It sends nothing.
func (o *file) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += o.offset
	case io.SeekEnd:
		offset += o.info.Size
	default:
		offset = -1
	}
	switch {
	case o.closed:
		return 0, pathError("seek", o.name, fs.ErrClosed)
	case offset < 0:
		return 0, pathError("seek", o.name, fs.ErrInvalid)
	}
	if offset != o.offset && o.body != nil {
		_ = o.body.Close() // what is left of it is not needed
		o.body = nil
	}
	o.offset = offset
	return offset, nil
}

func (o *file) Close() error {
	if o.closed {
		return pathError("close", o.name, fs.ErrClosed)
	}
	o.closed = true
	if o.body != nil {
		_ = o.body.Close() // it was for reading
	}
	return nil
}

// directory is an open directory.
type directory struct {
	f    *fileSystem
	name string
	rest []fs.DirEntry // what ReadDir has not yet returned

	next  func() (fileInfo, error, bool) // nil: the listing has not begun
	stop  func()
	ended bool // the listing
}

func (d *directory) Stat() (fs.FileInfo, error) { return fileInfo{name: path.Base(d.name)}, nil }

func (d *directory) Close() error {
	if d.next != nil {
		d.stop()
	}
	return nil
}

func (d *directory) Read([]byte) (int, error) {
	return 0, pathError("read", d.name, errors.New("is a directory"))
}

// ReadDir implements [fs.ReadDirFile]. The first call lists the directory, up to maxDir
// entries.
func (d *directory) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := d.read(n)
	if err != io.EOF {
		err = pathError("readdir", d.name, err)
	}
	return entries, err
}

func (d *directory) read(n int) ([]fs.DirEntry, error) {
	if d.next == nil {
		d.next, d.stop = iter.Pull2(d.f.entries(d.name))
		if err := d.list(maxDir + 1); err != nil { // one more finds the end
			return nil, err
		}
	}
	if n <= 0 && !d.ended {
		return nil, fmt.Errorf("%w: the directory has more than %d entries; read some entries at a time", store.ErrTooLarge, maxDir)
	}
	if n > 0 && len(d.rest) == 0 {
		if err := d.list(min(n, maxDir)); err != nil {
			return nil, err
		}
		if len(d.rest) == 0 {
			return nil, io.EOF
		}
	}
	if n <= 0 {
		n = len(d.rest)
	}
	n = min(n, len(d.rest))
	entries := slices.Clone(d.rest[:n])
	d.rest = d.rest[n:]
	return entries, nil
}

// list takes the next entries, most of them at most.
func (d *directory) list(most int) error {
	var found []fileInfo
	for !d.ended && len(found) < most {
		info, err, more := d.next()
		switch {
		case err != nil:
			return err
		case more:
			found = append(found, info)
		}
		d.ended = !more
	}
	d.rest = sorted(found)
	return nil
}
