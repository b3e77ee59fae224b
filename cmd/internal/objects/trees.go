package objects

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/object"
)

// treeEntry is an object or a file of a recursive command.
type treeEntry struct {
	name string      // below the prefix or the directory, with slashes
	info object.Info // of an object, as the listing has it; of a file, its size
}

// tree is a recursive command on its way.
type tree struct {
	a    *access
	done string // "copied", for people

	mu       sync.Mutex
	ok       int
	failed   int
	row      int // failures since the last success
	status   int // that of all failures; 1 if they differ
	progress func(string)

	bodies bool // they pass through the memory of this process
}

func (a *access) newTree(done string) *tree {
	a.NoBars = true
	return &tree{a: a, done: done, progress: a.Progress()}
}

// run works on all entries, a few at a time. work returns what is printed of an entry. An error
// that comes with an entry is about this one; another one ends the run. where names the source
// for people.
func (t *tree) run(ctx context.Context, where string, entries iter.Seq2[treeEntry, error], work func(context.Context, treeEntry) (text string, view any, err error)) error {
	c := workerpool.New(ctx, treeWorkers, treeBudget)
	defer c.Close()
	for e, err := range entries {
		size := int64(0)
		if t.bodies {
			size = min(e.info.Size, treeBody)
		}
		switch {
		case err != nil && e.name == "":
			c.Stop(err, false)
		case err != nil:
			c.Stop(t.report(e.name, "", nil, err), false)
		case c.WaitRoom(size):
			c.Go(size, func(ctx context.Context) error {
				text, view, err := work(ctx, e)
				if err != nil && ctx.Err() != nil {
					return err
				}
				return t.report(e.name, text, view, err)
			})
		}
		if !c.WaitRoom(0) {
			break
		}
	}
	err := c.Wait()
	t.progress("")
	counts := fmt.Sprintf("%d %s", t.ok, t.done)
	if t.failed > 0 {
		counts += fmt.Sprintf(", %d failed", t.failed)
	}
	switch {
	case err != nil:
		return cmdline.StoppedBy(ctx, fmt.Errorf("%w (%s)", err, counts))
	case t.failed > 0:
		return exit.With(t.status, fmt.Errorf("%s: %s; the failures are listed above", where, counts))
	case t.ok == 0:
		return exit.With(exit.NotFound, fmt.Errorf("there are no objects below %s", where))
	}
	t.a.Notef("%s: %s", where, counts)
	return nil
}

// report counts an entry, and prints its result. It returns an error if the run is to
// end.
func (t *tree) report(name, text string, view any, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress("")
	if err != nil {
		t.failed++
		t.row++
		status := exit.Status(err)
		if t.status = cmp.Or(t.status, status); t.status != status {
			t.status = exit.Failed
		}
		t.a.Warnf("%s: %s", name, output.OneLine(err))
		if t.row == treeGivesUp {
			return exit.With(t.status, fmt.Errorf("stopped after %d failures in a row", t.row))
		}
		return nil
	}
	t.ok, t.row = t.ok+1, 0
	err = t.a.PrintLine(view, printable.Text(text))
	t.progress(fmt.Sprintf("%d %s, %d failed", t.ok, t.done, t.failed))
	return err
}

// parsePrefix takes the URL of all objects below a prefix apart: its key is empty, or ends with
// a slash.
func (a *access) parsePrefix(raw string, makes bool) (*stores.ObjectURL, error) {
	at, err := a.ParseObject(raw, makes)
	if err != nil && makes {
		// A directory that is missing can become a bucket: what is in it has such a name.
		name := "/" + rand.Text()
		path, query, _ := strings.Cut(raw, "?")
		if in, inErr := a.ParseObject(path+name+"?"+query, makes); inErr == nil {
			in.Given.Path, in.Given.RawPath, in.Given.Opaque = strings.TrimSuffix(in.Given.Path, name), "", strings.TrimSuffix(in.Given.Opaque, name)
			in.Key = strings.TrimPrefix(strings.TrimSuffix("/"+in.Key, name), "/")
			at, err = in, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if at.Key != "" && !strings.HasSuffix(at.Key, "/") {
		at.Key += "/"
	}
	return at, nil
}

// objectsBelow yields the objects below a prefix; with marks also those that only mark a
// directory: they are empty, and end with a slash.
func objectsBelow(ctx context.Context, b stores.Bucket, prefix string, marks bool) iter.Seq2[treeEntry, error] {
	return func(yield func(treeEntry, error) bool) {
		for info, err := range b.List(ctx, prefix, nil) {
			if err != nil {
				yield(treeEntry{}, err)
				return
			}
			name := info.Key[len(prefix):]
			if !marks && info.Size == 0 && (name == "" || strings.HasSuffix(name, "/")) {
				continue
			}
			if !yield(treeEntry{name, info}, nil) {
				return
			}
		}
	}
}

// filesIn yields the regular files in a directory and those below it. Of a directory it
// holds one page of names at a time.
func filesIn(root *os.Root) iter.Seq2[treeEntry, error] {
	return func(yield func(treeEntry, error) bool) { eachFile(root, ".", yield) }
}

func eachFile(root *os.Root, dir string, yield func(treeEntry, error) bool) bool {
	f, err := root.Open(filepath.FromSlash(dir))
	if err != nil {
		return yield(treeEntry{name: dir}, err)
	}
	defer f.Close()
	for {
		names, err := f.ReadDir(treePage)
		for _, entry := range names {
			name := path.Join(dir, entry.Name())
			info, infoErr := entry.Info()
			switch {
			case errors.Is(infoErr, fs.ErrNotExist):
				continue // removed meanwhile
			case infoErr != nil:
				if !yield(treeEntry{name: name}, infoErr) {
					return false
				}
			case info.IsDir():
				if !eachFile(root, name, yield) {
					return false
				}
			case !info.Mode().IsRegular():
				what := "cp copies only regular files"
				if info.Mode()&fs.ModeSymlink != 0 {
					what = "cp does not follow this symbolic link: copy the target of the link by a separate command, or remove the link"
				}
				if !yield(treeEntry{name: name}, errors.New(what)) {
					return false
				}
			case !yield(treeEntry{name, object.Info{Size: info.Size()}}, nil):
				return false
			}
		}
		switch {
		case err == io.EOF:
			return true
		case err != nil:
			return yield(treeEntry{name: dir}, err)
		}
	}
}

// urlBelow is the URL of what is below a prefix, for people.
func urlBelow(at *stores.ObjectURL, name string) string {
	return strings.TrimSuffix(at.String(), "/") + "/" + (&url.URL{Path: name}).EscapedPath()
}

const (
	// treeWorkers is how many objects a recursive command works on at a time.
	treeWorkers = 8

	// treeBudget bounds the bodies that are in memory at a time, in bytes, and treeBody is the
	// most that one of them counts for: a larger one is uploaded in parts.
	treeBudget = 64 << 20
	treeBody   = 40 << 20

	// treeGivesUp is after how many failures one after the other a recursive command ends.
	treeGivesUp = 50

	// treePage is how many names of a directory are read at a time.
	treePage = 256
)
