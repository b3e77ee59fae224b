package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/internal/username"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/storetable"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// openDirectory opens file:PATH, file:///PATH or file:relative/path.
func openDirectory(_ context.Context, a *Access, u *url.URL, standard bool) (Opened, error) {
	path, opts, err := DirectoryOf(u)
	if err != nil {
		return Opened{}, err
	}
	if st, err := a.missing(path, standard); err != nil || st.Store != nil {
		return st, err
	}
	opts.ReadOnly = a.OnlyReads
	st, err := filestore.Open(path, opts)
	if err != nil {
		return Opened{}, refusedDirectory(path, opts.Unsafe, err)
	}
	return Opened{Store: st, Closer: st, URL: store.TraitsOf(st).Name}, nil
}

// DirectoryOf returns the directory that a URL names, and the options in its parameters.
func DirectoryOf(u *url.URL) (path string, opts *filestore.Options, err error) {
	opts = &filestore.Options{}
	if opts.AllowNetwork, opts.Unsafe, err = Insisted(u.Query(), ""); err != nil {
		return "", nil, err
	}
	if path, err = PathOf(u); err != nil {
		return "", nil, exit.Usagef("the path in the store's URL is wrong: write %%25 for a %%")
	}
	if path == "" {
		return "", nil, exit.Usagef("the store's URL does not name a directory: write file:PATH")
	}
	return path, opts, nil
}

// PathOf returns the path of a URL of the form SCHEME:PATH or SCHEME:///PATH.
func PathOf(u *url.URL) (string, error) {
	if u.Opaque == "" {
		return u.Path, nil
	}
	return url.PathUnescape(u.Opaque)
}

// Insisted reads the parameters of the URL of a file or directory: network=allow for a
// network file system, and unsafe=RISK,... for what [filestore.Options] calls risks. others
// names the parameters that were taken out before, for people.
func Insisted(query url.Values, others string) (network bool, unsafe []string, err error) {
	for name, values := range query {
		switch {
		case name == "network" && values[0] == "allow":
			network = true
		case name == "unsafe":
			unsafe = strings.Split(values[0], ",")
			if safefile.CheckNames(unsafe) != nil {
				return false, nil, exit.Usagef("the parameter unsafe of the store's URL names an unknown risk (known: %s, %s, %s)", safefile.Link, safefile.Owner, safefile.Writable)
			}
		default:
			return false, nil, exit.Usagef("the store's URL has an unknown parameter %s (known: %snetwork=allow, unsafe=owner, unsafe=writable, unsafe=link); a ? in a name is %%3F", storeurl.Parameter(name, values), others)
		}
	}
	return network, unsafe, nil
}

// IsWithin reports whether a path names a directory, or a place below it. It follows symbolic links. A path that
// does not exist yet is judged by the nearest directory above it that does.
func IsWithin(path, dir string) (bool, error) {
	of, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // nothing is there
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return false, err
	}
	real, err := filepath.EvalSymlinks(path)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		path = filepath.Dir(path)
		real, err = filepath.EvalSymlinks(path)
	}
	for ; err == nil; real = filepath.Dir(real) {
		var info fs.FileInfo
		if info, err = os.Stat(real); err == nil && os.SameFile(info, of) {
			return true, nil
		}
		if real == filepath.Dir(real) {
			break
		}
	}
	return false, err
}

// missing checks whether a directory exists, and decides what the command may do if it does
// not. A mistyped name must not become a store that no other program uses. If this user has
// never kept anything in the standard store, commands that read take it for an empty store.
func (a *Access) missing(given string, standard bool) (Opened, error) {
	path, err := filepath.Abs(given)
	if err != nil {
		return Opened{}, err
	}
	name := "file:" + path
	if a.Verbose && !standard && !filepath.IsAbs(given) {
		a.Notef("the store is %s: this path is relative, so it names another store if you change the directory", name)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return Opened{}, nil // opening the store returns the error
	}
	notThere := func(format string, args ...any) error {
		return exit.With(exit.NotFound, fmt.Errorf("there is no store "+format, args...))
	}
	switch {
	case a.Makes == MakesNone && standard:
		return Opened{Store: memstore.New(), Closer: io.NopCloser(nil), URL: name}, nil
	case a.Makes == MakesNone, a.Makes == Awaits && !standard:
		return Opened{}, notThere("%s: the first lock creates it", name)
	case a.Makes == MakesAll, standard:
		return Opened{}, nil
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return Opened{}, notThere("%s, and its parent directory does not exist: create that directory, or name another store", name)
	}
	return Opened{}, nil
}

