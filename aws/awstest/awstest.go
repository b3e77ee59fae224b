// Package awstest has stand-ins for Amazon S3 and DynamoDB that run in the process of a test.
// Each is an [http.RoundTripper] without a network, so the SDK works inside a bubble of
// testing/synctest. The stand-ins return the statuses and error codes of the real services, as
// far as the packages of this module need them.
//
// With [InterceptedClient] a test decides for each request whether its connection breaks, before
// or after the request takes effect. [Faults] loses, delays, repeats or refuses requests, loses
// their replies, or shows a new version later than others. [S3Broken] and [DynamoDBBroken] behave
// like real servers that ignore conditions.
//
// The package is public because the examples of the stores use it, and because programs that keep
// data together with a lock can use it in their tests. Names may change with a minor version.
package awstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
)

// Request is one request that a server has received.
type Request struct {
	Op     string // "PutObject", "GetItem", ...
	Key    string // key of the object, or of the item if it is a string with the name key
	Status int    // status of the answer; 0 if the server sent no answer
	Err    string // error code in the answer
	Header http.Header
	URL    *url.URL
	Body   []byte
}

// Fault is a fault of one request.
type Fault struct {
	// Before is the time that the request needs to reach the server. After is the time that the
	// answer needs to reach the client. If the client stops waiting, the request still continues.
	Before, After time.Duration

	// Hidden is the time for which the version of a PUT has its place among the versions of its
	// object, but is not visible. The server sends the answer at the end of that time.
	Hidden time.Duration

	// Drop: the request never arrives, and the connection breaks.
	Drop bool

	// Twice: the request arrives twice. Between is the time between the two copies. The client gets
	// the answer to the second copy. Early is the time for which the version of the first copy is
	// hidden; the second copy does not wait for that time.
	Twice          bool
	Between, Early time.Duration

	// Echo: the request arrives once more. Echo is the time between the answer and that arrival.
	Echo time.Duration

	// Lose: the answer is lost, and the connection breaks.
	Lose bool

	// Hang: the request is applied, but the client never gets an answer, and the connection stays
	// open.
	Hang bool

	// Status and Code are the answer. The request is not applied, unless Applied is set.
	Status  int
	Code    string
	Applied bool
}

// Faults decides which requests get which faults. The zero value injects no fault. Any number of
// goroutines may use it.
type Faults struct {
	mu    sync.Mutex
	rules []*rule
	plan  func(Request) Fault
}

type rule struct {
	skip  int
	left  int
	fault Fault
	when  func(Request) bool
}

// Add skips the next skip requests of the operation op, and then injects fault into the next count
// requests. An empty op means any operation. A negative count means all later requests.
func (f *Faults) Add(op string, skip, count int, fault Fault) {
	f.AddWhen(func(r Request) bool { return op == "" || r.Op == op }, skip, count, fault)
}

// AddWhen is like [Faults.Add], but selects the requests for which the function when returns true.
func (f *Faults) AddWhen(when func(Request) bool, skip, count int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &rule{skip: skip, left: count, fault: fault, when: when})
}

// Plan makes the function plan return the fault of each request that no Add or AddWhen selects.
// Only one goroutine at a time calls the function. Nil injects no fault.
func (f *Faults) Plan(plan func(Request) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

// Clear removes all faults.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules, f.plan = nil, nil
}

// next returns what happens to r.
func (f *Faults) next(r Request) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rule := range f.rules {
		switch {
		case rule.left == 0 || !rule.when(r):
			continue
		case rule.skip > 0:
			rule.skip--
			continue
		}
		rule.left--
		return rule.fault
	}
	if f.plan != nil {
		return f.plan(r)
	}
	return Fault{}
}

// log is what a server has seen.
type log struct {
	mu       sync.Mutex
	requests []Request
}

func (l *log) add(r Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
}

// Requests returns the requests since the last Reset, each attempt by itself.
func (l *log) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}

// Ops returns the operations of the requests since the last Reset.
func (l *log) Ops() []string {
	var ops []string
	for _, r := range l.Requests() {
		ops = append(ops, r.Op)
	}
	return ops
}

// Reset forgets the requests.
func (l *log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = nil
}

