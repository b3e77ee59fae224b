package s3bucket_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

func openLog(t *testing.T, b object.Bucket) *object.Log {
	t.Helper()
	c, err := object.New(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := object.OpenLog(c, "log", nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// logBodies returns the bodies of a log, in one text.
func logBodies(t *testing.T, l *object.Log) string {
	t.Helper()
	var bodies []string
	for e, err := range l.Read(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(e.Body))
	}
	return strings.Join(bodies, " ")
}

// TestLog: on S3 an append is two requests, also with everything that a probe asks
// before.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := awstest.NewS3("bucket")
		l := openLog(t, newBucket(t, f, nil))
		if _, err := l.Append(t.Context(), 0, []byte("0")); err != nil {
			t.Fatal(err)
		}
		for n := uint64(1); n < 20; n++ {
			f.Reset()
			if _, err := l.Append(t.Context(), n, fmt.Append(nil, n)); err != nil {
				t.Fatal(err)
			}
			if ops := fmt.Sprint(f.Ops()); ops != "[PutObject GetObject]" {
				t.Fatalf("append %d: %s", n, ops)
			}
		}
		if err := l.Trim(t.Context(), 18); err != nil {
			t.Fatal(err)
		}
		if got := logBodies(t, openLog(t, trusted(t, f))); got != "17 18 19" {
			t.Errorf("got %q", got)
		}
	})
}

// TestLogFaults: each request of an append meets each fault once. What the append reports
// is so.
func TestLogFaults(t *testing.T) {
	for name, fault := range map[string]awstest.Fault{
		"dropped": {Drop: true}, "lost": {Lose: true}, "twice": {Twice: true}, "busy": {Status: 503, Code: "SlowDown"},
		"applied, and 500": {Status: 500, Code: "InternalError", Applied: true}, "409": {Status: 409, Code: "ConditionalRequestConflict"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for n := 0; ; n++ {
					f := awstest.NewS3("bucket")
					if _, err := openLog(t, trusted(t, f)).Append(t.Context(), 0, []byte("a")); err != nil {
						t.Fatal(err)
					}
					slow := openLog(t, trusted(t, f))
					f.Reset()
					f.Add("", n, 1, fault)
					_, err := slow.Append(t.Context(), 1, []byte("b"))
					requests := len(f.Requests())
					f.Clear()
					got := logBodies(t, openLog(t, trusted(t, f)))
					if err == nil && got != "a b" || store.OutcomeOf(err) == store.NotApplied && got != "a" || errors.Is(err, store.ErrConflict) {
						t.Errorf("fault at request %d: the log is %q, the append: %v", n, got, err)
					}
					if store.OutcomeOf(err) == store.Unknown {
						t.Errorf("fault at request %d: one fault left an outcome unknown: %v", n, err)
					}
					if requests <= n {
						break
					}
				}
			})
		})
	}
}

// TestFS: the suite of package fstest passes, and a directory is listed without what is
// below it, over several pages.
func TestFS(t *testing.T) {
	f := awstest.NewS3("bucket")
	f.PageSize = 3
	b := trusted(t, f)
	var names []string
	for _, dir := range []string{"a", "b", "b b", "c/d", "e", "f"} {
		for n := range 10 {
			names = append(names, fmt.Sprintf("%s/%d", dir, n))
			put(t, b, names[len(names)-1], "text", nil)
		}
	}
	c, err := object.New(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := object.FS(t.Context(), c)
	if err := fstest.TestFS(files, names...); err != nil {
		t.Error(err)
	}
	f.Reset()
	if entries, err := fs.ReadDir(files, "."); err != nil || len(entries) != 6 {
		t.Errorf("got %v, %v", entries, err)
	}
	if ops := f.Ops(); len(ops) != 2 {
		t.Errorf("6 directories in pages of 3: %v", ops)
	}
}
