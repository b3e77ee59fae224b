// Package awscall sends one request of an AWS SDK client once, and reports its outcome. The error
// says whether the request may have been applied, and what to do.
//
// The package switches off the retries of the SDK for every call. If the SDK sent a write again
// after a lost reply, it would report a conflict with its own first attempt. The callers of this
// package repeat reads themselves.
package awscall

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"

	"github.com/holdfast-go/holdfast/internal/aws/transport"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/drivers/request"
	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/internal/drivers/slowbody"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// Call watches one call of an SDK client.
type Call struct {
	where  string // the store, for people
	ctx    context.Context
	sent   atomic.Bool
	joined atomic.Bool // the request has a connection
	reads  atomic.Bool // it asks for nothing but to read
	answer atomic.Pointer[answer]
	header atomic.Pointer[http.Header] // of the request; its secrets must not stand in any message
}

type answer struct {
	status int
	header http.Header
	size   atomic.Int64          // of the body, as far as it was read
	broken atomic.Pointer[error] // why the body could not be read to its end
}

// New returns a Call with the context of its caller. The parameter where is the name of the store in
// error messages.
func New(ctx context.Context, where string) *Call { return &Call{where: where, ctx: ctx} }

// Watch returns a client that sends requests through inner and records the answers.
func (c *Call) Watch(inner *transport.Client) transport.Doer { return watched{c, inner} }

type watched struct {
	call  *Call
	inner *transport.Client
}

func (w watched) Do(r *http.Request) (*http.Response, error) {
	w.call.sent.Store(true)
	w.call.joined.Store(false) // a request for credentials has the same context
	w.call.reads.Store(r.Method == http.MethodGet || r.Method == http.MethodHead)
	w.call.header.Store(&r.Header)
	resp, err := w.inner.Do(r.WithContext(transport.ExpectDocument(r.Context())))
	if resp != nil {
		a := &answer{status: resp.StatusCode, header: resp.Header}
		if resp.Body != nil && resp.Body != http.NoBody {
			resp.Body = counted{resp.Body, a}
		}
		w.call.answer.Store(a)
	}
	return resp, err
}

// counted notes what is read of the body of an answer.
type counted struct {
	io.ReadCloser
	answer *answer
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.answer.size.Add(int64(n))
	if err != nil && err != io.EOF {
		c.answer.broken.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Damaged returns an error if the answer of the call could not be read to its end, and otherwise nil.
// Call Damaged before other methods: a damaged answer does not show the outcome of the request, even if
// its status is 200.
func (c *Call) Damaged() error {
	a := c.answer.Load()
	if a == nil || a.broken.Load() == nil {
		return nil
	}
	err := *a.broken.Load()
	if c.ctx.Err() != nil {
		return c.ended(err)
	}
	text := "the answer could not be read: " + c.Text(err)
	var bound *transport.BoundError
	switch {
	case errors.As(err, &bound):
		text = bound.Error()
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		text = errTimeout.Error()
	}
	return c.unreadable(err, text)
}

// unreadable is the error of a call whose answer is damaged.
func (c *Call) unreadable(err error, text string) error {
	if c.refused() && c.strange(err) {
		outcome := store.Unknown
		if c.reads.Load() {
			outcome = store.NotApplied
		}
		return c.Fail(err, store.ErrMisconfigured, outcome, strangeText, c.Status(), text)
	}
	return c.Fail(err, store.ErrUnavailable, store.Unknown, "status %d: %s", c.Status(), text)
}

// refused reports whether the status says that the request was wrong.
func (c *Call) refused() bool {
	status := c.Status()
	return status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests
}

const strangeText = "status %d, but another service sent the reply; check the address of the endpoint, and whether the endpoint needs http:// or https:// (%s)"

// Empty reports whether there was an answer with an empty body.
func (c *Call) Empty() bool {
	a := c.answer.Load()
	return a != nil && a.size.Load() == 0
}

// secrets are the parts of a request's header that no log may show. A server that
// refuses a signature may tell what it was computed from, and one that is no such
// service at all may answer with the request.
func secrets(h http.Header) []string {
	all := []string{h.Get("X-Amz-Security-Token"), h.Get("X-Amz-S3session-Token")}
	for _, field := range strings.FieldsFunc(h.Get("Authorization"), func(r rune) bool { return r == ' ' || r == ',' }) {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "Credential":
			// No secret, but not for a log. Short ones, of other servers, are words.
			if key, _, _ := strings.Cut(value, "/"); len(key) >= 2*secrettext.MinLength {
				all = append(all, key)
			}
		case "Signature":
			all = append(all, value)
		}
	}
	return all
}

// Hide removes the secrets of the request from a text of the server.
func (c *Call) Hide(text string) string {
	if header := c.header.Load(); header != nil {
		return secrettext.Hide(text, secrets(*header))
	}
	return text
}

// Status returns the HTTP status of the answer; 0 if there was none.
func (c *Call) Status() int {
	if a := c.answer.Load(); a != nil {
		return a.status
	}
	return 0
}

// Header returns a header of the answer.
func (c *Call) Header(name string) string {
	if a := c.answer.Load(); a != nil {
		return a.header.Get(name)
	}
	return ""
}

// Now returns the time of the answer, by the store's clock. It is zero if the store did not send
// the time, or if the answer may come from a cache.
func (c *Call) Now() time.Time { return request.Now(c.Header) }

// Code returns the error code of the service, such as "NoSuchBucket".
func Code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// Error is a failed call. It has a text for people, the error of package store that it matches, and
// the outcome of a write. It has no credentials, because requests and their signatures are not part
// of it.
type Error struct {
	where    string // the store
	text     string
	sentinel error // of package store; may be nil
	cause    error
	outcome  store.Outcome
}

func (e *Error) Error() string { return e.where + ": " + e.text }

// StoreName returns the name of the store, which the text begins with; see
// [store.OpError].
func (e *Error) StoreName() string { return e.where }

// Unwrap returns the error of package store and the error of the SDK.
func (e *Error) Unwrap() []error {
	if e.sentinel == nil {
		return []error{e.cause}
	}
	return []error{e.sentinel, e.cause}
}

// Outcome returns the outcome of a write that failed with this error.
func (e *Error) Outcome() store.Outcome { return e.outcome }

// Fail returns an error of this call that matches sentinel, which may be nil.
func (c *Call) Fail(cause, sentinel error, outcome store.Outcome, format string, args ...any) error {
	if c.ctx.Err() != nil && errors.Is(cause, context.Cause(c.ctx)) {
		cause = c.cause() // package net/http reports the end of a context by its cause
	}
	return &Error{c.where, fmt.Sprintf(format, args...), sentinel, cause, outcome}
}

// errTimeout is the cause of the end of a request that took too long.
var errTimeout = errors.New("no answer in time")

// errSilent is the text of such a request that had a connection.
var errSilent = errors.New("the server accepted the connection, and did not answer in time")

// Share returns the time limit of one request of this call; see [engine.Share].
func (c *Call) Share(d time.Duration) time.Duration { return engine.Share(c.ctx, d) }

// WithTimeout returns the context of one request. A Call can distinguish the end of this context
// from the end of the caller's context.
func (c *Call) WithTimeout(d time.Duration) (context.Context, context.CancelFunc) {
	ctx := httptrace.WithClientTrace(c.ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { c.joined.Store(true) }})
	return context.WithTimeoutCause(ctx, d, errTimeout)
}

