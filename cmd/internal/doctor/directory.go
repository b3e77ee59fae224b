package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/internal/localfs"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// DirectoryOptions are the options of [Directory].
type DirectoryOptions struct {
	// AllowNetwork says that the user allows a file system that is not known to be
	// local.
	AllowNetwork bool

	// Unsafe names the risks that the user accepts; see [filestore.Options].
	Unsafe []string

	// Helper returns a new process of this program, which calls [Help] with these arguments. If Helper
	// is nil, the examination omits the tests that need a second process.
	Helper func(ctx context.Context, args ...string) *exec.Cmd

	// kind says on which file system a directory is, and whether that is local. appends is
	// how often each process appends. Tests set them; by default the system says it, and it
	// is appendCount.
	kind    func(dir string) (kind string, local bool, err error)
	appends int
}

// directory is the examination of a directory. Its store is in a directory of our own below
// it, on the same file system.
type directory struct {
	o       DirectoryOptions
	root    string
	made    []string // directories on the way to root that were made, the last first
	dir     string   // ours
	count   int
	kind    string
	local   bool
	stores  []*filestore.Store
	own     *os.Root // of dir
	refused error    // why a run would refuse the directory
	e       *Examination
}

// Directory returns the target of a file store.
func Directory(root string, opts *DirectoryOptions) *Target {
	p := &directory{root: root, o: *cmp.Or(opts, &DirectoryOptions{})}
	p.count = cmp.Or(p.o.appends, appendCount)
	if p.o.kind == nil {
		p.o.kind = localfs.Check
	}
	return &Target{
		Kind: "file", Name: "file:" + root,
		Begin: p.begin,
		Steps: func(*Examination) []Step {
			return []Step{
				{"file-system", "the file system", true, p.fileSystem},
				{"permissions", "permissions", false, p.permissions},
				Single("place", "stores inside each other", true, p.nested),
				{"append", "processes that append", true, p.appending},
				Single("hard-links", "hard links and renames", true, p.links),
				Single("flush", "flushing to the disk", false, p.flush),
				{"notify", "notification of changes", false, p.notify},
				{"presence", "presence of processes", false, p.presence},
			}
		},
		Clean:  p.clean,
		Killed: p.sweep,
		Right:  func(string) string { return "to read and write in the directory" },
	}
}

func (p *directory) begin(ctx context.Context, e *Examination) error {
	p.e = e
	if err := p.makeDirs(); err != nil {
		return p.explain(err)
	}
	var err error
	if p.kind, p.local, err = p.o.kind(p.root); err != nil {
		return err
	}
	// Check what run would say of the directory. If run refuses it, doctor tries nothing
	// there.
	st, err := filestore.Open(p.root, &filestore.Options{AllowNetwork: true, Unsafe: p.o.Unsafe})
	if err == nil {
		err = st.Close()
	}
	if p.refused = err; errors.Is(err, store.ErrUnsafe) {
		return nil
	}
	if err != nil {
		return safefile.Explain(err)
	}
	// Only this user can enter our directory, so no other user can put anything into it.
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return p.explain(err)
	}
	defer root.Close()
	name := dirPrefix + trial.Name(time.Now())
	if p.own, err = safefile.MakePrivate(root, name); err != nil {
		return p.explain(err)
	}
	p.dir = filepath.Join(p.root, name)
	var handles []store.Store
	for range e.Handles {
		// Allow a network file system here: the checks decide whether it is safe.
		st, err := filestore.Open(p.path("store"), &filestore.Options{AllowNetwork: true})
		if err != nil {
			return err
		}
		p.stores, handles = append(p.stores, st), append(handles, st)
	}
	if err := e.Use(false, handles...); err != nil {
		return err
	}
	return e.Look(ctx)
}

// explain names the directory in an error of the system, which names only what is in it.
func (p *directory) explain(err error) error {
	return fmt.Errorf("file:%s: %w", p.root, safefile.Explain(err))
}

// makeDirs makes the directory of the store if it does not exist, as the first use of the
// store would.
func (p *directory) makeDirs() error {
	var missing []string
	for dir := p.root; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(dir)
		if err == nil || dir == filepath.Dir(dir) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, dir)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		switch err := os.Mkdir(missing[i], 0o700); {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return err
		default:
			p.made = append([]string{missing[i]}, p.made...)
		}
	}
	return nil
}

// clean removes our directory. It also removes the directories above it that doctor made,
// if they are empty.
func (p *directory) clean(context.Context, *Examination) (left []string) {
	for _, st := range p.stores {
		_ = st.Close() // this ends what the store holds
	}
	if p.dir != "" {
		// Do not remove it by name: the owner of the directory above may have given that
		// name to another directory.
		err := removeAllIn(p.own)
		p.own.Close()
		if err == nil {
			err = os.Remove(p.dir)
		}
		if err != nil {
			left = append(left, p.dir)
		}
	}
	for _, dir := range p.made {
		if os.Remove(dir) != nil {
			break // another process uses it now
		}
	}
	return left
}

// removeAllIn removes what is in a directory that is open.
func removeAllIn(dir *os.Root) error {
	var names []string
	err := safefile.EachName(dir, ".", 10_000, func(name string) { names = append(names, name) })
	for _, name := range names {
		err = errors.Join(err, dir.RemoveAll(name))
	}
	return err
}

