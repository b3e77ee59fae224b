package s3bucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// three is a body of three parts, each of which differs.
var three = strings.Repeat("a", part) + strings.Repeat("b", part) + "c"

// transfer is an operation that moves a body in parts to the key k, which is absent or
// has the body "old" before.
type transfer struct {
	name string
	old  string
	do   func(ctx context.Context, b *s3bucket.Bucket, v object.Version) error
	prep func(t *testing.T, b *s3bucket.Bucket)
}

func transfers() []transfer {
	var cut object.Upload
	return []transfer{
		{name: "create", do: func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error {
			return put1(ctx, b, "k", three, &object.PutOptions{IfAbsent: true})
		}},
		{name: "swap", old: "old", do: func(ctx context.Context, b *s3bucket.Bucket, v object.Version) error {
			return put1(ctx, b, "k", three, &object.PutOptions{IfMatch: v})
		}},
		{name: "overwrite", old: "old", do: func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error {
			return put1(ctx, b, "k", three, nil)
		}},
		{name: "copy", do: func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error {
			_, err := b.Copy(ctx, "source", "k", &object.CopyOptions{IfAbsent: true})
			return err
		}, prep: func(t *testing.T, b *s3bucket.Bucket) { put(t, b, "source", three, nil) }},
		{name: "resume", do: func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error {
			_, err := b.Resume(ctx, cut, strings.NewReader(three), &object.PutOptions{IfAbsent: true})
			return err
		}, prep: func(t *testing.T, b *s3bucket.Bucket) { cut = cutPut(t, b, "k", three[:part+1]) }},
	}
}

// cutPut puts a large body that breaks off, and returns the upload that is kept.
func cutPut(t *testing.T, b object.Bucket, key, body string) object.Upload {
	t.Helper()
	_, err := b.Put(t.Context(), key, io.MultiReader(strings.NewReader(body), broken{}), &object.PutOptions{OnUpload: func(object.Upload) {}})
	var unfinished *object.UnfinishedError
	if !errors.As(err, &unfinished) || !errors.Is(err, errBroken) || store.OutcomeOf(err) != store.NotApplied {
		t.Fatalf("got %v (%v)", err, store.OutcomeOf(err))
	}
	return unfinished.Upload
}

var errBroken = errors.New("the disk is gone")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

// start makes a server whose requests go wrong as rig says, and the bucket on it.
func (tr transfer) start(t *testing.T) (*awstest.S3, *s3bucket.Bucket, object.Version) {
	f := awstest.NewS3("bucket")
	f.MaxCopy = part // so that larger copies go by parts
	b := newBucket(t, f, &s3bucket.Options{AssumeAbilities: object.Abilities()})
	var v object.Version
	if tr.old != "" {
		v = put(t, b, "k", tr.old, nil)
	}
	if tr.prep != nil {
		tr.prep(t, b)
	}
	f.Reset()
	return f, b, v
}

// check checks that the object is what the outcome says, whole, and that a sweep leaves
// no upload, and nothing else changed.
func (tr transfer) check(t *testing.T, f *awstest.S3, b *s3bucket.Bucket, err error) {
	t.Helper()
	body := string(f.Body("bucket", "k"))
	switch outcome := store.OutcomeOf(err); {
	case body != tr.old && body != three:
		t.Errorf("the object has %d bytes, which no caller wrote", len(body))
	case outcome == store.Applied && body != three, outcome == store.NotApplied && body != tr.old:
		t.Errorf("%v, and the object has %d bytes: %v", outcome, len(body), err)
	}
	f.Clear()
	time.Sleep(25 * time.Hour)
	if _, err := object.SweepUploads(t.Context(), b, "k", nil); err != nil {
		t.Errorf("sweep: %v", err)
	}
	if n := f.Uploads("bucket"); n > 0 {
		t.Errorf("%d uploads are left after a sweep", n)
	}
	if got := string(f.Body("bucket", "k")); got != body {
		t.Errorf("the sweep changed the object: %d bytes", len(got))
	}
}

