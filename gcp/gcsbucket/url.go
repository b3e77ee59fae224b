package gcsbucket

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/internal/drivers/cloudurl"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/object"
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
	u, err := cloudurl.Parse(raw)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "gs" || u.Host == "":
		return nil, wrong("the URL of the store is not of the form gs://BUCKET/PREFIX")
	}
	c := &Config{Bucket: u.Host}
	if c.Prefix, err = cloudurl.Prefix(u.Path); err != nil {
		return nil, err
	}
	c.options = Options{
		Endpoint:    u.String("endpoint"),
		Anonymous:   u.Is("anonymous"),
		UserProject: u.String("user_project"),
		Timeout:     u.Duration("timeout"),
	}
	if c.unsafe, err = object.ParseAbilities(u.String("unsafe")); err != nil {
		return nil, wrong("the parameter unsafe of the store's URL: %v", err)
	}
	if err := u.Rest(); err != nil {
		return nil, err
	}
	check := c.options
	_, err = check.check()
	return c, err
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
