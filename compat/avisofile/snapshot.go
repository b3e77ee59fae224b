package avisofile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// maxStateFile is the largest state file that is read or written, in bytes.
	maxStateFile = 256 << 20

	// maxFenceFile is the largest fence file that is read or written, in bytes: some 500,000
	// keys.
	maxFenceFile = 64 << 20
)

// snapshot is a file as it was read or written. It remains open, so that the system cannot
// give its inode number to another file. Then a stat of the name shows for certain whether
// it is still the same file. (Files that replace each other alternate between two inode
// numbers, within one tick of the file system's clock. So number, size and time together do
// not distinguish them. Windows counts the uses of a number, and cannot replace an open
// file. There the file is not kept open.)
type snapshot struct {
	file *os.File    // nil where the file is not kept open, or was absent
	info os.FileInfo // nil if the file was absent

	pending bool // in a fence file, a change is pending
}

// current reports whether path still names the file of the snapshot, unchanged.
func (m *snapshot) current(path string) bool {
	info, err := os.Lstat(path)
	if m.info == nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return err == nil && os.SameFile(info, m.info) &&
		info.Size() == m.info.Size() && info.ModTime().Equal(m.info.ModTime())
}

// sync makes the content durable, if the file is kept open.
func (m *snapshot) sync() error {
	if m.file == nil {
		return nil
	}
	return m.file.Sync()
}

func (m *snapshot) close() {
	if m.file != nil {
		m.file.Close() // it was only read, or is synced: an error loses nothing
	}
}

// readSnapshot reads a file of at most limit bytes. If the file does not exist, the
// snapshot's info and the content are nil. It neither follows a link nor waits for a pipe.
func readSnapshot(path string, limit int64) (_ *snapshot, content []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|safefile.NoFollow, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &snapshot{}, nil, nil
	}
	if err != nil {
		return nil, nil, denied(err)
	}
	m := &snapshot{file: f}
	defer func() {
		if err != nil || !keepOpen {
			m.close()
			m.file = nil
		}
	}()
	if m.info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if m.info.IsDir() {
		return nil, nil, &os.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	}
	if !m.info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%w: %s is not a regular file", store.ErrUnsafe, path)
	}
	if m.info.Size() > limit {
		return nil, nil, fmt.Errorf("%s: %w: the file has %d bytes; at most %d are allowed", path, store.ErrTooLarge, m.info.Size(), limit)
	}
	content = make([]byte, 0, m.info.Size()+1)
	for len(content) < cap(content) {
		n, err := f.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		if err == io.EOF {
			return m, content, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("%s: another program wrote to the file while this program read it", path)
}
