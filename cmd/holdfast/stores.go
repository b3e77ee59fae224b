package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/aws/s3verstore"
	"github.com/holdfast-go/holdfast/internal/storeurl"
	"github.com/holdfast-go/holdfast/internal/trust"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// opener opens the store that a URL names. Its warnings go to log.
type opener func(ctx context.Context, u *url.URL, log *slog.Logger) (opened, error)

// opened is a store together with what is needed to use it.
type opened struct {
	store.Store
	io.Closer
	url   string // as people write it, without parameters: what tells stores apart
	again string // with its parameters: what opens it again
	flush func() // of a client on it: tells people what has happened
}

// openers is the table from URL scheme to store.
func openers() map[string]opener {
	return map[string]opener{
		"file":         openFile,
		"s3":           openS3,
		"s3+versioned": openVersioned,
		"dynamodb":     openDynamo,
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
	a.tellState()
	st, err := openers()[u.Scheme](ctx, u, a.log())
	if err != nil {
		return opened{}, err
	}
	st.again = st.url
	if u.RawQuery != "" {
		st.again += "?" + u.Query().Encode()
	}
	return st, nil
}

// parseStore takes the URL of a store apart, or that of the default one if raw is
// empty. What it returns and its errors hold no secret, whatever raw holds.
func (a *app) parseStore(raw string) (*url.URL, error) {
	if raw == "" {
		if a.storeEmpty {
			return nil, usagef("the store is empty: name one, or leave out --store and %s for the directory of this user's locks", variable("store"))
		}
		dir, err := defaultDir()
		return &url.URL{Scheme: "file", Path: dir}, err
	}
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

// unknownStore is the error of a store whose scheme is unknown. It repeats only what can
// have no place for a password.
func unknownStore(raw string) error {
	known := schemes()
	if strings.ContainsAny(raw, ":@?#=%") {
		scheme, _, _ := strings.Cut(raw, "://")
		for i := range known {
			known[i], _, _ = strings.Cut(known[i], ":")
		}
		return usagef("unknown kind of store (known: %s)%s", strings.Join(schemes(), ", "), didYouMean(nearest(scheme, known)))
	}
	return usagef("store %q: unknown kind of store (known: %s); for a directory write file:%s", raw, strings.Join(known, ", "), raw)
}

// defaultDir is where locks lie when no store is named: a directory of this user's
// own, so that two users do not share a default store.
func defaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/holdfast", nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "holdfast"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", usagef("no home directory to keep locks in (%w): name a store with --store file:PATH", err)
	}
	return filepath.Join(home, ".local", "state", "holdfast"), nil
}

// openS3 opens s3://BUCKET/PREFIX; see [s3bucket.Config] for its parameters.
func openS3(ctx context.Context, u *url.URL, log *slog.Logger) (opened, error) {
	known := knownGood(u)
	st, err := s3store.Open(ctx, u.String(), &s3store.Options{Trusted: known.is(), OnVerified: known.note, Log: log})
	if err != nil {
		return opened{}, err
	}
	return remote(st), nil
}

// openVersioned opens s3+versioned://BUCKET/PREFIX; see [s3verstore.Config] for its
// parameters.
func openVersioned(ctx context.Context, u *url.URL, log *slog.Logger) (opened, error) {
	st, err := s3verstore.Open(ctx, u.String(), &s3verstore.Options{Log: log})
	if err != nil {
		return opened{}, err
	}
	return remote(st), nil
}

// openDynamo opens dynamodb://TABLE/PREFIX; see [dynamostore.Config] for its
// parameters.
func openDynamo(ctx context.Context, u *url.URL, log *slog.Logger) (opened, error) {
	known := knownGood(u)
	st, err := dynamostore.Open(ctx, u.String(), &dynamostore.Options{Trusted: known.is(), OnVerified: known.note, Log: log})
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
	path, opts, err := directoryOf(u)
	if err != nil {
		return opened{}, err
	}
	st, err := filestore.Open(path, opts)
	if err != nil {
		return opened{}, err
	}
	return opened{Store: st, Closer: st, url: store.TraitsOf(st).Name}, nil
}

// directoryOf returns the directory that a URL names, and what it says of it:
// network=allow for a network file system, unsafe=RISK,... for what [filestore.Options]
// calls risks.
func directoryOf(u *url.URL) (path string, opts *filestore.Options, err error) {
	opts = &filestore.Options{}
	for name, values := range u.Query() {
		switch {
		case name == "network" && values[0] == "allow":
			opts.AllowNetwork = true
		case name == "unsafe":
			opts.Unsafe = strings.Split(values[0], ",")
			if trust.CheckNames(opts.Unsafe) != nil {
				return "", nil, usagef("the parameter unsafe of the store's URL names an unknown risk (known: %s, %s, %s)", trust.Link, trust.Owner, trust.Writable)
			}
		default:
			return "", nil, usagef("the store's URL has an unknown parameter %s (known: network=allow, unsafe=owner, unsafe=writable, unsafe=link)", storeurl.Parameter(name, values))
		}
	}
	path = u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", nil, usagef("the store's directory cannot be read: write %%25 for a %%")
		}
	}
	if path == "" {
		return "", nil, usagef("the store names no directory: write file:PATH")
	}
	return path, opts, nil
}
