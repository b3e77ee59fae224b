package gcsbucket

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Config is a parsed URL gs://BUCKET/PREFIX?PARAMETERS. The parameters:
//
//	endpoint      http://HOST:PORT or https://HOST:PORT of another server
//	anonymous     the requests carry no credentials; an endpoint with http:// needs this
//	user_project  project that pays for the requests
//	timeout       time limit of a request, such as 5s
//	unsafe        abilities, separated by commas, that Holdfast uses although the server failed
//	              their test: put-if-absent, put-if-match, ...
//
// Credentials come from the sources that the package comment names, never from the URL.
type Config struct {
	Bucket string
	Prefix string // without slashes at its ends; can be empty

	options Options
	unsafe  []object.Ability
}

// ParseURL parses a URL. Its errors match store.ErrMisconfigured, and contain no value from the URL that
// could be a secret.
func ParseURL(raw string) (_ *Config, err error) {
	defer func() { err = storeurl.Wrong(err) }()
	u, query, err := storeurl.Parse(raw)
	switch {
	case err != nil:
		return nil, wrong("the URL of the store: %v", err)
	case u.Scheme != "gs" || u.Host == "":
		return nil, wrong("the URL of the store is not of the form gs://BUCKET/PREFIX")
	}
	c := &Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	if c.Prefix != "" {
		if err := store.CheckKey(c.Prefix); err != nil {
			return nil, wrong("the prefix in the URL of the store: %v", err)
		}
	}
	for name, values := range query {
		if len(values) > 1 {
			return nil, wrong("the parameter %s is given twice in the URL of the store", storeurl.Parameter(name, values))
		}
		if err := c.set(name, values[0]); err != nil {
			return nil, err
		}
	}
	check := c.options
	_, err = check.check()
	return c, err
}

func (c *Config) set(name, value string) (err error) {
	o := &c.options
	switch name {
	case "endpoint":
		o.Endpoint = value
	case "user_project":
		o.UserProject = value
	case "anonymous":
		if o.Anonymous, err = strconv.ParseBool(cmp.Or(value, "true")); err != nil {
			return wrong("the parameter anonymous of the store's URL must be true or false")
		}
	case "timeout":
		if o.Timeout, err = time.ParseDuration(value); err != nil || o.Timeout <= 0 {
			return wrong("the parameter timeout of the store's URL must be a duration such as 5s")
		}
	case "unsafe":
		if c.unsafe, err = object.ParseAbilities(value); err != nil {
			return wrong("the parameter unsafe of the store's URL: %v", err)
		}
	default:
		return wrong("the store has no parameter %s", storeurl.Parameter(name, url.Values{name: {value}}[name]))
	}
	return nil
}

// Unsafe returns the abilities that the URL names in its parameter "unsafe".
func (c *Config) Unsafe() []object.Ability { return c.unsafe }

// Open returns the bucket of the URL. If the URL has a value for an option, this value counts. Open
// ignores the abilities of [Config.Unsafe]: the caller decides whether to use them. Like [New], Open sends
// no request to the bucket.
func (c *Config) Open(ctx context.Context, opts *Options) (*Bucket, error) {
	o := *cmp.Or(opts, &Options{})
	o.Endpoint = cmp.Or(c.options.Endpoint, o.Endpoint)
	o.UserProject = cmp.Or(c.options.UserProject, o.UserProject)
	o.Timeout = cmp.Or(c.options.Timeout, o.Timeout)
	o.Anonymous = o.Anonymous || c.options.Anonymous
	if o.ProbePrefix == "" && c.Prefix != "" {
		o.ProbePrefix = c.Prefix + "/" + DefaultProbePrefix // there are rights to write
	}
	return New(ctx, c.Bucket, &o)
}

// Open returns the bucket that a URL names, and the prefix in the URL. The caller adds the prefix to its
// keys. See [Config] for the parameters.
func Open(ctx context.Context, rawURL string, opts *Options) (b *Bucket, prefix string, err error) {
	c, err := ParseURL(rawURL)
	if err != nil {
		return nil, "", err
	}
	o := *cmp.Or(opts, &Options{})
	o.AssumeAbilities = slices.Concat(o.AssumeAbilities, c.unsafe)
	b, err = c.Open(ctx, &o)
	return b, c.Prefix, err
}
