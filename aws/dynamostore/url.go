package dynamostore

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/aws/awsconfig"
	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
)

// Config is a parsed URL dynamodb://TABLE/PREFIX?PARAMETERS. The parameters:
//
//	endpoint    http://HOST:PORT or https://HOST:PORT of a server other than AWS
//	region      default: us-east-1 if there is an endpoint, else that of the AWS command
//	profile     profile in the files of the AWS command
//	anonymous   the client does not sign its requests
//	fips, dualstack   the kind of AWS endpoint
//	timeout     time limit of a request, such as 3s
//	unsafe      risks that the user accepts: conditions, global-table
//
// Credentials come from the sources of the AWS command, never from the URL.
type Config struct {
	Table  string
	Prefix string // without slashes at its ends; can be empty

	params  awsconfig.Params
	timeout time.Duration
	unsafe  []Risk
}

// ParseURL parses a URL. Its errors match store.ErrMisconfigured.
func ParseURL(raw string) (*Config, error) {
	u, err := awsconfig.Parse(raw, "dynamodb")
	if err != nil {
		return nil, err
	}
	c := &Config{Table: u.Host, Prefix: u.Prefix, params: u.Params(), timeout: u.Duration("timeout")}
	for _, name := range u.List("unsafe") {
		l := Risk(name)
		if l != ConditionsIgnored && l != GlobalTable {
			return nil, awsconfig.Wrong("the parameter unsafe of the store's URL can have the values %s and %s", ConditionsIgnored, GlobalTable)
		}
		c.unsafe = append(c.unsafe, l)
	}
	return c, u.Rest()
}

// Client returns a client of the SDK. It sends no request.
func (c *Config) Client(ctx context.Context) (*dynamodb.Client, error) {
	return dynamocall.NewClient(ctx, c.params)
}

// Options returns a copy of the given options. If the URL has a value for an option, the copy has
// the value of the URL.
func (c *Config) Options(opts *Options) *Options {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Prefix = c.Prefix
	if c.timeout != 0 {
		o.Timeout = c.timeout
	}
	o.Unsafe = append(append([]Risk(nil), o.Unsafe...), c.unsafe...)
	return &o
}

// Open returns a [Store] for the registers that a URL names; see [Config]. It sends no request.
func Open(ctx context.Context, rawURL string, opts *Options) (*Store, error) {
	c, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	client, err := c.Client(ctx)
	if err != nil {
		return nil, err
	}
	return New(client, c.Table, c.Options(opts))
}
