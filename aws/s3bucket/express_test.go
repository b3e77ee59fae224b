package s3bucket_test

import (
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

// TestSession: a directory bucket needs a session, which the SDK gets by another request. If that request fails, the
// write was not sent. If the next call can succeed, the error says so.
func TestSession(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server roundTripper
		want   error
	}{
		{"silent", func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }, store.ErrUnavailable},
		{"busy", answer(http.StatusServiceUnavailable, "SlowDown"), store.ErrUnavailable},
		{"denied", answer(http.StatusForbidden, "AccessDenied"), store.ErrMisconfigured},
	} {
		synctest.Test(t, func(t *testing.T) {
			const bucket = "holdfast--use1-az4--x-s3"
			client := awstest.NewS3(bucket).Client(func(o *s3.Options) {
				o.HTTPClient = &http.Client{Transport: tt.server}
				o.BaseEndpoint = nil
				o.UsePathStyle = false
			})
			b, err := s3bucket.New(client, bucket, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
			if !errors.Is(err, tt.want) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%s: %v, %v", tt.name, err, store.OutcomeOf(err))
			}
		})
	}
}

func answer(status int, code string) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		body := "<Error><Code>" + code + "</Code></Error>"
		return &http.Response{StatusCode: status, Header: http.Header{"X-Amz-Request-Id": {"1"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
	}
}
