package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store/filestore"
)

// bench and doctor leave nothing in a bucket or a directory. gc removes what a killed bench
// has left, and nothing of a bench that runs.
func TestMeasurementsLeaveNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	bucket, stand := serveS3(t, nil)
	p.must(t, bucket, "run", "job", "--", "true")
	p.must(t, bucket, "bench", "--rounds", "3")
	p.must(t, bucket, "doctor")
	if keys := stand.Keys("bucket"); len(keys) != 1 {
		t.Errorf("in the bucket are %q", keys)
	}
	dir := filepath.Join(p.dir, "store")
	p.must(t, "file:"+dir, "run", "job", "--", "true")
	p.must(t, "file:"+dir, "bench", "--rounds", "3")
	entries, err := os.ReadDir(filepath.Join(dir, "k"))
	if err != nil || len(entries) != 1 {
		t.Errorf("in the directory are %v (%v)", entries, err)
	}

	st, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	old, young := benchPlace(time.Now().Add(-48*time.Hour)), benchPlace(time.Now())
	for _, key := range []string{old + "/raw", old + "/lock/new-1", young + "/raw"} {
		if _, err := st.Put(t.Context(), key, "", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	st.Close()
	if _, stderr, status := p.run(t, "file:"+dir, "gc", "--older-than", "24h", "--dry-run"); status != 0 || !strings.Contains(stderr, "2 keys of measurements that were killed") {
		t.Errorf("dry run: status %d, %s", status, stderr)
	}
	for round, want := range []int{1, 1} {
		p.must(t, "file:"+dir, "gc", "--older-than", "24h")
		left, err := filepath.Glob(filepath.Join(dir, "k", "bench*"))
		if err != nil || len(left) != want {
			t.Errorf("round %d: %q are left (%v)", round, left, err)
		}
	}
}
