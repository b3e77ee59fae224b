// Package awsconfig reads the URL parameters that all AWS stores share, and configures the SDK with them.
package awsconfig

import (
	"context"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/holdfast-go/holdfast/internal/aws/transport"
	"github.com/holdfast-go/holdfast/internal/drivers/cloudurl"
	"github.com/holdfast-go/holdfast/store"
)

// URL is the parsed URL of a store.
type URL struct {
	*cloudurl.URL
	Prefix string // without slashes at its ends
}

// Parse parses the URL of a store. The host is the bucket or the table. The URL must have the given scheme. The
// errors of Parse and of the methods contain no value from the URL that could be a secret.
func Parse(raw, scheme string) (*URL, error) {
	u, err := cloudurl.Parse(raw)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != scheme:
		return nil, Wrong("the URL of the store does not begin with %s://", scheme)
	case u.Host == "":
		return nil, Wrong("the URL of the store is not of the form %s://NAME/PREFIX", scheme)
	}
	prefix, err := cloudurl.Prefix(u.Path)
	return &URL{u, prefix}, err
}

// Wrong returns an error in a URL with this text. It matches store.ErrMisconfigured.
func Wrong(format string, args ...any) error { return cloudurl.Wrong(format, args...) }

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
	p := Params{
		Endpoint:  u.String("endpoint"),
		Region:    u.String("region"),
		Profile:   u.String("profile"),
		Anonymous: u.Is("anonymous"),
		FIPS:      u.Is("fips"),
		DualStack: u.Is("dualstack"),
	}
	if p.Endpoint == "" {
		return p
	}
	e, err := url.Parse(p.Endpoint)
	switch {
	case err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "":
		u.Fail("the endpoint is not of the form http://HOST:PORT or https://HOST:PORT")
	case e.User != nil:
		u.Fail("the endpoint contains credentials; put them into a profile or the environment")
	case e.RawQuery != "" || e.Fragment != "":
		u.Fail("the endpoint contains parameters; escape the endpoint in the URL of the store")
	}
	return p
}

// Load loads the usual configuration of the SDK from files and environment variables. The settings in p
// override it.
func (p Params) Load(ctx context.Context) (aws.Config, error) {
	// The SDK would write warnings to standard error.
	opts := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{}), config.WithRegion(p.Region), config.WithSharedConfigProfile(p.Profile)}
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
