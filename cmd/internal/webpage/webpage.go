// Package webpage has the servers of the command serve. Only the program with all libraries has them.
package webpage

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/serving"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/observe/dashboard"
	"github.com/holdfast-go/holdfast/observe/metrics"
)

const (
	maxConnections = 512
	headerTimeout  = 10 * time.Second // to send the header of a request
	idleTimeout    = time.Minute
	closeTimeout   = 2 * time.Second
	maxHeader      = 16 << 10
)

// Servers returns the servers.
func Servers() *serving.Servers { return &serving.Servers{Page: servePage, Tofu: serveTofu} }

// servePage serves the page until the context ends.
func servePage(ctx context.Context, in *cmdline.Invocation, o *serving.Options) error {
	listener, err := listen(&o.Access)
	if err != nil {
		return err
	}
	defer listener.Close()
	st, err := in.OpenURL(ctx, in.StoreURL)
	if err != nil {
		return err
	}
	defer st.Close()
	options := &dashboard.Options{Prefix: o.Prefix, MaxClockDrift: o.Drift, RequestsPerMinute: o.Rate, StoreURL: st.Again}
	for _, given := range o.Logs {
		l, done, err := openLog(ctx, in, given)
		if err != nil {
			return err
		}
		defer done()
		options.Logs = append(options.Logs, l)
	}
	for _, path := range o.Reports {
		read := func(context.Context) (dashboard.PanelTable, error) { return readReport(path) }
		options.Panels = append(options.Panels, dashboard.Panel{Title: filepath.Base(path), Read: read})
	}
	if o.Doctor {
		options.Doctor = func(ctx context.Context) (string, error) { return examine(ctx, in) }
	}
	counts := metrics.New(&metrics.Options{Store: st.URL})
	options.Metrics = counts
	page, err := dashboard.New(counts.Store(st.Store), options)
	if err != nil {
		return err
	}
	defer page.Close()
	counts.AddSeen(func() (metrics.Seen, bool) {
		s := page.Summary()
		return metrics.Seen{Held: s.Held, Waiting: s.Waiting, Unreadable: s.Unreadable, Shortest: s.Shortest, Age: time.Since(s.Listed)}, !s.Listed.IsZero()
	})

	return serve(ctx, listener, &o.Access, &http.Server{
		Handler:      page,
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 30 * time.Second, // each event of an open page has its own
	}, func() { in.Notef("the page is at http://%s/", listener.Addr()) }, func() { _ = page.Close() })
}

func listen(o *serving.Access) (net.Listener, error) {
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = fmt.Errorf("%s: %w", o.Listen, op.Err) // in few words
		}
		if err = fmt.Errorf("--listen: %w", err); exit.Status(err) != exit.Denied {
			err = exit.With(exit.Unsafe, err)
		}
	}
	return listener, err
}

// serve serves until the context ends. It calls begun when it has begun, and closing before it closes the server.
func serve(ctx context.Context, listener net.Listener, o *serving.Access, server *http.Server, begun, closing func()) error {
	server.Handler = guard(server.Handler, o)
	server.ReadHeaderTimeout, server.IdleTimeout, server.MaxHeaderBytes = headerTimeout, idleTimeout, maxHeader
	server.ErrorLog = log.New(io.Discard, "", 0)
	served := make(chan error, 1)
	go func() { served <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
	begun()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	closing()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
	<-served
	return nil
}

// guard refuses requests without the token or the password. Without them, it refuses requests with a foreign
// name of the server: otherwise a page of another site could make its name mean this machine, and read the locks.
func guard(inner http.Handler, o *serving.Access) http.Handler {
	equal := func(a, b string) bool {
		x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
		return subtle.ConstantTimeCompare(x[:], y[:]) == 1
	}
	allowed := func(r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		byToken := o.Token != "" && (equal(token, o.Token) || user == "token" && equal(password, o.Token))
		byPassword := o.User != "" && equal(user, o.User) && equal(password, o.Password)
		return byToken || byPassword
	}
	own := func(name string) bool {
		host, _, err := net.SplitHostPort(name)
		if err != nil {
			host = strings.Trim(name, "[]")
		}
		return serving.IsLoopback(host) || slices.ContainsFunc(o.Hosts, func(other string) bool { return strings.EqualFold(host, other) })
	}
	secret := o.Token != "" || o.User != ""
	// The server waits for the rest of a body before it closes the connection: not for long without a password.
	hasten := func(w http.ResponseWriter) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
		w.Header().Set("Connection", "close")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz":
			hasten(w)
		case secret && !allowed(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="holdfast", charset="UTF-8"`)
			w.Header().Set("Cache-Control", "no-store")
			hasten(w)
			http.Error(w, "this server needs a password or a token", http.StatusUnauthorized)
			return
		case !secret && !own(r.Host):
			hasten(w)
			http.Error(w, "this server has another name: name it with --host", http.StatusMisdirectedRequest)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// openLog opens a commit log of the form URL#KEY.
func openLog(ctx context.Context, in *cmdline.Invocation, given string) (l dashboard.Log, done func(), err error) {
	raw, key, _ := strings.Cut(given, "#")
	at, err := in.ParseLog(raw, false)
	if err != nil {
		return l, nil, err
	}
	b, err := at.Open(ctx, &in.Access)
	if err != nil {
		return l, nil, err
	}
	l.Name = strings.TrimSuffix(b.URL, "/") + "/" + at.Key
	if l.Log, err = object.OpenLog(b.Client, at.Key, nil); err != nil {
		b.Close()
		return l, nil, err
	}
	if key != "" {
		l.Followers = []string{key}
	}
	return l, func() { b.Close() }, nil
}

// examine does what doctor does.
func examine(ctx context.Context, in *cmdline.Invocation) (string, error) {
	u, err := in.ParseStore(in.StoreURL)
	if err != nil {
		return "", err
	}
	target, leave, err := in.DoctorTarget(ctx, u)
	if err != nil {
		return "", err
	}
	defer leave()
	report, err := doctor.Run(ctx, target, nil)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = report.WriteText(&text)
	return text.String(), err
}
