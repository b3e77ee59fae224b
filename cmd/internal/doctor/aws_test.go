package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor/awsdoctor"
	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/store"
)

func newS3(change func(*awstest.S3)) *awstest.S3 {
	s := awstest.NewS3("bucket")
	if change != nil {
		change(s)
	}
	s.Put("bucket", "app/lock/theirs.json", []byte("theirs"))
	return s
}

func denied(op string) func(*awstest.S3) {
	return func(s *awstest.S3) {
		s.Add(op, 0, -1, awstest.Fault{Status: http.StatusForbidden, Code: "AccessDenied"})
	}
}

func broken(b awstest.S3Broken) func(*awstest.S3) { return func(s *awstest.S3) { s.Broken = b } }

// TestS3 examines buckets with every known fault. doctor must report each with the right
// verdict, leave nothing, and not touch what was there before.
func TestS3(t *testing.T) {
	t.Parallel()
	const copies = " copy-if-absent=warning copy-if-match=warning"
	for _, tt := range []struct {
		name   string
		change func(*awstest.S3)
		want   want
	}{
		{"good", nil, good()},
		// Conditions that are accepted and ignored.
		{"ignores If-None-Match", broken(awstest.S3Broken{IgnoreIfNoneMatch: true}),
			found(doctor.NotSafe, "put-if-absent=unsafe create-twice=unsafe create-race=unsafe recreate=any")},
		{"ignores If-Match", broken(awstest.S3Broken{IgnoreIfMatch: true}),
			found(doctor.NotSafe, "put-if-match=unsafe missing-key=unsafe swap-race=unsafe wrong-version=unsafe delete-version=unsafe recreate=unsafe equal-values=unsafe")},
		{"ignores If-Match of what is gone", broken(awstest.S3Broken{IgnoreIfMatchGone: true}),
			found(doctor.NotSafe, "put-if-match=unsafe missing-key=any delete-if-match=any copy-if-match=any upload-if-match=any")},
		{"refuses and writes", broken(awstest.S3Broken{RefuseAndWrite: true}),
			found(doctor.NotSafe, "put-if-absent=unsafe put-if-match=unsafe create-twice=any create-race=any swap-race=any wrong-version=any missing-key=any delete-version=any recreate=any equal-values=any")},
		{"no conditions", broken(awstest.S3Broken{NoConditions: true}),
			found(doctor.NotSafe, "put-if-absent=unsafe put-if-match=unsafe delete-if-match=warning delete-if-match-or-absent=warning copy-source=any upload-if-absent=warning upload-if-match=warning deleted-object=not_tested create-twice=not_tested create-race=not_tested swap-race=not_tested wrong-version=not_tested missing-key=not_tested delete-version=not_tested recreate=not_tested equal-values=not_tested read-after-write=not_tested large-value=not_tested list-registers=not_tested latency=not_tested"+copies)},
		{"ignores conditions of DELETE", broken(awstest.S3Broken{IgnoreOnDelete: true}), found(doctor.Safe, "delete-if-match=warning delete-if-match-or-absent=warning")},
		{"deletes what is gone", broken(awstest.S3Broken{IgnoreDeleteGone: true}), found(doctor.Safe, "delete-if-match=warning")},
		{"ignores conditions of COPY", broken(awstest.S3Broken{IgnoreOnCopy: true}), found(doctor.Safe, copies)},
		{"ignores the source of COPY", broken(awstest.S3Broken{IgnoreCopySource: true}), found(doctor.Safe, "copy-source=warning")},
		{"ignores conditions of uploads", broken(awstest.S3Broken{IgnoreOnComplete: true}), found(doctor.Safe, "upload-if-absent=warning upload-if-match=warning")},
		{"delete markers", func(s *awstest.S3) { s.Versioning, s.Lifecycle = "Enabled", awstest.ExpireOld }, found(doctor.Safe, "")},
		{"delete markers exist", func(s *awstest.S3) {
			s.Versioning, s.Lifecycle, s.Broken.MarkerExists = "Enabled", awstest.ExpireOld, true
		}, found(doctor.Safe, "deleted-object=warning")},
		{"ETags of sizes", broken(awstest.S3Broken{EqualETags: true}),
			found(doctor.NotSafe, "put-if-match=unsafe equal-bodies=unsafe delete-if-match=any delete-if-match-or-absent=any copy-source=any copy-if-match=any upload-if-match=any create-twice=any create-race=any swap-race=any wrong-version=any delete-version=any equal-values=any recreate=any read-after-write=any")},
		{"listings lag", broken(awstest.S3Broken{StaleList: true}), found(doctor.Safe, "list-objects=warning list-registers=warning")},
		{"a cache", broken(awstest.S3Broken{Cached: true}), found(doctor.Safe, "clock=warning")},
		{"no Date", broken(awstest.S3Broken{NoDate: true}), found(doctor.Safe, "clock=warning")},
		{"a clock ahead", broken(awstest.S3Broken{Skew: 5 * time.Minute}), found(doctor.Safe, "clock=warning")},
		{"a clock behind", broken(awstest.S3Broken{Skew: -5 * time.Minute}), found(doctor.Safe, "clock=warning")},
		{"Last-Modified 10s behind", broken(awstest.S3Broken{LastModifiedSkew: -10 * time.Second}), found(doctor.Safe, "clock=warning")},
		{"Last-Modified 10m behind", broken(awstest.S3Broken{LastModifiedSkew: -10 * time.Minute}), found(doctor.NotSafe, "clock=unsafe")},
		{"Last-Modified ahead", broken(awstest.S3Broken{LastModifiedSkew: time.Minute}), found(doctor.Safe, "clock=warning")},
		{"versions", func(s *awstest.S3) { s.Versioning = "Enabled" }, found(doctor.Safe, "versioning=warning")},
		{"Object Lock", func(s *awstest.S3) { s.Versioning, s.ObjectLock = "Enabled", true }, found(doctor.Safe, "versioning=warning object-lock=warning")},
		// Rights.
		{"no s3:PutObject", denied("PutObject"), found(doctor.Denied, "right-s3:PutObject=not_tested")},
		{"no s3:GetObject", denied("GetObject"), found(doctor.Denied, "right-s3:GetObject=not_tested")},
		{"no s3:ListBucket", denied("ListObjectsV2"), found(doctor.Safe, "right-s3:ListBucket=not_tested list-objects=not_tested list-registers=not_tested legacy=not_tested kinds=not_tested")},
		{"objects expire", func(s *awstest.S3) {
			s.Lifecycle = "<Rule><ID>tidy</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter><Expiration><Days>30</Days></Expiration></Rule>"
		}, found(doctor.Safe, "lifecycle-current=warning")},
		{"other objects expire", func(s *awstest.S3) {
			s.Lifecycle = "<Rule><ID>tidy</ID><Status>Enabled</Status><Filter><Prefix>logs/</Prefix></Filter><Expiration><Days>30</Days></Expiration></Rule>"
		}, found(doctor.Safe, "")},
		{"no s3:GetBucketVersioning", denied("GetBucketVersioning"), found(doctor.Safe, "versioning=not_tested")},
		{"no s3:GetBucketObjectLockConfiguration", denied("GetObjectLockConfiguration"), found(doctor.Safe, "object-lock=not_tested")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newS3(tt.change)
			r := examine(t, awsdoctor.S3(s.Client(), "bucket", "app", nil), doctor.Quick())
			tt.want.check(t, r)
			if len(r.NotRemoved) > 0 {
				t.Errorf("could not be removed: %q", r.NotRemoved)
			}
			if keys := s.Keys("bucket"); len(keys) != 1 || string(s.Body("bucket", keys[0])) != "theirs" || s.Uploads("bucket") > 0 {
				t.Errorf("in the bucket: %q", keys)
			}
			// Every write must be below our own prefix: a customer would not forgive one
			// elsewhere.
			for _, q := range s.Requests() {
				if q.Key != "" && !strings.HasPrefix(q.Key, "app/.holdfast/doctor/") {
					t.Errorf("%s of %q", q.Op, q.Key)
				}
			}
			versioned := s.Versioning == "Enabled" && s.Lifecycle == ""
			if advised := len(r.Advice) == 1; advised != versioned || advised && !strings.Contains(r.Advice[0].Text, `"Prefix": "app/"`) {
				t.Errorf("advice: %q", r.Advice)
			}
		})
	}
}

