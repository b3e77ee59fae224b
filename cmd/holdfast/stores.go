package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/internal/storeurl"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// opener opens the store that a URL names. Its warnings go to log.
type opener func(ctx context.Context, u *url.URL, log *slog.Logger) (opened, error)

// opened is a store together with what a command needs to use it.
type opened struct {
	store.Store
	io.Closer
	url   string // as people write it, without parameters; different for different stores
	again string // with its parameters; opens the store again
}

// openers is the table from URL scheme to store.
func openers() map[string]opener {
	return map[string]opener{
		"file":         openFile,
		"s3":           openS3,
		"s3+versioned": openVersioned,
		"dynamodb":     openDynamo,
		"sqlite":       openDatabase,
		"postgres":     openDatabase,
	}
}

// open opens the store of the --store flag, or the default one.
func (a *app) open(ctx context.Context) (opened, error) {
	return a.openURL(ctx, a.storeURL)
}

func (a *app) openURL(ctx context.Context, raw string) (opened, error) {
	u, err := a.parseStore(raw)
	if err != nil {
		return opened{}, err
	}
	a.warnUntrustedState()
	if u.Scheme == "file" {
		if st, err := a.missing(u, raw == ""); err != nil || st.Store != nil {
			a.opened = st.url
			return st, err
		}
	}
	open := openers()[u.Scheme]
	if u.Scheme == "file" && a.onlyReads {
		open = openFileToRead
	}
	st, err := open(ctx, u, a.log())
	if err != nil {
		return opened{}, err
	}
	a.opened, st.again = st.url, escaped(st.url)
	if u.RawQuery != "" {
		st.again += "?" + u.Query().Encode()
	}
	return st, nil
}

// escaped returns the URL of a directory or database in the form that [app.parseStore]
// reads. People are shown the path as it is, with any characters.
func escaped(shown string) string {
	scheme, rest, _ := strings.Cut(shown, ":")
	host := ""
	switch scheme {
	case "file", "sqlite":
	case "postgres":
		if i := strings.Index(rest[2:], "/"); i >= 0 {
			host, rest = rest[:i+2], rest[i+2:]
		}
	default:
		return shown
	}
	return scheme + ":" + host + (&url.URL{Path: rest}).EscapedPath()
}

// parseStore takes the URL of a store apart, or of the default store if raw is empty.
// Neither its result nor its errors hold a secret, whatever raw holds.
func (a *app) parseStore(raw string) (*url.URL, error) {
	if a.storeErr != nil {
		return nil, a.storeErr
	}
	if raw == "" {
		if a.storeEmpty {
			return nil, usagef("--store or %[1]s is empty: name a store; or remove both to use the directory of this user's locks", variableOf("store"))
		}
		dir, err := defaultDir()
		return &url.URL{Scheme: "file", Path: dir}, err
	}
	return parseURL(raw)
}

// parseURL takes the URL of a store or object apart, as [app.parseStore] does.
func parseURL(raw string) (*url.URL, error) {
	scheme, rest, _ := strings.Cut(raw, ":")
	scheme = strings.ToLower(scheme)
	if openers()[scheme] == nil {
		return nil, unknownStore(raw)
	}
	u, _, err := storeurl.Parse(raw)
	switch {
	case errors.Is(err, storeurl.ErrCredentials):
		return nil, &statusError{statusUnsafe, fmt.Errorf("store %s:...: %w", scheme, err)}
	case err != nil:
		return nil, usagef("store %s:...: %w", scheme, err)
	case scheme != "file":
		return u, nil
	case strings.HasPrefix(rest, "~"):
		return nil, usagef("store file:~...: no shell has replaced the ~: write file:$HOME/PATH, in double quotes")
	case u.Host != "":
		return nil, usagef("store file://...: a directory has no host: write file:/PATH or file:PATH")
	}
	return u, nil
}

// making says what a command may make for a store that is a directory.
type making int

const (
	makesLast making = iota // makes the last directory; those above it must exist
	makesNone               // makes nothing: the command reads what exists
	awaits                  // the command waits for locks to come: it makes only the standard store
	makesAll                // makes all directories: that is the command's purpose
)

