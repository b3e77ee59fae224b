package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/object/indexbucket"
	"github.com/holdfast-go/holdfast/store"
)

// bucketOpener opens the bucket of the object that a URL names. The URL of an object is the
// URL of a store, followed by the key of the object.
type bucketOpener func(ctx context.Context, a *app, at *objectURL) (bucket, error)

// bucketOpeners is the table from URL scheme to bucket. The other schemes of [openers]
// have no objects.
func bucketOpeners() map[string]bucketOpener {
	return map[string]bucketOpener{
		"file": openDirBucket,
		"s3":   openS3Bucket,
	}
}

// bucket is a bucket together with what is needed to use it.
type bucket struct {
	*object.Client
	io.Closer
	url   string // as people write it, without parameters and without a key
	etags bool   // its versions are ETags

	reservations *reservations // nil: writers make none

	// Only for a bucket with an index: where its bodies are.
	bodies       object.Bucket
	bodiesPrefix string
	index        string // for people
}

// id is different for different buckets.
func (b bucket) id() string { return object.TraitsOf(b.Bucket()).ID }

// objectURL is the URL of an object, or of all objects whose keys begin with key.
type objectURL struct {
	bucket *url.URL // without the key
	key    string
	given  *url.URL // as it was given; it holds no secret
	makes  bool     // open may make the bucket, if that is safe

	replaces bool // the object is to be replaced, and so must exist

	noConditionalPut bool // its parameters say that conditional puts are off
}

// parseObject takes the URL of an object apart. Neither its result nor its errors hold a
// secret, whatever raw holds.
func (a *app) parseObject(raw string, makes bool) (*objectURL, error) {
	if raw == "" {
		return nil, usagef("the URL is empty: name an object, such as file:DIR/KEY or s3://BUCKET/KEY")
	}
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	if bucketOpeners()[u.Scheme] == nil {
		return nil, usagef("%s: this kind of store cannot store objects; use file:DIR/KEY or s3://BUCKET/KEY", u.Scheme)
	}
	at := &objectURL{given: u, makes: makes}
	if u.Scheme == "file" {
		return at, at.findDirectory()
	}
	bare := *u
	at.key = strings.TrimPrefix(u.Path, "/")
	bare.Path, bare.RawPath = "", ""
	at.bucket = &bare
	return at, nil
}

// object checks that the URL names an object, and not a bucket or a prefix.
func (at *objectURL) object() error {
	switch {
	case at.key == "":
		return usagef("%s names a bucket and no object: add the key of the object, /KEY", at)
	case strings.HasSuffix(at.key, "/"):
		return usagef("%s does not name an object, because it ends with a slash: add the last part of the key", at)
	}
	return nil
}

// String is the URL as people write it, without parameters.
func (at *objectURL) String() string {
	u := *at.given
	u.RawQuery, u.ForceQuery = "", false
	return u.String()
}

// findDirectory divides file:DIR/KEY. DIR is the part before //, or else the nearest
// directory above that is a bucket. If no directory above is a bucket, DIR is the nearest
// directory that exists, if it is empty; or the last directory of the path, if only that
// one is missing.
func (at *objectURL) findDirectory() error {
	path, _, err := directoryOf(at.given)
	if err != nil {
		return err
	}
	var dir string
	i := strings.Index(path[1:], "//")
	if i >= 0 {
		dir, at.key = path[:i+1], strings.TrimLeft(path[i+1:], "/")
	} else if dir, at.key, err = nearestBucket(path); err != nil {
		return err
	}
	if dir == "" {
		if !at.makes {
			return &statusError{statusNotFound, fmt.Errorf("the path %s contains no bucket: the first put creates one", at)}
		}
		if dir, at.key, err = newBucket(path); err != nil {
			return err
		}
	}
	if i < 0 && hasDots(at.key) {
		return usagef("%s means the key %s in the bucket %s: write the path without . and ..; if the key contains them, write file:DIR//KEY", at, printable.Text(at.key), printable.Text(dir))
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	at.bucket = &url.URL{Scheme: "file", Path: filepath.ToSlash(dir), RawQuery: at.given.RawQuery}
	return nil
}

// hasDots reports whether . or .. is a part of a path.
func hasDots(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return part == "." || part == ".." })
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

