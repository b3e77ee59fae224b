package dynamocall_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	transport "github.com/aws/smithy-go/endpoints"

	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
)

// own is a resolver of the user's own.
type own struct{ err error }

func (r own) ResolveEndpoint(context.Context, dynamodb.EndpointParameters) (transport.Endpoint, error) {
	return transport.Endpoint{URI: url.URL{Scheme: "https", Host: "Own.example:443"}}, r.err
}

func TestID(t *testing.T) {
	for _, c := range []struct {
		base     string
		resolver dynamodb.EndpointResolverV2
		region   string
		want     string // after the scheme
	}{
		{"", nil, "eu-west-1", "aws/eu-west-1/b"},
		{"https://dynamodb.eu-west-1.amazonaws.com", nil, "eu-west-1", "aws/eu-west-1/b"},
		{"http://localhost:9000", nil, "us-east-1", "localhost:9000/us-east-1/b"},
		{"http://LOCALHOST:9000/", nil, "us-east-1", "localhost:9000/us-east-1/b"},
		{"https://user:secret@minio.example:443/s3?key=secret", nil, "x", "minio.example/s3/x/b"},
		{"https://minio.example/one/", nil, "x", "minio.example/one/x/b"},
		{"http://[::1]:80", nil, "x", "::1/x/b"},
		{"", own{}, "x", "own.example/x/b"},
		{"", own{errors.New("no endpoint")}, "x", "unknown/x/b"},
	} {
		base := &c.base
		if c.base == "" {
			base = nil
		}
		o := dynamodb.Options{BaseEndpoint: base, EndpointResolverV2: c.resolver, Region: c.region}
		if got := dynamocall.ID(o, "b"); got != "dynamodb://"+c.want {
			t.Errorf("%s in %s: %s, want %s", c.base, c.region, got, c.want)
		}
		if got := dynamocall.IsAWS(o); got != strings.HasPrefix(c.want, "aws/") {
			t.Errorf("%s is Amazon's: %v", c.base, got)
		}
	}
}
