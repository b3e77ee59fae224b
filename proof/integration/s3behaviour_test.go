package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// behaviours pin down what each server does where it matters to us. A failure after
// a change of a server's version means that what we say of that server, and the
// exceptions that the suites make for it, have to be looked at again. Where the
// servers differ from AWS (as its documentation has it; it was not tested) the
// entry says so.
var behaviours = []struct {
	name      string
	versitygw string
	minio     string // empty: as versitygw
	probe     func(r *raw) string
}{
	{"create if absent: new, again", "ok, 412 PreconditionFailed, first", "", func(r *raw) string {
		_, err1 := r.put("k", "first", absent)
		_, err2 := r.put("k", "second", absent)
		return join(answer(err1), answer(err2), r.get("k"))
	}},
	{"create if absent, raced", "one winner, the others 412 PreconditionFailed", "", func(r *raw) string {
		return race(r.t.Context(), 10, func(_ context.Context, round, i int) error {
			_, err := r.put(fmt.Sprint(round), fmt.Sprint(i), absent)
			return err
		})
	}},
	{"swap: wrong ETag, right ETag", "412 PreconditionFailed, 1, ok, 2", "", func(r *raw) string {
		etag := r.must("k", "1")
		_, err1 := r.put("k", "x", match(`"00000000000000000000000000000000"`))
		before := r.get("k")
		_, err2 := r.put("k", "2", match(etag))
		return join(answer(err1), before, answer(err2), r.get("k"))
	}},
	{"swap of what is not there", "404 NoSuchKey, 404 NoSuchKey", "", func(r *raw) string {
		_, err := r.put("k", "x", match(`"00000000000000000000000000000000"`))
		return join(answer(err), r.get("k"))
	}},
	{"swap, raced", "one winner, the others 412 PreconditionFailed", "", func(r *raw) string {
		etags := make([]string, 10)
		for i := range etags {
			etags[i] = r.must(fmt.Sprint(i), "before")
		}
		return race(r.t.Context(), len(etags), func(_ context.Context, round, i int) error {
			_, err := r.put(fmt.Sprint(round), fmt.Sprint(i), match(etags[round]))
			return err
		})
	}},
	{"equal bodies", "equal ETags", "", func(r *raw) string {
		if r.must("a", "body") == r.must("b", "body") {
			return "equal ETags"
		}
		return "different ETags"
	}},
	{"delete if match: wrong ETag", // AWS: as versitygw
		"412 PreconditionFailed, body", "ok, 404 NoSuchKey", func(r *raw) string {
			r.must("k", "body")
			err := r.delete("k", `"00000000000000000000000000000000"`)
			return join(answer(err), r.get("k"))
		}},
	{"delete if match: right ETag", "ok, 404 NoSuchKey", "", func(r *raw) string {
		err := r.delete("k", r.must("k", "body"))
		return join(answer(err), r.get("k"))
	}},
	{"delete if match: not there", "ok", "", func(r *raw) string {
		return answer(r.delete("k", `"00000000000000000000000000000000"`))
	}},
	{"copy if the source matches: wrong ETag", "412 PreconditionFailed, old", "", func(r *raw) string {
		r.must("from", "new")
		r.must("to", "old")
		err := r.copy("from", "to", func(in *s3.CopyObjectInput) {
			in.CopySourceIfMatch = aws.String(`"00000000000000000000000000000000"`)
		})
		return join(answer(err), r.get("to"))
	}},
	{"copy if the target is absent, and it is not", // AWS: 412
		"ok, new", "", func(r *raw) string {
			r.must("from", "new")
			r.must("to", "old")
			err := r.copy("from", "to", func(in *s3.CopyObjectInput) { in.IfNoneMatch = aws.String("*") })
			return join(answer(err), r.get("to"))
		}},
	{"copy if the target matches: wrong ETag", // AWS: 412
		"ok, new", "", func(r *raw) string {
			r.must("from", "new")
			r.must("to", "old")
			err := r.copy("from", "to", func(in *s3.CopyObjectInput) {
				in.IfMatch = aws.String(`"00000000000000000000000000000000"`)
			})
			return join(answer(err), r.get("to"))
		}},
	{"multipart, completed if absent: it is, it is not", "ok, new, 412 PreconditionFailed, new", "", func(r *raw) string {
		ifAbsent := func(in *s3.CompleteMultipartUploadInput) { in.IfNoneMatch = aws.String("*") }
		err1 := r.multipart("k", "new", nil, ifAbsent)
		before := r.get("k")
		err2 := r.multipart("k", "newer", nil, ifAbsent)
		return join(answer(err1), before, answer(err2), r.get("k"))
	}},
	{"multipart, completed if match: wrong ETag, not there", "412 PreconditionFailed, old, 404 NoSuchKey, 404 NoSuchKey", "", func(r *raw) string {
		r.must("k", "old")
		wrong := func(in *s3.CompleteMultipartUploadInput) {
			in.IfMatch = aws.String(`"00000000000000000000000000000000"`)
		}
		err1 := r.multipart("k", "new", nil, wrong)
		err2 := r.multipart("missing", "new", nil, wrong)
		return join(answer(err1), r.get("k"), answer(err2), r.get("missing"))
	}},
	{"multipart, completed if absent, raced", "one winner, the others 412 PreconditionFailed", "", func(r *raw) string {
		return race(r.t.Context(), 3, func(_ context.Context, round, i int) error {
			return r.multipart(fmt.Sprint(round), fmt.Sprint(i), nil, func(in *s3.CompleteMultipartUploadInput) {
				in.IfNoneMatch = aws.String("*")
			})
		})
	}},
	// The condition has to ride on the completion.
	{"multipart with the condition at its creation only", "ok, ok, overwritten", "", func(r *raw) string {
		var err error
		created := r.multipart("k", "overwritten", http.Header{"If-None-Match": {"*"}}, func(*s3.CompleteMultipartUploadInput) {
			_, err = r.put("k", "another's", absent) // between the creation and the completion
		})
		return join(answer(created), answer(err), r.get("k"))
	}},
	{"conditional get: same, other", "304, 200", "", func(r *raw) string {
		etag := r.must("k", "1")
		same, _ := r.headers("k", etag)
		r.must("k", "2")
		other, _ := r.headers("k", etag)
		return join(fmt.Sprint(same), fmt.Sprint(other))
	}},
	{"times in an answer: 200, 304, 404",
		"200 Date Last-Modified, 304 Date, 404 Date",
		"200 Date Last-Modified, 304 Date Last-Modified, 404 Date", func(r *raw) string {
			etag := r.must("k", "1")
			var got []string
			for _, c := range []struct{ key, etag string }{{"k", ""}, {"k", etag}, {"missing", ""}} {
				code, h := r.headers(c.key, c.etag)
				line := fmt.Sprint(code)
				if at, err := http.ParseTime(h.Get("Date")); err == nil && time.Since(at).Abs() < 30*time.Second {
					line += " Date"
				}
				if at, err := http.ParseTime(h.Get("Last-Modified")); err == nil && time.Since(at).Abs() < 30*time.Second {
					line += " Last-Modified"
				}
				if h.Get("Age") != "" {
					line += " Age"
				}
				got = append(got, line)
			}
			return join(got...)
		}},
	{"a key below a key", // AWS: as minio
		"409 ObjectParentIsFile, 1, 404 NoSuchKey", "ok, 1, 2", func(r *raw) string {
			r.must("a", "1")
			_, err := r.put("a/b", "2", absent)
			return join(answer(err), r.get("a"), r.get("a/b"))
		}},
	{"a segment of 255 bytes, of 256", // AWS: ok; 1,024 for the key is the only limit
		"ok, 400 KeyTooLongError", "ok, 400 XMinioInvalidObjectName", func(r *raw) string {
			_, err1 := r.put(strings.Repeat("k", 255), "1", absent)
			_, err2 := r.put(strings.Repeat("k", 256), "2", absent)
			return join(answer(err1), answer(err2))
		}},
	{"list after write, after delete", "1, 0", "", func(r *raw) string {
		r.must("p/k", "1")
		count := func() string {
			out, err := r.c.ListObjectsV2(r.t.Context(), &s3.ListObjectsV2Input{Bucket: &r.bucket, Prefix: aws.String("p/")})
			if err != nil {
				return answer(err)
			}
			return fmt.Sprint(len(out.Contents))
		}
		before := count()
		if err := r.delete("p/k", ""); err != nil {
			return answer(err)
		}
		return join(before, count())
	}},
}