// TestOldLocksOnS3: a lock of the program that takes the oldest version for the owner is reported
// on a bucket with conditions, too.
func TestOldLocksOnS3(t *testing.T) {
	t.Parallel()
	s := newS3(func(s *awstest.S3) {
		s.PutMeta("bucket", "app/job", []byte("app/job-6b8b4567-327b-43c6-9b9e-0d8e3f0e1a2b"), map[string]string{"timeout": "10s", "lockowner": "6b8b4567"})
	})
	found(doctor.NotSafe, "legacy=unsafe").check(t, examine(t, awsdoctor.S3(s.Client(), "bucket", "app", nil), doctor.Quick()))
}

// TestOldLocksAtTheRoot: doctor looks for them where run does.
func TestOldLocksAtTheRoot(t *testing.T) {
	t.Parallel()
	s := newS3(func(s *awstest.S3) {
		s.PutMeta("bucket", "job", []byte("job-6b8b4567-327b-43c6-9b9e-0d8e3f0e1a2b"), map[string]string{"timeout": "10s", "lockowner": "6b8b4567"})
	})
	found(doctor.Safe, "legacy=warning kinds=ok").check(t, examine(t, awsdoctor.S3(s.Client(), "bucket", "app", nil), doctor.Quick()))
}

// TestOtherKindOfStoreOnS3: a store that keeps its locks in versions is found. With the same
// prefix it makes leases unsafe; with a longer one it does not, but a lifecycle rule for the
// prefix would destroy its locks, so that none is advised.
func TestOtherKindOfStoreOnS3(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]want{
		"app/lock/job!!":       found(doctor.NotSafe, "kinds=unsafe versioning=warning"),
		"app/inner/lock/job!!": found(doctor.Safe, "kinds=ok versioning=warning"),
		"app-2/lock/job!!":     found(doctor.Safe, "kinds=ok versioning=warning"),
	} {
		s := newS3(func(s *awstest.S3) {
			s.Versioning = "Enabled"
			s.Put("bucket", object, []byte("versions"))
		})
		r := examine(t, awsdoctor.S3(s.Client(), "bucket", "app", nil), doctor.Quick())
		want.check(t, r)
		rule := slices.ContainsFunc(r.Advice, func(a doctor.Advice) bool { return strings.HasPrefix(a.What, "lifecycle rule") })
		if below := strings.HasPrefix(object, "app/"); rule == below {
			t.Errorf("beside %s a lifecycle rule is advised: %v", object, rule)
		}
	}
}

