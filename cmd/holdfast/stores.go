package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/storeurl"
	"github.com/holdfast-go/holdfast/store"
)

// opened is a store together with what a command needs to use it.
type opened struct {
	store.Store
	io.Closer
	url   string // as people write it, without parameters; different for different stores
	again string // with its parameters; opens the store again
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
	st, err := schemeOf(u.Scheme).open(ctx, a, u, raw == "")
	if err != nil {
		return opened{}, err
	}
	a.opened, st.again = st.url, escaped(st.url)
	if u.RawQuery != "" {
		st.again += "?" + u.Query().Encode()
	}
	return st, nil
}

// escaped returns the URL of a store in the form that [app.parseStore] reads. People are shown the
// path as it is, with any characters.
func escaped(shown string) string {
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

// parseStore takes the URL of a store apart, or of the default store if raw is empty.
// Neither its result nor its errors hold a secret, whatever raw holds.
func (a *app) parseStore(raw string) (*url.URL, error) {
	if a.storeErr != nil {
		return nil, a.storeErr
	}
	if raw == "" {
		if a.storeEmpty {
			return nil, exit.Usagef("--store or %[1]s is empty: name a store; or remove both to use the directory of this user's locks", variableOf("store"))
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
	if schemeOf(scheme) == nil {
		return nil, unknownStore(raw)
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
		return "", exit.Usagef("there is no home directory for this user's locks (%w): name a store with --store file:PATH", err)
	}
	return filepath.Join(home, ".local", "state", "holdfast"), nil
}

// remote is a store that needs no closing.
func remote(st store.Store) opened {
	return opened{Store: st, Closer: io.NopCloser(nil), url: store.TraitsOf(st).Name}
}
