package s3bucket_test

//lint:file-ignore SA1019 many programs still set a resolver of the first kind

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	transport "github.com/aws/smithy-go/endpoints"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
)

type ownResolver struct{}

func (ownResolver) ResolveEndpoint(context.Context, s3.EndpointParameters) (transport.Endpoint, error) {
	return transport.Endpoint{URI: url.URL{Scheme: "https", Host: "own.example"}}, nil
}

// The rule is tested in package endpoint. This test shows which options it gets.
func TestID(t *testing.T) {
	o := s3.Options{Region: "x", EndpointResolverV2: s3.NewDefaultEndpointResolverV2()}
	if got := s3bucket.BucketID(o, "b"); got != "s3://aws/x/b" || !s3bucket.IsAWS(o) {
		t.Errorf("with the resolver of the SDK: %s", got)
	}
	o.EndpointResolverV2 = ownResolver{}
	if got := s3bucket.BucketID(o, "b"); got != "s3://own.example/x/b" || s3bucket.IsAWS(o) {
		t.Errorf("with another resolver: %s", got)
	}
	for url, want := range map[string]string{"http://old.example:9000": "s3://old.example:9000/x/b", "https://s3.eu-west-1.amazonaws.com": "s3://aws/x/b", "": "s3://aws/x/b"} {
		old := aws.EndpointResolverWithOptionsFunc(func(string, string, ...any) (aws.Endpoint, error) {
			if url == "" {
				return aws.Endpoint{}, &aws.EndpointNotFoundError{}
			}
			return aws.Endpoint{URL: url}, nil
		})
		o := s3.NewFromConfig(aws.Config{Region: "x", EndpointResolverWithOptions: old}).Options()
		if got := s3bucket.BucketID(o, "b"); got != want || s3bucket.IsAWS(o) != strings.Contains(want, "//aws/") {
			t.Errorf("with a resolver of the first kind that answers %q: %s", url, got)
		}
	}
}