// path returns the path of a file in our directory.
func (p *directory) path(name string) string { return filepath.Join(p.dir, name) }

func (p *directory) fileSystem(context.Context) []Check {
	c := Finding("file-system", "file system", true)
	switch {
	case p.kind == "tmpfs":
		return c.Warn("tmpfs, local", "a restart of the machine removes all locks; new tokens then begin at the time of the clock")
	case p.local:
		return c.OK("%s, local", p.kind)
	case p.o.AllowNetwork:
		return c.Warn(p.kind+", not known to be local, allowed by network=allow",
			"the results below are valid for this machine, not for other machines; waiters poll for changes; the lock of a dead holder is free after the TTL")
	}
	return c.Unsafe(p.kind+", not known to be local", "appends from several machines may damage each other; use a local disk, or accept the risk with network=allow")
}

func (p *directory) permissions(context.Context) []Check {
	c := Finding("permissions", "permissions of the directory", false)
	info, err := os.Stat(p.root)
	if err != nil {
		return p.e.Failed(c, err)
	}
	mode := info.Mode()
	if p.refused != nil {
		c.Last = true // nothing is tried there
		return c.Unsafe(p.refused.Error(), "every command refuses this directory, because other users could break the locks in it")
	}
	if len(p.o.Unsafe) > 0 {
		return c.Warn(fmt.Sprintf("%v, accepted by unsafe=%s", mode, strings.Join(p.o.Unsafe, ",")), "other users may be able to take, free or damage locks")
	}
	if mode&0o020 != 0 {
		return c.OK("%v: shared by the group", mode)
	}
	return c.OK("%v: this user alone", mode)
}

// links tests the operations on names that the store needs.
func (p *directory) links(_ context.Context, c Check) []Check {
	const without = "Holdfast cannot replace the file of a lock safely; use another file system"
	const from, to = "link-from", "link-to"
	if err := p.own.WriteFile(from, []byte("x"), 0o600); err != nil {
		return p.e.Failed(c, err)
	}
	if err := p.own.Link(from, to); err != nil {
		return c.Unsafe("no hard links: "+err.Error(), without)
	}
	if err := p.own.Link(from, to); !errors.Is(err, fs.ErrExist) {
		return c.Unsafe("a hard link replaced an existing name", without)
	}
	if err := cmp.Or(p.own.Mkdir("dir-from", 0o700), p.own.MkdirAll("dir-to/full", 0o700)); err != nil {
		return p.e.Failed(c, err)
	}
	if err := p.own.Rename("dir-from", "dir-to"); err == nil {
		return c.Unsafe("a directory was renamed over one that is not empty", without)
	}
	a, errA := p.own.Stat(from)
	b, errB := p.own.Stat(to)
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		return c.Unsafe("the file system reports two names of one file as two files", without)
	}
	return c.OK("a link or rename replaces no existing name")
}

// flush measures what it takes to make a small write durable.
func (p *directory) flush(_ context.Context, c Check) []Check {
	f, err := p.own.Create("flush")
	if err != nil {
		return p.e.Failed(c, err)
	}
	defer f.Close()
	var times []time.Duration
	for range p.e.o.samples {
		began := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			return p.e.Failed(c, err)
		}
		if err := f.Sync(); err != nil {
			return p.e.Failed(c, err)
		}
		times = append(times, time.Since(began))
	}
	took := median(times)
	found := fmt.Sprintf("median of %d: %v", len(times), round(took))
	switch {
	case took > slow:
		return c.Warn(found, "the disk is very slow: leases need a longer --ttl here")
	case took < 20*time.Microsecond && p.kind != "tmpfs":
		return c.As(OK, found, "flushes are very fast, so the disk may only cache writes: a power cut may lose the last writes")
	}
	return c.OK("%s", found)
}

// notify tests whether a waiter gets a notification of a change.
func (p *directory) notify(ctx context.Context) []Check {
	c := Finding("notify", "notification of changes (inotify)", false)
	const instead = "waiters poll every 25 ms to 250 ms"
	if !p.local {
		return c.Warn("not used on a file system that is not known to be local", instead)
	}
	if reported, err := reportsChanges(p.own, p.path("notify")); err != nil || !reported {
		if err := p.room(); err != nil {
			return p.e.Failed(c, err)
		}
		found := "no event came"
		if err != nil {
			found = err.Error()
		}
		return c.Warn(found, instead)
	}
	watcher, ok := store.As[store.Watcher](p.e.Handles[1])
	if !ok {
		return c.Warn("the store cannot watch", instead)
	}
	var times []time.Duration
	var v store.Version
	for range 5 {
		seen, err := p.e.Handles[0].Put(ctx, "notify", v, Value())
		if err != nil {
			return p.e.Failed(c, err)
		}
		var at time.Time
		woken := make(chan error, 1)
		go func() {
			err := watcher.Watch(ctx, "notify", seen)
			at = time.Now()
			woken <- err
		}()
		time.Sleep(20 * time.Millisecond) // by then it most likely waits
		began := time.Now()
		if v, err = p.e.Handles[0].Put(ctx, "notify", seen, Value()); err == nil {
			select {
			case err = <-woken:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			return p.e.Failed(c, err)
		}
		times = append(times, max(at.Sub(began), 0))
	}
	return c.OK("a waiter is woken %v after a change", round(median(times)))
}
