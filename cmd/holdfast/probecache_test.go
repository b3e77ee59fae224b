package main

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
)

// TestFirstRun: what a run costs on a server that this user has never used, a new lock and its
// release included, and what the next one costs.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	for versioning, most := range map[string]int{"": 8, "Enabled": 9} {
		p := newPlace(t)
		store, stand := serveS3(t, func(s *awstest.S3) { s.Versioning = versioning })
		for _, most := range []int{most, 2} {
			stand.Reset()
			p.must(t, store, "run", "job", "--", "true")
			if got := stand.Ops(); len(got) > most {
				t.Errorf("versioning %q: %d requests, at most %d are allowed: %s", versioning, len(got), most, strings.Join(got, " "))
			}
		}
	}
}

func TestKnown(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AWS_ENDPOINT_URL", "")
	of := func(raw string) probeCache {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return probeCacheIn(dir, u)
	}
	k := of("s3://b/p?region=r&endpoint=http://one")
	if k.is() {
		t.Fatal("known before it was noted")
	}
	k.note()
	if !of("s3://b/p?endpoint=http://one&region=r").is() {
		t.Error("not known after it was noted")
	}
	for _, other := range []string{"s3://b/q?endpoint=http://one&region=r", "s3://b/p?endpoint=http://two&region=r", "s3://b/p"} {
		if of(other).is() {
			t.Errorf("%s is known by another's note", other)
		}
	}
	long := time.Now().Add(-trustFor - time.Hour)
	if err := os.Chtimes(string(k), long, long); err != nil {
		t.Fatal(err)
	}
	if k.is() {
		t.Error("known for ever")
	}
	k.note()
	t.Setenv("AWS_ENDPOINT_URL", "http://elsewhere")
	if of("s3://b/p?region=r&endpoint=http://one").is() {
		t.Error("known on another server")
	}
	t.Setenv("AWS_ENDPOINT_URL", "")
	if k.forget(); k.is() {
		t.Error("known after it was forgotten")
	}
	probeCache("").note()
	probeCache("").forget()
}
