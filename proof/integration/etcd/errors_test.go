package etcd_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/etcd/etcdstore"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

const password = "zq7hunter2zq7"

// listen serves connections by f, and returns the address.
func listen(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go f(c)
		}
	}()
	return l.Addr().String()
}

// protected starts a server with TLS and with users: root and app have the password, app may use the prefix
// app/, and reader may only read it.
func protected(t *testing.T) (address, cert string) {
	t.Helper()
	cert, key := servers.Certificate(t)
	plain := servers.NewEtcd(t)
	ctx := t.Context()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{plain.Address()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for user, may := range map[string]clientv3.PermissionType{"app": clientv3.PermissionType(clientv3.PermReadWrite), "reader": clientv3.PermissionType(clientv3.PermRead)} {
		must(c.RoleAdd(ctx, user))
		must(c.RoleGrantPermission(ctx, user, "app/", clientv3.GetPrefixRangeEnd("app/"), may))
		must(c.UserAdd(ctx, user, password))
		must(c.UserGrantRole(ctx, user, user))
	}
	must(c.UserAdd(ctx, "root", password))
	must(c.UserGrantRole(ctx, "root", "root"))
	must(c.AuthEnable(ctx))
	// TLS in front of the server, so that one test sees both.
	return tlsFront(t, plain.Address, cert, key), cert
}

// TestEtcdErrors: what is wrong is reported by one line that says what to do, with the right sentinel, and
// without a secret.
func TestEtcdErrors(t *testing.T) {
	plain := servers.NewEtcd(t)
	secure, cert := protected(t)
	var pieces atomic.Int64
	cut := servers.NewTCPProxy(t, func() string { return secure }, func() (before, after bool) { return pieces.Add(1) <= 2, false })
	otherCert, _ := servers.Certificate(t)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	webTLS := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(webTLS.Close)
	other := grpc.NewServer()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = other.Serve(l) }()
	t.Cleanup(other.Stop)
	garbage := listen(t, func(c net.Conn) {
		_, _ = c.Write([]byte("-ERR unknown command\r\n"))
		time.Sleep(time.Second)
		c.Close()
	})
	silent := listen(t, func(c net.Conn) {})
	small := servers.NewEtcd(t, "--max-request-bytes=1024")
	full := servers.NewEtcd(t, "--quota-backend-bytes=100000")
	for _, c := range []struct {
		name, at, user string
		value          int
		want           error
		outcome        store.Outcome
		text           string
	}{
		{"good", plain.Address() + "/app", "", 10, nil, store.Applied, ""},
		{"good, with TLS and a user", secure + "/app?cacert=" + cert, "app:" + password, 10, nil, store.Applied, ""},
		{"two connections are cut", cut.Address + "/app?cacert=" + cert, "app:" + password, 10, nil, store.Applied, ""},
		{"a user without authentication", plain.Address() + "/app", "app:" + password, 10, nil, store.Applied, ""},
		{"no server", "127.0.0.1:1/app", "", 10, store.ErrUnavailable, store.NotApplied, "connection refused"},
		{"no answer", silent + "/app?timeout=300ms", "", 10, store.ErrUnavailable, store.Unknown, "no answer within 300ms"},
		{"a web server", web.Listener.Addr().String() + "/app", "", 10, store.ErrMisconfigured, store.NotApplied, "not etcd"},
		{"another protocol", garbage + "/app", "", 10, store.ErrMisconfigured, store.NotApplied, "not etcd"},
		{"another server of gRPC", l.Addr().String() + "/app", "", 10, store.ErrMisconfigured, store.NotApplied, "not a server of etcd"},
		{"TLS, without the parameters", secure + "/app", "", 10, store.ErrUnavailable, store.NotApplied, "TLS"},
		{"parameters of TLS, without TLS", plain.Address() + "/app?cacert=" + cert, "", 10, store.ErrUnavailable, store.NotApplied, "the parameters tls, cacert"},
		{"a wrong certificate", secure + "/app?cacert=" + otherCert, "app:" + password, 10, store.ErrMisconfigured, store.NotApplied, "the parameters tls, cacert"},
		{"an unknown certificate", secure + "/app?tls=true", "app:" + password, 10, store.ErrMisconfigured, store.NotApplied, "x509"},
		{"a web server with TLS", webTLS.Listener.Addr().String() + "/app?tls=true", "", 10, store.ErrMisconfigured, store.NotApplied, "no application protocol"},
		{"no user", secure + "/app?cacert=" + cert, "", 10, store.ErrCredentials, store.NotApplied, "ETCDCTL_USER"},
		{"a wrong password", secure + "/app?cacert=" + cert, "app:wrong" + password, 10, store.ErrCredentials, store.NotApplied, "ETCDCTL_PASSWORD"},
		{"an unknown user", secure + "/app?cacert=" + cert, "nobody:" + password, 10, store.ErrCredentials, store.NotApplied, "authentication failed"},
		{"may only read", secure + "/app?cacert=" + cert, "reader:" + password, 10, store.ErrDenied, store.NotApplied, `readwrite for the prefix "app/"`},
		{"may not use this prefix", secure + "/apple?cacert=" + cert, "app:" + password, 10, store.ErrDenied, store.NotApplied, `the prefix "apple/"`},
		{"a value above the server's limit", small.Address() + "/app", "", 2000, store.ErrMisconfigured, store.NotApplied, "--max-request-bytes"},
		{"the largest value", plain.Address() + "/app", "", store.MaxValue, nil, store.Applied, ""},
		{"a full database", full.Address() + "/app", "", store.MaxValue, store.ErrUnavailable, store.Unknown, "etcdctl alarm disarm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("ETCDCTL_USER", c.user)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			put := func() error {
				st, err := etcdstore.Open(ctx, "etcd://"+c.at, nil)
				if err != nil {
					return err
				}
				defer st.Close()
				// Writes of a full database succeed until it is full.
				for range 1 + 20*c.value/store.MaxValue {
					if _, err = st.Put(ctx, servers.Unique("key"), "", make([]byte, c.value)); err != nil {
						break
					}
				}
				return err
			}
			err := put()
			if c.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, c.want) || store.InDoubt(err) && c.outcome != store.Unknown || store.OutcomeOf(err) != c.outcome {
				t.Errorf("got %v (%v), want %v (%v)", err, store.OutcomeOf(err), c.want, c.outcome)
			}
			if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
				t.Errorf("the text is %v; want it to contain %q", err, c.text)
			}
			t.Log(err)
		})
	}
}