// TestNthRequest: whichever request of a transfer goes wrong, once or from then on, the
// outcome that is reported is right, no part of a body can be seen as an object, and no
// upload is left, except where the abort could not get through either; then a sweep
// removes it.
func TestNthRequest(t *testing.T) {
	for name, fault := range map[string]awstest.Fault{
		"request lost":             {Drop: true},
		"reply lost":               {Lose: true},
		"500":                      {Status: 500, Code: "InternalError"},
		"500, applied":             {Status: 500, Code: "InternalError", Applied: true},
		"503":                      {Status: 503, Code: "SlowDown"},
		"403":                      {Status: 403, Code: "AccessDenied"},
		"409":                      {Status: 409, Code: "ConditionalRequestConflict"},
		"412":                      {Status: 412, Code: "PreconditionFailed"},
		"404":                      {Status: 404, Code: "NoSuchUpload"},
		"200 with an error inside": {Status: 200, Code: "InternalError"},
		"twice":                    {Twice: true},
		"no answer":                {Hang: true},
	} {
		for _, count := range []int{1, -1} { // -1 stands for a process that dies
			t.Run(fmt.Sprintf("%s %d", name, count), func(t *testing.T) {
				for _, tr := range transfers() {
					for n, clean := 0, false; !clean; n++ {
						synctest.Test(t, func(t *testing.T) {
							f, b, v := tr.start(t)
							f.Add("", n, count, fault)
							err := tr.do(t.Context(), b, v)
							clean = len(f.Requests()) <= n
							if clean && err != nil {
								t.Errorf("%s, without a fault: %v", tr.name, err)
							}
							// Where the answer that names an upload is lost, only a sweep can
							// remove it.
							unnamed := !clean && f.Requests()[n].Op == "CreateMultipartUpload"
							if left := f.Uploads("bucket"); left > 0 && count == 1 && !unnamed {
								t.Errorf("%s, request %d: %d uploads are left", tr.name, n+1, left)
							}
							tr.check(t, f, b, err)
							if t.Failed() {
								t.Fatalf("%s, request %d of %v: %v (%v)", tr.name, n+1, f.Ops(), err, store.OutcomeOf(err))
							}
						})
						if t.Failed() {
							return
						}
					}
				}
			})
		}
	}
}

// TestContextEndsInTransfer: the caller's context may end in every step: the transfer
// ends soon after, with the reason, and aborts its upload.
func TestContextEndsInTransfer(t *testing.T) {
	why := errors.New("the lease has ended")
	for _, tr := range transfers() {
		for n, clean := 0, false; !clean; n++ {
			synctest.Test(t, func(t *testing.T) {
				f, b, v := tr.start(t)
				f.Add("", n, 1, awstest.Fault{After: time.Minute})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(why) })
				start := time.Now()
				err := tr.do(ctx, b, v)
				clean = err == nil && time.Since(start) < time.Second
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("%s, request %d: took %v", tr.name, n+1, took)
				}
				if err != nil && !errors.Is(err, why) {
					t.Errorf("%s, request %d: %v", tr.name, n+1, err)
				}
				unnamed := !clean && f.Requests()[n].Op == "CreateMultipartUpload"
				if !unnamed && f.Uploads("bucket") > 0 {
					t.Errorf("%s, request %d: an upload is left (%v)", tr.name, n+1, f.Ops())
				}
				tr.check(t, f, b, err)
			})
		}
	}
}

// altered sends to a server, and has a test change the answers.
type altered struct {
	server http.RoundTripper
	change func(op string, resp *http.Response)
}

// RoundTrip implements [http.RoundTripper].
func (a altered) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.server.RoundTrip(r)
	if err == nil {
		a.change(r.Method+" "+r.URL.RawQuery, resp)
	}
	return resp, err
}

