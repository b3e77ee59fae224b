package kubestore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/drivers/request"
	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// maxText bounds the text of an error that a server sent, in bytes.
const maxText = 500

// send sends one request, and a second one with a new token if the server refuses the token. It reads the answer
// into the variable answer, unless that is nil. The answer may have at most limit bytes.
func (d *driver) send(ctx context.Context, method, path string, query url.Values, body, answer any, limit int64) error {
	var refused error
	for last := ""; ; {
		// A program that prints the token can take longer than a request.
		token, err := d.cluster.token(ctx)
		switch {
		case err != nil:
			return err
		case refused != nil && token == last:
			return refused
		}
		err = d.sendOnce(ctx, token, method, path, query, body, answer, limit)
		if refused != nil || !errors.Is(err, store.ErrCredentials) || !d.cluster.drop(token) {
			return err
		}
		refused, last = err, token
	}
}

// sendOnce sends one request, within the time for it.
func (d *driver) sendOnce(ctx context.Context, token, method, path string, query url.Values, body, answer any, limit int64) error {
	client := d.cluster.client.Load()
	var reused atomic.Bool // the connection has answered before
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused.Store(i.Reused) }})
	text, err := request.Send(traced, engine.Share(ctx, d.o.Timeout), d.explain, func(within context.Context) (_ []byte, err error) {
		defer func() {
			if err != nil && ctx.Err() == nil && within.Err() != nil && reused.Load() {
				d.cluster.reconnect(client)
			}
		}()
		resp, err := d.request(within, client, token, method, path, query, body)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if err := d.refused(resp); err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(resp.Body, limit+1))
	})
	switch {
	case err != nil:
		return err
	case int64(len(text)) > limit:
		return fmt.Errorf("%w: the server sent more than %d bytes", store.ErrCorrupt, limit)
	case answer != nil && json.Unmarshal(text, answer) != nil:
		return fmt.Errorf("%w: the answer is not JSON: the server may be no API server of Kubernetes", store.ErrUnavailable)
	}
	return nil
}

// request sends one request. The caller closes the body of the answer.
func (d *driver) request(ctx context.Context, client *http.Client, token, method, path string, query url.Values, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	target := d.cluster.server + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, store.MarkNotApplied(fmt.Errorf("%w: the address of the server is not valid", store.ErrMisconfigured))
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "holdfast")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return client.Do(r)
}

// statusError is the refusal of an API server.
type statusError struct {
	code    int
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Details struct {
		Kind   string `json:"kind"`
		Causes []struct {
			Reason string `json:"reason"`
		} `json:"causes"`
	} `json:"details"`
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s (status %d)", cmp.Or(e.Message, http.StatusText(e.code)), e.code)
}

// refused returns the error in an answer, or nil.
func (d *driver) refused(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted: // the last one if a finalizer delays a deletion
		return nil
	}
	e := &statusError{code: resp.StatusCode}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || json.Unmarshal(text, e) != nil {
		*e = statusError{code: resp.StatusCode}
	}
	return e
}

// expiredError says that the server has forgotten the state of a listing, which can continue with a later state.
type expiredError struct {
	error
	next string
}

func (e *expiredError) Unwrap() error { return e.error }

// explain makes an error match the errors of package store. An error with the outcome NotApplied is used only
// for an answer that the API server gives instead of a write, and for a request that was not sent.
func (d *driver) explain(err error) error {
	var refusal *statusError
	if errors.As(err, &refusal) {
		return d.classify(refusal)
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return store.MarkNotApplied(fmt.Errorf("%w: %s", store.ErrUnavailable, d.text(dial.Error())))
	}
	if wrong := (*tls.CertificateVerificationError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%w: %s; look at the certificate authority in the kubeconfig", store.ErrMisconfigured, d.text(wrong.Error()))
	}
	if outcome := store.OutcomeOf(err); outcome == store.NotApplied || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	text := err.Error()
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		text = wrapped.Err.Error() // without the URL
	}
	if strings.Contains(text, "server gave HTTP response to HTTPS client") || strings.Contains(text, "does not look like a TLS handshake") {
		// A device on the way can also send this after the request.
		return store.MarkUnknown(fmt.Errorf("%w: the server does not speak TLS: it is not an API server of Kubernetes", store.ErrMisconfigured))
	}
	return fmt.Errorf("%w: %s", store.ErrUnavailable, d.text(text))
}

func (d *driver) classify(e *statusError) error {
	text := d.text(e.Error())
	failed := func(kind error, advice string) error { return request.Fail(kind, text, advice) }
	// A proxy in front of the server can also limit requests, and refuse tokens.
	if e.Kind != "Status" && e.code < 500 && e.code != http.StatusTooManyRequests && e.code != http.StatusUnauthorized {
		return fmt.Errorf("%w: status %d: this is not an API server of Kubernetes", store.ErrMisconfigured, e.code)
	}
	switch e.code {
	case http.StatusConflict:
		if e.Details.Kind == "resourcequotas" { // others have changed the count of the quota: nothing was written
			return failed(engine.ErrBusy, "")
		}
		return failed(store.ErrConflict, "")
	case http.StatusNotFound:
		if e.Details.Kind == "leases" {
			return failed(store.ErrNotFound, "")
		}
		if e.Details.Kind == "namespaces" {
			return failed(store.ErrMisconfigured, "type kubectl create namespace "+d.o.Namespace)
		}
		return failed(store.ErrMisconfigured, "the server has no objects of coordination.k8s.io/v1")
	case http.StatusUnauthorized:
		return failed(store.ErrCredentials, "the token or the client's certificate is not valid")
	case http.StatusForbidden:
		for _, cause := range e.Details.Causes {
			if cause.Reason == "NamespaceTerminating" {
				return failed(store.ErrMisconfigured, "the namespace "+d.o.Namespace+" is being deleted")
			}
		}
		if strings.Contains(e.Message, "exceeded quota") {
			return failed(store.ErrDenied, "")
		}
		return failed(store.ErrDenied, "a role must allow get, list, watch, create, update and delete of leases in the namespace "+d.o.Namespace)
	case http.StatusTooManyRequests:
		// The API server limits requests before it begins to handle them.
		return failed(engine.ErrBusy, "")
	case http.StatusGone:
		return &expiredError{failed(store.ErrUnavailable, ""), e.Metadata.Continue}
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return failed(store.ErrMisconfigured, "")
	}
	return failed(store.ErrUnavailable, "")
}

// text returns the text of an error, short and without secrets.
func (d *driver) text(text string) string {
	return secrettext.Hide(secrettext.Shorten(text, maxText), d.cluster.secrets())
}