var errStalled = errors.New("no more bytes of the answer arrived")

// Body returns the body of the answer. Its limits are those of [slowbody.New].
func (c *Call) Body(limit time.Duration) *slowbody.Body {
	return slowbody.New(c.ctx, limit, c.Share(limit), errStalled, func(ctx context.Context, err error) error {
		err = cmp.Or(store.Cause(ctx), err)
		return c.Fail(err, store.ErrUnavailable, store.Unknown, "cannot read the body of the answer: %s", c.Text(err))
	})
}

// Classify returns the error of a call for which the SDK returned err. Before a caller uses Classify, it
// must check for errors that only its own service returns.
func (c *Call) Classify(err error) error {
	if c.Status() == 0 {
		return c.unanswered(err)
	}
	text := c.Text(err)
	var unread *smithy.DeserializationError
	switch status := c.Status(); {
	case status >= 400 && errors.As(err, &unread):
		// Its checksum is wrong, or it is nothing that the service says.
		return c.unreadable(err, "the answer could not be read: "+text)
	case status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests:
		return c.Fail(err, store.ErrUnavailable, store.Unknown, "status %d: %s", status, text)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return c.Fail(err, store.ErrDenied, store.NotApplied, "%s", text)
	case status >= 400:
		if c.strange(err) {
			return c.Fail(err, store.ErrMisconfigured, store.NotApplied, strangeText, status, text)
		}
		return c.Fail(err, nil, store.NotApplied, "status %d: %s", status, text)
	case status >= 300:
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "the server redirects the request (status %d%s). Holdfast does not send credentials to another address; check the region and the endpoint (%s)", status, c.elsewhere(), text)
	}
	// The answer was cut off, or has an error after a good status.
	if c.ctx.Err() != nil {
		return c.ended(err)
	}
	return c.Fail(err, store.ErrUnavailable, store.Unknown, "the answer could not be read: %s", text)
}

// elsewhere names the host that a redirect points to.
func (c *Call) elsewhere() string {
	u, err := url.Parse(c.Header("Location"))
	if err != nil || u.Host == "" {
		return ""
	}
	return fmt.Sprintf(", at %.100q", c.Hide(u.Scheme+"://"+u.Host))
}

// strange reports whether an answer does not look like one of such a service: it has
// no number of the request, and its error has no code but the words of its status.
func (c *Call) strange(err error) bool {
	if c.Header("X-Amz-Request-Id")+c.Header("X-Amzn-Requestid") != "" {
		return false
	}
	code := Code(err)
	return code == "" || code == strings.ReplaceAll(http.StatusText(c.Status()), " ", "")
}