// TestHostileUpload: what a server can answer in an upload besides the truth.
func TestHostileUpload(t *testing.T) {
	isPart := func(op string) bool { return strings.HasPrefix(op, "PUT ") && strings.Contains(op, "partNumber=2") }
	isComplete := func(op string) bool { return strings.HasPrefix(op, "POST uploadId") }
	answer := func(resp *http.Response, status int, body io.Reader) {
		resp.StatusCode, resp.ContentLength, resp.Body = status, -1, io.NopCloser(body)
	}
	parts := 0
	for _, c := range []struct {
		name   string
		change func(op string, resp *http.Response)
		want   store.Outcome
	}{
		{"a part has no ETag at first", func(op string, resp *http.Response) {
			if isPart(op) {
				if parts++; parts == 1 {
					resp.Header.Del("Etag")
				}
			}
		}, store.Applied},
		{"the ETag of a part is altered", func(op string, resp *http.Response) {
			if isPart(op) {
				resp.Header.Set("Etag", `"0123456789abcdef0123456789abcdef"`)
			}
		}, store.NotApplied},
		{"a part has no ETag", func(op string, resp *http.Response) {
			if isPart(op) {
				resp.Header.Del("Etag")
			}
		}, store.NotApplied},
		{"ETags have no quotes", func(op string, resp *http.Response) {
			if tag := resp.Header.Get("Etag"); tag != "" {
				resp.Header.Set("Etag", strings.Trim(tag, `"`))
			}
		}, store.Applied},
		{"the upload has no id", func(op string, resp *http.Response) {
			if strings.HasPrefix(op, "POST uploads") {
				answer(resp, 200, strings.NewReader("<InitiateMultipartUploadResult/>"))
			}
		}, store.NotApplied},
		{"the completion never ends to be answered", func(op string, resp *http.Response) {
			if isComplete(op) {
				answer(resp, 200, spaces{})
			}
		}, store.Unknown},
		{"the completion is answered with 200 and an error", func(op string, resp *http.Response) {
			if isComplete(op) {
				answer(resp, 200, strings.NewReader("<Error><Code>InternalError</Code><Message>x</Message></Error>"))
			}
		}, store.Unknown},
		{"the completion is answered with a page", func(op string, resp *http.Response) {
			if isComplete(op) {
				answer(resp, 200, strings.NewReader("<html>Welcome</html>"))
			}
		}, store.Unknown},
		{"the completion is answered with an object that has no version", func(op string, resp *http.Response) {
			if isComplete(op) {
				answer(resp, 200, strings.NewReader("<CompleteMultipartUploadResult/>"))
			}
		}, store.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := awstest.NewS3("bucket")
				f.MinPart = 1
				client := f.Client(func(o *s3.Options) { o.HTTPClient = &http.Client{Transport: altered{f, c.change}} })
				b, err := s3bucket.New(client, "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
				if err != nil {
					t.Fatal(err)
				}
				s3bucket.SetPartSize(b, part)
				start := time.Now()
				err = put1(t.Context(), b, "k", three, &object.PutOptions{IfAbsent: true})
				if got := store.OutcomeOf(err); got != c.want {
					t.Errorf("got %v (%v), want %v", err, got, c.want)
				}
				if took := time.Since(start); took > time.Minute {
					t.Errorf("took %v", took)
				}
				if body := f.Body("bucket", "k"); c.want == store.Applied && string(body) != three || body != nil && string(body) != three {
					t.Errorf("the object has %d bytes", len(body))
				}
				if n := f.Uploads("bucket"); n > 0 && c.name != "the upload has no id" {
					t.Errorf("%d uploads are left", n)
				}
			})
		})
	}
}

// spaces is white space without an end, which S3 sends while it completes an upload.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestHostileListing: a listing of uploads or parts that leads nowhere ends with an
// error.
func TestHostileListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := against(t, func(r *http.Request) *http.Response {
			body := "<R><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker><NextPartNumberMarker>7</NextPartNumberMarker>" +
				"<Upload><Key>k</Key><UploadId>1</UploadId></Upload><Part><PartNumber>-7</PartNumber><Size>1</Size></Part></R>"
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
		})
		var last error
		n := 0
		for _, last = range b.Uploads(t.Context(), "k") {
			n++
		}
		if !errors.Is(last, store.ErrUnsafe) || n > 10 {
			t.Errorf("uploads: %d, %v", n, last)
		}
		if _, _, err := b.LastPart(t.Context(), object.Upload{Key: "k", ID: "1"}); !errors.Is(err, store.ErrUnsafe) {
			t.Errorf("parts: %v", err)
		}
		if _, err := object.SweepUploads(t.Context(), b, "k", nil); err == nil {
			t.Error("a sweep whose listing does not end succeeds")
		}
	})
}

