// Package endpoint says which service a client of the SDK talks to.
package endpoint

import (
	"cmp"
	"errors"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Base returns the endpoint of a client that has a resolver of the first kind of the SDK, and the given answer of
// this resolver. The SDK asks this resolver first. It uses the setting base only if the resolver knows no endpoint.
//
//lint:ignore SA1019 many programs still set such a resolver
func Base(answer aws.Endpoint, err error, base *string) *string {
	if errors.As(err, new(*aws.EndpointNotFoundError)) {
		return base
	}
	return &answer.URL
}

// IsAWS reports whether a client sends its requests to Amazon itself: no setting names another endpoint.
// The parameters base and resolver are from the options of the client. The parameter own is the resolver
// of the SDK.
func IsAWS(base *string, resolver, own any) bool {
	return (resolver == nil || reflect.TypeOf(resolver) == reflect.TypeOf(own)) && isAWS(base)
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
	return amazon().MatchString(u.Hostname())
}

// amazon matches the hosts of S3 and of DynamoDB. Servers of users can have other hosts below the same domains: for
// example, the host of a load balancer.
var amazon = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|\.)(s3(-[a-z]{2}[a-z-]+-[0-9]|-fips|-accelerate|-accesspoint|-accesspoint-fips|-external-1|express-[a-z0-9-]+)?|(dynamodb|ddb)(-fips)?)` +
		`(\.dualstack)?(\.[a-z]{2}[a-z-]+-[0-9])?(\.vpce)?\.(amazonaws\.com|amazonaws\.com\.cn|api\.aws)$`)
})

// Host returns the host of the endpoint that was set for a client, or "" if none was set.
func Host(base *string) string {
	u, err := url.Parse(*cmp.Or(base, new(string)))
	if err != nil {
		return ""
	}
	return u.Host
}

// ID returns an ID of a bucket or a table for the traits of a store with this scheme. All clients of one
// service and region get the same ID, and it contains no secret and no account. On Amazon, which has many
// endpoints for one bucket, the region identifies the service. On any other server, the endpoint and the
// region identify the service. If the client has another resolver and no endpoint, ID calls the function
// resolve.
func ID(scheme string, onAWS bool, base *string, region, name string, resolve func() (url.URL, error)) string {
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
	return cmp.Or(host+strings.TrimSuffix(u.EscapedPath(), "/"), "unknown")
}
