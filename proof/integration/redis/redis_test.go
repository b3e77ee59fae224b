// Package redis_test tests the registers in Redis on its real server.
package redis_test

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/proof/integration/registers"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/redis/redisstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	logging.Disable() // the client reports each lost connection
	os.Exit(new(servers.Set).Main(m))
}

// open opens the registers at a URL.
func open(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	st, err := redisstore.Open(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// space is a new prefix on a server.
func space(parameters string) func(*testing.T, registers.Server) registers.Open {
	return func(*testing.T, registers.Server) registers.Open {
		prefix := servers.Unique("redis")
		return func(t testing.TB, address string) store.Store {
			return open(t, "redis://"+address+"/0/"+prefix+parameters)
		}
	}
}

// intercepted opens the registers at a URL with a client whose requests pass through carry.
func intercepted(t testing.TB, url string, carry func(func() error) error) *redisstore.Store {
	t.Helper()
	connect, opts, err := redisstore.FromURL(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	connect.WriteBufferSize = 1 << 20 // so that the client writes each request at once
	connect.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return &carried{Conn: c, carry: carry}, err
	}
	st, err := redisstore.New(connect, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// carried is a connection that receives the beginning of the answer while it sends a request.
type carried struct {
	net.Conn
	carry  func(func() error) error
	answer []byte
}

func (c *carried) Write(b []byte) (int, error) {
	err := c.carry(func() error {
		if _, err := c.Conn.Write(b); err != nil {
			return err
		}
		answer := make([]byte, 64<<10)
		n, err := c.Conn.Read(answer)
		c.answer = append(c.answer, answer[:n]...)
		return err
	})
	if err != nil {
		c.Close()
		return 0, err
	}
	return len(b), nil
}

func (c *carried) Read(b []byte) (int, error) {
	if len(c.answer) > 0 {
		n := copy(b, c.answer)
		c.answer = c.answer[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// TestRedis: the suites on one server, while connections are cut, and while the server is killed.
func TestRedis(t *testing.T) {
	registers.Kind{
		Start:    func(t *testing.T) registers.Server { return servers.NewRedis(t) },
		NewSpace: space(""),
		Registers: storetest.Options{
			Intercept: func(t *testing.T, first store.Store, carry func(func() error) error) store.Store {
				return intercepted(t, store.TraitsOf(first).Name, carry)
			},
		},
	}.Run(t)
}
