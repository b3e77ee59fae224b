// Package awsconfig reads the URL parameters that all AWS stores share, and configures the SDK with them.
package awsconfig

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/holdfast-go/holdfast/internal/aws/transport"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/store"
)

// URL is the parsed URL of a store. A method that reads a parameter also removes it from the URL.
// [URL.Rest] refuses the remaining parameters, because they are unknown.
type URL struct {
	Host   string // bucket or table
	Prefix string // without slashes at its ends
	query  url.Values
	err    error
}

// Parse parses the URL of a store. The URL must have the given scheme. The errors of Parse and of the
// methods contain no value from the URL that could be a secret.
func Parse(raw, scheme string) (*URL, error) {
	u, query, err := storeurl.Parse(raw)
	switch {
	case err != nil:
		return nil, Wrong("the URL of the store: %v", err)
	case u.Scheme != scheme:
		return nil, Wrong("the URL of the store does not begin with %s://", scheme)
	case u.Host == "":
		return nil, Wrong("the URL of the store is not of the form %s://NAME/PREFIX", scheme)
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		if err := store.CheckKey(prefix); err != nil {
			return nil, Wrong("the prefix in the URL of the store: %v", err)
		}
	}
	return &URL{Host: u.Host, Prefix: prefix, query: query}, nil
}

// Wrong returns an error in a URL with this text. It matches store.ErrMisconfigured.
func Wrong(format string, args ...any) error {
	return storeurl.Wrong(fmt.Errorf("%w: %s", store.ErrMisconfigured, fmt.Sprintf(format, args...)))
}

func (u *URL) fail(format string, args ...any) {
	if u.err == nil {
		u.err = Wrong(format, args...)
	}
}

// String reads a parameter of the URL. If the URL does not have the parameter, the result is empty.
func (u *URL) String(name string) string {
	values := u.query[name]
	delete(u.query, name)
	if len(values) > 1 {
		u.fail("the parameter %s is given twice in the URL of the store", name)
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
		u.fail("the parameter %s of the store's URL must be true or false", name)
	}
	return &b
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
		u.fail("the parameter %s of the store's URL must be a duration such as 5s", name)
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
		u.fail("the store has no parameter %s", storeurl.Parameter(name, values))
	}
	return u.err
}

// Params are the URL parameters that all AWS stores share.
type Params struct {
	Endpoint  string
	Region    string
	Profile   string
	Anonymous bool
	FIPS      bool
	DualStack bool
}

// Params reads the parameters endpoint, region, profile, anonymous, fips and dualstack of the URL.
func (u *URL) Params() Params {
	is := func(b *bool) bool { return b != nil && *b }
	p := Params{
		Endpoint:  u.String("endpoint"),
		Region:    u.String("region"),
		Profile:   u.String("profile"),
		Anonymous: is(u.Bool("anonymous")),
		FIPS:      is(u.Bool("fips")),
		DualStack: is(u.Bool("dualstack")),
	}
	if p.Endpoint == "" {
		return p
	}
	e, err := url.Parse(p.Endpoint)
	switch {
	case err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "":
		u.fail("the endpoint is not of the form http://HOST:PORT or https://HOST:PORT")
	case e.User != nil:
		u.fail("the endpoint contains credentials; put them into a profile or the environment")
	case e.RawQuery != "" || e.Fragment != "":
		u.fail("the endpoint contains parameters; escape the endpoint in the URL of the store")
	}
	return p
}

// Load loads the usual configuration of the SDK from files and environment variables. The settings in p
// override it.
func (p Params) Load(ctx context.Context) (aws.Config, error) {
	// The SDK would write warnings to standard error.
	opts := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if p.Region != "" {
		opts = append(opts, config.WithRegion(p.Region))
	}
	if p.Profile != "" {
		opts = append(opts, config.WithSharedConfigProfile(p.Profile))
	}
	if p.Anonymous {
		opts = append(opts, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	if p.FIPS {
		opts = append(opts, config.WithUseFIPSEndpoint(aws.FIPSEndpointStateEnabled))
	}
	if p.DualStack {
		opts = append(opts, config.WithUseDualStackEndpoint(aws.DualStackEndpointStateEnabled))
	}
	// Whether there are certificates of the user's own only the SDK knows, and it puts
	// them into no client but its own.
	cfg, err := config.LoadDefaultConfig(ctx, append(opts, config.WithCredentialsProvider(aws.AnonymousCredentials{}))...)
	if err == nil && cfg.HTTPClient == nil {
		opts = append(opts, config.WithHTTPClient(transport.New()))
	}
	if err == nil {
		cfg, err = config.LoadDefaultConfig(ctx, opts...)
	}
	if err != nil {
		return aws.Config{}, fmt.Errorf("%w: configuration of AWS: %v", store.ErrMisconfigured, err)
	}
	return cfg, nil
}

// BaseEndpoint returns the endpoint for the options of a client, or current if the URL has no endpoint.
// Set the result in the options of the client. In the configuration of the SDK, environment variables
// would override it.
func (p Params) BaseEndpoint(current *string) *string {
	if p.Endpoint == "" {
		return current
	}
	return &p.Endpoint
}

// Region returns the region for the options of a client. If the URL has an endpoint but no region, it
// returns us-east-1, because other servers accept any region.
func Region(region string, endpoint *string) string {
	if region == "" && endpoint != nil {
		return "us-east-1"
	}
	return region
}

// CheckRegion returns an error if a client has no region.
func CheckRegion(region string) error {
	if region == "" {
		return Wrong("no region: add region=... to the URL of the store, or set AWS_REGION")
	}
	return nil
}
