package doctor_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor/awsdoctor"
	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/store"
)

// unclean refuses what removes, so that an examination leaves what one leaves that is killed.
type unclean struct{ next http.RoundTripper }

func (u unclean) RoundTrip(r *http.Request) (*http.Response, error) {
	removes := r.Method == http.MethodDelete || r.URL.Query().Has("delete") || strings.HasSuffix(r.Header.Get("X-Amz-Target"), "DeleteItem")
	if removes && !strings.Contains(r.URL.Path, "tried") {
		return nil, http.ErrAbortHandler
	}
	return u.next.RoundTrip(r)
}

// TestSweep: what a killed examination leaves is removed once it is old enough, on every kind
// of store, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		open func(t *testing.T) scene
	}{
		{"s3", func(t *testing.T) scene { return s3Scene(t, newS3(nil), false) }},
		{"s3 with versions", func(t *testing.T) scene { return s3Scene(t, newS3(versions), false) }},
		{"s3 with versions, without s3:GetBucketVersioning", func(t *testing.T) scene {
			s := newS3(versions)
			s.Add("GetBucketVersioning", 0, -1, awstest.Fault{Status: 403, Code: "AccessDenied"})
			on := s3Scene(t, s, false)
			seen := make(map[string]bool)
			on.left = func() (n int) {
				for _, key := range s.Keys("bucket") {
					seen[key] = true
				}
				for key := range seen {
					n += len(s.Versions("bucket", key))
				}
				return n
			}
			return on
		}},
		{"s3+versioned", func(t *testing.T) scene { return s3Scene(t, newS3(versions), true) }},
		{"dynamodb", func(t *testing.T) scene {
			d := newTable(t)
			killed := d.Client(func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: unclean{d}} })
			st, err := dynamostore.New(d.Client(), "table", nil)
			if err != nil {
				t.Fatal(err)
			}
			return scene{awsdoctor.DynamoDB(killed, "table", nil), awsdoctor.DynamoDB(d.Client(), "table", nil), st, func() int { return d.Items("table") }}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				on := tt.open(t)
				before := on.left()
				began := time.Now()
				if _, err := doctor.Run(t.Context(), on.killed, doctor.Quick()); err != nil {
					t.Log(err)
				}
				made := on.left() - before
				if made <= 0 {
					t.Fatal("nothing is left to be swept")
				}
				for _, step := range []struct {
					before time.Time
					dryRun bool
					stay   int
				}{{began.Add(-time.Second), false, made}, {time.Now().Add(time.Second), true, made}, {time.Now().Add(time.Second), false, 0}} {
					registers, err := trial.Sweep(t.Context(), on.st, doctor.Dir, step.before, step.dryRun)
					if err != nil {
						t.Fatal(err)
					}
					n, err := on.sweeping.Killed(t.Context(), step.before, step.dryRun)
					if err != nil {
						t.Fatal(err)
					}
					n += registers
					if got := on.left() - before; got != step.stay || (n == 0) != step.before.Before(began) {
						t.Errorf("swept %d, %d stay, want %d", n, got, step.stay)
					}
				}
			})
		})
	}
}

func versions(s *awstest.S3) { s.Versioning = "Enabled" }

// scene is a store with an examination that is killed.
type scene struct {
	killed, sweeping *doctor.Target
	st               store.Store
	left             func() int
}

func s3Scene(t *testing.T, s *awstest.S3, fold bool) scene {
	t.Helper()
	killed := s.Client(func(o *s3.Options) { o.HTTPClient = &http.Client{Transport: unclean{s}} })
	left := func() int { return len(s.Keys("bucket")) }
	b, err := s3bucket.New(s.Client(), "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !fold {
		st, err := s3store.New(b, "app", nil)
		if err != nil {
			t.Fatal(err)
		}
		return scene{awsdoctor.S3(killed, "bucket", "app", nil), awsdoctor.S3(s.Client(), "bucket", "app", nil), st, left}
	}
	st, err := s3verstore.New(b, "app", nil)
	if err != nil {
		t.Fatal(err)
	}
	unclean, err := s3bucket.New(killed, "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	return scene{awsdoctor.VersionedS3(unclean, "app", nil), awsdoctor.VersionedS3(b, "app", nil), st, left}
}

// TestSweepThatSeesNoVersions: without rights to find out whether there are versions, the objects
// are removed, and an error says that versions may be left.
func TestSweepThatSeesNoVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newS3(nil)
		for _, op := range []string{"GetBucketVersioning", "ListObjectVersions"} {
			s.Add(op, 0, -1, awstest.Fault{Status: 403, Code: "AccessDenied"})
		}
		on := s3Scene(t, s, false)
		before := on.left()
		if _, err := doctor.Run(t.Context(), on.killed, doctor.Quick()); err != nil {
			t.Log(err)
		}
		n, err := on.sweeping.Killed(t.Context(), time.Now().Add(time.Second), false)
		if n == 0 || !errors.Is(err, store.ErrDenied) || on.left() != before {
			t.Errorf("swept %d, %v; %d stay", n, err, on.left()-before)
		}
		if n, err := on.sweeping.Killed(t.Context(), time.Now().Add(time.Second), false); n != 0 || err != nil {
			t.Errorf("again: swept %d, %v", n, err)
		}
	})
}
