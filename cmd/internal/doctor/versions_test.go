package doctor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor/awsdoctor"
)

// TestVersionedS3 examines buckets whose versions are the registers: what would take
// versions away is reported, and so are locks of the program that takes the oldest version for
// the owner; nothing is tried then.
func TestVersionedS3(t *testing.T) {
	t.Parallel()
	legacy := func(s *awstest.S3) {
		s.PutMeta("bucket", "app/job", []byte("app/job-6b8b4567-327b-43c6-9b9e-0d8e3f0e1a2b"), map[string]string{"timeout": "10s", "lockowner": "6b8b4567"})
	}
	for _, tt := range []struct {
		name   string
		change func(*awstest.S3)
		want
	}{
		{"sound", func(*awstest.S3) {}, found(doctor.Safe, "")},
		{"versioning off", func(s *awstest.S3) { s.Versioning = "" }, found(doctor.NotSafe, "versioning=unsafe")},
		{"suspended", func(s *awstest.S3) { s.Versioning = "Suspended" }, found(doctor.NotSafe, "versioning=unsafe")},
		{"Object Lock", func(s *awstest.S3) { s.ObjectLock = true }, found(doctor.NotSafe, "object-lock=unsafe")},
		{"old versions expire", func(s *awstest.S3) { s.Lifecycle = awstest.ExpireOld }, found(doctor.NotSafe, "lifecycle=unsafe")},
		{"a lock of another program", legacy, found(doctor.NotSafe, "legacy=unsafe kinds=ok")},
		{"a lock of another program at the root", func(s *awstest.S3) {
			s.PutMeta("bucket", "job", []byte("job-6b8b4567-327b-43c6-9b9e-0d8e3f0e1a2b"), map[string]string{"timeout": "10s", "lockowner": "6b8b4567"})
		}, found(doctor.Safe, "legacy=warning")},
		{"another kind of store", func(s *awstest.S3) {
			b, err := s3bucket.New(s.Client(), "bucket", nil)
			if err != nil {
				panic(err)
			}
			st, err := s3store.New(b, "app", &s3store.Options{Trusted: true})
			if err == nil {
				_, err = st.Put(context.Background(), "lock/job", "", []byte("1"))
			}
			if err != nil {
				panic(err)
			}
		}, found(doctor.NotSafe, "kinds=unsafe legacy=ok")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := awstest.NewS3("bucket")
				s.Versioning = "Enabled"
				tt.change(s)
				before := len(s.Keys("bucket"))
				b, err := s3bucket.New(s.Client(), "bucket", nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now() // in the bubble: with pauses of 6 s and requests that take no time
				tt.check(t, examine(t, awsdoctor.VersionedS3(b, "app", nil), doctor.Quick()))
				took := time.Since(began)
				t.Logf("it takes %v", took)
				if took > 100*time.Second {
					t.Errorf("it takes %v", took)
				}
				if left := len(s.Keys("bucket")); left != before {
					t.Errorf("%d objects are left, %d were there: %q", left, before, s.Keys("bucket"))
				}
			})
		})
	}
}