// makes lists the commands that make less, or more, than the last directory.
var makes = map[string]making{
	"holdfast ls": makesNone, "holdfast show": makesNone, "holdfast watch": awaits, "holdfast break": makesNone, "holdfast sweep": makesNone,
	"holdfast ask": makesNone, "holdfast leader": makesNone, "holdfast resize": makesNone,
	"holdfast checkpoint get": makesNone, "holdfast checkpoint ls": makesNone, "holdfast checkpoint watch": awaits,
	"holdfast checkpoint export": makesNone, "holdfast checkpoint rm": makesNone,
	"holdfast get": makesNone, "holdfast object get": makesNone, "holdfast object stat": makesNone, "holdfast object ls": makesNone, "holdfast object reservations": makesNone, "holdfast object sweep": makesNone,
	"holdfast commit-log read": makesNone, "holdfast commit-log latest": makesNone, "holdfast commit-log trim": makesNone,
	"holdfast item put": makesNone, "holdfast item get": makesNone, "holdfast item rm": makesNone, "holdfast item ls": makesNone,
	"holdfast item sweep": makesNone, "holdfast item verify": makesNone,
	"holdfast init": makesAll, "holdfast item init": makesAll,
}

// reads lists the commands that only show what is there. They may read a directory of another
// user, who decides what they show.
var reads = map[string]bool{
	"holdfast ls": true, "holdfast show": true, "holdfast watch": true, "holdfast leader": true,
	"holdfast get": true, "holdfast object get": true, "holdfast object stat": true, "holdfast object ls": true, "holdfast commit-log read": true, "holdfast commit-log latest": true,
	"holdfast item get": true, "holdfast item ls": true, "holdfast item verify": true,
}

// missing checks whether a directory exists, and decides what the command may do if it does
// not. A mistyped name must not become a store that no other program uses. If this user has
// never kept anything in the standard store, commands that read take it for an empty store.
func (a *app) missing(u *url.URL, standard bool) (opened, error) {
	path, _, err := directoryOf(u)
	if err != nil {
		return opened{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return opened{}, err
	}
	name := "file:" + path
	if a.verbose && !standard && !filepath.IsAbs(u.Opaque+u.Path) {
		a.notef("the store is %s: this path is relative, so it names another store if you change the directory", name)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return opened{}, nil // opening the store returns the error
	}
	notThere := func(format string, args ...any) error {
		return &statusError{statusNotFound, fmt.Errorf("there is no store "+format, args...)}
	}
	switch {
	case a.makes == makesNone && standard:
		return opened{Store: memstore.New(), Closer: io.NopCloser(nil), url: name}, nil
	case a.makes == makesNone, a.makes == awaits && !standard:
		return opened{}, notThere("%s: the first lock creates it", name)
	case a.makes == makesAll, standard:
		return opened{}, nil
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return opened{}, notThere("%s, and its parent directory does not exist: create that directory, or name another store", name)
	}
	return opened{}, nil
}

// missesColon reports whether a text is most likely a URL whose colon is missing, as in s3//BUCKET.
func missesColon(raw string) bool {
	scheme, _, found := strings.Cut(raw, "//")
	return found && openers()[strings.ToLower(scheme)] != nil
}

// unknownStore is the error for a store whose scheme is unknown. It repeats only parts of
// the URL that cannot hold a password.
func unknownStore(raw string) error {
	known := schemes()
	if missesColon(raw) {
		scheme, _, _ := strings.Cut(raw, "//")
		return usagef("the URL of a store lacks a colon: write %s://...; for a directory of that name write file:./%s//...", scheme, scheme)
	}
	if strings.ContainsAny(raw, ":@?#=%") {
		scheme, _, _ := strings.Cut(raw, "://")
		for i := range known {
			known[i], _, _ = strings.Cut(known[i], ":")
		}
		return usagef("unknown kind of store (known: %s)%s", strings.Join(schemes(), ", "), didYouMean(nearest(scheme, known)))
	}
	return usagef("store %q: unknown kind of store (known: %s); for a directory write file:%s", raw, strings.Join(known, ", "), raw)
}

// rootState is root's directory for locks and for what the command remembers. Nothing but
// the build of a test changes it: tests that root runs keep out of root's own directory.
var rootState = "/var/lib/holdfast"

// defaultDir is the directory of locks when no store is named. It belongs to this user, so
// that two users do not share a default store.
func defaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return rootState, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "holdfast"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", usagef("there is no home directory for this user's locks (%w): name a store with --store file:PATH", err)
	}
	return filepath.Join(home, ".local", "state", "holdfast"), nil
}

