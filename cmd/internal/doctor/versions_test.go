package doctor_test

import (
	"context"
	"strings"
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

// TestVersionedS3WithoutRights: a right that doctor lacks is named, and so is each object that it
// could not remove.
func TestVersionedS3WithoutRights(t *testing.T) {
	t.Parallel()
	denied := func(ops ...string) func(*awstest.S3) {
		return func(s *awstest.S3) {
			for _, op := range ops {
				s.Add(op, 0, -1, awstest.Fault{Status: 403, Code: "AccessDenied"})
			}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*awstest.S3)
		want
		id, right string // the check that names the right
		leaves    bool
	}{
		{"removing", denied("DeleteObject", "DeleteObjects"), found(doctor.Safe, "removal=warning"), "removal", "s3:DeleteObjectVersion", true},
		{"lifecycle", denied("GetBucketLifecycleConfiguration"), found(doctor.Safe, "lifecycle=warning"), "lifecycle", "s3:GetLifecycleConfiguration", false},
		{"Object Lock", denied("GetObjectLockConfiguration"), found(doctor.Safe, "object-lock=warning"), "object-lock", "s3:GetBucketObjectLockConfiguration", false},
		{"versioning", denied("GetBucketVersioning"), found(doctor.Denied, "versioning=not_tested mfa-delete=not_tested"), "versioning", "s3:GetBucketVersioning", false},
		{"suspended meanwhile", func(s *awstest.S3) {
			puts := 0
			s.Plan(func(r awstest.Request) awstest.Fault {
				if r.Op == "PutObject" {
					if puts++; puts == 60 {
						go s.SetVersioning("Suspended")
					}
				}
				return awstest.Fault{}
			})
		}, want{verdict: doctor.NotSafe}, "", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := awstest.NewS3("bucket")
				s.Versioning = "Enabled"
				tt.change(s)
				b, err := s3bucket.New(s.Client(), "bucket", nil)
				if err != nil {
					t.Fatal(err)
				}
				r := examine(t, awsdoctor.VersionedS3(b, "app", nil), doctor.Quick())
				if tt.results != nil {
					tt.check(t, r)
				} else if r.Verdict != tt.verdict {
					t.Errorf("verdict %s", r.Verdict)
				}
				for _, c := range r.Checks {
					if c.ID == tt.id && !strings.Contains(c.Means, tt.right) {
						t.Errorf("%s does not name the right %s: %s; %s", c.ID, tt.right, c.Found, c.Means)
					}
				}
				left := s.Keys("bucket")
				t.Logf("%q: %q", r.Summary, r.NotRemoved)
				if tt.leaves != (len(left) > 0) || tt.leaves != (len(r.NotRemoved) > 0) {
					t.Errorf("%d objects are left, and reported: %q", len(left), r.NotRemoved)
				}
				for _, key := range left {
					parts := strings.Split(key, "/") // .holdfast/doctor/NAME/..., and two others
					for len(parts) > 4 {
						parts = parts[:4]
					}
					if len(parts) == 4 && parts[2] == "measure" {
						parts = parts[:3]
					}
					if !strings.Contains(strings.Join(r.NotRemoved, "; "), strings.Join(parts, "/")) {
						t.Errorf("%s is left, and not reported", key)
					}
				}
			})
		})
	}
}
