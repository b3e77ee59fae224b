package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/store"
)

// Access is how one command uses stores.
type Access struct {
	output.Printer
	Drivers    Drivers
	StoreURL   string // of --store, or of the default store
	StoreErr   error  // why no store can be named
	StoreEmpty bool   // --store, or its variable, is set but empty: an unset secret, say
	Makes      Making
	OnlyReads  bool   // the command only shows what is there
	Verbose    bool   // notes say which store is used, and why
	Opened     string // the store that was opened last, as people write it, without parameters
	Again      string // its URL with the parameters, which opens it again

	reportedState sync.Once
	named         map[string]string // by the URL of a store: a note about its name; empty when it is printed
	again         map[string]string // by the URL of an opened store without parameters: its URL with them
}

// Opened is a store together with what a command needs to use it.
type Opened struct {
	store.Store
	io.Closer
	URL   string // as people write it, without parameters; different for different stores
	Again string // with its parameters; opens the store again
}

// OpenURL opens the store of a URL; of an empty one, the default store.
func (a *Access) OpenURL(ctx context.Context, raw string) (Opened, error) {
	u, err := a.ParseStore(raw)
	if err != nil {
		return Opened{}, err
	}
	a.WarnUntrustedState(u.Scheme)
	parameters := ""
	if u.RawQuery != "" {
		parameters = "?" + u.Query().Encode()
	}
	if u.Host != "" { // some stores connect when they are opened, and that can fail
		a.note(u.Scheme+"://"+u.Host+strings.TrimSuffix(u.Path, "/"), parameters)
	}
	st, err := a.driver(u).Open(ctx, a, u, raw == "")
	if err != nil {
		return Opened{}, err
	}
	a.note(st.URL, parameters)
	st.Again = a.Again
	return st, nil
}

// note remembers how to open a store again.
func (a *Access) note(shown, parameters string) {
	if a.again == nil {
		a.again = make(map[string]string)
	}
	a.Opened, a.Again = shown, Escaped(shown)+parameters
	a.again[a.Opened] = a.Again
}

// AgainAfter returns the URL that opens the store of an error again. If the error names no store, this is the
// store that was opened last. The URL is empty if no store was opened, or if the error is of the bucket of items.
func (a *Access) AgainAfter(err error) string {
	if name := output.StoreName(err); name != "" && a.again[a.Opened] != "" {
		return a.again[name]
	}
	return a.Again
}

// Escaped returns the URL of a store in the form that [Access.ParseStore] reads. People are shown the
// path as it is, with any characters.
func Escaped(shown string) string {
	scheme, path, _ := strings.Cut(shown, ":")
	host := ""
	if strings.HasPrefix(path, "//") {
		i := strings.Index(path[2:], "/") + 2
		if i < 2 {
			return shown
		}
		host, path = path[:i], path[i:]
	}
	return scheme + ":" + host + (&url.URL{Path: path}).EscapedPath()
}

// ParseStore takes the URL of a store apart, or of the default store if raw is empty.
// Neither its result nor its errors hold a secret, whatever raw holds.
func (a *Access) ParseStore(raw string) (*url.URL, error) {
	if a.StoreErr != nil && (raw == "" || raw == a.StoreURL) {
		return nil, a.StoreErr
	}
	if raw == "" {
		if a.StoreEmpty {
			return nil, exit.Usagef("--store or HOLDFAST_STORE is empty: name a store; or remove both to use the directory of this user's locks")
		}
		dir, err := DefaultDir()
		return &url.URL{Scheme: "file", Path: dir}, err
	}
	return a.ParseURL(raw)
}

// ParseURL takes the URL of a store or object apart, as [Access.ParseStore] does. The error is a
// [NotBuiltInError] if another program has to use the store.
func (a *Access) ParseURL(raw string) (*url.URL, error) {
	scheme, rest, _ := strings.Cut(raw, ":")
	scheme = strings.ToLower(scheme)
	if schemeOf(scheme) == nil {
		return nil, unknownStore(raw)
	}
	if a.Drivers[scheme] == nil {
		return nil, &NotBuiltInError{scheme}
	}
	if note := a.named[raw]; note != "" { // not earlier: a program that hands the command line over says nothing
		a.named[raw] = ""
		a.Notef("%s", note)
	}
	u, _, err := storeurl.Parse(raw)
	switch {
	case errors.Is(err, storeurl.ErrCredentials):
		return nil, exit.With(exit.Unsafe, fmt.Errorf("store %s:...: %w", scheme, err))
	case err != nil:
		return nil, exit.Usagef("store %s:...: %w", scheme, err)
	case scheme != "file":
		return u, nil
	case strings.HasPrefix(rest, "~"):
		return nil, exit.Usagef("store file:~...: no shell has replaced the ~: write file:$HOME/PATH, in double quotes")
	case u.Host != "":
		return nil, exit.Usagef("store file://...: a directory has no host: write file:/PATH or file:PATH")
	}
	return u, nil
}

// Making says what a command may make for a store that is a directory.
type Making int

const (
	makesLast Making = iota // makes the last directory; those above it must exist
	MakesNone               // makes nothing: the command reads what exists
	Awaits                  // the command waits for locks to come: it makes only the standard store
	MakesAll                // makes all directories: that is the command's purpose
)

// RootState is root's directory for locks and for what the command remembers. Nothing but
// the build of a test changes it: tests that root runs keep out of root's own directory.
var RootState = "/var/lib/holdfast"

// DefaultDir is the directory of locks when no store is named. It belongs to this user, so
// that two users do not share a default store.
func DefaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return RootState, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "holdfast"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", exit.Usagef("there is no home directory for this user's locks (%w): name a store with --store file:PATH", err)
	}
	return filepath.Join(home, ".local", "state", "holdfast"), nil
}

// Init creates what --store names, if that does not exist, and tests it. It returns the result for --json.
func (a *Access) Init(ctx context.Context) (result map[string]any, err error) {
	u, err := a.ParseStore(a.StoreURL)
	if err != nil {
		return nil, err
	}
	if init := a.driver(u).Init; init != nil {
		return init(ctx, a, a.StoreURL)
	}
	return a.Usable(ctx, a.StoreURL, true)
}

// NoteVerdict remembers what doctor has found at a URL, for the next commands.
func (a *Access) NoteVerdict(u *url.URL, v doctor.Verdict) {
	if note := a.driver(u).NoteVerdict; note != nil {
		note(a, u, v == doctor.Safe)
	}
}

// DoctorTarget returns what doctor examines at a URL. The caller calls leave at the end.
func (a *Access) DoctorTarget(ctx context.Context, u *url.URL) (target *doctor.Target, leave func(), err error) {
	if examine := a.driver(u).Doctor; examine != nil {
		return examine(ctx, a, u)
	}
	st, err := a.OpenURL(ctx, u.String())
	if err != nil {
		return nil, nil, err
	}
	return doctor.Registers(st.URL, st.Store), func() { st.Close() }, nil
}

// Usable checks that the store of a URL can be read; with writes also that it passes the checks of a first write:
// some buckets are no place for locks, but keep objects. Usable returns the result of init for the store.
func (a *Access) Usable(ctx context.Context, raw string, writes bool) (result map[string]any, err error) {
	st, err := a.OpenURL(ctx, raw)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if _, _, err = st.Get(ctx, "lock/.holdfast"); errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	checked, ok := store.As[interface{ Verify(context.Context) error }](st.Store)
	if ok && writes && err == nil {
		err = checked.Verify(ctx)
	}
	return map[string]any{"store": st.URL, "usable": true}, err
}
