package dynamotable

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/aws/awsconfig"
	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
)

// FromURL returns what a URL names: a client of the SDK, the name of the table, and a copy of the
// options with the values of the URL. For the form of the URL see [Open]. FromURL sends no request.
func FromURL(ctx context.Context, rawURL string, opts *Options) (client *dynamodb.Client, table string, of *Options, err error) {
	u, client, err := dynamocall.ParseURL(ctx, rawURL, "global-table")
	if err != nil {
		return nil, "", nil, err
	}
	if u.Prefix != "" {
		return nil, "", nil, awsconfig.Wrong("the URL of a table of items must have the form dynamodb://TABLE, without a prefix")
	}
	o := *cmp.Or(opts, &Options{})
	o.Timeout, o.GlobalTable = cmp.Or(u.Timeout, o.Timeout), o.GlobalTable || len(u.Unsafe) > 0
	return client, u.Table, &o, nil
}

// Open returns the table that a URL dynamodb://TABLE?PARAMETERS names. If the URL has a value for
// an option, it replaces the value in opts. Open sends no request. Errors in the URL match
// store.ErrMisconfigured. The parameters:
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
func Open(ctx context.Context, rawURL string, opts *Options) (*Table, error) {
	client, table, opts, err := FromURL(ctx, rawURL, opts)
	if err != nil {
		return nil, err
	}
	return New(client, table, opts)
}
