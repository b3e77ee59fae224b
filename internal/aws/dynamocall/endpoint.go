package dynamocall

import (
	"context"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/aws/endpoint"
)

// IsAWS reports whether a client sends its requests to Amazon DynamoDB itself.
func IsAWS(o dynamodb.Options) bool {
	return endpoint.IsAWS(o.BaseEndpoint, o.EndpointResolverV2, dynamodb.NewDefaultEndpointResolverV2())
}

// ID returns the ID of a table; see [endpoint.ID].
func ID(o dynamodb.Options, table string) string {
	return endpoint.ID("dynamodb", IsAWS(o), o.BaseEndpoint, o.Region, table, func() (url.URL, error) {
		p := dynamodb.EndpointParameters{Region: &o.Region}
		e, err := o.EndpointResolverV2.ResolveEndpoint(context.Background(), p.WithDefaults())
		return e.URI, err
	})
}