// TestOtherKindBehindManyObjects: the other kind of store is found, whatever else is in the bucket, with a
// prefix and without.
func TestOtherKindBehindManyObjects(t *testing.T) {
	t.Parallel()
	for prefix, dir := range map[string]string{"": "", "app": "app/"} {
		s := newS3(func(s *awstest.S3) {
			s.Versioning = "Enabled"
			for i := range 1100 {
				s.Put("bucket", fmt.Sprintf("%sdata/%d", dir, i), nil)
			}
			s.Put("bucket", dir+"lock/job!!", []byte("versions"))
		})
		found(doctor.NotSafe, "kinds=unsafe versioning=warning").check(t, examine(t, awsdoctor.S3(s.Client(), "bucket", prefix, nil), doctor.Quick()))
	}
}

// TestObjectsAmongLocks: doctor finds objects of other programs among the locks. Objects in other places
// are the control.
func TestObjectsAmongLocks(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]want{
		"app/lock/backup.tar":    found(doctor.Safe, "objects-among-locks=warning"),
		"app/checkpoint/a/b.txt": found(doctor.Safe, "objects-among-locks=warning"),
		"app/data/lock/job":      found(doctor.Safe, "objects-among-locks=ok"),
		"app/lock":               found(doctor.Safe, "objects-among-locks=ok"),
		"lock/backup.tar":        found(doctor.Safe, "objects-among-locks=ok"),
	} {
		s := newS3(func(s *awstest.S3) { s.Put("bucket", object, []byte("theirs")) })
		want.check(t, examine(t, awsdoctor.S3(s.Client(), "bucket", "app", nil), doctor.Quick()))
	}
}

