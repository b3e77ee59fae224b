// Package storeurl takes the URLs of stores apart. A password or a token that was put
// into one, by mistake, is refused here and not hidden later: neither what is returned
// nor an error repeats it, so that nothing has to be careful about printing them.
package storeurl

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// ErrCredentials says that a URL contains a user, and perhaps a password.
var ErrCredentials = errors.New("it contains credentials; they belong into the environment or into a profile, as for the store's own tools")

// Parse takes a URL apart. It has no user, no fragment, and a query that can be read.
func Parse(raw string) (*url.URL, url.Values, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error would repeat what it takes for a port: a part of a password, say.
		return nil, nil, errors.New("it is not a URL: is a part of it to be escaped?")
	}
	first, _, _ := strings.Cut(u.Opaque, "/")
	user, _, at := strings.Cut(first, "@")
	if u.User != nil || strings.Contains(u.Host, "@") || at && strings.Contains(user, ":") {
		return nil, nil, ErrCredentials
	}
	if u.Fragment != "" || strings.Contains(raw, "#") {
		return nil, nil, errors.New("it contains a #; in a name write %23")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, errors.New("its parameters cannot be read")
	}
	return u, query, nil
}

// Parameter is the name of a parameter that nobody knows, as an error may repeat it:
// quoted if it is a word with a value. What has no value may itself be one, a secret
// even, and the values always are.
func Parameter(name string, values []string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	if len(name) > 30 || strings.Trim(name, letters) != "" || len(values) == 0 || values[0] == "" {
		return "of the name that is given"
	}
	return strconv.Quote(name)
}
