// Package awstest has stand-ins for Amazon S3 and DynamoDB that run in the process
// of a test: an [http.RoundTripper] each, without a network, so that the SDK works
// inside a bubble of testing/synctest. They answer with the statuses and error
// codes of the real services, as far as the packages of this module ask.
//
// [Cut] has a test decide for each request whether its connection breaks, before or
// after it took effect. [Faults] makes requests fail on their way: the reply is lost after the request
// was applied, the request is lost, applied twice, delayed, or refused with a
// status. [S3Broken] and [DynamoDBBroken] make a server that ignores conditions, as
// real ones were seen to do.
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
)

// Request is one request that a server has seen.
type Request struct {
	Op     string // "PutObject", "GetItem", ...
	Key    string // of the object, or of the item where it is a string named key
	Status int    // of the answer; 0 if none was sent
	Err    string // the code of the error that was answered
	Header http.Header
	URL    *url.URL
}

// Fault is what happens to one request on its way.
type Fault struct {
	// Before is how long it takes to the server, After how long the answer takes
	// back. A client that gives up meanwhile does not stop the request.
	Before, After time.Duration

	// Drop: the request never arrives, and the connection breaks.
	Drop bool

	// Twice: it arrives twice; the answer is that to the second.
	Twice bool

	// Lose: the answer is lost, and the connection breaks.
	Lose bool

	// Hang: the answer never comes, and the connection stays. The request is
	// applied.
	Hang bool

	// Status and Code are answered. The request is not applied, unless Applied is
	// set.
	Status  int
	Code    string
	Applied bool
}

// Faults decides what happens to requests. The zero value lets all pass. It may be
// used by any number of goroutines.
type Faults struct {
	mu    sync.Mutex
	rules []*rule
}

type rule struct {
	skip  int
	left  int
	fault Fault
	when  func(Request) bool
}

// Add makes the next count requests of this operation (empty: of any) suffer f,
// after skip others; a negative count means all.
func (f *Faults) Add(op string, skip, count int, fault Fault) {
	f.AddWhen(func(r Request) bool { return op == "" || r.Op == op }, skip, count, fault)
}

// AddWhen is Add for the requests that when picks.
func (f *Faults) AddWhen(when func(Request) bool, skip, count int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &rule{skip: skip, left: count, fault: fault, when: when})
}

// Clear removes all faults.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
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
}

// carry brings one request to serve and its answer back, through the faults. fail
// makes the answer of an error.
func (s *server) carry(r *http.Request, seen Request, serve func(body []byte) *http.Response, fail func(status int, code string) *http.Response) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	seen.Header, seen.URL = r.Header.Clone(), r.URL
	f := s.next(seen)
	defer func() { s.add(seen) }()
	ctx := r.Context()
	if f.Drop {
		return nil, errReset
	}
	applied := make(chan *http.Response, 1)
	arrive := func() {
		var resp *http.Response
		if f.Status == 0 || f.Applied {
			resp = serve(body)
			if f.Twice {
				resp = serve(body)
			}
		}
		if f.Status != 0 {
			resp = fail(f.Status, f.Code)
		}
		applied <- resp
	}
	if f.Before > 0 {
		// It arrives whether or not the client still waits.
		time.AfterFunc(f.Before, arrive)
	} else {
		arrive()
	}
	var resp *http.Response
	select {
	case resp = <-applied:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	switch {
	case f.Lose:
		return nil, errReset
	case f.Hang:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case f.After > 0:
		t := time.NewTimer(f.After)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	seen.Status, seen.Err = resp.StatusCode, resp.Header.Get("X-Test-Code")
	resp.Request = r
	return resp, nil
}

// Cut returns an [http.Client] whose requests to a server, an [S3] or a [DynamoDB], go
// through carry. carry calls request once, where the request is to take effect, or not
// at all; with its error the client sees a connection that broke, whatever the server
// answered. It is what the option Cut of package storetest asks for.
func Cut(server http.RoundTripper, carry func(request func() error) error) *http.Client {
	return &http.Client{Transport: cutting{server, carry}}
}

type cutting struct {
	server http.RoundTripper
	carry  func(request func() error) error
}

// RoundTrip implements [http.RoundTripper].
func (c cutting) RoundTrip(r *http.Request) (resp *http.Response, err error) {
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
	return io.ReadAll(r.Body)
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
