package s3bucket_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/objecttest"
)

func newBucket(t *testing.T, s *awstest.S3, opts *s3bucket.Options) *s3bucket.Bucket {
	t.Helper()
	b, err := s3bucket.New(s.Client(), "bucket", opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBucket(t *testing.T) {
	open := func(t *testing.T) object.Bucket { return newBucket(t, awstest.NewS3("bucket"), nil) }
	objecttest.Run(t, open, &objecttest.Options{Rounds: 5, Large: 9 << 20})
}
