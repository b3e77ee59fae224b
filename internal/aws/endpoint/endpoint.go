// Package endpoint says which service a client of the SDK talks to.
package endpoint

import (
	"context"
	"net/url"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// IsS3 reports whether a client sends its requests to Amazon S3 itself: no setting names another
// endpoint.
func IsS3(o s3.Options) bool {
	return standard(o.EndpointResolverV2, s3.NewDefaultEndpointResolverV2()) && isAWS(o.BaseEndpoint)
}

// IsDynamoDB reports whether a client talks to Amazon DynamoDB itself.
func IsDynamoDB(o dynamodb.Options) bool {
	return standard(o.EndpointResolverV2, dynamodb.NewDefaultEndpointResolverV2()) && isAWS(o.BaseEndpoint)
}

// standard reports whether a resolver is none, or the SDK's own.
func standard(resolver, own any) bool {
	return resolver == nil || reflect.TypeOf(resolver) == reflect.TypeOf(own)
}

// isAWS reports whether base, the endpoint that was set for a client, is Amazon's; nil
// means that none was set.
func isAWS(base *string) bool {
	if base == nil {
		return true
	}
	u, err := url.Parse(*base)
	if err != nil || u.Scheme != "https" {
		return false
	}
	for _, domain := range []string{".amazonaws.com", ".amazonaws.com.cn", ".api.aws"} {
		if strings.HasSuffix(u.Hostname(), domain) {
			return true
		}
	}
	return false
}

// Host returns the host of the endpoint that was set for a client, and "" if none was.
func Host(base *string) string {
	if base == nil {
		return ""
	}
	u, err := url.Parse(*base)
	if err != nil {
		return ""
	}
	return u.Host
}

// S3ID returns an ID of a bucket for the traits of a store with this scheme. All clients of one
// service and region get the same ID, and it contains no secret. On Amazon S3, which has many
// endpoints for one bucket, the region identifies the service. On any other server, the endpoint
// and the region identify the service.
func S3ID(scheme string, o s3.Options, bucket string) string {
	return id(scheme, IsS3(o), o.BaseEndpoint, o.Region, bucket, func() (url.URL, error) {
		p := s3.EndpointParameters{Bucket: &bucket, Region: &o.Region}
		e, err := o.EndpointResolverV2.ResolveEndpoint(context.Background(), p.WithDefaults())
		return e.URI, err
	})
}

// DynamoDBID returns an ID of a table, like [S3ID]. The ID does not contain the account.
func DynamoDBID(o dynamodb.Options, table string) string {
	return id("dynamodb", IsDynamoDB(o), o.BaseEndpoint, o.Region, table, func() (url.URL, error) {
		p := dynamodb.EndpointParameters{Region: &o.Region}
		e, err := o.EndpointResolverV2.ResolveEndpoint(context.Background(), p.WithDefaults())
		return e.URI, err
	})
}

// id puts an ID together. Where the client has a resolver of its own and no endpoint,
// resolve asks it.
func id(scheme string, onAWS bool, base *string, region, name string, resolve func() (url.URL, error)) string {
	host := "aws"
	switch {
	case onAWS:
	case base != nil:
		host = place(*base)
	default:
		host = "unknown"
		if u, err := resolve(); err == nil {
			host = place(u.String())
		}
	}
	return scheme + "://" + host + "/" + region + "/" + name
}

// place returns host, port and path of a URL, in one way of writing.
func place(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "unknown"
	}
	port := u.Port()
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		port = ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if port != "" {
		host += ":" + port
	}
	return host + strings.TrimSuffix(u.EscapedPath(), "/")
}
