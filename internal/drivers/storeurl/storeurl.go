// Package storeurl parses the URLs of stores. It refuses a URL that contains a password or a token.
// Neither its results nor its errors repeat the secret, so callers can print both.
package storeurl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrCredentials says that a URL contains a user, and perhaps a password.
var ErrCredentials = errors.New("it contains credentials; put them into the environment or a profile, as for the store's own tools (see holdfast help environment)")

// ErrWrong matches the errors of [Wrong].
var ErrWrong = errors.New("the URL is wrong")

// Wrong marks an error in a URL, which is found before a request is sent. It does not change the text. Nil stays
// nil.
func Wrong(err error) error {
	if err == nil {
		return nil
	}
	return wrong{err}
}

type wrong struct{ error }

func (e wrong) Unwrap() error        { return e.error }
func (e wrong) Is(target error) bool { return target == ErrWrong }

// hasCredentials reports whether a text contains USER:PASSWORD@, also within a URL.
func hasCredentials(text string) bool {
	_, rest, _ := strings.Cut(text, ":")
	return strings.Contains(rest, "@")
}

// Parse parses a URL. The URL must have no user, no fragment, and a valid query. No value in the query
// may have the form of a user with a password.
func Parse(raw string) (*url.URL, url.Values, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error would repeat what it takes for a port: a part of a password, say.
		return nil, nil, errors.New("it is not a valid URL; a character in it may have to be escaped, such as % as %25")
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
	for _, values := range query {
		if slices.ContainsFunc(values, hasCredentials) {
			return nil, nil, ErrCredentials
		}
	}
	return u, query, nil
}

// CheckParameters refuses a parameter that is not known, or that does not have one value. It reads the parameter
// timeout.
func CheckParameters(query url.Values, known []string, timeout *time.Duration) (err error) {
	for name, values := range query {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("it has an unknown parameter %s (known: %s)", Parameter(name, values), strings.Join(known, ", "))
		case len(values) > 1 || values[0] == "":
			return fmt.Errorf("the parameter %s must have one value", name)
		}
	}
	if text := query.Get("timeout"); text != "" {
		if *timeout, err = time.ParseDuration(text); err != nil || *timeout <= 0 {
			return errors.New("the parameter timeout must be a duration such as 3s")
		}
	}
	return nil
}

// Parameter returns the name of an unknown parameter for an error text. If the parameter has a value and
// the name is a word, it returns the name in quotes. If the parameter has no value, its name may itself
// be a secret, so Parameter does not return it.
func Parameter(name string, values []string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	if len(name) > 30 || strings.Trim(name, letters) != "" || len(values) == 0 || values[0] == "" {
		return "of the name that is given"
	}
	return strconv.Quote(name)
}
