package main

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// TestFirstRun: what a run costs on a server that this user has never used, the release included,
// and what the next one costs.
//
// Eight requests are the least for a new lock on a bucket without versions. Five try the
// conditions: a create, a second one, a write on a wrong version, one on the right version (it
// also shows that the refused ones wrote nothing), and one on a version of what is absent. One
// removes what was tried, and two take and free the lock. None can be spared:
//   - The lock itself cannot stand in for what is tried. A server that ignores the condition
//     would write over the record of a living holder, and the promise is that such a server
//     is refused before anything but the probe is written.
//   - A lock that is there does not prove that its server is safe: another client may have
//     reached the bucket through another endpoint, or accepted the risk.
//   - A bucket with versions costs a listing, or the locks of s3+versioned:// under the same
//     prefix would not be found, and one lock would run twice.
//   - A lock that is there costs two more: the create that is refused, and the read, since S3
//     returns no state with a refusal. A run that reads first would pay nine for each lock.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	for versioning, listing := range map[string]int{"": 0, "Enabled": 1} {
		p := newPlace(t)
		store, stand := serveS3(t, func(s *awstest.S3) { s.Versioning = versioning })
		check := func(what string, most int) {
			t.Helper()
			stand.Reset()
			p.must(t, store, "run", "job", "--", "true")
			if got := stand.Ops(); len(got) > most {
				t.Errorf("versioning %q, %s: %d requests, at most %d are allowed: %s", versioning, what, len(got), most, strings.Join(got, " "))
			}
		}
		check("a new lock", 8+listing)
		check("the second run", 2)
		p = newPlace(t) // of another user
		check("a lock that is there", 10+listing)
		check("the second run", 2)
	}
}

func TestKnown(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AWS_ENDPOINT_URL", "")
	of := func(raw string) stores.ProbeCache {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return stores.ProbeCacheIn(dir, u)
	}
	k := of("s3://b/p?region=r&endpoint=http://one")
	if k.Is() {
		t.Fatal("known before it was noted")
	}
	k.Note()
	if !of("s3://b/p?endpoint=http://one&region=r").Is() {
		t.Error("not known after it was noted")
	}
	for _, other := range []string{"s3://b/q?endpoint=http://one&region=r", "s3://b/p?endpoint=http://two&region=r", "s3://b/p"} {
		if of(other).Is() {
			t.Errorf("%s is known by another's note", other)
		}
	}
	long := time.Now().Add(-stores.TrustFor - time.Hour)
	if err := os.Chtimes(string(k), long, long); err != nil {
		t.Fatal(err)
	}
	if k.Is() {
		t.Error("known for ever")
	}
	k.Note()
	t.Setenv("AWS_ENDPOINT_URL", "http://elsewhere")
	if of("s3://b/p?region=r&endpoint=http://one").Is() {
		t.Error("known on another server")
	}
	t.Setenv("AWS_ENDPOINT_URL", "")
	if k.Forget(); k.Is() {
		t.Error("known after it was forgotten")
	}
	stores.ProbeCache("").Note()
	stores.ProbeCache("").Forget()
}
