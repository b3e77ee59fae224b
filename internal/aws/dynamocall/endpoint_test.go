package dynamocall_test

import (
	"context"
	"net/url"
	"testing"

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
}