// TestParallel: parts are sent at the same time, as many as the options say and no more;
// the object is whole in whatever order they arrive.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := awstest.NewS3("bucket")
		f.MaxCopy = part
		b := newBucket(t, f, &s3bucket.Options{AssumeAbilities: object.Abilities(), Parallel: 4})
		var body strings.Builder
		for i := range 10 {
			body.WriteString(strings.Repeat(string(rune('a'+i)), part))
		}
		// Later parts arrive first.
		for n := range 4 {
			f.AddWhen(func(r awstest.Request) bool {
				return r.URL.Query().Get("partNumber") != "" && strings.HasPrefix(r.Op, "UploadPart")
			}, n, 1, awstest.Fault{Before: time.Duration(4-n) * time.Second})
		}
		start := time.Now()
		put(t, b, "k", body.String(), &object.PutOptions{IfAbsent: true})
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("took %v, want that four parts are on their way at a time", took)
		}
		f.Clear()
		f.Add("UploadPartCopy", 0, -1, awstest.Fault{After: time.Second})
		start = time.Now()
		var last int64
		if _, err := b.Copy(t.Context(), "k", "copy", &object.CopyOptions{Progress: func(done, total int64) {
			if total != 10*part || done < last {
				t.Errorf("%d of %d", done, total)
			}
			last = done
		}}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 3*time.Second || last != 10*part {
			t.Errorf("the copy of ten parts took %v, progress ends at %d", took, last)
		}
		for _, key := range []string{"k", "copy"} {
			if string(f.Body("bucket", key)) != body.String() {
				t.Errorf("%s differs", key)
			}
		}
	})
}

// TestCopyChangedSource: all parts of a copy are of one state of the source.
func TestCopyChangedSource(t *testing.T) {
	f := awstest.NewS3("bucket")
	f.MaxCopy = part
	b := trusted(t, f)
	put(t, b, "source", three, nil)
	f.AddWhen(func(r awstest.Request) bool {
		if r.Op == "UploadPartCopy" && r.URL.Query().Get("partNumber") == "2" {
			f.Put("bucket", "source", []byte(strings.ToUpper(three)))
		}
		return false
	}, 0, -1, awstest.Fault{})
	_, err := b.Copy(t.Context(), "source", "k", nil)
	if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied || f.Body("bucket", "k") != nil || f.Uploads("bucket") != 0 {
		t.Errorf("got %v, %d uploads left", err, f.Uploads("bucket"))
	}
	for _, r := range f.Requests() {
		if r.Op == "UploadPartCopy" && r.Header.Get("X-Amz-Copy-Source-If-Match") == "" {
			t.Error("a part is copied without a condition")
		}
	}
}

