// Package transport is the HTTP client for all requests of the stores on AWS. It does not trust the
// server or the network:
//
//   - The client bounds an answer before it reads it: the header, the body, and the memory for a body of
//     XML or JSON (see [MaxHeader] and the other bounds). Only a body that the caller reads as a stream
//     has no bound.
//   - The client requests no compressed answers, and refuses an answer that is compressed.
//   - The client follows no redirect to another scheme, host or port, because the next server would get
//     the credentials. Its caller gets the redirect as the answer.
//   - If credentials go unencrypted to another machine, the client writes a warning, once per process and
//     endpoint.
package transport

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// Doer sends HTTP requests for the clients of the SDK.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Client sends requests through another client, and checks the answers.
type Client struct {
	inner Doer
	log   *slog.Logger
}

// maxRedirects is how often a server may redirect to itself.
const maxRedirects = 3

// Guard returns a client that sends requests through inner, and writes warnings to log. If log is nil, it
// writes none. If inner is neither an [http.Client] nor a client of the SDK, Guard does not check the
// redirects that inner follows.
//
// If inner is a client of the SDK, Guard creates a new pool of connections. So guard such a client once,
// not for each request.
func Guard(inner Doer, log *slog.Logger) *Client {
	switch c := inner.(type) {
	case *Client:
		log = cmp.Or(log, c.log)
		return &Client{c.inner, log}
	case *http.Client:
		inner = guardRedirects(c)
	case *awshttp.BuildableClient:
		t := c.GetTransport()
		t.MaxResponseHeaderBytes = MaxHeader
		t.DisableCompression = true
		inner = guardRedirects(&http.Client{Transport: t, Timeout: c.GetTimeout()})
	}
	return &Client{inner, log}
}

// New returns a guarded client. Stores use it for their requests, and the SDK for its requests for
// credentials.
func New() *Client {
	quick := &net.Dialer{Timeout: metadataTimeout}
	return Guard(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		dial := t.DialContext
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if host, _, _ := net.SplitHostPort(address); host == "169.254.169.254" || host == "fd00:ec2::254" {
				return quick.DialContext(ctx, network, address)
			}
			return dial(ctx, network, address)
		}
	}), nil)
}

// metadataTimeout is how long it may take to reach the metadata service of a machine
// at Amazon. Elsewhere nothing answers at its address, and a program without
// credentials would wait long to hear that it has none.
const metadataTimeout = time.Second

// guardRedirects returns a copy of c that follows no redirect to another origin.
func guardRedirects(c *http.Client) *http.Client {
	guarded := *c
	guarded.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		status := r.Response.StatusCode
		// The other statuses make a GET of a PUT.
		keeps := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
		if !keeps || len(via) > maxRedirects || !sameOrigin(r.URL, via[0].URL) {
			return http.ErrUseLastResponse
		}
		if c.CheckRedirect != nil {
			return c.CheckRedirect(r, via)
		}
		return nil
	}
	return &guarded
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Do sends a request. The answer has the bounds [MaxHeader] and the following.
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	c.warn(r)
	if r.Header.Get("Accept-Encoding") == "" {
		// Without this Go asks for gzip, and unpacks it without a bound.
		r = r.Clone(r.Context())
		r.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := c.inner.Do(r)
	if err != nil {
		return resp, err
	}
	return bound(r, resp)
}

// warned are the endpoints that were warned of: once per process, however many stores
// are opened there.
var warned sync.Map

// warn reports credentials that go unencrypted over a network.
func (c *Client) warn(r *http.Request) {
	unencrypted := r.URL.Scheme == "http" && r.Header.Get("Authorization") != "" && !isLoopback(r.URL.Hostname())
	if !unencrypted || c.log == nil || !c.log.Enabled(r.Context(), slog.LevelWarn) {
		return
	}
	if _, before := warned.LoadOrStore(r.URL.Host, true); !before {
		c.log.WarnContext(r.Context(), "credentials go unencrypted over http://, so other machines of the network can read and change the requests; use https://", "endpoint", "http://"+r.URL.Host)
	}
}

func isLoopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
