package gcsbucket

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/drivers/request"
	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	maxHeader   = 256 << 10 // of an answer
	maxDocument = 16 << 20  // of an answer that is no body of an object: a page of a listing, say
	maxText     = 300       // of an error

	// tries is the largest number of times that the bucket sends a read, or a small write without a condition.
	tries = 4
)

// call watches one call of the library. Its error says what is known of the outcome.
type call struct {
	ctx    context.Context // of the caller
	upload context.Context // of the request, if it has the body of an object
	sent   atomic.Bool
	joined atomic.Bool // the request has a connection
	secret atomic.Pointer[string]
	answer atomic.Pointer[answer]
}

type answer struct {
	status  int
	header  http.Header
	refusal []byte // the body, if the status is not 2xx
	damaged error  // why the body could not be read to its end
}

type callKey struct{}

// watcher sends requests, and notes their answers in the call of their context. It reads every answer
// that is not the body of an object to its end, up to a bound.
type watcher struct{ inner http.RoundTripper }

func (w watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	c, ok := r.Context().Value(callKey{}).(*call)
	if !ok {
		return nil, errors.New("a request of an unknown call")
	}
	secret := r.Header.Get("Authorization")
	c.secret.Store(&secret)
	c.sent.Store(true)
	if c.upload != nil && r.Body != nil {
		r = r.Clone(r.Context())
		r.Body = whole{r.Body, c.upload}
	}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { c.joined.Store(true) }}
	resp, err := w.inner.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return nil, err
	}
	a := &answer{status: resp.StatusCode, header: resp.Header}
	ok = resp.StatusCode/100 == 2
	if !ok || r.URL.Query().Get("alt") == "json" {
		var body []byte
		body, a.damaged = io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
		resp.Body.Close()
		if len(body) > maxDocument {
			a.damaged = fmt.Errorf("it has more than %d MiB", maxDocument>>20)
		}
		if !ok {
			a.refusal = body
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	c.answer.Store(a)
	if a.damaged != nil {
		return nil, a.damaged
	}
	return resp, nil
}

// whole is the body of a request that ends with an error if its context has ended. The library closes a
// multipart body properly even if the upload is given up, and some servers then make an object of the bytes
// so far.
type whole struct {
	io.ReadCloser
	ctx context.Context
}

func (w whole) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if ended := store.Cause(w.ctx); ended != nil {
		return 0, ended
	}
	return n, err
}

// errTimeout is the cause of the end of a request that took too long.
var errTimeout = errors.New("no answer in time")

// errSilent is the text of such a request that had a connection.
var errSilent = errors.New("the server accepted the connection, and did not answer in time")

// do makes one call of the library within a time limit.
func do[T any](ctx context.Context, b *Bucket, limit time.Duration, f func(ctx context.Context) (T, error)) (result T, c *call, err error) {
	c = &call{ctx: ctx}
	if err := store.CheckContext(ctx); err != nil {
		return result, c, err
	}
	ctx, cancel := context.WithTimeoutCause(context.WithValue(ctx, callKey{}, c), engine.Share(ctx, limit), errTimeout)
	defer cancel()
	if result, err = f(ctx); err != nil {
		err = c.classify(err)
	}
	return result, c, err
}

// repeat sends f again if the service did not answer, or was busy; see [request.Repeat].
func (b *Bucket) repeat(ctx context.Context, f func() error) error {
	return request.Repeat(ctx, tries, func(err error) bool {
		return !b.once && (errors.Is(err, store.ErrUnavailable) || errors.Is(err, object.ErrBusy))
	}, f)
}

// write sends f, and repeats it unless it may be sent only once: a lost try of a write with a condition may have
// been applied, so a second try could be refused because of the first.
func (b *Bucket) write(ctx context.Context, once bool, f func() error) error {
	if once {
		return f()
	}
	return b.repeat(ctx, f)
}

// now returns the time of the answer, by the store's clock. It is zero if the answer may come from a
// cache.
func (c *call) now() time.Time { return request.Now(c.header) }

// header returns a header of the answer.
func (c *call) header(name string) string {
	if a := c.answer.Load(); a != nil {
		return a.header.Get(name)
	}
	return ""
}

