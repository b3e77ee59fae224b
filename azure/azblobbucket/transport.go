package azblobbucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// The bounds of an answer, in bytes. A page of a listing has at most 5,000 names.
const (
	maxHeader = 64 << 10
	maxAnswer = 256 << 10
	maxList   = 64 << 20
)

type limitKey struct{}

// expectBlob returns the context of a request whose answer is a blob of any size.
func expectBlob(ctx context.Context) context.Context {
	return context.WithValue(ctx, limitKey{}, int64(-1))
}

func expectList(ctx context.Context) context.Context {
	return context.WithValue(ctx, limitKey{}, int64(maxList))
}

// transport bounds the answers of a server, and follows no redirect.
type transport struct{ client *http.Client }

func newTransport() *transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes, t.DisableCompression, t.MaxIdleConnsPerHost = maxHeader, true, 64
	return &transport{&http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Do implements the Transporter of the SDK.
func (t *transport) Do(r *http.Request) (*http.Response, error) {
	answer, err := t.client.Do(r)
	if err != nil || answer.Body == nil {
		return answer, err
	}
	limit, _ := r.Context().Value(limitKey{}).(int64)
	switch {
	case limit == 0 || answer.StatusCode >= 300:
		answer.Body = &bounded{answer.Body, maxAnswer}
	case limit > 0:
		answer.Body = &bounded{answer.Body, limit}
	}
	return answer, nil
}

var errTooLong = errors.New("the answer is damaged: it is too long")

// bounded is a body of which at most left more bytes are read.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w", errTooLong)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