// TestGoldenS3 checks the two forms of a report, on a bucket with something of every kind.
// The forms are stable.
func TestGoldenS3(t *testing.T) {
	t.Parallel()
	s := newS3(func(s *awstest.S3) {
		s.Versioning, s.ObjectLock = "Enabled", true
		s.Broken = awstest.S3Broken{IgnoreIfNoneMatch: true, IgnoreOnCopy: true, LastModifiedSkew: -10 * time.Minute}
		denied("DeleteObject")(s)
	})
	r := examine(t, awsdoctor.S3(s.Client(), "bucket", "app", nil), nil)
	for i, left := range r.NotRemoved {
		if j := strings.Index(left, "doctor/"); j > 0 {
			r.NotRemoved[i] = "objects below " + left[j:j+7] + "RANDOM" + left[j+7+len(trial.Name(time.Now())):]
		}
	}
	golden(t, "s3", r)
}

// TestNoRuleWhereVersionsAreTheState: if the only advice is the store that keeps its state
// in versions, the report says nothing about removing old versions.
func TestNoRuleWhereVersionsAreTheState(t *testing.T) {
	t.Parallel()
	for _, lifecycle := range []string{"", awstest.ExpireOld} {
		s := newS3(func(s *awstest.S3) {
			s.Versioning, s.Lifecycle = "Enabled", lifecycle
			s.Broken = awstest.S3Broken{IgnoreIfNoneMatch: true}
		})
		r := examine(t, awsdoctor.S3(s.Client(), "bucket", "app", nil), doctor.Quick())
		var text strings.Builder
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "s3+versioned://bucket/app") || strings.Contains(text.String(), "NoncurrentVersion") {
			t.Errorf("lifecycle rule %q:\n%s", lifecycle, text.String())
		}
		if lifecycle != "" && !strings.Contains(text.String(), "remove the rule before you use that store") {
			t.Errorf("the rule that is there is not told:\n%s", text.String())
		}
	}
}

