package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// raw is one bucket and the bare SDK without retries: what the server itself does.
type raw struct {
	t      *testing.T
	c      *s3.Client
	bucket string
}

func newRaw(t *testing.T, server servers.S3, versioned bool, opts ...func(*s3.Options)) *raw {
	t.Helper()
	once := func(o *s3.Options) { o.RetryMaxAttempts = 1 }
	return &raw{t, server.Client(append([]func(*s3.Options){once}, opts...)...), server.NewBucket(t, versioned)}
}

// put writes an object and returns its ETag.
func (r *raw) put(key, body string, change ...func(*s3.PutObjectInput)) (string, error) {
	in := &s3.PutObjectInput{Bucket: &r.bucket, Key: &key, Body: strings.NewReader(body)}
	for _, f := range change {
		f(in)
	}
	out, err := r.c.PutObject(r.t.Context(), in)
	if err != nil {
		return "", err
	}
	return aws.ToString(out.ETag), nil
}

// must is put for the setting of a scene.
func (r *raw) must(key, body string) (etag string) {
	r.t.Helper()
	etag, err := r.put(key, body)
	if err != nil {
		r.t.Fatalf("put %q: %v", key, err)
	}
	return etag
}

func absent(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") }

func match(etag string) func(*s3.PutObjectInput) {
	return func(in *s3.PutObjectInput) { in.IfMatch = &etag }
}

// get returns the body of an object, or the status in its place.
func (r *raw) get(key string) string {
	out, err := r.c.GetObject(r.t.Context(), &s3.GetObjectInput{Bucket: &r.bucket, Key: &key})
	if err != nil {
		return answer(err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// delete deletes an object, if it has the ETag where one is given.
func (r *raw) delete(key, etag string) error {
	in := &s3.DeleteObjectInput{Bucket: &r.bucket, Key: &key}
	if etag != "" {
		in.IfMatch = &etag
	}
	_, err := r.c.DeleteObject(r.t.Context(), in)
	return err
}

func (r *raw) copy(from, to string, change func(*s3.CopyObjectInput)) error {
	in := &s3.CopyObjectInput{Bucket: &r.bucket, Key: &to, CopySource: aws.String(r.bucket + "/" + from)}
	change(in)
	_, err := r.c.CopyObject(r.t.Context(), in)
	return err
}

// multipart writes an object of one part, with headers of the caller's at the creation
// of the upload and conditions at its completion.
func (r *raw) multipart(key, body string, atCreation http.Header, change func(*s3.CompleteMultipartUploadInput)) error {
	ctx := r.t.Context()
	created, err := r.c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &r.bucket, Key: &key}, withHeader(atCreation))
	if err != nil {
		return err
	}
	part, err := r.c.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &r.bucket, Key: &key, UploadId: created.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader(body),
	})
	if err != nil {
		return err
	}
	in := &s3.CompleteMultipartUploadInput{
		Bucket: &r.bucket, Key: &key, UploadId: created.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{
			Parts: []types.CompletedPart{{ETag: part.ETag, PartNumber: aws.Int32(1)}},
		},
	}
	change(in)
	_, err = r.c.CompleteMultipartUpload(ctx, in)
	return err
}

// withHeader adds headers to a request before it is signed.
func withHeader(h http.Header) func(*s3.Options) {
	return func(o *s3.Options) {
		for name := range h {
			o.APIOptions = append(o.APIOptions, smithyhttp.AddHeaderValue(name, h.Get(name)))
		}
	}
}

// headers sends a GET and returns the status and the headers of the answer.
func (r *raw) headers(key, ifNoneMatch string) (int, http.Header) {
	in := &s3.GetObjectInput{Bucket: &r.bucket, Key: &key}
	if ifNoneMatch != "" {
		in.IfNoneMatch = &ifNoneMatch
	}
	var code int
	var header http.Header
	out, err := r.c.GetObject(r.t.Context(), in, func(o *s3.Options) {
		o.HTTPClient = doFunc(func(req *http.Request) (*http.Response, error) {
			res, err := http.DefaultClient.Do(req)
			if err == nil {
				code, header = res.StatusCode, res.Header
			}
			return res, err
		})
	})
	if err == nil {
		out.Body.Close()
	}
	return code, header
}

type doFunc func(*http.Request) (*http.Response, error)

func (f doFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// answer returns the answer to a request in short: "ok", "412 PreconditionFailed".
func answer(err error) string {
	if err == nil {
		return "ok"
	}
	var re *awshttp.ResponseError
	var api smithy.APIError
	switch {
	case !errors.As(err, &re):
		return err.Error()
	case errors.As(err, &api):
		return fmt.Sprint(re.HTTPStatusCode(), " ", api.ErrorCode())
	}
	return fmt.Sprint(re.HTTPStatusCode())
}

// race lets 16 contenders do something at once, in so many rounds, and says how
// many of the rounds had exactly one winner, and what the others were answered.
func race(ctx context.Context, rounds int, f func(ctx context.Context, round, contender int) error) string {
	const contenders = 16
	one := 0
	losers := map[string]bool{}
	for round := range rounds {
		var wg sync.WaitGroup
		var mu sync.Mutex
		winners := 0
		for i := range contenders {
			wg.Go(func() {
				err := f(ctx, round, i)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					winners++
				} else {
					losers[answer(err)] = true
				}
			})
		}
		wg.Wait()
		if winners == 1 {
			one++
		}
	}
	if one < rounds {
		return fmt.Sprintf("one winner in %d of %d rounds", one, rounds)
	}
	if len(losers) != 1 {
		return fmt.Sprintf("one winner; the others were answered %v", losers)
	}
	for s := range losers {
		return "one winner, the others " + s
	}
	return ""
}
