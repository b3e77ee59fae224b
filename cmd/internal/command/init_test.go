package command

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
)

// TestInitRefusesBucketsInDanger: init on a bucket refuses one in which a lock of another
// program is, or where versions are the register and a rule removes them; and takes a sound
// one. So does the first lock of that name.
func TestInitRefusesBucketsInDanger(t *testing.T) {
	p := newPlace(t)
	for name, tt := range map[string]struct {
		change func(*awstest.S3)
		status map[string]int
	}{
		"sound": {func(*awstest.S3) {}, map[string]int{"s3": 0, "s3+versioned": 0}},
		"rule":  {func(s *awstest.S3) { s.Lifecycle = awstest.ExpireOld }, map[string]int{"s3": 0, "s3+versioned": 78}},
		"lock": {func(s *awstest.S3) {
			s.PutMeta("bucket", "app/job", []byte("app/job-6b8b4567-327b-43c6-9b9e-0d8e3f0e1a2b"), map[string]string{"timeout": "10s", "lockowner": "6b8b4567"})
		}, map[string]int{"s3": 78, "s3+versioned": 78}},
	} {
		for scheme, status := range tt.status {
			store, _ := serveS3(t, func(s *awstest.S3) {
				s.Versioning = "Enabled"
				tt.change(s)
			})
			store = strings.Replace(store, "s3://", scheme+"://", 1)
			if status == 0 {
				p.must(t, store, "init")
				continue
			}
			t.Run(scheme+" "+name, func(t *testing.T) {
				p.refused(t, status, store, "init")
				if name == "lock" {
					p.refused(t, status, store, "run", "-n", "job", "--", "true")
				}
			})
		}
	}
}
