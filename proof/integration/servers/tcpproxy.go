package servers

import (
	"net"
	"testing"
	"time"
)

// TCPProxy is a proxy that forwards connections to an address that can change, and cuts them.
type TCPProxy struct {
	Address string

	// Backend returns where to connect to.
	Backend func() string

	// Decide is asked for each piece that a client sends: whether to cut the connection
	// before the server gets it, after that (before the reply), or not.
	Decide func() (before, after bool)
}

// NewTCPProxy starts a proxy that ends with the test.
func NewTCPProxy(t testing.TB, backend func() string, decide func() (before, after bool)) *TCPProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &TCPProxy{Address: l.Addr().String(), Backend: backend, Decide: decide}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
	return c
}

func (c *TCPProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.Backend())
	if err != nil {
		return
	}
	defer server.Close()
	silent := make(chan struct{}) // closed when replies are no longer passed on
	go func() {
		defer client.Close()
		piece := make([]byte, 64<<10)
		for {
			n, err := server.Read(piece)
			select {
			case <-silent:
				return
			default:
			}
			if _, werr := client.Write(piece[:n]); err != nil || werr != nil {
				return
			}
		}
	}()
	piece := make([]byte, 64<<10)
	for {
		n, err := client.Read(piece)
		if err != nil {
			return
		}
		before, after := c.Decide()
		if before {
			return
		}
		if after {
			close(silent)
		}
		if _, err := server.Write(piece[:n]); err != nil {
			return
		}
		if after {
			time.Sleep(20 * time.Millisecond) // the server carries it out
			return
		}
	}
}