// TestInterruptedNoDelete: a report after an interrupt also lists what could not be
// removed.
func TestInterruptedNoDelete(t *testing.T) {
	t.Parallel()
	s := newS3(denied("DeleteObject"))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := doctor.Run(ctx, awsdoctor.S3(s.Client(), "bucket", "app", nil), &doctor.Options{Progress: func(what string) {
		if what == "equal bodies" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || len(r.NotRemoved) != 1 {
		t.Errorf("got %v, left: %q", err, r.NotRemoved)
	}
}

// TestNoDelete: without the right to delete, the report lists what stays.
func TestNoDelete(t *testing.T) {
	t.Parallel()
	s := newS3(denied("DeleteObject"))
	r := examine(t, awsdoctor.S3(s.Client(), "bucket", "", nil), nil)
	found(doctor.Safe, "right-s3:DeleteObject=not_tested objects=not_tested delete-if-match=not_tested delete-if-match-or-absent=not_tested deleted-object=not_tested").check(t, r)
	if len(r.NotRemoved) != 1 || !strings.Contains(r.NotRemoved[0], "s3:DeleteObject") {
		t.Errorf("left: %q", r.NotRemoved)
	}
}

// TestInterruptedS3: doctor removes what it made when the context ends in the middle.
func TestInterruptedS3(t *testing.T) {
	t.Parallel()
	s := newS3(nil)
	ctx, cancel := context.WithCancel(t.Context())
	opts := doctor.Quick()
	opts.Progress = func(what string) {
		if strings.HasPrefix(what, "compare-and-swap") {
			cancel()
		}
	}
	_, err := doctor.Run(ctx, awsdoctor.S3(s.Client(), "bucket", "app", nil), opts)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if keys := s.Keys("bucket"); len(keys) != 1 {
		t.Errorf("left behind: %q", keys)
	}
}

// TestNoBucket: a bucket that does not exist, or cannot be reached, is an error.
func TestNoBucket(t *testing.T) {
	t.Parallel()
	s := newS3(nil)
	if _, err := doctor.Run(t.Context(), awsdoctor.S3(s.Client(), "other", "app", nil), nil); !errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("no bucket: %v", err)
	}
	s.Add("", 0, -1, awstest.Fault{Drop: true})
	if _, err := doctor.Run(t.Context(), awsdoctor.S3(s.Client(), "bucket", "app", nil), nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("unreachable: %v", err)
	}
	d := awstest.NewDynamoDB()
	if _, err := doctor.Run(t.Context(), awsdoctor.DynamoDB(d.Client(), "table", nil), nil); !errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("no table: %v", err)
	}
}

// TestFaultyS3: a server that loses a reply now and then is not reported as unsafe.
func TestFaultyS3(t *testing.T) {
	t.Parallel()
	s := newS3(nil)
	for skip := 7; skip < 150; skip += 31 {
		s.Add("PutObject", skip, 1, awstest.Fault{Lose: true})
		s.Add("GetObject", skip, 1, awstest.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"})
	}
	r := examine(t, awsdoctor.S3(s.Client(), "bucket", "app", nil), nil)
	if r.Verdict == doctor.NotSafe {
		found(doctor.Safe, "").check(t, r)
	}
}

// TestDynamoDB is TestS3 for tables.
func TestDynamoDB(t *testing.T) {
	t.Parallel()
	refused := func(op string) func(*awstest.DynamoDB) {
		return func(d *awstest.DynamoDB) {
			d.Add(op, 0, -1, awstest.Fault{Status: http.StatusBadRequest, Code: "AccessDeniedException"})
		}
	}
	broken := func(b awstest.DynamoDBBroken) func(*awstest.DynamoDB) {
		return func(d *awstest.DynamoDB) { d.Broken = b }
	}
	const writes = " create-twice=any create-race=any swap-race=any wrong-version=any missing-key=any delete-version=any recreate=any equal-values=any"
	for _, tt := range []struct {
		name   string
		change func(*awstest.DynamoDB)
		want   want
	}{
		{"good", func(*awstest.DynamoDB) {}, good()},
		{"ignores conditions", broken(awstest.DynamoDBBroken{IgnoreConditions: true}), found(doctor.NotSafe, "first-use=unsafe"+writes)},
		{"ignores not exists", broken(awstest.DynamoDBBroken{IgnoreNotExists: true}), found(doctor.NotSafe, "first-use=unsafe"+writes)},
		{"ignores equal", broken(awstest.DynamoDBBroken{IgnoreEqual: true}), found(doctor.NotSafe, "first-use=unsafe"+writes)},
		{"refuses and writes", broken(awstest.DynamoDBBroken{RefuseAndWrite: true}), found(doctor.NotSafe, "first-use=unsafe read-after-write=any large-value=any list-registers=any latency=any"+writes)},
		{"no old item", broken(awstest.DynamoDBBroken{NoOldItem: true}), found(doctor.Safe, "wrong-version=any")},
		{"stale reads", broken(awstest.DynamoDBBroken{StaleReads: true}), found(doctor.NotSafe, "read-after-write=unsafe first-use=any large-value=any list-registers=any latency=any"+writes)},
		{"global table", func(d *awstest.DynamoDB) { d.SetReplicas("table", false, "eu-west-1", "us-east-1") }, found(doctor.NotSafe, "table-global=unsafe first-use=unsafe")},
		{"global table with one order", func(d *awstest.DynamoDB) { d.SetReplicas("table", true, "eu-west-1") }, good()},
		{"TTL", func(d *awstest.DynamoDB) { d.SetTTL("table", "expires") }, found(doctor.Safe, "table-ttl=warning")},
		{"no dynamodb:PutItem", refused("PutItem"), found(doctor.Denied, "right-dynamodb:PutItem=not_tested")},
		{"no dynamodb:GetItem", refused("GetItem"), found(doctor.Denied, "right-dynamodb:GetItem=not_tested")},
		{"no dynamodb:Query", refused("Query"), found(doctor.Safe, "right-dynamodb:Query=not_tested list-registers=not_tested")},
		{"no dynamodb:DescribeTable", refused("DescribeTable"), found(doctor.Safe, "table-keys=not_tested")},
		{"no dynamodb:DescribeTimeToLive", refused("DescribeTimeToLive"), found(doctor.Safe, "table-ttl=not_tested")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newTable(t)
			tt.change(d)
			r := examine(t, awsdoctor.DynamoDB(d.Client(), "table", &dynamostore.Options{Prefix: "app"}), doctor.Quick())
			tt.want.check(t, r)
			if right, ok := strings.CutPrefix(tt.name, "no dynamodb:"); ok && !strings.Contains(text(r), "dynamodb:"+right) {
				t.Errorf("the right is not named:\n%s", text(r))
			}
			d.Clear()
			if d.Items("table") != 1 || len(r.NotRemoved) > 0 {
				t.Errorf("left behind: %q\n%s", r.NotRemoved, d)
			}
		})
	}
}

func newTable(t *testing.T) *awstest.DynamoDB {
	t.Helper()
	d := awstest.NewDynamoDB()
	d.AddTable("table", "part", "key")
	st, err := dynamostore.New(d.Client(), "table", &dynamostore.Options{Prefix: "app"})
	if err == nil {
		_, err = st.Put(t.Context(), "lock/theirs", "", []byte("theirs"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func text(r *doctor.Report) string {
	var b strings.Builder
	_ = r.WriteText(&b)
	return b.String()
}

// TestWrongTable: the report shows a table with other keys.
func TestWrongTable(t *testing.T) {
	t.Parallel()
	d := awstest.NewDynamoDB()
	d.AddTable("table", "pk", "")
	r := examine(t, awsdoctor.DynamoDB(d.Client(), "table", nil), nil)
	if r.Verdict != doctor.NotSafe || !strings.Contains(text(r), "which holdfast init can create") || d.Items("table") > 0 {
		t.Errorf("%s: %s", r.Verdict, text(r))
	}
}

// TestDynamoDBWithoutDelete: without the right to delete, the report lists what stays.
func TestDynamoDBWithoutDelete(t *testing.T) {
	t.Parallel()
	d := newTable(t)
	d.Add("DeleteItem", 0, -1, awstest.Fault{Status: http.StatusBadRequest, Code: "AccessDeniedException"})
	r := examine(t, awsdoctor.DynamoDB(d.Client(), "table", nil), nil)
	good().check(t, r)
	if len(r.NotRemoved) != 1 || !strings.Contains(r.NotRemoved[0], "dynamodb:DeleteItem") {
		t.Errorf("left: %q", r.NotRemoved)
	}
}