// TestResumeSends: parts that the store has are not sent again, whatever is missing
// between them, and those that differ are.
func TestResumeSends(t *testing.T) {
	f := awstest.NewS3("bucket")
	f.PageSize = 2
	b := newBucket(t, f, nil)
	var body strings.Builder
	for i := range 9 {
		body.WriteString(strings.Repeat(string(rune('a'+i)), part))
	}
	// The seventh part never arrives. Five are sent at a time: it is sent after two others.
	f.AddWhen(func(r awstest.Request) bool { return r.URL.Query().Get("partNumber") == "7" }, 0, -1, awstest.Fault{Status: 400, Code: "BadDigest"})
	_, err := b.Put(t.Context(), "k", strings.NewReader(body.String()), &object.PutOptions{OnUpload: func(object.Upload) {}})
	var unfinished *object.UnfinishedError
	if !errors.As(err, &unfinished) {
		t.Fatal(err)
	}
	f.Clear()
	var have []int32
	// The server says which parts it has: it may have stored one whose sender was stopped
	// before the answer came.
	pages := s3.NewListPartsPaginator(f.Client(), &s3.ListPartsInput{Bucket: aws.String("bucket"), Key: aws.String("k"), UploadId: &unfinished.Upload.ID})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.Parts {
			have = append(have, *p.PartNumber)
		}
	}
	if len(have) < 2 {
		t.Fatalf("only the parts %d arrived", have)
	}
	at := int(have[0]-1) * part // the first byte of a part that is there
	changed := body.String()[:at] + "X" + body.String()[at+1:]
	f.Reset()
	var reported []int64
	info, err := b.Resume(t.Context(), unfinished.Upload, strings.NewReader(changed), &object.PutOptions{Progress: func(done, _ int64) {
		reported = append(reported, done)
	}})
	if err != nil || string(f.Body("bucket", "k")) != changed || info.Size != int64(len(changed)) {
		t.Errorf("got %+v, %v", info, err)
	}
	if first := int64(len(have) * part); reported[0] != first || reported[len(reported)-1] != info.Size || len(reported) != 1+9-len(have) || !slices.IsSorted(reported) {
		t.Errorf("progress was %v; the store had %d bytes before", reported, first)
	}
	sent := 0
	for _, r := range f.Requests() {
		if r.Op == "UploadPart" {
			sent++
		}
	}
	if want := 9 - (len(have) - 1); sent != want {
		t.Errorf("%d parts are sent, want %d: what was missing, and the one that changed", sent, want)
	}
	for _, bad := range []object.Upload{{Key: "k"}, {ID: "1"}, {Key: "k", ID: "1", PartSize: -1}, {Key: "k", ID: "1", PartSize: 1 << 60}} {
		if _, err := b.Resume(t.Context(), bad, strings.NewReader("x"), nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestSweepUploads: a sweep removes what is old and below the prefix, judged by the
// server's clock and by the newest part, and nothing in a dry run.
func TestSweepUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := awstest.NewS3("bucket")
		f.PageSize = 2
		f.Broken.Skew = 100 * time.Hour // the clock of this machine does not count
		b := newBucket(t, f, nil)
		keys := []string{"a/1", "a/2", "a/3", "a/active", "ab", "b/1"}
		var active object.Upload
		for _, key := range keys {
			u := cutPut(t, b, key, three)
			if key == "a/active" {
				active = u
			}
		}
		time.Sleep(20 * time.Hour)
		_, err := b.Resume(t.Context(), active, io.MultiReader(strings.NewReader("new"+three), broken{}), &object.PutOptions{OnUpload: func(object.Upload) {}})
		if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Hour)
		cutPut(t, b, "a/young", three)

		if _, err := object.SweepUploads(t.Context(), b, "", nil); !errors.Is(err, object.ErrInvalid) {
			t.Errorf("the whole bucket: %v", err)
		}
		if _, err := object.SweepUploads(t.Context(), b, "a/", &object.SweepOptions{MinAge: time.Minute}); !errors.Is(err, object.ErrInvalid) {
			t.Errorf("a minute: %v", err)
		}
		var told []string
		o := &object.SweepOptions{DryRun: true, Report: func(u object.Upload, err error) {
			if err != nil {
				t.Error(err)
			}
			told = append(told, u.Key)
		}}
		want := object.SweepStats{Found: 5, TooYoung: 2, Removed: 3}
		got, err := object.SweepUploads(t.Context(), b, "a/", o)
		if err != nil || got != want || f.Uploads("bucket") != 7 || strings.Join(told, " ") != "a/1 a/2 a/3" {
			t.Errorf("dry run: %+v, %v, %q", got, err, told)
		}
		o.DryRun = false
		f.AddWhen(func(r awstest.Request) bool { return r.Key == "a/1" && r.Op == "AbortMultipartUpload" }, 0, -1, awstest.Fault{Status: 403, Code: "AccessDenied"})
		o.Report = nil
		got, err = object.SweepUploads(t.Context(), b, "a/", o)
		want.Removed, want.Failed = 2, 1
		if !errors.Is(err, store.ErrDenied) || got != want || f.Uploads("bucket") != 5 {
			t.Errorf("got %+v, %v, %d left", got, err, f.Uploads("bucket"))
		}
		f.Clear()
		if got, err = object.SweepUploads(t.Context(), b, "", &object.SweepOptions{Filter: func(u object.Upload) bool { return u.Key == "b/1" }}); err != nil || got.Removed != 1 {
			t.Errorf("picked: %+v, %v", got, err)
		}
		f.Broken.NoDate = true
		if got, err = object.SweepUploads(t.Context(), b, "a/", nil); err == nil || got.Removed != 0 {
			t.Errorf("a server that does not tell the time: %+v, %v", got, err)
		}
		f.Broken.NoDate = false
		put(t, b, "a/1", "an object", nil)
		if got, err = object.SweepUploads(t.Context(), b, "a/", nil); err != nil || got.Removed != 1 || string(f.Body("bucket", "a/1")) != "an object" {
			t.Errorf("beside an object: %+v, %v", got, err)
		}
	})
}

// forgetful does not carry out the first abort, as S3 warns while parts arrive.
type forgetful struct {
	*awstest.S3
	aborted bool
}

