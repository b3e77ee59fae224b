package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
)

// Bucket is a bucket together with what is needed to use it.
type Bucket struct {
	*object.Client
	io.Closer
	URL   string // as people write it, without parameters and without a key
	ETags bool   // its versions are ETags

	Reservations *Reservations // nil: writers make none

	// Only for a bucket with an index: where its bodies are.
	Bodies       object.Bucket
	BodiesPrefix string
	Index        string // for people
}

// Reservations are the reservations of writers, in the table that the URL of a bucket names.
type Reservations struct {
	io.Closer
	*reserve.Reserver
	Name string // of the table, for people
}

// ID is different for different buckets.
func (b Bucket) ID() string { return object.TraitsOf(b.Bucket()).ID }

// ObjectURL is the URL of an object, or of all objects whose keys begin with key.
type ObjectURL struct {
	Bucket *url.URL // without the key
	Key    string
	Given  *url.URL // as it was given; it holds no secret
	Makes  bool     // open may make the bucket, if that is safe

	Replaces bool // the object is to be replaced, and so must exist
}

// ParseObject takes the URL of an object apart. Neither its result nor its errors hold a
// secret, whatever raw holds.
func (a *Access) ParseObject(raw string, makes bool) (*ObjectURL, error) {
	if raw == "" {
		return nil, exit.Usagef("the URL is empty: name an object, such as %s", objectForms())
	}
	u, err := a.ParseURL(raw)
	if err != nil {
		return nil, err
	}
	if schemeOf(u.Scheme).ObjectForm == "" {
		return nil, exit.Usagef("%s: this kind of store cannot store objects; use %s", u.Scheme, objectForms())
	}
	at := &ObjectURL{Given: u, Makes: makes}
	if u.Scheme == "file" {
		return at, at.findDirectory()
	}
	bare := *u
	at.Key = strings.TrimPrefix(u.Path, "/")
	bare.Path, bare.RawPath = "", ""
	if schemeOf(u.Scheme).hasContainers {
		bare.Path, at.Key, _ = strings.Cut(at.Key, "/")
		bare.Path = "/" + bare.Path
	}
	at.Bucket = &bare
	return at, nil
}

// ParseLog takes the URL of a commit log apart.
func (a *Access) ParseLog(raw string, makes bool) (*ObjectURL, error) {
	at, err := a.ParseObject(raw, makes)
	if err != nil {
		return nil, err
	}
	at.Key = strings.TrimSuffix(at.Key, "/")
	return at, at.Object()
}

// Object checks that the URL names an object, and not a bucket or a prefix.
func (at *ObjectURL) Object() error {
	switch {
	case at.Key == "":
		return exit.Usagef("%s names a bucket and no object: add the key of the object, /KEY", at)
	case strings.HasSuffix(at.Key, "/"):
		return exit.Usagef("%s does not name an object, because it ends with a slash: add the last part of the key", at)
	}
	return nil
}

// String is the URL as people write it, without parameters.
func (at *ObjectURL) String() string {
	u := *at.Given
	u.RawQuery, u.ForceQuery = "", false
	return u.String()
}