// directoryTarget examines a directory, also on a network file system: see [openDirectory].
func directoryTarget(_ context.Context, _ *Access, u *url.URL) (*doctor.Target, func(), error) {
	path, opts, err := DirectoryOf(u)
	if err != nil {
		return nil, nil, err
	}
	dir, err := filepath.Abs(path)
	if err != nil {
		return nil, nil, err
	}
	return doctor.Directory(dir, &doctor.DirectoryOptions{Helper: helper, AllowNetwork: opts.AllowNetwork, Unsafe: opts.Unsafe}), func() {}, nil
}

func openDirBucket(_ context.Context, a *Access, at *ObjectURL) (Bucket, error) {
	dir, fileOpts, err := DirectoryOf(at.Bucket)
	if err != nil {
		return Bucket{}, err
	}
	is, err := dirbucket.Exists(dir)
	if err == nil && !is && !at.Makes {
		err = exit.With(exit.NotFound, fmt.Errorf("there is no bucket file:%s: the first put creates it", dir))
	}
	if err == nil && !is {
		if _, err = os.Stat(filepath.Dir(dir)); errors.Is(err, fs.ErrNotExist) {
			err = exit.With(exit.NotFound, fmt.Errorf("there is no bucket file:%s, and its parent directory does not exist: create that directory, or name another bucket", dir))
		}
	}
	if err != nil {
		return Bucket{}, err
	}
	b, err := dirbucket.Open(dir, &dirbucket.Options{AllowNetwork: fileOpts.AllowNetwork, Unsafe: fileOpts.Unsafe, ReadOnly: a.OnlyReads})
	if err != nil {
		return Bucket{}, err
	}
	if !is {
		a.Notef("created a new bucket: %s", dir)
	}
	client, err := object.New(b, &object.Options{Logger: a.Log()})
	return Bucket{Client: client, Closer: b, URL: "file:" + dir}, err
}

// storeItems are tables whose items are registers in a directory. The parameter table names
// the table.
type storeItems struct{}

func (storeItems) store(ctx context.Context, a *Access, u *url.URL) (Opened, *storetable.Options, error) {
	query, rest := u.Query(), *u
	if len(query["table"]) > 1 {
		return Opened{}, nil, exit.Usagef("the URL of the table has the parameter table twice")
	}
	opts := &storetable.Options{Table: query.Get("table")}
	query.Del("table")
	rest.RawQuery = query.Encode()
	st, err := a.OpenURL(ctx, rest.String())
	if err != nil && exit.Status(err) == exit.NotFound && a.Makes == MakesNone {
		bare, _, _ := strings.Cut(u.String(), "?")
		err = exit.With(exit.Unsafe, fmt.Errorf("there is no table in %s: create it with holdfast item init", bare))
	}
	return st, opts, err
}

func (k storeItems) Open(ctx context.Context, a *Access, u *url.URL) (Table, error) {
	st, opts, err := k.store(ctx, a, u)
	if err != nil {
		return Table{}, err
	}
	t, err := storetable.New(st.Store, opts)
	if err != nil {
		st.Close()
	}
	return Table{t, st}, err
}

func (k storeItems) Create(ctx context.Context, a *Access, u *url.URL, partition, sort largeitem.KeyAttribute) error {
	st, opts, err := k.store(ctx, a, u)
	if err != nil {
		return err
	}
	defer st.Close()
	opts.Partition, opts.Sort = partition, sort
	return storetable.Create(ctx, st.Store, opts)
}

// refusedDirectory returns the error of a directory that cannot be opened as a store, in the words of
// the command if this user has no rights or other users have too many.
func refusedDirectory(path string, accepted []string, err error) error {
	var (
		risk   *safefile.RiskError
		denied *fs.PathError
		whose  = "this user"
	)
	switch {
	case errors.As(err, &risk):
		risks := strings.Join(append(slices.Clone(accepted), risk.Name), ",")
		accept := "or accept the risk: --store " + output.Quote("file:"+(&url.URL{Path: path}).EscapedPath()+"?unsafe="+risks)
		return output.WithHints(fmt.Sprintf("the store file:%s is refused: %s", path, risk.What), err, append(slices.Clone(risk.Advice), accept))
	case errors.Is(err, fs.ErrPermission) && errors.As(err, &denied):
		if name := username.Current(); name != "" {
			whose = "user " + name
		}
		return output.WithHints(fmt.Sprintf("%s has no right to %s %s, which the store file:%s needs", whose, denied.Op, denied.Path, path), err, []string{
			"give this user the right to read and write the directory, or name another store with --store",
			"for a directory of several users see holdfast help permissions",
		})
	}
	return err
}

// HelperName is the hidden command that doctor starts as its helper processes.
const HelperName = "help-doctor"

// helper returns this program as a helper process of an examination. The process takes no
// settings of Holdfast from the environment.
func helper(ctx context.Context, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"doctor", HelperName}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_") })
	return cmd
}