// RoundTrip implements [http.RoundTripper].
func (f *forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete && !f.aborted {
		f.aborted = true
		return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	return f.S3.RoundTrip(r)
}

// TestRepeatedCompletion: what a server answers to a completion that is sent again may be
// about the first, whatever it says.
func TestRepeatedCompletion(t *testing.T) {
	for _, code := range []string{"412 PreconditionFailed", "409 ConditionalRequestConflict", "404 NoSuchKey", "404 NoSuchUpload", "403 AccessDenied", "400 InvalidPart"} {
		for _, first := range []awstest.Fault{{Lose: true}, {Drop: true}} {
			synctest.Test(t, func(t *testing.T) {
				f := awstest.NewS3("bucket")
				b := trusted(t, f)
				v := put(t, b, "k", "old", nil)
				var status int
				var text string
				if _, err := fmt.Sscan(code, &status, &text); err != nil {
					t.Fatal(err)
				}
				f.Add("CompleteMultipartUpload", 0, 1, first)
				f.Add("CompleteMultipartUpload", 0, 1, awstest.Fault{Status: status, Code: text})
				err := put1(t.Context(), b, "k", three, &object.PutOptions{IfMatch: v})
				if store.OutcomeOf(err) != store.Unknown || errors.Is(err, store.ErrConflict) || !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "the error of the next attempt") {
					t.Errorf("%s: %v (%v)", code, err, store.OutcomeOf(err))
				}
				if n := f.Uploads("bucket"); n > 0 {
					t.Errorf("%s: %d uploads are left", code, n)
				}
			})
		}
	}
}

// TestLateParts: parts that were on their way when the upload was aborted do not stay.
func TestLateParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := awstest.NewS3("bucket")
		f.MinPart = 1
		client := f.Client(func(o *s3.Options) { o.HTTPClient = &http.Client{Transport: &forgetful{S3: f}} })
		b, err := s3bucket.New(client, "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
		if err != nil {
			t.Fatal(err)
		}
		s3bucket.SetPartSize(b, part)
		f.Add("UploadPart", 0, -1, awstest.Fault{Lose: true})
		err = put1(t.Context(), b, "k", three, nil)
		if store.OutcomeOf(err) != store.NotApplied || f.Uploads("bucket") != 0 {
			t.Errorf("got %v, %d uploads left, after %v", err, f.Uploads("bucket"), f.Ops())
		}
	})
}

// TestPartSizes: every body of the allowed size fits into the allowed number of parts,
// and parts are no larger than that takes.
func TestPartSizes(t *testing.T) {
	const mib, gib, tib = 1 << 20, 1 << 30, 1 << 40
	b, err := s3bucket.New(awstest.NewS3("bucket").Client(), "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ length, largest int64 }{
		{1, 8 * mib}, {78 * gib, 8 * mib}, {80_000 * mib, 8 * mib}, {80_000*mib + 1, 9 * mib},
		{tib, 105 * mib}, {5 * tib, 525 * mib}, {48 * tib, 5034 * mib},
	} {
		if sum, largest := s3bucket.PartSizes(b, c.length); sum < c.length || largest != c.largest {
			t.Errorf("%d bytes: the parts hold %d, each %d, want %d", c.length, sum, largest, c.largest)
		}
	}
	if sum, largest := s3bucket.PartSizes(b, 0); sum < 5*tib || largest > 2*gib {
		t.Errorf("an unknown length: the parts hold %d, the largest %d", sum, largest)
	}
}

// TestUploadsOfKey: what a server lists that takes a prefix for a whole key.
func TestUploadsOfKey(t *testing.T) {
	for _, exact := range []bool{false, true} {
		f := awstest.NewS3("bucket")
		f.Broken.UploadsOfKey = exact
		b := newBucket(t, f, nil)
		for _, key := range []string{"a", "a/1", "a/2", "b"} {
			cutPut(t, b, key, three)
		}
		for prefix, want := range map[string]string{"": "a a/1 a/2 b", "a": "a a/1 a/2", "a/": "a/1 a/2", "a/1": "a/1", "c": ""} {
			var got []string
			for u, err := range b.Uploads(t.Context(), prefix) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, u.Key)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%q, exact %v: %q, want %q", prefix, exact, got, want)
			}
		}
	}
}

