// Package cloudurl parses the URLs of stores in clouds. Its errors contain no value from a URL that could be a
// secret.
package cloudurl

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/store"
)

// URL is the parsed URL of a store. A method that reads a parameter also removes it from the URL.
// [URL.Rest] refuses the remaining parameters, because they are unknown.
type URL struct {
	*url.URL
	query url.Values
	err   error
}

// Parse parses the URL of a store. The caller checks the scheme, the host and the path.
func Parse(raw string) (*URL, error) {
	u, query, err := storeurl.Parse(raw)
	if err != nil {
		return nil, Wrong("the URL of the store: %v", err)
	}
	return &URL{URL: u, query: query}, nil
}

// Prefix returns the prefix of the registers in the path of a URL, without slashes at its ends. It can be empty.
func Prefix(path string) (string, error) {
	prefix := strings.Trim(path, "/")
	if _, err := store.Below(prefix); err != nil {
		return "", Wrong("the prefix in the URL of the store: %v", err)
	}
	return prefix, nil
}

// Wrong returns an error in a URL with this text. It matches store.ErrMisconfigured.
func Wrong(format string, args ...any) error {
	return storeurl.Wrong(fmt.Errorf("%w: %s", store.ErrMisconfigured, fmt.Sprintf(format, args...)))
}

// Fail notes an error for [URL.Rest].
func (u *URL) Fail(format string, args ...any) {
	if u.err == nil {
		u.err = Wrong(format, args...)
	}
}

// Has reports whether the URL has a parameter that no method has read.
func (u *URL) Has(name string) bool { return u.query.Has(name) }

// String reads a parameter of the URL. If the URL does not have the parameter, the result is empty.
func (u *URL) String(name string) string {
	values := u.query[name]
	delete(u.query, name)
	if len(values) > 1 {
		u.Fail("the parameter %s is given twice in the URL of the store", name)
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Bool reads a parameter of the URL: true, false, 1 or 0. A parameter without a value means true. If the
// URL does not have the parameter, the result is nil.
func (u *URL) Bool(name string) *bool {
	if !u.query.Has(name) {
		return nil
	}
	s := u.String(name)
	b, err := strconv.ParseBool(s)
	if s == "" {
		b, err = true, nil
	}
	if err != nil {
		u.Fail("the parameter %s of the store's URL must be true or false", name)
	}
	return &b
}

// Is reports whether [URL.Bool] of a parameter is true.
func (u *URL) Is(name string) bool {
	b := u.Bool(name)
	return b != nil && *b
}

// Duration reads a parameter of the URL, such as 5s. If the URL does not have the parameter, the result
// is 0.
func (u *URL) Duration(name string) time.Duration {
	s := u.String(name)
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		u.Fail("the parameter %s of the store's URL must be a duration such as 5s", name)
	}
	return d
}

// List reads a parameter of the URL: a list of words, separated by commas.
func (u *URL) List(name string) []string {
	return strings.FieldsFunc(u.String(name), func(r rune) bool { return r == ',' })
}

// Rest returns the first error in the parameters. It also returns an error if the URL has a parameter
// that no method has read.
func (u *URL) Rest() error {
	for name, values := range u.query {
		u.Fail("the store has no parameter %s", storeurl.Parameter(name, values))
	}
	return u.err
}
