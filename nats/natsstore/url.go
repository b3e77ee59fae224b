package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/internal/drivers/tlsurl"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const defaultPort = "4222"

// Parameters are the parameters that a URL may have.
var Parameters = append([]string{"user", "creds", "timeout", "replicas"}, tlsurl.Parameters...)

// Target is what a URL names.
type Target struct {
	Servers []string // nats://HOST:PORT
	Bucket  string
	Options Options // those of the opts of FromURL, with the values of the URL

	// Secret says that the client sends a password or a token. Encrypted says that the URL demands TLS.
	Secret, Encrypted bool

	connect []nats.Option
}

// FromURL parses a URL. For its form see [Open]. FromURL reads the files of certificates, and sends no request.
func FromURL(rawURL string, opts *Options) (*Target, error) {
	t := &Target{Options: *cmp.Or(opts, &Options{})}
	if err := t.parse(rawURL); err != nil {
		return nil, storeurl.Wrong(fmt.Errorf("%w: the URL of the store: %w", store.ErrMisconfigured, err))
	}
	return t, nil
}

// parse reads a URL. Its errors contain no part of the URL that could be a secret.
func (t *Target) parse(raw string) error {
	u, query, err := storeurl.Parse(raw)
	switch {
	case err != nil:
		return err
	case query.Has("password") || query.Has("token"), strings.Contains(query.Get("user"), ":"), strings.Contains(u.EscapedPath(), "@"):
		return storeurl.ErrCredentials
	}
	bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if u.Scheme != "nats" || u.Opaque != "" || u.Host == "" || bucket == "" {
		return errors.New("it is not of the form nats://HOST:PORT/BUCKET/PREFIX")
	}
	if !bucketName().MatchString(bucket) {
		return errors.New("the name of its bucket may have letters, digits, - and _ only")
	}
	if _, err := store.Below(prefix); err != nil {
		return fmt.Errorf("its prefix: %w", err)
	}
	t.Bucket, t.Options.Prefix = bucket, prefix
	if err := storeurl.CheckParameters(query, Parameters, &t.Options.Timeout); err != nil {
		return err
	}
	if text := query.Get("replicas"); text != "" {
		if t.Options.Replicas, err = strconv.Atoi(text); err != nil || t.Options.Replicas < 1 || t.Options.Replicas > 5 {
			return errors.New("the parameter replicas must be a number between 1 and 5")
		}
	}
	for _, address := range tlsurl.Addresses(u.Host, defaultPort) {
		t.Servers = append(t.Servers, "nats://"+address)
	}
	tls, err := tlsurl.Config(query)
	if err != nil {
		return err
	}
	if t.Encrypted = tls != nil; t.Encrypted {
		t.connect = append(t.connect, nats.Secure(tls))
	}
	return t.credentials(query.Get("user"), cmp.Or(query.Get("creds"), os.Getenv("NATS_CREDS")))
}

// credentials adds the user to the options of the connection.
func (t *Target) credentials(user, creds string) error {
	user, password, token := cmp.Or(user, os.Getenv("NATS_USER")), os.Getenv("NATS_PASSWORD"), os.Getenv("NATS_TOKEN")
	t.Secret = user != "" || token != ""
	secrets := []string{password, token}
	if t.Options.Hide == nil {
		t.Options.Hide = func(text string) string { return secrettext.Hide(text, secrets) }
	}
	switch {
	case creds != "":
		if _, err := os.Stat(creds); err != nil {
			return errors.New("the file that the parameter creds, or NATS_CREDS, names cannot be read")
		}
		t.connect = append(t.connect, nats.UserCredentials(creds))
	case user != "" && password == "":
		return errors.New("there is a user but no password: set NATS_PASSWORD")
	case user != "":
		t.connect = append(t.connect, nats.UserInfo(user, password))
	case token != "":
		t.connect = append(t.connect, nats.Token(token))
	}
	return nil
}

// Connect connects to a server of the target. While no server accepts a connection, or a connection breaks before
// that, Connect tries again, as often as the store repeats a read. It begins no try after Options.Timeout. The
// connection keeps no message while it is broken.
func (t *Target) Connect(ctx context.Context) (conn *nats.Conn, err error) {
	if _, err := t.Options.check(); err != nil {
		return nil, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, t.Options.Timeout)
	defer cancel()
	deadline, _ := within.Deadline()
	limit := time.Until(deadline) // of reconnections too
	err = engine.Repeat(within, engine.DefaultTries, 50*time.Millisecond, func() error {
		conn, err = t.connectOnce(limit)
		return err
	})
	return conn, err
}

// connectOnce tries each server once.
func (t *Target) connectOnce(limit time.Duration) (*nats.Conn, error) {
	open := newCalls()
	t.Options.open = open
	options := append([]nats.Option{
		nats.Name("holdfast"), nats.Timeout(limit), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.CustomReconnectDelay(func(attempts int) time.Duration { return backoff.Pause(attempts, 100*time.Millisecond, 2*time.Second) }),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { open.lost() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { open.refused(err) }),
	}, t.connect...)
	conn, err := nats.Connect(strings.Join(t.Servers, ","), options...)
	if err != nil {
		d := &driver{bucket: t.Bucket, o: t.Options, calls: open}
		return nil, fmt.Errorf("%s: %w", t.name(), d.explain(err))
	}
	return conn, nil
}

// name names the store for people, as [New] does.
func (t *Target) name() string {
	return strings.TrimSuffix("nats://"+strings.Join(tlsurl.Hosts(t.Servers), ",")+"/"+t.Bucket+"/"+t.Options.Prefix, "/")
}

// Open returns a [Store] for the registers that a URL nats://HOST:PORT[,HOST:PORT...]/BUCKET/PREFIX?PARAMETERS
// names. The default port is 4222, and the prefix may be missing. If the URL has a value for an option, it
// replaces the value in opts. Open connects to a server. The caller closes the Store. Errors in the URL match
// store.ErrMisconfigured. The parameters:
//
//	user        name of the user; the password is never in the URL
//	creds       file with the credentials of a user
//	tls         true: connect with TLS, and check the server's certificate by those of the system
//	cacert      file with the certificates that may sign the server's; implies tls
//	cert, key   files with the client's certificate and its key; imply tls
//	timeout     time limit of a request, such as 3s
//	replicas    of a bucket that holdfast init creates
//
// The variables of the command of NATS replace what is not in the URL: NATS_USER and NATS_PASSWORD,
// NATS_TOKEN, or NATS_CREDS.
func Open(ctx context.Context, rawURL string, opts *Options) (*Store, error) {
	t, err := FromURL(rawURL, opts)
	if err != nil {
		return nil, err
	}
	conn, err := t.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s, err := New(conn, t.Bucket, &t.Options)
	if err != nil {
		conn.Close()
		return nil, err
	}
	s.Closer = closer{conn}
	return s, nil
}

type closer struct{ conn *nats.Conn }

func (c closer) Close() error {
	c.conn.Close()
	return nil
}
