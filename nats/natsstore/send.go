package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/internal/drivers/request"
	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// maxText bounds the text of an error that a server sent, in bytes.
const maxText = 500

// The codes of JetStream that prove an outcome, or show what is wrong.
const (
	codeWrongSequence      = 10071 // the condition is not true
	codeSequenceInProgress = 10164 // another write of the key is in progress: nothing was proposed
	codeNoMessage          = 10037
	codeNoStream           = 10059
	codeNotEnabled         = 10076
	codeNotForAccount      = 10039
	codeMessageTooLarge    = 10054
	codeNoCluster          = 10074 // more than one replica on a single server
	codeNoPeers            = 10005 // more replicas than servers
)

// calls are the requests in flight of a connection. When the connection breaks, or the server refuses a
// subject, no answer will come.
type calls struct {
	mu       sync.Mutex
	inFlight map[*call]struct{}
	answered atomic.Bool // JetStream has answered once
}

type call struct {
	subject string // or its beginning, which ends with a dot
	end     context.CancelCauseFunc
}

func newCalls() *calls { return &calls{inFlight: map[*call]struct{}{}} }

var (
	errDisconnected = fmt.Errorf("%w: the connection was lost before the answer", store.ErrUnavailable)
	deniedSubject   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)permissions violation for publish to "([^"]*)"`) })
)

// lost ends all requests.
func (c *calls) lost() { c.end(errDisconnected, func(string) bool { return true }) }

// refused ends the requests that an error of the connection is about.
func (c *calls) refused(err error) {
	if match := deniedSubject().FindStringSubmatch(err.Error()); match != nil {
		denied := fmt.Errorf("%w: the user may not publish to the subject %q", store.ErrDenied, match[1])
		c.end(denied, func(subject string) bool {
			return match[1] == subject || strings.HasSuffix(subject, ".") && strings.HasPrefix(match[1], subject)
		})
	}
}

func (c *calls) end(cause error, of func(subject string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call := range c.inFlight {
		if of(call.subject) {
			call.end(cause)
		}
	}
}

// begin returns the context of a request.
func (c *calls) begin(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &call{subject, cancel}
	c.mu.Lock()
	c.inFlight[one] = struct{}{}
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		delete(c.inFlight, one)
		c.mu.Unlock()
		cancel(nil)
	}
}

// send sends one request, and reads the answer as JSON.
func (d *driver) send(ctx context.Context, m *nats.Msg, answer any) error {
	reply, err := bounded(ctx, d, m.Subject, func(ctx context.Context) (*nats.Msg, error) { return d.conn.RequestMsgWithContext(ctx, m) })
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("%w: the server sent an answer that is not of JetStream: %w", store.ErrUnavailable, err)
	}
	return nil
}

// bounded calls a function of the client, within the time for one request. The function publishes to the given
// subject. If the text ends with a dot, the function publishes to subjects that begin with it.
func bounded[T any](ctx context.Context, d *driver, subject string, f func(context.Context) (T, error)) (answer T, err error) {
	if d.conn.IsClosed() {
		return answer, store.ErrClosed
	}
	open, end := d.calls.begin(ctx, subject)
	defer end()
	answer, err = request.Send(open, engine.Share(ctx, d.o.Timeout), d.explain, f)
	switch {
	case err == nil:
		d.calls.answered.Store(true)
	case open.Err() != nil && ctx.Err() == nil:
		err = context.Cause(open)
	}
	return answer, err
}

// explain makes an error of NATS match the errors of package store.
func (d *driver) explain(err error) error {
	text := d.o.Hide(secrettext.Shorten(strings.TrimPrefix(err.Error(), "nats: "), maxText))
	failed := func(kind error, advice string) error { return request.Fail(kind, text, advice) }
	var api *jetstream.APIError
	if errors.As(err, &api) {
		d.calls.answered.Store(true)
		switch int(api.ErrorCode) {
		case codeWrongSequence:
			return &engine.ConditionFailedError{}
		case codeSequenceInProgress:
			return engine.Busy(text + "; another write of the key is in progress")
		case codeNoMessage:
			return store.ErrNotFound
		case codeNoStream:
			return failed(store.ErrMisconfigured, fmt.Sprintf("create the bucket %s with holdfast init", d.bucket))
		case codeNotEnabled, codeNotForAccount:
			return failed(store.ErrMisconfigured, "turn JetStream on, for the server and for the account")
		case codeNoCluster:
			return failed(store.ErrMisconfigured, "this is a single server: remove the parameter replicas, or set up a cluster")
		case codeNoPeers:
			return failed(store.ErrMisconfigured, "fewer servers with JetStream run than the parameter replicas demands")
		case codeMessageTooLarge:
			return failed(store.ErrMisconfigured, "set max_msg_size of the bucket to 100000 bytes or more")
		}
		return failed(store.ErrUnavailable, "")
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders) && d.calls.answered.Load():
		return engine.Busy("the bucket has no leader now")
	case errors.Is(err, nats.ErrNoResponders):
		return failed(store.ErrMisconfigured, "turn JetStream on, and create the bucket with holdfast init")
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting):
		return engine.Busy("the connection is lost, and the server does not accept another") // nothing was sent
	case errors.Is(err, nats.ErrMaxPayload):
		return failed(store.ErrMisconfigured, "set max_payload of the server to 100000 bytes or more")
	case errors.Is(err, nats.ErrConnectionClosed):
		return store.MarkUnknown(failed(store.ErrClosed, "")) // perhaps after the request was sent
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return failed(store.ErrCredentials, "look at NATS_USER and NATS_PASSWORD, NATS_TOKEN, or the parameter creds")
	case strings.Contains(text, "tls: "), strings.Contains(text, "x509: "), errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return failed(store.ErrMisconfigured, "look at the parameters tls, cacert, cert and key of the URL")
	case silent(err):
		return fmt.Errorf("%w: the server accepted the connection, and did not answer in time: it hangs, or it is not a server of NATS", store.ErrUnavailable)
	case errors.Is(err, nats.ErrNoServers):
		return failed(store.ErrUnavailable, "look at the address, and whether the server runs")
	case errors.Is(err, nats.ErrNoInfoReceived):
		return failed(store.ErrMisconfigured, "this is not a server of NATS")
	}
	return failed(store.ErrUnavailable, "")
}

// silent reports whether a server has accepted a connection and sent nothing. A server of NATS speaks first.
func silent(err error) bool {
	var read *net.OpError
	return errors.As(err, &read) && read.Op == "read" && read.Timeout()
}
