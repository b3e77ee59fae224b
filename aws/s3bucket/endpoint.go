package s3bucket

import (
	"context"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/internal/aws/endpoint"
)

// base returns the endpoint that is set for a client; nil if none is set.
func base(o s3.Options) *string {
	//lint:ignore SA1019 many programs still set it
	if old := o.EndpointResolver; old != nil {
		answer, err := old.ResolveEndpoint(o.Region, o.EndpointOptions)
		return endpoint.Base(answer, err, o.BaseEndpoint)
	}
	return o.BaseEndpoint
}

// isAWS reports whether a client sends its requests to Amazon S3 itself.
func isAWS(o s3.Options) bool {
	return endpoint.IsAWS(base(o), o.EndpointResolverV2, s3.NewDefaultEndpointResolverV2())
}

// bucketID returns the ID of a bucket; see [endpoint.ID].
func bucketID(o s3.Options, bucket string) string {
	return endpoint.ID("s3", isAWS(o), base(o), o.Region, bucket, func() (url.URL, error) {
		p := s3.EndpointParameters{Bucket: &bucket, Region: &o.Region}
		e, err := o.EndpointResolverV2.ResolveEndpoint(context.Background(), p.WithDefaults())
		return e.URI, err
	})
}
