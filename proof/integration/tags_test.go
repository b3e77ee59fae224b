package integration_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
)

// TestTags: the servers have the tags that a put was given, of a small object and of one
// that was uploaded in parts.
func TestTags(t *testing.T) {
	t.Parallel()
	want := map[string]string{"team": "a b+c", "cost/centre": "7=:@", "empty": ""}
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			r := newRaw(t, start(t), false)
			b, err := s3bucket.New(r.c, r.bucket, nil)
			if err != nil {
				t.Fatal(err)
			}
			for key, body := range map[string]string{"small": "x", "large": strings.Repeat("x", 6<<20)} {
				o := &object.PutOptions{Tags: want, StorageClass: "STANDARD", Parts: key == "large"}
				if _, err := b.Put(t.Context(), key, strings.NewReader(body), o); err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				out, err := r.c.GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: &r.bucket, Key: &key})
				if err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				got := make(map[string]string)
				for _, tag := range out.TagSet {
					got[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
				}
				if !maps.Equal(got, want) {
					t.Errorf("%s: got %q, want %q", key, got, want)
				}
			}
		})
	}
}