func join(parts ...string) string { return strings.Join(parts, ", ") }

// Every server does with conditions what this package says it does, on a plain
// bucket and on a versioned one.
func TestS3Behaviour(t *testing.T) {
	t.Parallel()
	for name, start := range s3Servers() {
		for _, versioned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/versioned=%v", name, versioned), func(t *testing.T) {
				server := start(t)
				for _, b := range behaviours {
					t.Run(b.name, func(t *testing.T) {
						want := b.versitygw
						if name == "minio" && b.minio != "" {
							want = b.minio
						}
						if got := b.probe(newRaw(t, server, versioned)); got != want {
							t.Errorf("got %q, want %q", got, want)
						}
					})
				}
			})
		}
	}
}

// A delete marker is the current version of a deleted object in a bucket with
// versions. MinIO treats it as absence, as AWS does. versitygw answers from the
// version below it: what was deleted can be swapped, and cannot be created. That is
// why nothing of ours deletes an object to make a register absent.
func TestS3DeleteMarker(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, versitygw, minio string
		probe                  func(r *raw, etag string) error
	}{
		{"create if absent", "412 PreconditionFailed, 404 NoSuchKey", "ok, new", func(r *raw, _ string) error {
			_, err := r.put("k", "new", absent)
			return err
		}},
		{"swap with the ETag that was deleted", "ok, new", "404 NoSuchKey, 404 NoSuchKey", func(r *raw, etag string) error {
			_, err := r.put("k", "new", match(etag))
			return err
		}},
		{"swap with another ETag", "412 PreconditionFailed, 404 NoSuchKey", "404 NoSuchKey, 404 NoSuchKey", func(r *raw, _ string) error {
			_, err := r.put("k", "new", match(`"00000000000000000000000000000000"`))
			return err
		}},
		{"complete a multipart upload if absent", "412 PreconditionFailed, 404 NoSuchKey", "ok, new", func(r *raw, _ string) error {
			return r.multipart("k", "new", nil, func(in *s3.CompleteMultipartUploadInput) { in.IfNoneMatch = aws.String("*") })
		}},
		{"delete again with the ETag that was deleted", "ok, 404 NoSuchKey", "ok, 404 NoSuchKey", func(r *raw, etag string) error {
			return r.delete("k", etag)
		}},
	} {
		for name, want := range map[string]string{"versitygw": tt.versitygw, "minio": tt.minio} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				r := newRaw(t, s3Servers()[name](t), true)
				etag := r.must("k", "body")
				if err := r.delete("k", ""); err != nil {
					t.Fatal(err)
				}
				if got := join(answer(tt.probe(r, etag)), r.get("k")); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// Date minus Last-Modified of one answer, less the second to which Last-Modified is
// cut, is never more than the true age of an object: a lease may be judged dead by
// it. (versitygw's Date lags by up to a second, which errs on the safe side.)
func TestS3AgeIsALowerBound(t *testing.T) {
	t.Parallel()
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			r := newRaw(t, start(t), false)
			for i := range 40 {
				sent := time.Now()
				r.must("k", fmt.Sprint(i))
				_, h := r.headers("k", "")
				date, err1 := http.ParseTime(h.Get("Date"))
				modified, err2 := http.ParseTime(h.Get("Last-Modified"))
				if err1 != nil || err2 != nil {
					t.Fatalf("Date %q, Last-Modified %q", h.Get("Date"), h.Get("Last-Modified"))
				}
				if age, most := date.Sub(modified)-time.Second, time.Since(sent); age > most {
					t.Errorf("Date %v, Last-Modified %v: an age of %v, but it is at most %v", date, modified, age, most)
				}
				time.Sleep(37 * time.Millisecond)
			}
		})
	}
}

// Listings of versions have pages of 1,000. (Those of keys are in the suites.)
func TestS3Pages(t *testing.T) {
	t.Parallel()
	const n = 1005
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			r := newRaw(t, start(t), true)
			var wg sync.WaitGroup
			for w := range 8 {
				wg.Go(func() {
					for i := w; i < n; i += 8 {
						if _, err := r.put("v", fmt.Sprint(i)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			seen := map[string]bool{}
			in := &s3.ListObjectVersionsInput{Bucket: &r.bucket, Prefix: aws.String("v")}
			for pages := 1; ; pages++ {
				page, err := r.c.ListObjectVersions(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range page.Versions {
					seen[aws.ToString(v.VersionId)] = true
				}
				if !aws.ToBool(page.IsTruncated) {
					if pages != 2 {
						t.Errorf("%d pages of versions, want 2", pages)
					}
					break
				}
				in.KeyMarker, in.VersionIdMarker = page.NextKeyMarker, page.NextVersionIdMarker
			}
			if len(seen) != n {
				t.Errorf("%d versions listed, want %d", len(seen), n)
			}
		})
	}
}
