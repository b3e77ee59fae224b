package awstest

import (
	"io"
	"net/http"
	"sync/atomic"
)

// Shortened shortens the bodies of a server's answers. Nothing else in the answer shows that the
// body is short.
type Shortened struct {
	Left atomic.Int64 // length of each body in bytes; negative means the whole body

	server http.RoundTripper
}

// NewShortened returns a Shortened that shortens nothing yet.
func NewShortened(server http.RoundTripper) *Shortened {
	c := &Shortened{server: server}
	c.Left.Store(-1)
	return c
}

// RoundTrip implements [http.RoundTripper].
func (c *Shortened) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.server.RoundTrip(r)
	if n := c.Left.Load(); err == nil && n >= 0 {
		resp.ContentLength = -1
		resp.Body = io.NopCloser(io.LimitReader(resp.Body, n))
	}
	return resp, err
}
