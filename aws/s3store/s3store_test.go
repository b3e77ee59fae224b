package s3store_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func newStore(t *testing.T, f *awstest.S3, opts *s3store.Options) *s3store.Store {
	t.Helper()
	b, err := s3bucket.New(f.Client(), "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := s3store.New(b, "pre/fix", opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	var f *awstest.S3
	open := func(t *testing.T) store.Store {
		f = awstest.NewS3("bucket")
		f.PageSize = 100
		return newStore(t, f, nil)
	}
	storetest.Run(t, open, &storetest.Options{
		Second: func(t *testing.T, _ store.Store) store.Store { return newStore(t, f, nil) },
		Rounds: 5, Keys: 250, Racers: 8,
	})
}
