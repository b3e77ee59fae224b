// Package faultproxy is a proxy between a real client and a real server. It makes requests fail, as a bad
// network or a bad server does.
//
// A [Proxy] does not change the requests that it forwards. It also keeps the Host header, so AWS
// signatures stay valid when the endpoint of the client is the proxy. A [Rule] chooses requests by their
// properties and their number, and does a [Fault] to them. For example, the client gets no reply, the
// server gets the request twice or late, or the connection breaks.
//
// The proxy reads a request or reply to its end before it forwards it. So a client that gives up cannot
// make the server get a part of a request.
package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy forwards requests to one server. Any number of goroutines may use it.
type Proxy struct {
	// URL is the address of the proxy. Use it as the endpoint of a client.
	URL string

	upstream  *url.URL
	transport *http.Transport
	server    *http.Server
	served    chan struct{}

	// ctx ends when the proxy is closed. It bounds everything that continues after
	// the client has left.
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool // nothing begins any more
	busy   int  // what is under way, late requests too
	rules  []*Rule
	calls  []*Call
	n      int // number of the last call
}

// Call is one request to the proxy, with its outcome.
type Call struct {
	N      int // number of the request, from 1, in order of arrival
	Method string
	Path   string // escaped, as the client sent it
	Query  string
	Header http.Header
	Body   []byte

	Start, End time.Time
	Fault      string // the fault that the proxy did to the request; empty if none
	Upstream   []int  // statuses of the answers of the server, in order
	Status     int    // status that the client got; 0 if none
}

// String returns the call in one line.
func (c *Call) String() string {
	line := fmt.Sprintf("%3d %s %s", c.N, c.Method, c.Path)
	if c.Query != "" {
		line += "?" + c.Query
	}
	for _, h := range []string{"X-Amz-Target", "If-Match", "If-None-Match"} {
		if v := c.Header.Get(h); v != "" {
			line += " " + h + "=" + v
		}
	}
	if c.Fault != "" {
		line += " [" + c.Fault + "]"
	}
	return fmt.Sprintf("%s server %v client %d in %s", line, c.Upstream, c.Status, c.End.Sub(c.Start).Round(time.Millisecond))
}

// New starts a proxy before the server at upstream (http://HOST:PORT). When the test ends, New closes the
// proxy. If the test has failed, New logs the last calls.
func New(t testing.TB, upstream string) *Proxy {
	t.Helper()
	u, err := url.Parse(upstream)
	if err == nil && (u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "") {
		err = fmt.Errorf("upstream %q is not http://HOST:PORT", upstream)
	}
	l, errListen := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err, errListen); err != nil {
		t.Fatalf("start a proxy before %s: %v", upstream, err)
	}
	p := &Proxy{
		URL:      "http://" + l.Addr().String(),
		upstream: u,
		// No compression of its own: that would add a header.
		transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
		served:    make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.server = &http.Server{Handler: p}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(l) // ends with Close
	}()
	t.Cleanup(func() {
		p.Close()
		if !t.Failed() {
			return
		}
		calls := p.Calls()
		for _, c := range calls[max(0, len(calls)-100):] {
			t.Log(c)
		}
	})
	return p
}

// Close breaks all connections, and drops the requests that are waiting to be sent late. It returns when
// no request is in progress.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.server.Close()
	<-p.served
	p.WaitIdle()
	p.transport.CloseIdleConnections()
}

// WaitIdle waits until no request is in progress, and all late requests have been sent.
func (p *Proxy) WaitIdle() {
	for {
		p.mu.Lock()
		busy := p.busy
		p.mu.Unlock()
		if busy == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Inject adds rules. For each request, the first rule that acts on it decides. The later rules still
// count the request if they match it.
func (p *Proxy) Inject(rules ...*Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, rules...)
}

// Heal removes all rules. Faults of earlier requests continue.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Calls returns copies of the calls so far, in order of arrival.
func (p *Proxy) Calls() []*Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := make([]*Call, len(p.calls))
	for i, c := range p.calls {
		copied := *c
		copied.Upstream = slices.Clone(c.Upstream)
		calls[i] = &copied
	}
	return calls
}

