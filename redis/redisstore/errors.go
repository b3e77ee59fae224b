package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// maxText bounds the text of an error that a server sent, in bytes.
const maxText = 400

// notConnected is the error of a connection that was not made: the request was not sent.
type notConnected struct{ error }

func (e notConnected) Unwrap() error { return e.error }

// dialer returns the function that connects. It marks its errors, and notes in connected that a server has accepted
// a connection.
func dialer(o redis.UniversalOptions, connected *atomic.Bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial, config := o.Dialer, o.TLSConfig
	if dial == nil {
		dial = (&net.Dialer{Timeout: o.DialTimeout}).DialContext
	} else {
		config = nil // the function of the user does everything
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, notConnected{err}
		}
		connected.Store(true)
		if config == nil {
			return conn, nil
		}
		ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
		defer cancel()
		named := config.Clone()
		if host, _, err := net.SplitHostPort(address); err == nil && named.ServerName == "" {
			named.ServerName = host
		}
		secure := tls.Client(conn, named)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, notConnected{err}
		}
		return secure, nil
	}
}

// send sends one request, within the time for it. The client ignores the end of a context while it waits
// for a reply, so send abandons the call then. key is the key of the register, or empty.
func send[T any](ctx context.Context, d *driver, key string, request func(context.Context) (T, error)) (T, error) {
	limit := engine.Share(ctx, d.o.Timeout)
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := abandon.Do(within, &d.abandoned, key, func() (T, error) { return request(within) })
	if err == nil || isReply(err) {
		d.answered.Store(true)
	}
	switch {
	case err == nil:
		return answer, nil
	case isReply(err):
		return answer, d.explain(err)
	case ctx.Err() != nil:
		return answer, fmt.Errorf("%w: %w", store.ErrUnavailable, store.Cause(ctx))
	case within.Err() != nil:
		return answer, fmt.Errorf("%w: %s", store.ErrUnavailable, d.silent(limit))
	}
	return answer, d.explain(err)
}

// isReply reports whether an error is the answer of a server.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// A replyError is what an error reply of the server means. The server or its script sent it before the
// write.
type replyError struct {
	prefix string
	kind   error
	advice string
}

// replies are the replies which prove that nothing was written. A reply that is not in the table proves
// nothing: a proxy may have sent it.
var replies = []replyError{
	{"NOSCRIPT", engine.ErrBusy, ""},
	{"LOADING", engine.ErrBusy, ""},
	{"BUSY", engine.ErrBusy, "a script of another program runs for a long time: see SCRIPT KILL"},
	{"TRYAGAIN", engine.ErrBusy, ""},
	{"CLUSTERDOWN", engine.ErrBusy, ""},
	{"MASTERDOWN", engine.ErrBusy, ""},
	{"ASK", engine.ErrBusy, ""},
	{"NOREPLICAS", engine.ErrBusy, "fewer replicas are connected than min-replicas-to-write demands"},
	{"MISCONF", engine.ErrBusy, "the server cannot write to its disk: see its log"},
	{"OOM", engine.ErrBusy, "the memory of the server is full: see maxmemory"},
	{"READONLY", engine.ErrBusy, "the server is a replica now: name the primary server in the URL"},
	{"max number of clients reached", engine.ErrBusy, "see maxclients"},
	{"MOVED", store.ErrMisconfigured, "the server is part of a cluster: add cluster=true to the URL"},
	{"This instance has cluster support disabled", store.ErrMisconfigured, "the server is not part of a cluster: remove cluster=true and further hosts from the URL"},
	{"NOAUTH", store.ErrCredentials, "set REDIS_PASSWORD"},
	{"WRONGPASS", store.ErrCredentials, "look at REDIS_PASSWORD, and at the parameter user of the URL"},
	{"AUTH ", store.ErrCredentials, "the server has no password: remove REDIS_PASSWORD"},
	{"NOPERM", store.ErrDenied, "docs/stores.md lists the rights that the user needs"},
	{"The user executing the script", store.ErrDenied, "docs/stores.md lists the rights that the user needs"},
	{"WRONGTYPE", store.ErrCorrupt, "the key has data of another program"},
	{"unknown command", store.ErrMisconfigured, "this is not Redis, or its commands are renamed"},
	{"DB index is out of range", store.ErrMisconfigured, "the URL names a database that the server does not have: see the setting databases"},
	{"SELECT is not allowed in cluster mode", store.ErrMisconfigured, "a cluster has the database 0 only"},
	{"DENIED", store.ErrDenied, "the server runs in protected mode: give it a password"},
}

