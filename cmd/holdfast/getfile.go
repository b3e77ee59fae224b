package main

import (
	"context"
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
	"time"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// target is the file, or the standard output, that get writes to.
type target struct {
	io.Writer
	name string // empty: standard output

	dir  *safefile.Dir
	file *safefile.File
	mode fs.FileMode
	was  bool // a file of that name exists; the new file gets its mode
}

// openTarget opens what get writes to: a file, or standard output for "-" and for no name.
// It writes a file without a name, or under a temporary one, in the same directory, and
// renames it at the end.
// So other programs see the old file or the whole new one. It does not follow a link, and
// replaces no device or pipe. The caller discards the target at the end.
func (a *app) openTarget(name string, given bool) (*target, error) {
	if name == "" && given {
		return nil, exit.Usagef("the name of the file is empty")
	}
	if name == "" || name == "-" {
		if f, ok := a.Stdout.(*os.File); ok && name == "" && term.IsTerminal(int(f.Fd())) {
			return nil, exit.Usagef("standard output is a terminal: name a file; or name - to print the object on the terminal")
		}
		return &target{Writer: a.Stdout}, nil
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
	return targetIn(dir, name)
}

// targetIn is openTarget of a file in a directory, which it closes with the target.
func targetIn(dir *os.Root, name string) (_ *target, err error) {
	t := &target{name: name, mode: 0o666, dir: safefile.DirIn(dir)}
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
	if t.file, err = t.dir.CreateUnnamed(".holdfast-get-", t.mode); err != nil {
		return nil, cmdline.Under(name, err)
	}
	t.Writer = t.file
	return t, nil
}

// named puts the name that the file is to get in the place of its temporary one in an error of the
// system.
func (t *target) named(err error) error {
	var of *fs.PathError
	if t.file != nil && errors.As(err, &of) && of.Path == t.file.Name() {
		of.Path = t.name
	}
	return err
}

// commit gives the file its name, after the last byte.
func (t *target) commit() (err error) {
	if t.file == nil {
		return nil
	}
	defer func() { err = t.named(err) }()
	if t.was {
		if err := t.file.Chmod(t.mode); err != nil { // the umask may have removed some permissions
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

// discard closes what is open, and removes the temporary file if it was not renamed.
func (t *target) discard() {
	if t.file != nil {
		t.file.Discard()
		t.dir.Close()
	}
}

// part describes the partial file that an earlier get has kept: which object it is the
// beginning of. The description is at the end of that file: as JSON, followed by its
// length. Only this user can read the file.
type part struct {
	Object  string         `json:"object"` // its bucket and key
	Version object.Version `json:"version"`
	Done    int64          `json:"done"` // bytes
}

// partDigits is how many digits the length of a part's JSON has.
const partDigits = 8

// partName is the name of the partial file that is kept for this file.
func (t *target) partName() string {
	sum := sha256.Sum256([]byte(filepath.Base(t.name)))
	return ".holdfast-part-" + hex.EncodeToString(sum[:16])
}

// keep keeps what get has written so far.
func (t *target) keep(p part) error {
	label, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := t.file.Truncate(p.Done); err != nil {
		return err
	}
	if _, err := t.file.WriteAt(fmt.Appendf(label, "%0*d", partDigits, len(label)), p.Done); err != nil {
		return err
	}
	if err := t.file.Chmod(0o600); err != nil {
		return err
	}
	if err := t.file.Sync(); err != nil {
		return err
	}
	return t.file.Install(t.partName())
}

// resume copies the kept beginning of an object into the file. It returns the zero part if
// no beginning was kept. It removes the partial file in every case.
func (t *target) resume(of string) (part, error) {
	f, info, err := t.dir.Open(t.partName())
	if err != nil {
		return part{}, nil // most often there is none; one that other users can change is not used
	}
	defer func() {
		f.Close()
		_ = t.dir.Remove(t.partName())
	}()
	tail := make([]byte, min(info.Size(), 4<<10))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil || len(tail) < partDigits {
		return part{}, nil
	}
	label, digits := tail[:len(tail)-partDigits], tail[len(tail)-partDigits:]
	n, err := strconv.Atoi(string(digits))
	var p part
	if err != nil || n < 0 || n > len(label) || json.Unmarshal(label[len(label)-n:], &p) != nil ||
		p.Object != of || p.Version == "" || p.Done != info.Size()-int64(n)-partDigits || p.Done <= 0 {
		return part{}, nil
	}
	if _, err := io.Copy(t.file, io.NewSectionReader(f, 0, p.Done)); err != nil {
		return part{}, err
	}
	return p, nil
}

// download writes an object to the target and returns what it read.
func (a *app) download(ctx context.Context, b stores.Bucket, key string, opts object.GetOptions, to *target) (object.Info, error) {
	if to.file != nil && opts.Offset == 0 && opts.Length == 0 {
		return a.downloadFile(ctx, b, key, opts.IfMatch, to)
	}
	var (
		info object.Info
		line *output.Bar
	)
	d := &reading{b: b, key: key, opts: opts}
	d.begun = func(i object.Info) {
		info, line = i, a.Bar(key, d.wanted(i))
	}
	d.to = writerFunc(func(p []byte) (int, error) {
		n, err := to.Write(p)
		line.Set(d.done + int64(n))
		return n, err
	})
	err := to.named(d.run(ctx))
	line.End()
	if err != nil && d.done >= output.BarFrom && !d.full && !store.Permanent(err) && !errors.Is(err, store.ErrConflict) {
		err = fmt.Errorf("%w (get has read %s; to continue, use --offset %d)", err, output.Bytes(d.done), opts.Offset+d.done)
	}
	return info, err
}

// restarts is how many times a download begins again since the object was replaced.
const restarts = 5

// downloadFile writes a whole object to the file of the target. If an earlier run has kept
// a beginning, it continues from there. If the object is replaced meanwhile, it begins again.
func (a *app) downloadFile(ctx context.Context, b stores.Bucket, key string, ifMatch object.Version, to *target) (object.Info, error) {
	of := b.ID() + " " + key
	had, err := to.resume(of)
	if err != nil {
		return object.Info{}, err
	}
	var line *output.Bar
	o := &object.DownloadOptions{IfMatch: ifMatch}
	o.Progress = func(done, total int64) {
		if line == nil {
			line = a.Bar(key, total-o.Offset) // the rate is that of this run
		}
		line.Set(done - o.Offset)
	}
	resumes := had.Done > 0 && (ifMatch == "" || ifMatch == had.Version)
	if resumes {
		o.IfMatch, o.Offset = had.Version, had.Done
	}
	info, err := b.Download(ctx, key, to.file, o)
	for again := 0; again < restarts && ifMatch == "" && errors.Is(err, store.ErrConflict); again++ {
		line.End()
		line, o.IfMatch, o.Offset = nil, "", 0 // the object was replaced: begin again, with the new state
		info, err = b.Download(ctx, key, to.file, o)
	}
	line.End()
	if err = to.named(err); err == nil {
		return info, to.named(to.file.Truncate(info.Size))
	}
	var cut *object.TruncatedError
	switch {
	case errors.As(err, &cut):
		had = part{of, cut.Info.Version, cut.Done}
	case !resumes || errors.Is(err, store.ErrNotFound):
		return info, err
	}
	if had.Done < output.BarFrom || store.Permanent(err) || errors.Is(err, store.ErrConflict) {
		return info, err
	}
	if keepErr := to.keep(had); keepErr != nil {
		return info, errors.Join(err, keepErr)
	}
	return info, fmt.Errorf("%w (the first %s are saved: the same command continues from there)", err, output.Bytes(had.Done))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// readTries is how many times in a row a reading continues after a broken connection that
// delivered no byte.
const readTries = 5

// reading reads one state of an object from beginning to end, over several connections if
// necessary.
type reading struct {
	b     stores.Bucket
	key   string
	opts  object.GetOptions
	to    io.Writer
	begun func(object.Info) // called with the object that is read

	done int64 // bytes
	full bool  // writing to the target failed
}

// wanted returns how many bytes the whole read has.
func (d *reading) wanted(info object.Info) int64 {
	n := info.Size - d.opts.Offset
	if d.opts.Length > 0 {
		n = min(n, d.opts.Length)
	}
	return n
}

func (d *reading) run(ctx context.Context) error {
	r, err := d.b.Get(ctx, d.key, &d.opts)
	if err != nil {
		return err
	}
	info, wanted := r.Info, d.wanted(r.Info)
	d.begun(info)
	for failed, before := 0, d.done; ; {
		if r == nil {
			r, err = d.b.Get(ctx, d.key, &object.GetOptions{IfMatch: info.Version, Offset: d.opts.Offset + d.done, Length: wanted - d.done})
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
		if err := backoff.Sleep(ctx, time.Duration(failed)*200*time.Millisecond); err != nil {
			return err
		}
	}
}

// copy copies the body of one answer.
func (d *reading) copy(r io.Reader) error {
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
