package dynamocall_test

//lint:file-ignore SA1019 many programs still set a resolver of the first kind

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	transport "github.com/aws/smithy-go/endpoints"

	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
)

type ownResolver struct{}

func (ownResolver) ResolveEndpoint(context.Context, dynamodb.EndpointParameters) (transport.Endpoint, error) {
	return transport.Endpoint{URI: url.URL{Scheme: "https", Host: "own.example"}}, nil
}

// The rule is tested in package endpoint. This test shows which options it gets.
func TestID(t *testing.T) {
	o := dynamodb.Options{Region: "x", EndpointResolverV2: dynamodb.NewDefaultEndpointResolverV2()}
	if got := dynamocall.ID(o, "b"); got != "dynamodb://aws/x/b" || !dynamocall.IsAWS(o) {
		t.Errorf("with the resolver of the SDK: %s", got)
	}
	o.EndpointResolverV2 = ownResolver{}
	if got := dynamocall.ID(o, "b"); got != "dynamodb://own.example/x/b" || dynamocall.IsAWS(o) {
		t.Errorf("with another resolver: %s", got)
	}
	for url, want := range map[string]string{"http://old.example:9000": "dynamodb://old.example:9000/x/b", "https://dynamodb.eu-west-1.amazonaws.com": "dynamodb://aws/x/b", "": "dynamodb://aws/x/b"} {
		old := aws.EndpointResolverWithOptionsFunc(func(string, string, ...any) (aws.Endpoint, error) {
			if url == "" {
				return aws.Endpoint{}, &aws.EndpointNotFoundError{}
			}
			return aws.Endpoint{URL: url}, nil
		})
		o := dynamodb.NewFromConfig(aws.Config{Region: "x", EndpointResolverWithOptions: old}).Options()
		if got := dynamocall.ID(o, "b"); got != want || dynamocall.IsAWS(o) != strings.Contains(want, "//aws/") {
			t.Errorf("with a resolver of the first kind that answers %q: %s", url, got)
		}
	}
}
