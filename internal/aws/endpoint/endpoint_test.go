package endpoint_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/aws/endpoint"
)

// sdk and own are resolvers: that of the SDK, and one of the user.
type (
	sdk struct{}
	own struct{ err error }
)

func TestID(t *testing.T) {
	for _, c := range []struct {
		base     string
		resolver any
		region   string
		want     string // after the scheme
	}{
		{"", nil, "eu-west-1", "aws/eu-west-1/b"},
		{"", sdk{}, "eu-west-1", "aws/eu-west-1/b"},
		{"https://s3.dualstack.eu-west-1.amazonaws.com", nil, "eu-west-1", "aws/eu-west-1/b"},
		{"https://dynamodb.eu-west-1.amazonaws.com", nil, "eu-west-1", "aws/eu-west-1/b"},
		{"https://s3.amazonaws.com", nil, "x", "aws/x/b"},
		{"https://b.s3-us-west-2.amazonaws.com", nil, "x", "aws/x/b"},
		{"https://s3.cn-north-1.amazonaws.com.cn", nil, "x", "aws/x/b"},
		{"https://b.vpce-1a-2b.s3.us-gov-west-1.vpce.amazonaws.com", nil, "x", "aws/x/b"},
		{"https://s3express-use1-az4.us-east-1.amazonaws.com", nil, "x", "aws/x/b"},
		{"https://ap-123456789012.s3-accesspoint.eu-west-1.amazonaws.com", nil, "x", "aws/x/b"},
		{"https://123456789012.ddb.us-east-1.amazonaws.com", nil, "x", "aws/x/b"},
		{"https://dynamodb.us-east-1.api.aws", nil, "x", "aws/x/b"},
		{"https://s3-1234.us-east-1.elb.amazonaws.com", nil, "x", "s3-1234.us-east-1.elb.amazonaws.com/x/b"},
		{"https://s3-1234.elb.us-east-1.amazonaws.com", nil, "x", "s3-1234.elb.us-east-1.amazonaws.com/x/b"},
		{"https://ec2-203-0-113-1.compute-1.amazonaws.com:9000", nil, "x", "ec2-203-0-113-1.compute-1.amazonaws.com:9000/x/b"},
		{"https://vpce-1.vpce-svc-2.us-east-1.vpce.amazonaws.com", nil, "x", "vpce-1.vpce-svc-2.us-east-1.vpce.amazonaws.com/x/b"},
		{"https://mys3.amazonaws.com", nil, "x", "mys3.amazonaws.com/x/b"},
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
		resolve := func() (url.URL, error) {
			return url.URL{Scheme: "https", Host: "Own.example:443"}, c.resolver.(own).err
		}
		onAWS := endpoint.IsAWS(base, c.resolver, sdk{})
		if onAWS != strings.HasPrefix(c.want, "aws/") {
			t.Errorf("%s is Amazon's: %v", c.base, onAWS)
		}
		if got := endpoint.ID("s3", onAWS, base, c.region, "b", resolve); got != "s3://"+c.want {
			t.Errorf("%s in %s: %s, want %s", c.base, c.region, got, c.want)
		}
	}
}