// TestTooLong: what cannot be uploaded is refused before its body is read.
func TestTooLong(t *testing.T) {
	f := awstest.NewS3("bucket")
	b, err := s3bucket.New(f.Client(), "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int64{49 << 40, math.MaxInt64} {
		_, err := b.Put(t.Context(), "k", broken{}, &object.PutOptions{Length: length})
		if !errors.Is(err, store.ErrTooLarge) || store.OutcomeOf(err) != store.NotApplied || len(f.Requests()) > 0 {
			t.Errorf("%d bytes: %v, requests %v", length, err, f.Ops())
		}
	}
}

// TestUploadResolved: a client knows in the end the outcome of an upload whose completion
// was not answered, or was answered wrongly, by the id of its write.
func TestUploadResolved(t *testing.T) {
	for name, fault := range map[string]awstest.Fault{
		"reply lost": {Lose: true}, "twice": {Twice: true}, "500, applied": {Status: 500, Code: "InternalError", Applied: true},
		"412, applied": {Status: 412, Code: "PreconditionFailed", Applied: true}, "404, applied": {Status: 404, Code: "NoSuchUpload", Applied: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := awstest.NewS3("bucket")
				c, err := object.New(newBucket(t, f, &s3bucket.Options{AssumeAbilities: object.Abilities()}), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, mine := range []bool{true, false} {
					f.Add("CompleteMultipartUpload", 0, 1, fault)
					if !mine { // another writer was faster
						f.Clear()
						f.Add("CompleteMultipartUpload", 0, 1, awstest.Fault{Drop: true})
						put(t, c.Bucket(), "another", "faster", nil)
					}
					key := map[bool]string{true: "k", false: "another"}[mine]
					info, err := c.Put(t.Context(), key, strings.NewReader(three), &object.WriteOptions{IfAbsent: true})
					switch body := string(f.Body("bucket", key)); {
					case mine && (err != nil || body != three || info.Version == ""):
						t.Errorf("mine: %+v, %v", info, err)
					case !mine && (err == nil || store.OutcomeOf(err) == store.Applied || body != "faster"):
						t.Errorf("another's: %v, %d bytes", err, len(body))
					}
					if n := f.Uploads("bucket"); n > 0 {
						t.Errorf("%d uploads are left", n)
					}
					f.Clear()
				}
			})
		})
	}
}

// TestSlowServer: parts that take long are waited for, all five at the pace of a line that
// they share; a server that hangs is given up, and nothing is left.
func TestSlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := awstest.NewS3("bucket")
		b, err := s3bucket.New(f.Client(), "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities(), PartSize: 5 << 20})
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat("x", 10<<20)
		// 5 MiB at 256 KiB/s take 20 s; when five parts share the line, 100 s.
		f.Add("UploadPart", 0, -1, awstest.Fault{After: 100 * time.Second})
		f.Add("CompleteMultipartUpload", 0, -1, awstest.Fault{After: 4 * time.Minute})
		start := time.Now()
		if err := put1(t.Context(), b, "k", body, nil); err != nil {
			t.Errorf("got %v after %v and %v", err, time.Since(start), f.Ops())
		}
		f.Clear()
		f.Add("UploadPart", 0, -1, awstest.Fault{Hang: true})
		start = time.Now()
		err = put1(t.Context(), b, "l", body, nil)
		if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied || time.Since(start) > 8*time.Minute {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		if n := f.Uploads("bucket"); n > 0 {
			t.Errorf("%d uploads are left", n)
		}
	})
}

// TestUnquoted: a version without its quotes is a conflict that says so, and nothing is
// sent.
func TestUnquoted(t *testing.T) {
	f := awstest.NewS3("bucket")
	b := trusted(t, f)
	v := object.Version(strings.Trim(string(put(t, b, "k", "one", nil)), `"`))
	f.Reset()
	for what, err := range map[string]error{
		"put":    put1(t.Context(), b, "k", "two", &object.PutOptions{IfMatch: v}),
		"delete": b.Delete(t.Context(), "k", &object.DeleteOptions{IfMatch: v}),
		"copy":   copy1(t.Context(), b, &object.CopyOptions{SourceIfMatch: v}),
	} {
		if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), "quotes") {
			t.Errorf("%s: %v (%v)", what, err, store.OutcomeOf(err))
		}
	}
	if n := len(f.Requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
}
