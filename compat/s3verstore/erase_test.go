package s3verstore_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/store"
)

// keeping is a server that answers the first removals with success, and keeps the versions.
type keeping struct {
	*awstest.S3
	first, removals int
}

func (k *keeping) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		if k.removals++; k.removals <= k.first {
			return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(strings.NewReader("<DeleteResult/>")), Request: r}, nil
		}
	}
	return k.S3.RoundTrip(r)
}

// TestErase: Erase removes versions again if they are still listed, but not for ever.
func TestErase(t *testing.T) {
	for name, c := range map[string]struct {
		first int
		want  error
	}{"at once": {0, nil}, "late": {4, nil}, "never": {1000, store.ErrUnavailable}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keeping{S3: newBucket(), first: c.first}
				s := openBelow(t, k.S3, "", nil, func(o *s3.Options) { o.HTTPClient = &http.Client{Transport: k} })
				mustPut(t, s, "k", "", "1")
				began := time.Now()
				err := s.Erase(t.Context(), "k")
				left, took := len(live(k.S3, "k!!")), time.Since(began)
				if !errors.Is(err, c.want) || (left == 0) != (err == nil) || k.removals > 20 || took > time.Minute || c.first > 0 && took == 0 {
					t.Errorf("%v, want %v; %d removals in %v, %d versions are left", err, c.want, k.removals, took, left)
				}
			})
		})
	}
}