// nearestBucket returns the longest directory of a path that is a bucket, and the key
// that remains; nothing if there is none.
func nearestBucket(path string) (dir, key string, err error) {
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
		empty, err = isEmpty(d)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			err, missing = nil, append(missing, [2]string{d, k})
			return true
		case err != nil:
		case empty:
			dir, key = d, k
		case k == "":
			err = usagef("file:%s is a directory: name an object in a bucket, file:DIR/KEY", d)
		case len(missing) == 1:
			err = usagef("the directory %s is not a bucket, and contains other files: name a new or empty directory; to use this directory nevertheless, write file:%[1]s//%s", d, k)
		case len(missing) == 2:
			dir, key = missing[1][0], missing[1][1]
		default:
			err = usagef("the path file:%s contains no bucket: to create a bucket, write two slashes after its directory, such as file:%s//%s", path, missing[len(missing)-1][0], missing[len(missing)-1][1])
		}
		return false
	})
	return dir, key, err
}

// isEmpty reports whether a directory is empty. It does not count what another process puts
// there while it makes a bucket of the same directory.
func isEmpty(dir string) (bool, error) {
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

// store returns the URL of the store at the place of the object, with the parameters that
// no other function has taken out.
func (at *objectURL) store() string {
	u := *at.bucket
	u.Path = at.given.Path
	return u.String()
}

// isNew reports whether the URL names a directory that open would make a bucket of.
func (at *objectURL) isNew() bool {
	if at.bucket.Scheme != "file" {
		return false
	}
	dir, _, err := directoryOf(at.bucket)
	if err != nil {
		return false
	}
	is, err := dirbucket.Exists(dir)
	return err == nil && !is
}

// open opens the bucket of a URL. The caller closes it.
func (at *objectURL) open(ctx context.Context, a *app) (bucket, error) {
	b, err := bucketOpeners()[at.bucket.Scheme](ctx, a, at)
	return b, at.absent(err)
}

// absent turns the error that there is no bucket into that of a condition which does not
// hold, if the object is to be replaced.
func (at *objectURL) absent(err error) error {
	if err == nil || at == nil || !at.replaces || statusOf(err) != statusNotFound {
		return err
	}
	return &statusError{statusCondition, fmt.Errorf("the object does not exist: %w", err)}
}

func openDirBucket(_ context.Context, a *app, at *objectURL) (bucket, error) {
	dir, fileOpts, err := directoryOf(at.bucket)
	if err != nil {
		return bucket{}, err
	}
	is, err := dirbucket.Exists(dir)
	if err == nil && !is && !at.makes {
		err = &statusError{statusNotFound, fmt.Errorf("there is no bucket file:%s: the first put creates it", dir)}
	}
	if err == nil && !is {
		if _, err = os.Stat(filepath.Dir(dir)); errors.Is(err, fs.ErrNotExist) {
			err = &statusError{statusNotFound, fmt.Errorf("there is no bucket file:%s, and its parent directory does not exist: create that directory, or name another bucket", dir)}
		}
	}
	if err != nil {
		return bucket{}, err
	}
	b, err := dirbucket.Open(dir, &dirbucket.Options{AllowNetwork: fileOpts.AllowNetwork, Unsafe: fileOpts.Unsafe, ReadOnly: a.onlyReads})
	if err != nil {
		return bucket{}, err
	}
	if !is {
		a.notef("created a new bucket: %s", dir)
	}
	client, err := object.New(b, &object.Options{Logger: a.log()})
	return bucket{Client: client, Closer: b, url: "file:" + dir}, err
}

// openS3Bucket opens s3://BUCKET/KEY; see [s3bucket.Config] for its parameters. Further
// ones choose reservations (see [reservations]), and
//
//	unique_bodies=true   every body that is written has something unique, so that a fence
//	                       can be kept: see [object.Options]
//	index=self, index=URL  objects lie under names of their own, and an index in the same
//	                       bucket, or in another store, says which: see package indexbucket
func openS3Bucket(ctx context.Context, a *app, at *objectURL) (_ bucket, err error) {
	opts := &object.Options{Logger: a.log()}
	p, err := at.parameters(paramDistinct, paramIndex)
	if err != nil {
		return bucket{}, err
	}
	switch p[paramDistinct] {
	case "", "false":
	case "true":
		opts.DistinctBodies = true
	default:
		return bucket{}, usagef("the parameter unique_bodies of the URL %s must be true or false", at)
	}
	opened := bucket{Closer: io.NopCloser(nil), url: "s3://" + at.bucket.Host, etags: true}
	opened.reservations, err = at.reservations(ctx, a)
	if err != nil {
		return bucket{}, err
	}
	if r := opened.reservations; r != nil {
		opts.Reserver, opened.Closer = r, r
	}
	remembered := abilitiesOf{at.bucket, at.noConditionalPut}
	b, _, err := s3bucket.Open(ctx, at.bucket.String(), &s3bucket.Options{AssumeAbilities: remembered.known(), Logger: a.log()})
	if err == nil && p[paramIndex] != "" {
		err = at.openIndex(ctx, a, &opened, b, p[paramIndex])
	} else if err == nil {
		opened.Client, err = object.New(remembering{b, remembered, new(sync.Map)}, opts)
	}
	if err != nil {
		return bucket{}, errors.Join(err, opened.Close())
	}
	return opened, nil
}

const (
	paramIndex    = "index"
	paramDistinct = "unique_bodies"
)

// bucketParameters are the parameters of a bucket's URL that [s3bucket.Config] has not.
var bucketParameters = []string{
	paramIndex, paramDistinct,
	paramReserve, paramReserveTimeout, paramReserveRate, paramReserveTTL, paramReserveRelease, paramConditionalPut, paramCopyIfAbsent, paramDynamoEndpoint, paramDynamoRegion,
}

// openIndex turns the opened bucket into one whose objects are named by an index.
func (at *objectURL) openIndex(ctx context.Context, a *app, opened *bucket, bodies object.Bucket, index string) error {
	if opened.reservations != nil {
		return usagef("the URL %s names an index and reservations; an index needs no reservations: remove one of the two", at)
	}
	if at.noConditionalPut {
		return usagef("the URL %s names an index, and an index needs conditional writes: remove %s=disabled", at, paramConditionalPut)
	}
	if index == "self" {
		u := *at.bucket
		u.Path = "/.holdfast/index"
		index = u.String()
	}
	st, err := a.openNamed(ctx, paramIndex, index)
	if err != nil {
		return err
	}
	opened.Closer, opened.index = st, st.url
	if opened.bodiesPrefix, err = bodiesOf(ctx, st.Store, at); err != nil {
		return err
	}
	below, err := store.Prefix(st.Store, "bucket/"+at.bucket.Host)
	if err != nil {
		return err
	}
	opened.bodies = bodies
	b, err := indexbucket.New(below, bodies, &indexbucket.Options{Prefix: opened.bodiesPrefix})
	if err != nil {
		return err
	}
	opened.etags = false
	opened.Client, err = object.New(b, &object.Options{Logger: a.log()})
	return err
}

// bodiesOf returns the prefix of the bodies of an index. No other index has the same
// prefix: the first write puts its random part into a register of the index.
func bodiesOf(ctx context.Context, index store.Store, at *objectURL) (string, error) {
	key := "bodies/" + at.bucket.Host
	value, _, err := index.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) && at.makes {
		if _, err = index.Put(ctx, key, "", []byte(rand.Text())); err == nil || errors.Is(err, store.ErrConflict) || store.InDoubt(err) {
			value, _, err = index.Get(ctx, key)
		}
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", &statusError{statusNotFound, fmt.Errorf("the index of %s does not exist yet: the first put creates it", at)}
	case err != nil:
		return "", err
	case len(value) != 26 || strings.Trim(string(value), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "":
		return "", fmt.Errorf("%w: the register %s of the index does not name the prefix of its bodies", store.ErrCorrupt, key)
	}
	return ".holdfast/bodies/" + string(value) + "/", nil
}

// abilitiesOf is what the command remembers of a bucket: the abilities that its server was
// found to have, and those that are impossible there in any way. See [known].
type abilitiesOf struct {
	bucket *url.URL

	noConditionalPut bool // the user says so, whatever was found
}

func (o abilitiesOf) one(a object.Ability, has string) probeCache {
	u := *o.bucket
	q := u.Query()
	q.Set(has, string(a))
	u.RawQuery = q.Encode()
	return probeCacheFor(&u)
}

func (o abilitiesOf) has(a object.Ability) probeCache   { return o.one(a, "server") }
func (o abilitiesOf) lacks(a object.Ability) probeCache { return o.one(a, "lacks") }

// known returns the abilities that the server was found to have.
func (o abilitiesOf) known() []object.Ability {
	return slices.DeleteFunc(object.Abilities(), func(a object.Ability) bool { return !o.has(a).is() })
}

// forget makes the next run test the server again.
func (o abilitiesOf) forget() {
	for _, a := range object.Abilities() {
		o.has(a).forget()
		o.lacks(a).forget()
	}
}

// remembering is a bucket that remembers the abilities that were found.
type remembering struct {
	*s3bucket.Bucket
	abilitiesOf
	lacking *sync.Map // what this run has found out, by ability: an error
}

// Unwrap implements [object.As].
func (r remembering) Unwrap() object.Bucket { return r.Bucket }

// Verify implements [object.Verifier].
func (r remembering) Verify(ctx context.Context, abilities ...object.Ability) error {
	for _, a := range abilities {
		if r.noConditionalPut && slices.Contains([]object.Ability{object.PutIfAbsent, object.PutIfMatch, object.PartsIfAbsent, object.PartsIfMatch}, a) {
			return &object.UnsupportedError{Ability: a, Found: "the URL says conditional_put=disabled"}
		}
		if found, ok := r.lacking.Load(a); ok {
			return found.(error)
		}
		if r.lacks(a).is() {
			return &object.UnsupportedError{Ability: a, Found: "this is the result of an earlier test; to test again, call holdfast doctor"}
		}
		err := r.Bucket.Verify(ctx, a)
		switch {
		case object.TraitsOf(r.Bucket).Trusted:
		case err == nil:
			for _, found := range r.Bucket.KnownAbilities() {
				if !r.has(found).is() {
					r.has(found).note()
				}
			}
		case errors.Is(err, errors.ErrUnsupported):
			r.lacks(a).note()
			r.lacking.Store(a, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parameters takes the named parameters out of the URL of the bucket, and returns their
// values. It refuses a parameter that occurs twice.
func (at *objectURL) parameters(names ...string) (map[string]string, error) {
	query, taken := at.bucket.Query(), map[string]string{}
	for _, name := range names {
		switch values := query[name]; {
		case len(values) > 1:
			return nil, usagef("the URL %[2]s has the parameter %[1]s twice", name, at)
		case len(values) == 1 && values[0] == "":
			return nil, usagef("the parameter %s of the URL %s is empty", name, at)
		case len(values) == 1:
			taken[name] = values[0]
			query.Del(name)
		}
	}
	at.bucket.RawQuery = query.Encode()
	return taken, nil
}
