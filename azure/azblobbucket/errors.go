package azblobbucket

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/holdfast-go/holdfast/internal/drivers/request"
	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// Error is a failed request. It has a text for people, the error of package store that it matches, and
// the outcome of a write. It does not contain the error of the SDK, which could show a SAS token.
type Error struct {
	where    string // the bucket
	text     string
	sentinel error // can be nil
	outcome  store.Outcome

	// Code is the error code of the service, such as ContainerNotFound. It is empty if the service sent none.
	Code string
}

func (e *Error) Error() string          { return e.where + ": " + e.text }
func (e *Error) StoreName() string      { return e.where }
func (e *Error) Unwrap() error          { return e.sentinel }
func (e *Error) Outcome() store.Outcome { return e.outcome }

func (b *Bucket) fail(sentinel error, outcome store.Outcome, format string, args ...any) *Error {
	return &Error{where: b.name, text: b.plain(fmt.Sprintf(format, args...)), sentinel: sentinel, outcome: outcome}
}

// plain returns a text of others for people: without secrets, on one line, and not too long.
func (b *Bucket) plain(text string) string {
	const most = 400
	text = secrettext.Hide(strings.Join(strings.Fields(text), " "), b.o.secrets)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

var (
	errTimeout = errors.New("no answer in time")
	errSilent  = errors.New("the server accepted the connection, and did not answer in time")
	errDamaged = errors.New("the TLS connection is damaged")
	errBlocks  = errors.New("the service no longer has the blocks of this upload")
)

// do sends one request, without the retries of the SDK, and classifies its error. The answer can be nil.
func do[T any](ctx context.Context, b *Bucket, timeout time.Duration, send func(ctx context.Context) (T, error)) (out T, answer *http.Response, err error) {
	if err := store.CheckContext(ctx); err != nil {
		return out, nil, err
	}
	if timeout <= time.Minute { // the upload of a large body needs the whole time
		timeout = engine.Share(ctx, timeout)
	}
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	var connected atomic.Bool
	limited = httptrace.WithClientTrace(limited, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	if out, err = send(once(limited, &answer)); err != nil {
		switch {
		case !connected.Load() || ctx.Err() != nil:
		case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
			err = errSilent
		case notTLS(err):
			err = errDamaged
		}
		err = b.classify(ctx, err)
	}
	return out, answer, err
}

// once returns a context for one request without retries.
func once(ctx context.Context, answer **http.Response) context.Context {
	return policy.WithRetryOptions(policy.WithCaptureResponse(ctx, answer), policy.RetryOptions{MaxRetries: -1})
}

// repeat sends f again if the service did not answer, or was busy; see [request.Repeat].
func (b *Bucket) repeat(ctx context.Context, f func() error) error {
	return request.Repeat(ctx, tries, func(err error) bool {
		return errors.Is(err, store.ErrUnavailable) || errors.Is(err, object.ErrBusy) && !errors.Is(err, errBlocks)
	}, f)
}

// classify says what the error of a request means.
func (b *Bucket) classify(ctx context.Context, err error) error {
	var answered *azcore.ResponseError
	if ctx.Err() != nil || !errors.As(err, &answered) || answered.RawResponse == nil {
		return b.unanswered(ctx, err)
	}
	status, code := answered.StatusCode, answered.ErrorCode
	text := code + ": " + message(answered.RawResponse)
	failed := b.meaning(status, code, text)
	if e, ok := failed.(*Error); ok {
		e.Code = code
		if strange := answered.RawResponse.Header.Get("x-ms-request-id") == ""; strange && status < 500 {
			e.sentinel = store.ErrMisconfigured
			e.text = fmt.Sprintf("status %d, but another service sent the reply; check the address of the endpoint, and whether the endpoint needs http:// or https://", status)
		}
	}
	return failed
}

// meaning returns the error for an answer of the service.
func (b *Bucket) meaning(status int, code, text string) error {
	switch {
	case status == http.StatusNotModified:
		return object.ErrNotChanged
	case code == "InvalidRange":
		return object.ErrRange
	case code == "BlobNotFound":
		return store.ErrNotFound
	}
	switch code {
	case "ConditionNotMet", "TargetConditionNotMet", "SourceConditionNotMet", "BlobAlreadyExists":
		return &object.ConflictError{}
	case "ContainerNotFound", "ResourceNotFound", "ContainerBeingDeleted", "ContainerDisabled":
		return b.fail(store.ErrMisconfigured, store.NotApplied, "the container does not exist, or is being deleted (%s); holdfast init creates it", code)
	case "InvalidBlockList":
		return b.fail(fmt.Errorf("%w: %w", object.ErrBusy, errBlocks), store.NotApplied, "another client has written the blob during the upload, so the service has removed the blocks of the upload")
	case "BlobBeingDeleted", "PendingCopyOperation", "SystemInUse":
		return b.fail(object.ErrBusy, store.NotApplied, "%s", text)
	case "Md5Mismatch", "Crc64Mismatch":
		return b.fail(store.ErrUnavailable, store.NotApplied, "the request arrived damaged: %s", text)
	case "LeaseIdMissing", "LeaseIdMismatchWithBlobOperation":
		return b.fail(store.ErrDenied, store.NotApplied, "another program has an Azure lease on the blob: release or break that lease (%s)", code)
	case "BlobImmutableDueToPolicy":
		return b.fail(store.ErrMisconfigured, store.NotApplied, "an immutability policy or a legal hold protects the blob; Holdfast must be able to overwrite its blobs (%s)", code)
	case "SnapshotsPresent":
		return b.fail(store.ErrMisconfigured, store.NotApplied, "the blob has snapshots, and Holdfast does not delete snapshots (%s)", code)
	case "AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation", "KeyBasedAuthenticationNotPermitted":
		return b.fail(store.ErrCredentials, store.NotApplied, "the credentials were refused, or the clock of this machine is wrong: %s", text)
	}
	switch {
	case status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status < 300:
		return b.fail(store.ErrUnavailable, store.Unknown, "status %d: %s", status, text)
	case status < 400:
		return b.fail(store.ErrMisconfigured, store.NotApplied, "the server redirects the request (status %d); check the endpoint", status)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return b.fail(store.ErrDenied, store.NotApplied, "%s", text)
	}
	return b.fail(nil, store.NotApplied, "status %d: %s", status, text)
}

var messageText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<Message>([^\n<]*)`) })

// message returns the message of an error, without the lines that repeat what was signed.
func message(answer *http.Response) string {
	body, err := runtime.Payload(answer)
	if err != nil {
		return answer.Status
	}
	if m := messageText().FindSubmatch(body); m != nil {
		return string(m[1])
	}
	return answer.Status
}

// unanswered returns the error of a request without an answer, or with an answer that could not be read.
func (b *Bucket) unanswered(ctx context.Context, err error) error {
	var (
		dial     *net.OpError
		dns      *net.DNSError
		address  *url.Error
		verified *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
		refused  *azidentity.AuthenticationFailedError
	)
	text := err.Error()
	if errors.As(err, &address) {
		text = address.Err.Error() // without the address, which can have a SAS token
	}
	switch {
	case ctx.Err() != nil:
		return b.fail(store.Cause(ctx), store.Unknown, "%v before the server answered", store.Cause(ctx))
	case notTLS(err):
		return b.fail(store.ErrMisconfigured, store.NotApplied, "the endpoint does not use TLS; it may need http:// in place of https://")
	case errors.As(err, &verified) || errors.As(err, &unknown):
		return b.fail(store.ErrMisconfigured, store.NotApplied, "the certificate of the endpoint is not trusted: %s", text)
	case strings.HasPrefix(text, "DefaultAzureCredential"):
		return b.fail(store.ErrMisconfigured, store.NotApplied, "no Azure credentials: set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, call az login, or give the machine an identity (%s)", text)
	case errors.As(err, &refused) && (refused.RawResponse == nil || refused.RawResponse.StatusCode >= 500 || refused.RawResponse.StatusCode == http.StatusTooManyRequests):
		return b.fail(store.ErrUnavailable, store.NotApplied, "no token: the service that gives tokens did not answer")
	case errors.As(err, &refused):
		return b.fail(store.ErrCredentials, store.NotApplied, "no token: %s", text)
	case errors.As(err, &dns) || errors.As(err, &dial) && dial.Op == "dial":
		return b.fail(store.ErrUnavailable, store.NotApplied, "cannot connect: %s", text)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		text = errTimeout.Error()
	case strings.Contains(text, "malformed HTTP"):
		return b.fail(store.ErrMisconfigured, store.Unknown, "the server does not speak HTTP: check the address of the endpoint")
	}
	return b.fail(store.ErrUnavailable, store.Unknown, "no answer: %s", text)
}

// notTLS reports whether the server sent something that is not TLS.
func notTLS(err error) bool {
	return errors.As(err, new(tls.RecordHeaderError)) || strings.Contains(err.Error(), "HTTP response to HTTPS client")
}

// about puts the key into an error of a write whose condition did not hold.
func about(key string, c condition, err error) error {
	switch {
	case store.InDoubt(err): // this call may have caused the conflict: an earlier try was lost
		return err
	case errors.Is(err, store.ErrConflict), errors.Is(err, errBlocks) && store.OutcomeOf(err) == store.NotApplied && c.any():
		return &object.ConflictError{Key: key}
	case errors.Is(err, store.ErrNotFound) && c.ifMatch != "":
		return &object.ConflictError{Key: key, HasCurrent: true}
	}
	return err
}

func (b *Bucket) opError(op store.Kind, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.OpError{Op: op, Key: key, Store: b.Traits().Name, Err: err}
}

// now returns the time of an answer by the server's clock. It is zero if the answer may come from a cache.
func now(answer *http.Response) time.Time {
	return request.Now(cmp.Or(answer, &http.Response{}).Header.Get)
}
