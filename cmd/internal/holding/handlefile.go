package holding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/lease"
)

// handleFile is what lock writes, and renew and unlock read. A process that can read it can
// renew and release the lock.
type handleFile struct {
	Holdfast int           `json:"holdfast"` // version of the format
	Kind     string        `json:"kind"`     // "handle"
	Store    string        `json:"store"`
	TTL      string        `json:"ttl"`
	Margin   string        `json:"margin"`
	Grace    string        `json:"grace"`
	Deadline time.Time     `json:"deadline"` // for people
	Holder   string        `json:"holder,omitempty"`
	Ticket   *lease.Ticket `json:"ticket"`
}

const handleKind = "handle"

// claim keeps other commands from using the place, and checks that the handle in it is
// still the old one. It reports whether the place has no handle.
func (p *handleDir) claim(ctx context.Context, old *handleFile) (none bool, err error) {
	if p.name == "" {
		return false, nil
	}
	if old == nil {
		return true, nil
	}
	if err := p.lock(ctx); err != nil {
		return false, err
	}
	now, err := p.read()
	switch {
	case exit.Status(err) == exit.NotFound:
		return true, nil
	case err != nil:
		return false, err
	case now.Ticket.Grant != old.Ticket.Grant:
		return false, exit.Usagef("another command has written the handle of lock %[2]q to --handle %[1]s", p.path, now.Ticket.Name)
	}
	return false, nil
}

// maxHandle is how much of a handle file is read at most, in bytes.
const maxHandle = 1 << 20

// handleDir is where a handle file is: a name in a directory that stays open, so that
// reading and writing use the same directory. Without a name it is a new file among the
// handles of this user.
type handleDir struct {
	dir  *safefile.Dir
	path string
	name string
	held []*os.File // locked, so that no other command uses this handle
}

// openHandleDir opens the directory of a handle file.
func openHandleDir(path string) (_ *handleDir, err error) {
	p := &handleDir{path: path, name: filepath.Base(path)}
	if path != "" {
		if p.dir, err = safefile.OpenAnyDir(filepath.Dir(path)); err != nil {
			return nil, exit.Usagef("handle file: %w", err)
		}
		return p, nil
	}
	base, err := stores.DefaultDir()
	if err != nil {
		return nil, err
	}
	p.path, p.name = filepath.Join(base, "handles"), ""
	if p.dir, err = safefile.MakePrivateDir(p.path); err != nil {
		return nil, exit.With(exit.Unsafe, fmt.Errorf("handle file: %w: name another file with --handle", err))
	}
	return p, nil
}

func (p *handleDir) close() {
	for _, f := range p.held {
		_ = f.Close()
	}
	p.dir.Close()
}

// lock keeps other commands from using the handle file until close. Otherwise two commands
// could read the same ticket. Then the command whose ticket is void would write it over the
// other command's good one.
func (p *handleDir) lock(ctx context.Context) error {
	for {
		f, info, err := p.dir.Open(p.name)
		if err != nil {
			return nil // read returns the error
		}
		if locked := tryLock(f); locked && p.names(info) {
			p.held = append(p.held, f)
			return nil
		}
		_ = f.Close() // another command holds it, or has replaced it
		if err := backoff.Sleep(ctx, 20*time.Millisecond); err != nil {
			return exit.With(exit.Busy, fmt.Errorf("handle %s is in use by another command: %w", p.path, err))
		}
	}
}

// names reports whether the name still stands for this file.
func (p *handleDir) names(file fs.FileInfo) bool {
	f, now, err := p.dir.Open(p.name)
	if err != nil {
		return false
	}
	_ = f.Close()
	return os.SameFile(file, now)
}

// create makes the temporary file, which only this user can read. So the command reports a place that it cannot write
// to before it takes any lock.
func (p *handleDir) create() (*safefile.File, error) {
	if p.name != "" {
		if info, err := os.Lstat(p.path); err == nil && !info.Mode().IsRegular() {
			return nil, exit.Usagef("%s exists, and is not a regular file: name another handle file", p.path)
		}
	}
	file, err := p.dir.Create(".handle-")
	if err != nil {
		return nil, cmdline.Unwritable("handle file", p.path, err)
	}
	return file, nil
}