// classify says what an answer means, or its absence. The outcome is unknown unless the answer proves
// that nothing was written.
func (c *call) classify(err error) error {
	a := c.answer.Load()
	switch {
	case c.ctx.Err() != nil:
		return c.ended()
	case a == nil:
		return c.unanswered(err)
	case a.damaged != nil:
		return fmt.Errorf("%w: status %d, but the answer could not be read: %s", store.ErrUnavailable, a.status, c.text(a.damaged))
	}
	r := a.parse()
	text := c.hide(r.text)
	switch status := a.status; {
	case status == http.StatusNotModified:
		return object.ErrNotChanged
	case status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests && !r.genuine:
		return fmt.Errorf("%w: status %d: %s", store.ErrUnavailable, status, text)
	case status >= 400 && !r.genuine:
		return wrong("status %d, but another service sent the reply; check the address of the endpoint, and whether the endpoint needs http:// or https:// (%s)", status, text)
	case status == http.StatusPreconditionFailed:
		return &object.ConflictError{}
	case status == http.StatusTooManyRequests || status == http.StatusForbidden && strings.HasSuffix(strings.ToLower(r.code), "ratelimitexceeded"):
		return fmt.Errorf("%w: the service accepts about one write a second for each object (%s)", object.ErrBusy, text)
	case status == http.StatusNotFound && (r.code == "NoSuchBucket" || strings.Contains(strings.ToLower(r.text), "bucket does not exist")):
		return errNoBucket
	case status == http.StatusNotFound:
		return store.ErrNotFound
	case status == http.StatusRequestedRangeNotSatisfiable:
		return object.ErrRange
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%w: the credentials were refused: %s", store.ErrCredentials, text)
	case status == http.StatusForbidden:
		return fmt.Errorf("%w: %s", store.ErrDenied, text)
	case status == http.StatusBadRequest && strings.Contains(strings.ToLower(r.text), "requester pays"):
		return wrong("the requester pays for this bucket: add user_project=PROJECT to the URL (%s)", text)
	case status >= 400:
		return store.MarkNotApplied(fmt.Errorf("status %d: %s", status, text))
	case status >= 300:
		return wrong("the server redirects the request (status %d). Holdfast does not send credentials to another address; check the endpoint", status)
	}
	return fmt.Errorf("%w: the answer could not be read: %s", store.ErrUnavailable, c.text(err))
}

var errNoBucket = wrong("the bucket does not exist here; check its name and the endpoint")

// noBucket is the error of a request that names no object: what is missing is the bucket.
func noBucket(err error) error {
	if errors.Is(err, store.ErrNotFound) && !store.InDoubt(err) {
		err = errNoBucket
	}
	return err
}

// refusal is what the body of an answer says.
type refusal struct {
	code, text string
	genuine    bool // it looks like an answer of the service, or of a server that speaks as it does
}

// parse reads the error of an answer: JSON, or XML from a read of a body.
func (a *answer) parse() refusal {
	var j struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	var x struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
		Details string
	}
	r := refusal{text: oneLine(string(a.refusal))}
	switch {
	case json.Unmarshal(a.refusal, &j) == nil && j.Error.Message != "":
		r = refusal{text: j.Error.Message, genuine: true}
		if len(j.Error.Errors) > 0 {
			r.code = j.Error.Errors[0].Reason
		}
	case xml.Unmarshal(a.refusal, &x) == nil && x.Code != "":
		r = refusal{code: x.Code, text: strings.TrimSpace(x.Code + ": " + x.Message + " " + x.Details), genuine: true}
	default:
		// A server for tests answers some requests with the text of the status.
		r.genuine = a.header.Get("X-Guploader-Uploadid") != "" || r.text == http.StatusText(a.status) || r.text == ""
		if strings.HasPrefix(r.text, "<") {
			r.text = "a page in HTML"
		}
	}
	if a.header.Get("X-Ms-Request-Id") != "" { // Azure has the same form of errors
		r.genuine = false
	}
	r.text = oneLine(r.text)
	return r
}

// ended is the error of a call whose caller's context has ended.
func (c *call) ended() error {
	cause := store.Cause(c.ctx)
	if !c.sent.Load() {
		return store.MarkNotApplied(cause)
	}
	return store.MarkUnknown(fmt.Errorf("%w before the server answered", cause))
}

func (c *call) unanswered(err error) error {
	var (
		dial     *net.OpError
		record   tls.RecordHeaderError
		verified *tls.CertificateVerificationError
	)
	text := c.text(err)
	switch {
	case !c.joined.Load() && (errors.As(err, &record) || strings.Contains(text, "HTTP response to HTTPS client")):
		return wrong("the endpoint does not use TLS; it may need http:// in place of https:// (%s)", text)
	case errors.As(err, &verified):
		return wrong("the certificate of the endpoint is not trusted: %s", text)
	case errors.As(err, &dial) && dial.Op == "dial":
		return store.MarkNotApplied(fmt.Errorf("%w: cannot connect: %s", store.ErrUnavailable, text))
	case !c.sent.Load() && strings.Contains(text, "invalid_grant"):
		return fmt.Errorf("%w: the credentials were refused: %s", store.ErrCredentials, text)
	case !c.sent.Load():
		return store.MarkNotApplied(fmt.Errorf("%w: the request was not sent, perhaps because no token for it could be fetched: %s", store.ErrUnavailable, text))
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		text = errTimeout.Error()
		if c.joined.Load() {
			text = errSilent.Error()
		}
	case strings.Contains(text, "malformed HTTP"):
		return store.MarkUnknown(wrong("the server does not speak HTTP: check the address of the endpoint"))
	}
	return fmt.Errorf("%w: no answer: %s", store.ErrUnavailable, text)
}

// text describes a failure for people, on one line, without the address of the request.
func (c *call) text(err error) string {
	var address *url.Error
	if errors.As(err, &address) {
		err = address.Err
	}
	return c.hide(oneLine(err.Error()))
}

// hide removes the token of the request from a text of the server.
func (c *call) hide(text string) string {
	if secret := c.secret.Load(); secret != nil {
		text = secrettext.Hide(text, []string{strings.TrimPrefix(*secret, "Bearer ")})
	}
	return text
}

// oneLine shortens a text to one line.
func oneLine(text string) string {
	return secrettext.Shorten(strings.Join(strings.Fields(text), " "), maxText)
}