// Count returns the number of calls so far that match. A nil match means all calls.
func (p *Proxy) Count(match Match) int {
	n := 0
	for _, c := range p.Calls() {
		if match == nil || match(c) {
			n++
		}
	}
	return n
}

// Reset removes the calls from the list of [Proxy.Calls]. The next call still gets the next number.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = nil
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left in the middle: the server never hears of it
	}
	x := &exchange{p: p, w: w, r: r, body: body}
	if !p.begin() {
		x.drop()
	}
	defer p.end()
	fault := p.record(x)
	defer func() {
		p.mu.Lock()
		x.call.End = time.Now()
		p.mu.Unlock()
	}()
	fault.run(x)
}

// begin announces something that Close has to wait for.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.busy++
	}
	return !p.closed
}

func (p *Proxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
}

// record enters a call and decides what is done to it.
func (p *Proxy) record(x *exchange) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	x.call = &Call{
		N: p.n, Method: x.r.Method, Path: x.r.URL.EscapedPath(), Query: x.r.URL.RawQuery,
		Header: x.r.Header.Clone(), Body: x.body, Start: time.Now(),
	}
	p.calls = append(p.calls, x.call)
	chosen := Fault{run: pass}
	acted := false
	for _, rule := range p.rules {
		if f, ok := rule.act(x.call); ok && !acted {
			chosen, acted = f, true
		}
	}
	x.call.Fault = chosen.name
	return chosen
}

// exchange is one request on its way.
type exchange struct {
	p    *Proxy
	w    http.ResponseWriter
	r    *http.Request
	body []byte
	call *Call
}

// reply is a whole answer of the server.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// forward sends the request to the server, whatever the client does meanwhile, and
// reads the whole answer.
func (x *exchange) forward() (*reply, error) {
	u := *x.r.URL
	u.Scheme, u.Host = x.p.upstream.Scheme, x.p.upstream.Host
	out, err := http.NewRequestWithContext(x.p.ctx, x.r.Method, u.String(), bytes.NewReader(x.body))
	if err != nil {
		return nil, err
	}
	out.URL = &u // as it came, not parsed again
	out.Host = x.r.Host
	out.Header = x.r.Header.Clone()
	for _, h := range []string{"Connection", "Keep-Alive", "Expect", "Te", "Trailer", "Transfer-Encoding"} {
		out.Header.Del(h)
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // or the transport adds its own
	}
	res, err := x.p.transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	x.p.mu.Lock()
	x.call.Upstream = append(x.call.Upstream, res.StatusCode)
	x.p.mu.Unlock()
	return &reply{res.StatusCode, res.Header, body}, nil
}

// fetch returns the answer of the server. Without an answer, it closes the connection.
func (x *exchange) fetch() *reply {
	re, err := x.forward()
	if err != nil {
		x.drop()
	}
	return re
}

// answer sends a reply to the client.
func (x *exchange) answer(re *reply) {
	x.head(re)
	_, _ = x.w.Write(re.body) // a client that has left is none of our business
}

// head sends the status and the headers of a reply.
func (x *exchange) head(re *reply) {
	h := x.w.Header()
	for name, values := range re.header {
		switch name {
		case "Connection", "Keep-Alive", "Transfer-Encoding":
		default:
			h[name] = values
		}
	}
	if re.header.Get("Date") == "" {
		h["Date"] = nil // or the server of this proxy adds its own
	}
	x.p.mu.Lock()
	x.call.Status = re.status
	x.p.mu.Unlock()
	x.w.WriteHeader(re.status)
}

// drop closes the connection without an answer.
func (x *exchange) drop() { panic(http.ErrAbortHandler) }

// reset breaks the connection, so that the client gets a "connection reset".
func (x *exchange) reset() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.drop()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close is an orderly one, which does too
	}
	conn.Close()
}

// sleep waits, no longer than the proxy lives. It reports whether it may continue.
func (x *exchange) sleep(d time.Duration) bool {
	select {
	case <-x.p.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// hang waits until the client has given up. It reports whether the proxy lives on.
func (x *exchange) hang() bool {
	select {
	case <-x.p.ctx.Done():
		return false
	case <-x.r.Context().Done():
		return x.p.ctx.Err() == nil
	}
}
