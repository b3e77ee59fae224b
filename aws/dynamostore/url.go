package dynamostore

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
)

// FromURL returns what a URL names: a client of the SDK, the name of the table, and a copy of the
// options with the values of the URL. For the form of the URL see [Open]. FromURL sends no request.
func FromURL(ctx context.Context, rawURL string, opts *Options) (client *dynamodb.Client, table string, of *Options, err error) {
	u, client, err := dynamocall.ParseURL(ctx, rawURL, string(ConditionsIgnored), string(GlobalTable))
	if err != nil {
		return nil, "", nil, err
	}
	o := *cmp.Or(opts, &Options{})
	o.Prefix, o.Timeout, o.Unsafe = u.Prefix, cmp.Or(u.Timeout, o.Timeout), slices.Clip(o.Unsafe)
	for _, risk := range u.Unsafe {
		o.Unsafe = append(o.Unsafe, Risk(risk))
	}
	return client, u.Table, &o, nil
}

// Open returns a [Store] for the registers that a URL dynamodb://TABLE/PREFIX?PARAMETERS names. If
// the URL has a value for an option, it replaces the value in opts. Open sends no request. Errors in
// the URL match store.ErrMisconfigured. The parameters:
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
func Open(ctx context.Context, rawURL string, opts *Options) (*Store, error) {
	client, table, opts, err := FromURL(ctx, rawURL, opts)
	if err != nil {
		return nil, err
	}
	return New(client, table, opts)
}
