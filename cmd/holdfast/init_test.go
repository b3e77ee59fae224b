package main

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
)

// TestInitRefusesVersionsInDanger: init on a bucket with versions refuses one in which a
// lock of another program lies, or a rule removes versions; and takes a sound one.
func TestInitRefusesVersionsInDanger(t *testing.T) {
	p := newPlace(t)
	for name, tt := range map[string]struct {
		change func(*awstest.S3)
		status int
	}{
		"sound": {func(*awstest.S3) {}, 0},
		"rule":  {func(s *awstest.S3) { s.Lifecycle = awstest.ExpireOld }, 78},
		"lock": {func(s *awstest.S3) {
			s.PutMeta("bucket", "app/job", []byte("app/job-6b8b4567-327b-43c6-9b9e-0d8e3f0e1a2b"), map[string]string{"timeout": "10s", "lockowner": "6b8b4567"})
		}, 78},
	} {
		store, _ := serveS3(t, func(s *awstest.S3) {
			s.Versioning = "Enabled"
			tt.change(s)
		})
		store = strings.Replace(store, "s3://", "s3+versioned://", 1)
		if tt.status == 0 {
			p.must(t, store, "init")
		} else {
			t.Run(name, func(t *testing.T) { p.refused(t, tt.status, store, "init") })
		}
	}
}
