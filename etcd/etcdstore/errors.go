package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/internal/drivers/request"
	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// maxText bounds the text of an error that a server sent, in bytes.
const maxText = 500

// errLearner is the answer of a member that does not vote yet.
var errLearner = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)

// send sends one request, within the time for it. A member without a leader refuses the request at once.
func send[T any](ctx context.Context, d *driver, f func(context.Context) (T, error)) (T, error) {
	return request.Send(clientv3.WithRequireLeader(ctx), engine.Share(ctx, d.o.Timeout), d.explain, f)
}

// notSent are the beginnings of errors of a connection that never came about, so that the request was not
// sent. Errors of a connection that broke later begin differently.
var notSent = []string{
	`connection error: desc = "transport: Error while dialing`,
	`connection error: desc = "transport: authentication handshake failed`,
	`connection error: desc = "error reading server preface`,
}

// explain makes an error of etcd match the errors of package store. An error with the outcome NotApplied
// is used only for an answer that etcd gives before it applies a request, or instead of applying it, and for a
// request that was not sent.
func (d *driver) explain(err error) error {
	explained := d.classify(err)
	message := status.Convert(err).Message()
	if status.Code(err) == codes.Unavailable && slices.ContainsFunc(notSent, func(begins string) bool { return strings.HasPrefix(message, begins) }) {
		return store.MarkNotApplied(explained)
	}
	return explained
}

func (d *driver) classify(err error) error {
	text := d.text(err)
	failed := func(kind error, advice string) error { return request.Fail(kind, text, advice) }
	var known rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &known) {
		switch known {
		case rpctypes.ErrTooManyRequests, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, errLearner:
			return failed(engine.ErrBusy, "")
		case rpctypes.ErrNoSpace:
			// The outcome is unknown: the request that fills the database is applied, and has the same answer.
			return failed(store.ErrUnavailable, "compact and defragment the database, then type etcdctl alarm disarm")
		case rpctypes.ErrRequestTooLarge:
			return failed(store.ErrMisconfigured, "start the server with --max-request-bytes of 262144 or more")
		case rpctypes.ErrPermissionDenied:
			return failed(store.ErrDenied, "the role of the user needs the permission readwrite for the prefix "+strconv.Quote(d.prefix))
		case rpctypes.ErrUserEmpty:
			return failed(store.ErrCredentials, "the server demands a user: set ETCDCTL_USER to USER:PASSWORD")
		case rpctypes.ErrAuthFailed, rpctypes.ErrUserNotFound:
			return failed(store.ErrCredentials, "look at the user, and at ETCDCTL_USER or ETCDCTL_PASSWORD")
		case rpctypes.ErrCorrupt:
			return failed(store.ErrUnsafe, "the members of the cluster have different data: see etcdctl alarm list")
		}
	}
	switch code := status.Code(err); {
	case code == codes.Unimplemented:
		return failed(store.ErrMisconfigured, "this is not a server of etcd 3.4 or later")
	case code == codes.ResourceExhausted && strings.Contains(text, "received message larger than max"):
		return failed(store.ErrCorrupt, "another program wrote a value that is larger than a register")
	case code != codes.Unavailable:
	case strings.Contains(text, "authentication handshake failed"):
		kind := store.ErrUnavailable
		if strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ") {
			kind = store.ErrMisconfigured // there was no connection, so the request was not sent
		}
		return failed(kind, "look at the parameters tls, cacert, cert and key of the URL")
	case strings.Contains(text, "error reading server preface") && strings.Contains(text, "use of closed network connection"): // gRPC closes it
		return fmt.Errorf("%w: the server accepted the connection, and did not answer within %v", store.ErrUnavailable, connectTime)
	case strings.Contains(text, "error reading server preface: http2: "):
		return failed(store.ErrMisconfigured, "if the server needs TLS, add the parameter tls or cacert to the URL; otherwise the server is not etcd")
	case strings.Contains(text, "error reading server preface"):
		return failed(store.ErrUnavailable, "if the server needs TLS, add the parameter tls or cacert to the URL; otherwise the server is not etcd")
	}
	return failed(store.ErrUnavailable, "")
}

// text returns the text of an error, without what gRPC writes around the cause.
func (d *driver) text(err error) string {
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	if quoted, ok := strings.CutPrefix(text, "connection error: desc = "); ok {
		if inner, err := strconv.Unquote(quoted); err == nil {
			text = strings.TrimPrefix(strings.TrimPrefix(inner, "transport: "), "Error while dialing: ")
		}
	}
	return d.o.Hide(secrettext.Shorten(text, maxText))
}