// write writes a handle file, completely or not at all. If it is fresh, no file must have the name yet.
func (p *handleDir) write(file *safefile.File, f *handleFile, fresh bool) (string, error) {
	path, name := p.path, p.name
	if name == "" {
		name = fmt.Sprintf("%s-%d.json", leases.FlatName(f.Ticket.Name), f.Ticket.Token)
		path = filepath.Join(path, name)
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return "", err
	}
	if _, err := file.Write(append(b, '\n')); err != nil {
		return "", fmt.Errorf("handle file: %w", err)
	}
	if err := file.Sync(); err != nil {
		return "", fmt.Errorf("handle file: %w", err)
	}
	tryLock(file.File) // no other command knows the file yet
	install := file.Install
	if fresh {
		install = file.InstallNew
	}
	if err := install(name); err != nil {
		return "", fmt.Errorf("handle file: %w", err)
	}
	p.held = append(p.held, file.File)
	if err := p.dir.Sync(); err != nil {
		return "", fmt.Errorf("handle file: %w", err)
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path, nil
}

// replace writes f over the handle file that was read.
func (p *handleDir) replace(f *handleFile) error {
	file, err := p.create()
	if err != nil {
		return err
	}
	if _, err = p.write(file, f, false); err != nil {
		file.Discard()
	}
	return err
}

// read reads the handle file. It does not parse a file that another user could have
// written: such a file could name that user's own store, and this user's credentials would
// be sent there.
func (p *handleDir) read() (*handleFile, error) {
	b, err := p.dir.ReadFile(p.name, maxHandle)
	var not *safefile.PrivateError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, noHandle(p.path)
	case errors.As(err, &not) && not.Rights && !seemsHandle(p.path):
		return nil, noHandleFile(p.path)
	case not != nil && not.Rights:
		return nil, exit.With(exit.Unsafe, output.WithHints(fmt.Sprintf("the handle %v, and they could release its lock", err), err, []string{"chmod 600 " + output.Quote(p.path)}))
	case not != nil:
		return nil, exit.With(exit.Unsafe, fmt.Errorf("the handle %w: holdfast does not use this file", err))
	case err != nil:
		return nil, exit.With(exit.Denied, fmt.Errorf("handle: %w", err))
	}
	var f handleFile
	if !f.parse(b) {
		return nil, noHandleFile(p.path)
	}
	if f.Holdfast != 1 {
		return nil, exit.With(exit.Unsafe, fmt.Errorf("handle %s has format %d, but this holdfast reads only format 1: use a newer holdfast", p.path, f.Holdfast))
	}
	return &f, nil
}

// parse reads the content of a handle file, and reports whether it is one.
func (f *handleFile) parse(b []byte) bool {
	return json.Unmarshal(b, f) == nil && f.Kind == handleKind && f.Ticket != nil && f.Ticket.Grant != ""
}

// seemsHandle reports whether a file that others can read or write says that it is a handle. It
// decides only what is advised.
func seemsHandle(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxHandle))
	return err == nil && new(handleFile).parse(b)
}

func noHandleFile(path string) error {
	return exit.With(exit.Unsafe, output.WithHints(path+" is not a handle file, or is damaged", nil, []string{
		"name the file whose path \"holdfast lock\" has printed",
		"if the handle is damaged: its lock is free after the TTL, or after holdfast break",
	}))
}

// errNoHandle: the handle file does not exist, or is the handle of another grant.
var errNoHandle = errors.New("no handle")

func noHandle(path string) error {
	return exit.With(exit.NotFound, output.WithHints("handle "+path+" does not exist: its lock was already unlocked, or the path is wrong", errNoHandle, []string{"name the file whose path \"holdfast lock\" has printed, and not the lock"}))
}

// handleError explains an error of a command on a handle.
func handleError(path string, err error) error {
	if errors.Is(err, lease.ErrTicketUsed) {
		text := fmt.Sprintf("handle %s is an old copy: another copy of it was used to renew or take over the lock", path)
		if lost := (*lease.LostError)(nil); errors.As(err, &lost) && lost.NewHolder != "" {
			text += ", by " + lost.NewHolder
		}
		return output.WithHints(text+"; nothing was changed", err, nil)
	}
	return err
}