// cause is the cause of the end of the caller's context. Of an error of another request it keeps only the text:
// it is no answer to this one.
func (c *Call) cause() error {
	cause := store.Cause(c.ctx)
	if errors.As(cause, new(smithy.APIError)) {
		return fmt.Errorf("%w: %v", c.ctx.Err(), cause)
	}
	return cause
}

// ended is the error of a call whose caller's context has ended.
func (c *Call) ended(err error) error {
	cause := c.cause()
	if !c.sent.Load() {
		return c.Fail(err, cause, store.NotApplied, "%v", cause)
	}
	return c.Fail(err, cause, store.Unknown, "%v before the server answered", cause)
}

func (c *Call) unanswered(err error) error {
	var (
		dial     *net.OpError
		dns      *net.DNSError
		temp     net.Error
		record   tls.RecordHeaderError
		unknown  x509.UnknownAuthorityError
		host     x509.HostnameError
		invalid  x509.CertificateInvalidError
		verified *tls.CertificateVerificationError
	)
	text := c.Text(err)
	joined := c.sent.Load() && c.joined.Load() // else nothing was sent; the HTTP client of a program may try again by itself
	connecting := errors.As(err, &dns) || errors.As(err, &dial) && dial.Op == "dial"
	// A machine outside of Amazon's cloud has no service that gives it a role, and the SDK asks for one last.
	noRole := connecting && !c.sent.Load() && strings.Contains(err.Error(), "no EC2 IMDS role found")
	switch {
	case c.ctx.Err() != nil:
		return c.ended(err)
	case !joined && (errors.As(err, &record) || strings.Contains(text, "HTTP response to HTTPS client")):
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "the endpoint does not use TLS; it may need http:// in place of https:// (%s)", text)
	case !joined && (errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &verified)):
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "the certificate of the endpoint is not trusted: %s", text)
	case connecting && c.sent.Load() && !joined:
		var errno syscall.Errno
		if errors.As(err, &errno) {
			text = errno.Error() // c.where has the address
		}
		return c.Fail(err, store.ErrUnavailable, store.NotApplied, "cannot connect: %s", text)
	case c.sent.Load():
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			text = errTimeout.Error()
			if joined {
				text = errSilent.Error()
			}
		}
		if strings.Contains(text, "malformed HTTP") {
			return c.Fail(err, store.ErrMisconfigured, store.Unknown, "the server does not speak HTTP: check the address of the endpoint")
		}
		return c.Fail(err, store.ErrUnavailable, store.Unknown, "no answer: %s", text)
	case !noRole && (errors.As(err, &temp) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || passing(err)):
		// The time limit of the request is over: the context of the caller has not ended. Or another service, which gives
		// credentials, is busy.
		failed := "the request was not sent in time"
		if strings.Contains(err.Error(), "get credentials") {
			failed = "credentials could not be fetched"
		}
		return c.Fail(err, store.ErrUnavailable, store.NotApplied, "%s: %s", failed, text)
	case noRole || strings.Contains(text, "credential") || strings.Contains(text, "identity"):
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "no AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role (%s)", text)
	}
	return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "the request could not be made: %s", text)
}

// passing reports whether an error before the request was sent is one that the SDK would try again.
func passing(err error) bool {
	// The SDK keeps only the text of the error of a session, which a directory bucket needs.
	text := err.Error()
	session := strings.Contains(text, "CreateSession") && !strings.Contains(text, "StatusCode: 4") || strings.Contains(text, "s3express retrieve credentials canceled")
	return session || retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary
}

// Text describes the failure for people, on one line. The text has no names of software layers, no
// address of the request, and no secrets.
func (c *Call) Text(err error) string {
	// Some servers put a whole page into the message.
	return secrettext.Shorten(c.Hide(strings.Join(strings.Fields(plain(err)), " ")), maxText)
}

// maxText is the longest text of an error, in bytes.
const maxText = 300

func plain(err error) string {
	var api smithy.APIError
	var address *url.Error
	switch {
	case errors.As(err, &api):
		return strings.TrimSuffix(api.ErrorCode()+": "+api.ErrorMessage(), ": ")
	case errors.As(err, &address):
		return address.Err.Error()
	}
	text := err.Error()
	if _, after, found := strings.Cut(text, "get credentials: "); found {
		text = after
	}
	// The SDK would show what the program of a profile has printed: the credentials.
	if before, _, found := strings.Cut(text, "parse failed of process output"); found {
		text = before + "the output of credential_process does not have the required form"
	}
	return text
}

// Pause waits for a random part of d. The limit d doubles with each attempt, up to 5 s. If the context
// ends during the wait, Pause returns false.
func Pause(ctx context.Context, d time.Duration, try int) bool {
	return backoff.Wait(ctx, try, d, 5*time.Second) == nil
}
