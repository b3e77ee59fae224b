package integration_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// restricted returns a server's client that may do what an IAM policy allows.
func restricted(t *testing.T, server servers.S3, policy string) *s3.Client {
	t.Helper()
	root := credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, "")
	role, err := sts.New(sts.Options{Region: server.Region, BaseEndpoint: &server.Endpoint, Credentials: root}).AssumeRole(t.Context(), &sts.AssumeRoleInput{
		RoleArn: aws.String("arn:aws:iam::123456789012:role/any"), RoleSessionName: aws.String("test"), Policy: &policy,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := role.Credentials
	return server.Client(func(o *s3.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
	})
}

func statement(actions, resource string) string {
	return fmt.Sprintf(`{"Effect":"Allow","Action":[%s],"Resource":"arn:aws:s3:::%s"}`, actions, resource)
}

// The smallest policy in the documentation of s3bucket is enough for leases, and
// without each of its rights the error says that a right is missing, and takes
// nothing. MinIO enforces policies.
func TestRights(t *testing.T) {
	t.Parallel()
	server := set.MinIO(t)
	bucket := server.NewBucket(t, false)
	objects, list := bucket+"/app/*", statement(`"s3:ListBucket"`, bucket)
	both := statement(`"s3:GetObject","s3:PutObject"`, objects)
	for _, tt := range []struct {
		name       string
		statements string
		want       error
	}{
		{"all", both + "," + list, nil},
		{"no put", statement(`"s3:GetObject"`, objects) + "," + list, store.ErrDenied},
		{"no get", statement(`"s3:PutObject"`, objects) + "," + list, store.ErrDenied},
		// MinIO answers 404 for what does not exist; AWS would answer 403.
		{"no list", both, nil},
		{"another prefix", statement(`"s3:GetObject","s3:PutObject"`, bucket+"/other/*") + "," + list, store.ErrDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := s3bucket.New(restricted(t, server, `{"Version":"2012-10-17","Statement":[`+tt.statements+`]}`), bucket, nil)
			if err != nil {
				t.Fatal(err)
			}
			b = b.WithAbilities(object.PutIfAbsent, object.PutIfMatch) // as on AWS: nothing to remove
			st, err := s3store.New(b, "app/"+servers.Unique("x"), &s3store.Options{Trusted: true})
			if err != nil {
				t.Fatal(err)
			}
			c, err := lease.New(st, &lease.Options{ManualRenewal: true})
			if err != nil {
				t.Fatal(err)
			}
			g, err := c.TryAcquire(t.Context(), "job", nil)
			if !errors.Is(err, tt.want) {
				t.Fatalf("acquire: got %v, want %v", err, tt.want)
			}
			if err != nil {
				t.Log(err)
				return
			}
			if err := g.Renew(t.Context()); err != nil {
				t.Errorf("renew: %v", err)
			}
			if err := g.Release(t.Context()); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
}
