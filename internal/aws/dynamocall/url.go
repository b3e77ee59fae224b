package dynamocall

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/aws/awsconfig"
)

// URL is a parsed URL dynamodb://TABLE/PREFIX?PARAMETERS.
type URL struct {
	Table   string
	Prefix  string        // without slashes at its ends; can be empty
	Timeout time.Duration // parameter timeout; 0 if the URL does not have it
	Unsafe  []string      // parameter unsafe: the risks that the user accepts
}

// ParseURL parses a URL, in which the user can accept these risks. It returns a client of the SDK with the
// other parameters of the URL, and sends nothing.
func ParseURL(ctx context.Context, raw string, risks ...string) (*URL, *dynamodb.Client, error) {
	parsed, err := awsconfig.Parse(raw, "dynamodb")
	if err != nil {
		return nil, nil, err
	}
	params := parsed.Params()
	u := &URL{parsed.Host, parsed.Prefix, parsed.Duration("timeout"), parsed.List("unsafe")}
	if err := parsed.Rest(); err != nil {
		return nil, nil, err
	}
	for _, risk := range u.Unsafe {
		if !slices.Contains(risks, risk) {
			return nil, nil, awsconfig.Wrong("the parameter unsafe of the store's URL has an unknown value; allowed: %s", strings.Join(risks, ", "))
		}
	}
	cfg, err := params.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.BaseEndpoint = params.BaseEndpoint(o.BaseEndpoint)
		o.Region = awsconfig.Region(o.Region, o.BaseEndpoint)
	})
	return u, client, awsconfig.CheckRegion(client.Options().Region)
}
