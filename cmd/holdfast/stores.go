package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/aws/s3verstore"
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
	if raw == "" {
		dir, err := defaultDir()
		if err != nil {
			return opened{}, err
		}
		raw = "file:" + dir
	}
	u, err := url.Parse(raw)
	if err != nil {
		return opened{}, usagef("store %q is not a URL", withoutSecrets(raw))
	}
	table := openers()
	open, ok := table[u.Scheme]
	if !ok {
		var known []string
		for scheme := range table {
			known = append(known, scheme+":")
		}
		slices.Sort(known)
		hint := ""
		if u.Scheme == "" {
			hint = fmt.Sprintf("; for a directory write file:%s", withoutSecrets(raw))
		}
		return opened{}, usagef("store %q: unknown kind of store (known: %s)%s", withoutSecrets(raw), strings.Join(known, ", "), hint)
	}
	a.tellState()
	st, err := open(ctx, u, a.log())
	if err != nil {
		return opened{}, err
	}
	st.again = st.url
	if u.RawQuery != "" {
		st.again += "?" + u.Query().Encode()
	}
	return st, nil
}

// withoutSecrets is a store's URL, or what was meant to be one, for a message: without
// a user with a password.
func withoutSecrets(raw string) string {
	at := strings.LastIndexByte(raw, '@')
	if at < 0 {
		return raw
	}
	start := 0
	if i := strings.Index(raw[:at], "//"); i >= 0 {
		start = i + len("//")
	}
	if !strings.Contains(raw[start:at], ":") {
		return raw
	}
	return raw[:start] + "..." + raw[at:]
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
			if err := trust.CheckNames(opts.Unsafe); err != nil {
				return "", nil, usagef("store %q: %w", u, err)
			}
		default:
			return "", nil, usagef("store %q: unknown parameter %s=%s (known: network=allow, unsafe=owner, unsafe=writable, unsafe=link)", u, name, values[0])
		}
	}
	if path = u.Opaque; path == "" {
		path = u.Host + u.Path
	}
	if path, err = url.PathUnescape(path); err != nil || path == "" {
		return "", nil, usagef("store %q names no directory: write file:PATH", u)
	}
	return path, opts, nil
}