// findDirectory divides file:DIR/KEY. DIR is the part before //, or else the nearest
// directory above that is a bucket. If no directory above is a bucket, DIR is the nearest
// directory that exists, if it is empty; or the last directory of the path, if only that
// one is missing.
func (at *ObjectURL) findDirectory() error {
	path, _, err := DirectoryOf(at.Given)
	if err != nil {
		return err
	}
	var dir string
	i := strings.Index(path[1:], "//")
	if i >= 0 {
		dir, at.Key = path[:i+1], strings.TrimLeft(path[i+1:], "/")
	} else if dir, at.Key, err = NearestBucket(path); err != nil {
		return err
	}
	if dir == "" {
		if !at.Makes {
			return exit.With(exit.NotFound, fmt.Errorf("the path %s contains no bucket: the first put creates one", at))
		}
		if dir, at.Key, err = newBucket(path); err != nil {
			return err
		}
	}
	if i < 0 && slices.ContainsFunc(strings.Split(at.Key, "/"), func(part string) bool { return part == "." || part == ".." }) {
		return exit.Usagef("%s means the key %s in the bucket %s: write the path without . and ..; if the key contains them, write file:DIR//KEY", at, printable.Text(at.Key), printable.Text(dir))
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	at.Bucket = &url.URL{Scheme: "file", Path: filepath.ToSlash(dir), RawQuery: at.Given.RawQuery}
	return nil
}

// divisions yields the ways to divide a path into a directory and a key, the longest
// directory first.
func divisions(path string, yield func(dir, key string) bool) {
	if rest := strings.TrimRight(path, "/"); rest != "" && !yield(rest, "") {
		return
	}
	for i := strings.LastIndexByte(path, '/'); i >= 0; i = strings.LastIndexByte(path[:i], '/') {
		if path[i+1:] != "" && !yield(path[:max(i, 1)], path[i+1:]) || i == 0 {
			return
		}
	}
	if !strings.HasPrefix(path, "/") {
		yield(".", path)
	}
}

// NearestBucket returns the longest directory of a path that is a bucket, and the key
// that remains; nothing if there is none.
func NearestBucket(path string) (dir, key string, err error) {
	divisions(path, func(d, k string) bool {
		var is bool
		if is, err = dirbucket.Exists(d); is {
			dir, key = d, k
		}
		return err == nil && !is
	})
	return dir, key, err
}

// newBucket returns the directory of a path that is to become a bucket, and the key that
// remains.
func newBucket(path string) (dir, key string, err error) {
	var missing [][2]string // directories that do not exist, each with its key
	divisions(path, func(d, k string) bool {
		var empty bool
		empty, err = IsEmpty(d)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			err, missing = nil, append(missing, [2]string{d, k})
			return true
		case err != nil:
		case empty:
			dir, key = d, k
		case k == "":
			err = exit.Usagef("file:%s is a directory: name an object in a bucket, file:DIR/KEY", d)
		case len(missing) == 1:
			err = exit.Usagef("the directory %s is not a bucket, and contains other files: name a new or empty directory; to use this directory nevertheless, write file:%[1]s//%s", d, k)
		case len(missing) == 2:
			dir, key = missing[1][0], missing[1][1]
		default:
			err = exit.Usagef("the path file:%s contains no bucket: to create a bucket, write two slashes after its directory, such as file:%s//%s", path, missing[len(missing)-1][0], missing[len(missing)-1][1])
		}
		return false
	})
	return dir, key, err
}

// IsEmpty reports whether a directory is empty. It does not count what another process puts
// there while it makes a bucket of the same directory.
func IsEmpty(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	names, err := f.Readdirnames(3)
	if err != nil && err != io.EOF {
		return false, err
	}
	return !slices.ContainsFunc(names, func(name string) bool { return name != "data" && name != "index" }), nil
}

// Store returns the URL of the store at the place of the object, with the parameters that
// no other function has taken out.
func (at *ObjectURL) Store() string {
	u := *at.Bucket
	u.Path = at.Given.Path
	return u.String()
}

// IsNew reports whether the URL names a directory that open would make a bucket of.
func (at *ObjectURL) IsNew() bool {
	if at.Bucket.Scheme != "file" {
		return false
	}
	dir, _, err := DirectoryOf(at.Bucket)
	if err != nil {
		return false
	}
	is, err := dirbucket.Exists(dir)
	return err == nil && !is
}

// Open opens the bucket of a URL. The caller closes it.
func (at *ObjectURL) Open(ctx context.Context, a *Access) (Bucket, error) {
	b, err := a.driver(at.Bucket).OpenBucket(ctx, a, at)
	return b, at.Absent(err)
}

// Reservations opens the table of reservations that the URL names; nil if it names none. Reservations
// sends nothing to the table.
func (at *ObjectURL) Reservations(ctx context.Context, a *Access) (*Reservations, error) {
	if open := a.driver(at.Bucket).Reservations; open != nil {
		return open(ctx, a, at)
	}
	return nil, nil
}

// Absent turns the error that there is no bucket into that of a condition which does not
// hold, if the object is to be replaced.
func (at *ObjectURL) Absent(err error) error {
	if err == nil || at == nil || !at.Replaces || exit.Status(err) != exit.NotFound {
		return err
	}
	return exit.With(exit.Condition, fmt.Errorf("the object does not exist: %w", err))
}

// Parameters takes the named parameters out of the URL of the bucket, and returns their
// values. It refuses a parameter that occurs twice.
func (at *ObjectURL) Parameters(names ...string) (map[string]string, error) {
	query, taken := at.Bucket.Query(), map[string]string{}
	for _, name := range names {
		switch values := query[name]; {
		case len(values) > 1:
			return nil, exit.Usagef("the URL %[2]s has the parameter %[1]s twice", name, at)
		case len(values) == 1 && values[0] == "":
			return nil, exit.Usagef("the parameter %s of the URL %s is empty", name, at)
		case len(values) == 1:
			taken[name] = values[0]
			query.Del(name)
		}
	}
	at.Bucket.RawQuery = query.Encode()
	return taken, nil
}
