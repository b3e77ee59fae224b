package dynamotable

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/aws/awsconfig"
	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
)

// Config is a parsed URL dynamodb://TABLE?PARAMETERS. The parameters:
//
//	endpoint    http://HOST:PORT or https://HOST:PORT of a server other than AWS
//	region      default: us-east-1 if there is an endpoint, else that of the AWS command
//	profile     profile in the files of the AWS command
//	anonymous   the client does not sign its requests
//	fips, dualstack   the kind of AWS endpoint
//	timeout     time limit of a request, such as 10s
//	unsafe      risk that the user accepts: global-table
//
// Credentials come from the sources of the AWS command, never from the URL.
type Config struct {
	Table string

	params      awsconfig.Params
	timeout     time.Duration
	globalTable bool
}

// ParseURL parses a URL. Its errors match store.ErrMisconfigured.
func ParseURL(raw string) (*Config, error) {
	u, err := awsconfig.Parse(raw, "dynamodb")
	if err != nil {
		return nil, err
	}
	if u.Prefix != "" {
		return nil, awsconfig.Wrong("the URL of a table of items must have the form dynamodb://TABLE, without a prefix")
	}
	c := &Config{Table: u.Host, params: u.Params(), timeout: u.Duration("timeout")}
	for _, name := range u.List("unsafe") {
		if name != "global-table" {
			return nil, awsconfig.Wrong("the parameter unsafe of the table's URL can only be global-table")
		}
		c.globalTable = true
	}
	return c, u.Rest()
}

// Client returns a client of the SDK. It sends no request.
func (c *Config) Client(ctx context.Context) (*dynamodb.Client, error) {
	return dynamocall.NewClient(ctx, c.params)
}

// Options returns a copy of the given options. The values of the URL replace the values of the
// options.
func (c *Config) Options(opts *Options) *Options {
	var o Options
	if opts != nil {
		o = *opts
	}
	if c.timeout != 0 {
		o.Timeout = c.timeout
	}
	o.GlobalTable = o.GlobalTable || c.globalTable
	return &o
}

// Open returns the table that a URL names; see [Config]. It sends no request.
func Open(ctx context.Context, rawURL string, opts *Options) (*Table, error) {
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
