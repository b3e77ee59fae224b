package s3bucket

import (
	"context"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/internal/aws/endpoint"
)

// isAWS reports whether a client sends its requests to Amazon S3 itself.
func isAWS(o s3.Options) bool {
	return endpoint.IsAWS(o.BaseEndpoint, o.EndpointResolverV2, s3.NewDefaultEndpointResolverV2())
}

// bucketID returns the ID of a bucket; see [endpoint.ID].
func bucketID(o s3.Options, bucket string) string {
	return endpoint.ID("s3", isAWS(o), o.BaseEndpoint, o.Region, bucket, func() (url.URL, error) {
		p := s3.EndpointParameters{Bucket: &bucket, Region: &o.Region}
		e, err := o.EndpointResolverV2.ResolveEndpoint(context.Background(), p.WithDefaults())
		return e.URI, err
	})
}
