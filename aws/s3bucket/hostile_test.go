package s3bucket_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// answers is a server in the process of the test.
type answers func(r *http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := a(r)
	resp.Request = r
	return resp, nil
}

// against returns a bucket on a server.
func against(t *testing.T, server answers) *s3bucket.Bucket {
	t.Helper()
	client := awstest.NewS3().Client(func(o *s3.Options) { o.HTTPClient = &http.Client{Transport: server} })
	b, err := s3bucket.New(client, "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestYes: a proxy that answers everything with a page of its own is no bucket.
func TestYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := against(t, func(*http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Etag": {`"123-456"`}}, Body: io.NopCloser(strings.NewReader("<html>Welcome</html>")), ContentLength: -1}
		})
		_, put := b.Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
		for what, err := range map[string]error{
			"put":                put,
			"delete":             b.Delete(t.Context(), "k", nil),
			"conditional delete": b.Delete(t.Context(), "k", &object.DeleteOptions{IfMatch: `"123-456"`}),
		} {
			if err == nil || store.OutcomeOf(err) != store.Unknown || !strings.Contains(err.Error(), "proxy") {
				t.Errorf("%s: got %v (%v), want that something else answers", what, err, store.OutcomeOf(err))
			}
		}
	})
}

// TestIncompleteHeaders: a state whose version the server does not tell is not given to the
// caller, whose next write would have no condition. Nor is a body whose length is unknown: it would be
// complete wherever the connection ends.
func TestIncompleteHeaders(t *testing.T) {
	for what, header := range map[string]http.Header{
		"no version":                       {"Content-Length": {"4"}},
		"no length":                        {"Etag": {`"1"`}},
		"a part of a body of unknown size": {"Etag": {`"1"`}, "Content-Length": {"4"}, "Content-Range": {"bytes 2-5/*"}},
		"a part of unknown length":         {"Etag": {`"1"`}, "Content-Range": {"bytes 2-5/9"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := against(t, func(*http.Request) *http.Response {
				return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader("body")), ContentLength: -1}
			})
			if _, err := b.Get(t.Context(), "k", nil); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: get: %v", what, err)
			}
			if _, err := b.Get(t.Context(), "k", &object.GetOptions{Offset: 2}); err == nil {
				t.Errorf("%s: get of a part: %v", what, err)
			}
			if _, err := b.Stat(t.Context(), "k"); header.Get("Content-Range") == "" && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: stat: %v", what, err)
			}
		})
	}
}

// TestCopySize: a server that says that an object is larger than any gets no endless
// row of requests.
func TestCopySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := 0
		b := against(t, func(r *http.Request) *http.Response {
			resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Amz-Request-Id": {"1"}}, ContentLength: -1}
			body := ""
			switch {
			case r.Method == http.MethodHead:
				resp.Header.Set("Content-Length", "1152921504606846976")
				resp.Header.Set("Etag", `"a"`)
				resp.ContentLength = 1 << 60
				resp.Body = http.NoBody
				return resp
			case r.URL.Query().Has("uploads"):
				body = "<R><UploadId>1</UploadId></R>"
			case r.URL.Query().Has("partNumber"):
				parts++
				body = "<R><ETag>a</ETag></R>"
			case r.Method == http.MethodPut:
				resp.StatusCode = http.StatusBadRequest
				body = "<Error><Code>InvalidRequest</Code><Message>larger than the maximum allowable size</Message></Error>"
			}
			resp.Body = io.NopCloser(strings.NewReader(body))
			return resp
		})
		_, err := b.Copy(t.Context(), "k", "l", nil)
		if !errors.Is(err, store.ErrTooLarge) || store.OutcomeOf(err) != store.NotApplied || parts > 0 {
			t.Errorf("got %v after %d parts", err, parts)
		}
	})
}

// silent is a server that never answers.
type silent struct{ received func() }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.received()
	return nil, r.Context().Err()
}

// TestCauseOfContext: if the context of a write ends before the answer, the outcome is unknown. This is so for
// each cause, also for one that says something of another object.
func TestCauseOfContext(t *testing.T) {
	for _, cause := range []error{&object.ConflictError{}, store.ErrNotFound, store.ErrDenied, object.ErrBusy, nil} {
		for name, call := range map[string]func(ctx context.Context, b *s3bucket.Bucket) error{
			"put": func(ctx context.Context, b *s3bucket.Bucket) error {
				_, err := b.Put(ctx, "k", strings.NewReader("v"), &object.PutOptions{IfMatch: `"7"`})
				return err
			},
			"delete": func(ctx context.Context, b *s3bucket.Bucket) error { return b.Delete(ctx, "k", nil) },
			"delete a state": func(ctx context.Context, b *s3bucket.Bucket) error {
				return b.Delete(ctx, "k", &object.DeleteOptions{IfMatch: `"7"`, OrAbsent: true})
			},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			client := awstest.NewS3().Client(func(o *s3.Options) {
				o.HTTPClient = &http.Client{Transport: silent{func() { cancel(cause) }}}
			})
			b, err := s3bucket.New(client, "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
			if err != nil {
				t.Fatal(err)
			}
			if err := call(ctx, b); err == nil || !store.InDoubt(err) {
				t.Errorf("%s, the cause %v: %v (%v)", name, cause, err, store.OutcomeOf(err))
			}
		}
	}
}