// explain makes an error match the errors of package store. Its outcome is NotApplied
// only if the request was not sent, or if the server refused it before it wrote.
func (d *driver) explain(err error) error {
	text := d.text(err)
	failed := func(kind error, advice string) error {
		if advice != "" {
			advice = "; " + advice
		}
		if kind == engine.ErrBusy {
			return engine.Busy(text + advice)
		}
		return fmt.Errorf("%w: %s%s", kind, text, advice)
	}
	if isReply(err) {
		if errors.Is(err, redis.Nil) {
			return failed(store.ErrUnavailable, "an answer without content")
		}
		for _, known := range replies {
			if redis.HasErrorPrefix(err, known.prefix) {
				if _, cluster := d.client.(*redis.ClusterClient); cluster && known.prefix == "MOVED" {
					known.kind, known.advice = engine.ErrBusy, "a slot has just moved, and the servers do not agree about it yet"
				}
				return replied{store.MarkNotApplied(failed(known.kind, known.advice)), err}
			}
		}
		return replied{failed(store.ErrUnavailable, ""), err}
	}
	var certificate *tls.CertificateVerificationError
	var unknownCA x509.UnknownAuthorityError
	var alert tls.AlertError
	var plain tls.RecordHeaderError
	var not notConnected
	var slow net.Error
	notSent := errors.As(err, &not) || errors.Is(err, redis.ErrPoolTimeout)
	// The sentinel says that nothing was done, but some of these errors can come after a request.
	misconfigured := func(advice string) error {
		err := failed(store.ErrMisconfigured, advice)
		if notSent {
			return store.MarkNotApplied(err)
		}
		return store.MarkUnknown(err)
	}
	switch {
	case errors.As(err, &certificate), errors.As(err, &unknownCA), errors.As(err, &alert):
		return misconfigured("look at the parameters cacert, cert and key of the URL")
	case errors.As(err, &plain):
		return misconfigured("the server does not use TLS on this port, or is not Redis: look at the URL")
	case errors.As(err, &slow) && slow.Timeout() && notSent:
		return engine.Busy(d.silent(d.o.Timeout))
	case errors.As(err, &slow) && slow.Timeout():
		return fmt.Errorf("%w: %s", store.ErrUnavailable, d.silent(d.o.Timeout))
	case notSent:
		return failed(engine.ErrBusy, "")
	case errors.Is(err, redis.ErrClosed):
		return store.ErrClosed
	case strings.Contains(text, "can't parse"), strings.Contains(text, "invalid reply"), strings.Contains(text, "unexpected response"):
		return misconfigured("this is not Redis: look at the host and the port of the URL")
	}
	return failed(store.ErrUnavailable, strings.TrimPrefix(d.otherTLS(), "; "))
}

// silent says what is known of a server that has sent nothing. A server without TLS waits for the end of a line
// that the beginning of TLS does not have.
func (d *driver) silent(limit time.Duration) string {
	text := fmt.Sprintf("no answer within %v", limit.Round(time.Millisecond))
	if d.connected.Load() {
		text = fmt.Sprintf("the server accepted the connection, and did not answer within %v", limit.Round(time.Millisecond))
	}
	if d.tls && d.connected.Load() && !d.answered.Load() {
		text += "; if the server does not use TLS on this port, write redis:// in the URL"
	}
	return text
}

// otherTLS is an advice for a server that has closed the connection before it has ever answered: Redis does so if
// the client has the wrong kind of connection.
func (d *driver) otherTLS() string {
	switch {
	case d.answered.Load():
		return ""
	case d.tls:
		return "; if the server does not use TLS on this port, write redis:// in the URL"
	}
	return "; if the server wants TLS, write rediss:// in the URL; otherwise it is not Redis"
}

// replied is the explanation of an error reply. It also contains the reply, for callers that look for one.
type replied struct {
	error
	reply error
}

func (e replied) Unwrap() []error { return []error{e.error, e.reply} }

// text returns the text of an error, without secrets and not too long.
func (d *driver) text(err error) string {
	text := err.Error()
	text = secrettext.Hide(text[:min(len(text), 4*maxText)], d.secrets)
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}
