package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/internal/drivers/tlsurl"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	defaultPort = "2379"

	// connectTime is shorter than the time of a request, so that the error of a request says why there is no
	// connection.
	connectTime = 2 * time.Second

	// maxAnswer is larger than any answer that the store needs, in bytes.
	maxAnswer = 4 << 20
)

// Parameters are the parameters that a URL may have.
var Parameters = append([]string{"user", "timeout"}, tlsurl.Parameters...)

// FromURL returns what a URL names: a configuration of the client, and a copy of the options with the values
// of the URL. For the form of the URL see [Open]. FromURL reads the files of certificates, and sends no
// request.
func FromURL(rawURL string, opts *Options) (clientv3.Config, *Options, error) {
	o := *cmp.Or(opts, &Options{})
	config, err := o.parse(rawURL)
	if err != nil {
		return clientv3.Config{}, nil, storeurl.Wrong(fmt.Errorf("%w: the URL of the store: %w", store.ErrMisconfigured, err))
	}
	return config, &o, nil
}

// parse reads a URL into o, and returns the configuration of the client. Its errors contain no part of the
// URL that could be a secret.
func (o *Options) parse(raw string) (clientv3.Config, error) {
	u, query, err := storeurl.Parse(raw)
	switch {
	case err != nil:
		return clientv3.Config{}, err
	case query.Has("password"), strings.Contains(query.Get("user"), ":"), strings.Contains(u.EscapedPath(), "@"):
		return clientv3.Config{}, storeurl.ErrCredentials
	case u.Scheme != "etcd" || u.Opaque != "" || u.Host == "" || strings.Trim(u.Path, "/") == "":
		return clientv3.Config{}, errors.New("it is not of the form etcd://HOST:PORT/PREFIX")
	}
	o.Prefix = strings.Trim(u.Path, "/")
	if err := store.CheckKey(o.Prefix); err != nil {
		return clientv3.Config{}, fmt.Errorf("its prefix: %w", err)
	}
	if err := storeurl.CheckParameters(query, Parameters, &o.Timeout); err != nil {
		return clientv3.Config{}, err
	}
	config := clientv3.Config{
		// A request that the store sends is sent once, whatever its error is.
		MaxUnaryRetries:      1,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		MaxCallSendMsgSize:   maxAnswer,
		MaxCallRecvMsgSize:   maxAnswer,
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{
			// By default, a request without a connection waits for one, and its error would not tell why
			// there is none. After a long failure, the client would try to connect every two minutes.
			grpc.WithChainUnaryInterceptor(failWithoutConnection),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
				MinConnectTimeout: connectTime,
			}),
		},
	}
	if config.TLS, err = tlsurl.Config(query); err != nil {
		return clientv3.Config{}, err
	}
	scheme := "http://"
	if config.TLS != nil {
		scheme = "https://"
	}
	for _, address := range tlsurl.Addresses(u.Host, defaultPort) {
		config.Endpoints = append(config.Endpoints, scheme+address)
	}
	config.Username, config.Password, err = credentials(query.Get("user"))
	return config, err
}

func failWithoutConnection(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, request, reply, cc, append(slices.Clip(opts), grpc.WaitForReady(false))...)
}

// credentials returns the user and the password, from the variables of etcdctl. The user of the URL has
// priority.
func credentials(user string) (name, password string, err error) {
	name, password, _ = strings.Cut(os.Getenv("ETCDCTL_USER"), ":")
	password = cmp.Or(password, os.Getenv("ETCDCTL_PASSWORD"))
	if user != "" && name != "" && name != user {
		return "", "", errors.New("the parameter user and the variable ETCDCTL_USER name different users")
	}
	if name = cmp.Or(user, name); name != "" && password == "" {
		return "", "", errors.New("there is a user but no password: set ETCDCTL_PASSWORD, or ETCDCTL_USER to USER:PASSWORD")
	}
	return name, password, nil
}

// Open returns a [Store] for the registers that a URL etcd://HOST:PORT[,HOST:PORT...]/PREFIX?PARAMETERS
// names. The hosts are members of one cluster; the default port is 2379. If the URL has a value for an
// option, it replaces the value in opts. The caller closes the Store. Errors in the URL match
// store.ErrMisconfigured. The parameters:
//
//	user        name of the user; the password is never in the URL
//	tls         true: connect with TLS, and check the server's certificate by those of the system
//	cacert      file with the certificates that may sign the server's; implies tls
//	cert, key   files with the client's certificate and its key; imply tls
//	timeout     time limit of a request, such as 3s
//
// The password comes from the variable ETCDCTL_PASSWORD, or from ETCDCTL_USER in the form USER:PASSWORD, as
// for etcdctl. If there is a user, Open asks a server for a token, and repeats this as the store repeats a read, but
// not after the timeout. Otherwise Open sends no request.
func Open(ctx context.Context, rawURL string, opts *Options) (*Store, error) {
	config, o, err := FromURL(rawURL, opts)
	if err != nil {
		return nil, err
	}
	if o.Hide == nil {
		o.Hide = func(text string) string { return secrettext.Hide(text, []string{config.Password}) }
	}
	below, err := o.check()
	if err != nil {
		return nil, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	config.DialTimeout = o.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		config.DialTimeout = min(o.Timeout, time.Until(deadline))
	}
	// A client of a user asks for a token.
	within, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	var client *clientv3.Client
	err = engine.Repeat(within, engine.DefaultTries, 50*time.Millisecond, func() (err error) {
		if client, err = clientv3.New(config); err != nil {
			d := &driver{prefix: below, o: *o}
			err = fmt.Errorf("etcd://%s: %w", strings.Join(tlsurl.Hosts(config.Endpoints), ","), d.explain(err))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s, err := New(client, o)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.Closer = client
	return s, nil
}
