package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/internal/private"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// target is where get writes to.
type target struct {
	io.Writer
	name string // empty: standard output

	dir  *private.Dir
	file *private.File
	mode fs.FileMode
	was  bool // there is a file of that name, whose mode the new one gets
}

// openTarget opens what get writes to: a file, or standard output for "-" and for no name.
// A file is written under a temporary name beside it and renamed in the end, so that other
// programs see the old file or the whole new one. A link is not followed, and neither a
// device nor a pipe is replaced. The caller discards the target in the end.
func (a *app) openTarget(name string, given bool) (*target, error) {
	if name == "" && given {
		return nil, usagef("the name of the file is empty")
	}
	if name == "" || name == "-" {
		if f, ok := a.stdout.(*os.File); ok && name == "" && term.IsTerminal(int(f.Fd())) {
			return nil, usagef("standard output is a terminal: name a file, or - to print the object all the same")
		}
		return &target{Writer: a.stdout}, nil
	}
	t := &target{name: name, mode: 0o666}
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if os.IsPathSeparator(name[len(name)-1]) {
			return nil, usagef("%s is the name of a directory: name a file in it", name)
		}
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, usagef("%s is a directory: name a file in it", name)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, usagef("%s is a link: name the file that is meant", name)
	case !info.Mode().IsRegular():
		return nil, usagef("%s is no regular file: name -, and redirect the output there", name)
	default:
		t.mode, t.was = info.Mode().Perm(), true
	}
	t.dir, err = private.OpenDir(filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &statusError{statusNotFound, fmt.Errorf("there is no directory %s", filepath.Dir(name))}
	}
	if err != nil {
		return nil, err
	}
	if t.file, err = t.dir.CreateMode(".holdfast-get-", t.mode); err != nil {
		t.dir.Close()
		return nil, err
	}
	t.Writer = t.file
	return t, nil
}

// commit gives the file its name, after the last byte.
func (t *target) commit() error {
	if t.file == nil {
		return nil
	}
	if t.was {
		if err := t.file.Chmod(t.mode); err != nil { // the umask may have taken something
			return err
		}
	}
	if err := t.file.Sync(); err != nil {
		return err
	}
	if err := t.file.Install(filepath.Base(t.name)); err != nil {
		return err
	}
	return t.dir.Sync()
}

// discard closes what is open, and removes the file unless it has its name.
func (t *target) discard() {
	if t.file != nil {
		t.file.Discard()
		t.dir.Close()
	}
}

// part is the beginning of an object that an earlier get kept beside its file: a private
// file, whose last bytes say of what it is the beginning.
type part struct {
	name  string // in the directory
	label []byte // the last bytes
}

// partOf names the part of a state of an object.
func (t *target) partOf(b bucket, info object.Info) part {
	hash := func(words ...any) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", words))
		return hex.EncodeToString(sum[:16])
	}
	return part{
		".holdfast-part-" + hash(b.id(), info.Key, filepath.Base(t.name)),
		[]byte("\nholdfast part " + hash(info.Version, info.Size) + "\n"),
	}
}

// keep keeps what was written so far under the name of the part.
func (t *target) keep(p part) error {
	if _, err := t.file.Write(p.label); err != nil {
		return err
	}
	if err := t.file.Chmod(0o600); err != nil {
		return err
	}
	if err := t.file.Sync(); err != nil {
		return err
	}
	return t.file.Install(p.name)
}

// resume copies a part that was kept into the file, and returns how many bytes it has: 0
// if there is none of this state. The part is removed, whatever it is.
func (t *target) resume(p part) (int64, error) {
	f, info, err := t.dir.Open(p.name)
	if err != nil {
		return 0, nil // most often there is none; one that is not private is not used
	}
	defer func() {
		f.Close()
		_ = t.dir.Remove(p.name)
	}()
	size := info.Size() - int64(len(p.label))
	label := make([]byte, len(p.label))
	if size <= 0 {
		return 0, nil
	}
	if _, err := f.ReadAt(label, size); err != nil || string(label) != string(p.label) {
		return 0, nil
	}
	n, err := io.Copy(t.file, io.NewSectionReader(f, 0, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// download writes an object to the target and returns what it read.
func (a *app) download(ctx context.Context, b bucket, key string, opts object.GetOptions, to *target) (object.Info, error) {
	whole := to.file != nil && opts.Offset == 0 && opts.Length == 0
	var (
		info object.Info
		line *bar
	)
	d := &download{b: b, key: key, opts: opts}
	d.begun = func(i object.Info) (had int64, err error) {
		info = i
		if whole {
			had, err = to.resume(to.partOf(b, info))
		}
		line = a.bar(key, d.wanted(info))
		return had, err
	}
	d.to = writerFunc(func(p []byte) (int, error) {
		n, err := to.Write(p)
		line.set(d.done + int64(n))
		return n, err
	})
	err := d.run(ctx)
	line.end()
	if err == nil || d.done < barFrom || store.Permanent(err) || errors.Is(err, store.ErrConflict) || d.full {
		return info, err
	}
	if !whole {
		return info, fmt.Errorf("%w (after %s)", err, bytesText(d.done))
	}
	if keepErr := to.keep(to.partOf(b, info)); keepErr != nil {
		return info, errors.Join(err, keepErr)
	}
	return info, fmt.Errorf("%w (%s of %s are kept: the same command goes on from there)", err, bytesText(d.done), bytesText(info.Size))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// readTries is how often a download goes on after the connection broke without a byte in
// between.
const readTries = 5

// download reads one state of an object, over several connections if need be.
type download struct {
	b     bucket
	key   string
	opts  object.GetOptions
	to    io.Writer
	begun func(object.Info) (had int64, err error) // how much of it is there already

	done int64 // bytes, with those that were there already
	full bool  // the target could not be written
}

// wanted is how many bytes the read has in all.
func (d *download) wanted(info object.Info) int64 {
	n := info.Size - d.opts.Offset
	if d.opts.Length > 0 {
		n = min(n, d.opts.Length)
	}
	return n
}

func (d *download) run(ctx context.Context) error {
	r, err := d.b.Get(ctx, d.key, &d.opts)
	if err != nil {
		return err
	}
	info, wanted := r.Info, d.wanted(r.Info)
	if d.done, err = d.begun(info); err != nil {
		r.Close()
		return err
	}
	if d.done > 0 {
		r.Close() // it begins at the beginning
		r = nil
	}
	for failed, before := 0, d.done; ; {
		if r == nil && d.done < wanted {
			r, err = d.b.Get(ctx, d.key, &object.GetOptions{IfMatch: info.Version, Offset: d.opts.Offset + d.done, Length: wanted - d.done})
		}
		if r == nil && err == nil {
			return nil // all of it was there already
		}
		if err == nil {
			err = d.copy(r)
			r.Close()
		}
		r = nil
		if err == nil || d.full || ctx.Err() != nil || d.done >= wanted || store.Permanent(err) || errors.Is(err, store.ErrConflict) {
			return err
		}
		if failed++; d.done > before {
			failed, before = 1, d.done
		}
		if failed > readTries {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(failed) * 200 * time.Millisecond):
		}
	}
}

// copy copies one answer.
func (d *download) copy(r io.Reader) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := d.to.Write(buf[:n]); err != nil {
				d.full = true
				return err
			}
			d.done += int64(n)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