// openS3 opens s3://BUCKET/PREFIX; see [s3bucket.Config] for its parameters.
func openS3(ctx context.Context, u *url.URL, log *slog.Logger) (opened, error) {
	known := probeCacheFor(u)
	st, err := s3store.Open(ctx, u.String(), &s3store.Options{Trusted: known.is(), OnVerified: known.note, Logger: log})
	if err != nil {
		return opened{}, err
	}
	return remote(st), nil
}

// openVersioned opens s3+versioned://BUCKET/PREFIX; see [s3verstore.Config] for its
// parameters.
func openVersioned(ctx context.Context, u *url.URL, log *slog.Logger) (opened, error) {
	st, err := s3verstore.Open(ctx, u.String(), &s3verstore.Options{Logger: log})
	if err != nil {
		return opened{}, err
	}
	return remote(st), nil
}

// openDynamo opens dynamodb://TABLE/PREFIX; see [dynamostore.Config] for its
// parameters.
func openDynamo(ctx context.Context, u *url.URL, log *slog.Logger) (opened, error) {
	known := probeCacheFor(u)
	st, err := dynamostore.Open(ctx, u.String(), &dynamostore.Options{Trusted: known.is(), OnVerified: known.note, Logger: log})
	if err != nil {
		return opened{}, err
	}
	return remote(st), nil
}

// remote is a store that needs no closing.
func remote(st store.Store) opened {
	return opened{Store: st, Closer: io.NopCloser(nil), url: store.TraitsOf(st).Name}
}

// openFile opens file:PATH, file:///PATH or file:relative/path.
func openFile(_ context.Context, u *url.URL, _ *slog.Logger) (opened, error) {
	return openDirectory(u, false)
}

// openFileToRead is openFile for a command that only shows what is there.
func openFileToRead(_ context.Context, u *url.URL, _ *slog.Logger) (opened, error) {
	return openDirectory(u, true)
}

func openDirectory(u *url.URL, reading bool) (opened, error) {
	path, opts, err := directoryOf(u)
	if err != nil {
		return opened{}, err
	}
	opts.ReadOnly = reading
	st, err := filestore.Open(path, opts)
	if err != nil {
		return opened{}, refusedDirectory(path, opts.Unsafe, err)
	}
	return opened{Store: st, Closer: st, url: store.TraitsOf(st).Name}, nil
}

// directoryOf returns the directory that a URL names, and the options in its parameters.
func directoryOf(u *url.URL) (path string, opts *filestore.Options, err error) {
	opts = &filestore.Options{}
	if opts.AllowNetwork, opts.Unsafe, err = insisted(u.Query(), ""); err != nil {
		return "", nil, err
	}
	path = u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", nil, usagef("the path in the store's URL is wrong: write %%25 for a %%")
		}
	}
	if path == "" {
		return "", nil, usagef("the store's URL does not name a directory: write file:PATH")
	}
	return path, opts, nil
}

// insisted reads the parameters of the URL of a file or directory: network=allow for a
// network file system, and unsafe=RISK,... for what [filestore.Options] calls risks. others
// names the parameters that were taken out before, for people.
func insisted(query url.Values, others string) (network bool, unsafe []string, err error) {
	for name, values := range query {
		switch {
		case name == "network" && values[0] == "allow":
			network = true
		case name == "unsafe":
			unsafe = strings.Split(values[0], ",")
			if safefile.CheckNames(unsafe) != nil {
				return false, nil, usagef("the parameter unsafe of the store's URL names an unknown risk (known: %s, %s, %s)", safefile.Link, safefile.Owner, safefile.Writable)
			}
		default:
			return false, nil, usagef("the store's URL has an unknown parameter %s (known: %snetwork=allow, unsafe=owner, unsafe=writable, unsafe=link); a ? in a name is %%3F", storeurl.Parameter(name, values), others)
		}
	}
	return network, unsafe, nil
}