// errReset is what a client sees of a connection that breaks.
var errReset = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}

// server is what the two services have in common.
type server struct {
	log
	Faults

	// Latency is how long every answer takes back, besides what a fault adds.
	Latency time.Duration
}

// service is what makes an answer of a request.
type service struct {
	// serve applies a request. With hide, what it puts stays hidden until show is
	// called; show may be nil.
	serve func(body []byte, hide bool) (resp *http.Response, show func())

	// fail makes the answer of an error.
	fail func(status int, code string) *http.Response
}

// carry brings one request to a service and its answer back, through the faults.
func (s *server) carry(r *http.Request, seen Request, to service) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	seen.Header, seen.URL, seen.Body = r.Header.Clone(), r.URL, body
	f := s.next(seen)
	defer func() { s.add(seen) }()
	if f.Drop {
		return nil, errReset
	}
	answered := make(chan *http.Response, 1)
	// It arrives whether or not the client still waits.
	later(f.Before, func() {
		to.arrive(body, f, func(resp *http.Response) {
			answered <- resp
			if f.Echo > 0 {
				later(f.After+s.Latency+f.Echo, func() { to.apply(body, 0, func(*http.Response) {}) })
			}
		})
	})
	ctx := r.Context()
	var resp *http.Response
	select {
	case resp = <-answered:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if f.Hang {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if way := f.After + s.Latency; way > 0 {
		if err := backoff.Sleep(ctx, way); err != nil {
			return nil, err
		}
	}
	if f.Lose {
		return nil, errReset
	}
	seen.Status, seen.Err = resp.StatusCode, resp.Header.Get("X-Test-Code")
	resp.Request = r
	return resp, nil
}

// arrive has a request applied as often as f says, and calls done with its answer.
func (to service) arrive(body []byte, f Fault, done func(*http.Response)) {
	if f.Status != 0 {
		refused := to.fail(f.Status, f.Code)
		if !f.Applied {
			done(refused)
			return
		}
		answer := done
		done = func(*http.Response) { answer(refused) }
	}
	last := func() { to.apply(body, f.Hidden, done) }
	switch {
	case !f.Twice:
		last()
	case f.Early > 0:
		to.apply(body, f.Early, func(*http.Response) {})
		later(f.Between, last)
	default:
		to.apply(body, f.Hidden, func(*http.Response) { later(f.Between, last) })
	}
}

// apply applies a request once, and calls done when what it put is visible.
func (to service) apply(body []byte, hidden time.Duration, done func(*http.Response)) {
	resp, show := to.serve(body, hidden > 0)
	later(hidden, func() {
		if show != nil {
			show()
		}
		done(resp)
	})
}

// later calls f after d. No goroutine waits meanwhile, which would keep a bubble of
// testing/synctest from its end.
func later(d time.Duration, f func()) {
	if d <= 0 {
		f()
		return
	}
	time.AfterFunc(d, f)
}

// InterceptedClient returns an [http.Client] whose requests to a server, an [S3] or a [DynamoDB],
// go through the function carry. The function calls request once, at the moment when the request
// takes effect, or not at all. If the function returns an error, the client gets an error like that
// of a broken connection, even if the server has sent an answer. The option Intercept of package
// storetest needs such a client.
func InterceptedClient(server http.RoundTripper, carry func(request func() error) error) *http.Client {
	return &http.Client{Transport: interceptedTransport{server, carry}}
}

type interceptedTransport struct {
	server http.RoundTripper
	carry  func(request func() error) error
}

// RoundTrip implements [http.RoundTripper].
func (c interceptedTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	cut := c.carry(func() error {
		resp, err = c.server.RoundTrip(r)
		return err
	})
	switch {
	case cut == nil || err != nil:
		return resp, err
	case resp != nil:
		resp.Body.Close()
	}
	return nil, errReset
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if r.Header.Get("Content-Encoding") == "aws-chunked" {
		body = unchunk(body)
	}
	return body, err
}

func respond(status int, header http.Header, body []byte) *http.Response {
	if header == nil {
		header = make(http.Header)
	}
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return &http.Response{
		Status:        http.StatusText(status),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}
}
