package integration_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// life is how long a PUT may take in the suites of registers on buckets with
// versions. What takes longer has an unknown outcome, which the suites take for a
// failure; on a quiet machine a PUT takes milliseconds.
const life = 2 * time.Second

// openVersioned opens a store of a kind in a space of its own.
func openVersioned(t *testing.T, k kind, proxied bool) store.Store {
	at := k.target(t)
	if proxied {
		at = at.at(faultproxy.New(t, at.endpoint()).URL)
	}
	st, err := at.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return opened{st, at}
}

// The suite of registers on buckets with versions: MinIO directly, versitygw through
// the proxy.
func TestVersionedStores(t *testing.T) {
	t.Parallel()
	eachOf(t, versioned(life), func(t *testing.T, k kind) {
		storetest.Run(t, func(t *testing.T) store.Store { return openVersioned(t, k, k.name == "s3versioned/versitygw") }, &storetest.Options{
			Reopen: second, Parallel: true, Rounds: 1, Racers: 4, Keys: 20, CaseTimeout: 5 * time.Minute,
		})
	})
}

// The suite of leases on buckets with versions: on MinIO, and in the torture on versitygw too. What the servers do
// differently, TestVersionedStores and TestVersionedStress show.
func TestVersionedLeases(t *testing.T) {
	t.Parallel()
	kinds := versioned(life)
	if !torture() {
		kinds = slices.DeleteFunc(kinds, func(k kind) bool { return k.name != "s3versioned/minio" })
	}
	eachOf(t, kinds, func(t *testing.T, k kind) {
		leasetest.Run(t, func(t *testing.T) store.Store { return openVersioned(t, k, k.name == "s3versioned/minio") }, &leasetest.Options{
			Second: second, Parallel: true, Contenders: 3, CaseTimeout: 5 * time.Minute,
		})
	})
}

// TestVersionedDoctor: a bucket with versions is examined without being touched
// elsewhere, and refused for each setting that would take versions away.
func TestVersionedDoctor(t *testing.T) {
	holdfast := servers.BuildCommand(t)
	for name, start := range s3Servers() {
		server := start(t)
		url := func(bucket string) string {
			return "s3+versioned://" + bucket + "/app?put_lifetime=1s&endpoint=" + server.Endpoint
		}
		refused := func(t *testing.T, bucket, id string) {
			t.Helper()
			r, status := examine(t, holdfast, url(bucket), server.Env())
			if got := r.unlike(); status != 78 || r.Safe || got[id] != "unsafe" {
				t.Errorf("status %d, safe: %v, %v", status, r.Safe, got)
			}
			// Every command refuses what doctor refuses.
			cmd := exec.CommandContext(t.Context(), holdfast, "--store", url(bucket), "run", "-n", "job", "--", "true")
			cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME="), server.Env()...)
			out, err := cmd.CombinedOutput()
			if id != "lifecycle" && (err == nil || cmd.ProcessState.ExitCode() != 78) {
				t.Errorf("run: %v: %s", err, out)
			}
		}
		t.Run(name+"/good", func(t *testing.T) {
			t.Parallel()
			bucket := server.NewBucket(t, true)
			r, status := examine(t, holdfast, url(bucket), server.Env())
			for again := 0; status == 69 && again < 3; again++ {
				// A server on a busy machine does not answer within the time of a step. doctor
				// says rightly that it could not look; it is asked again.
				r, status = examine(t, holdfast, url(bucket), server.Env())
			}
			if status != 0 || !r.Safe {
				t.Errorf("status %d, safe: %v, %v", status, r.Safe, r.unlike())
			}
			if left := versionsIn(t, server, bucket); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
		t.Run(name+"/never versioned", func(t *testing.T) {
			t.Parallel()
			refused(t, server.NewBucket(t, false), "versioning")
		})
		t.Run(name+"/suspended", func(t *testing.T) {
			t.Parallel()
			bucket := server.NewBucket(t, true)
			_, err := server.Client().PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
				Bucket: &bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusSuspended},
			})
			if err != nil {
				t.Fatal(err)
			}
			refused(t, bucket, "versioning")
		})
		t.Run(name+"/locks of the oldest version", func(t *testing.T) {
			t.Parallel()
			bucket := server.NewBucket(t, true)
			const id = "e8b5ba3c-9a0e-4b0a-8a4e-6f3f3f4b8a11"
			_, err := server.Client().PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: &bucket, Key: aws.String("app/job"), Body: strings.NewReader("app/job-" + id),
				Metadata: map[string]string{"timeout": "30", "lockowner": id},
			})
			if err != nil {
				t.Fatal(err)
			}
			refused(t, bucket, "legacy")
		})
		t.Run(name+"/two kinds of store", func(t *testing.T) {
			t.Parallel()
			plain := func(bucket string) string { return "s3://" + bucket + "/app?endpoint=" + server.Endpoint }
			run := func(url string) int {
				cmd := exec.CommandContext(t.Context(), holdfast, "--store", url, "run", "-n", "job", "--", "true")
				cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME="), server.Env()...)
				out, _ := cmd.CombinedOutput()
				t.Logf("%s", out)
				return cmd.ProcessState.ExitCode()
			}
			bucket := server.NewBucket(t, true)
			if status := run(plain(bucket)); status != 0 {
				t.Fatalf("a first run: status %d", status)
			}
			refused(t, bucket, "kinds")
			bucket = server.NewBucket(t, true)
			if status := run(url(bucket)); status != 0 {
				t.Fatalf("a first run: status %d", status)
			}
			if r, status := examine(t, holdfast, plain(bucket), server.Env()); status != 78 || r.unlike()["kinds"] != "unsafe" {
				t.Errorf("doctor of s3:// beside s3+versioned://: status %d, %v", status, r.unlike())
			}
			if status := run(plain(bucket)); status != 78 {
				t.Errorf("s3:// beside s3+versioned://: status %d", status)
			}
		})
		if name == "versitygw" {
			continue // it has no lifecycle rules
		}
		t.Run(name+"/lifecycle rule", func(t *testing.T) {
			t.Parallel()
			bucket := server.NewBucket(t, true)
			_, err := server.Client().PutBucketLifecycleConfiguration(t.Context(), &s3.PutBucketLifecycleConfigurationInput{
				Bucket: &bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{{
					ID: aws.String("old"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("app/")},
					NoncurrentVersionExpiration: &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(1)},
				}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			refused(t, bucket, "lifecycle")
		})
	}
}

// versionsIn lists the versions and delete markers in a bucket.
func versionsIn(t *testing.T, server servers.S3, bucket string) (all []string) {
	t.Helper()
	out, err := server.Client().ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &bucket})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range out.Versions {
		all = append(all, aws.ToString(v.Key))
	}
	for _, m := range out.DeleteMarkers {
		all = append(all, "deleted "+aws.ToString(m.Key))
	}
	return all
}
