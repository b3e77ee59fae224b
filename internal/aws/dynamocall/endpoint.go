package dynamocall

import (
	"context"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/aws/endpoint"
)

// base returns the endpoint that is set for a client; nil if none is set.
func base(o dynamodb.Options) *string {
	//lint:ignore SA1019 many programs still set it
	if old := o.EndpointResolver; old != nil {
		answer, err := old.ResolveEndpoint(o.Region, o.EndpointOptions)
		return endpoint.Base(answer, err, o.BaseEndpoint)
	}
	return o.BaseEndpoint
}

// IsAWS reports whether a client sends its requests to Amazon DynamoDB itself.
func IsAWS(o dynamodb.Options) bool {
	return endpoint.IsAWS(base(o), o.EndpointResolverV2, dynamodb.NewDefaultEndpointResolverV2())
}

// ID returns the ID of a table; see [endpoint.ID].
func ID(o dynamodb.Options, table string) string {
	return endpoint.ID("dynamodb", IsAWS(o), base(o), o.Region, table, func() (url.URL, error) {
		p := dynamodb.EndpointParameters{Region: &o.Region}
		e, err := o.EndpointResolverV2.ResolveEndpoint(context.Background(), p.WithDefaults())
		return e.URI, err
	})
}
