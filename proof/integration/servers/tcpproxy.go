package servers

import (
	"net"
	"testing"
	"time"
)

// TCPProxy is a proxy for TCP connections that can break them. The address of its server can change.
type TCPProxy struct {
	Address string

	// Backend returns the present address of the server.
	Backend func() string

	// The proxy calls Decide for each piece of data from a client. If before is true, the proxy breaks
	// the connection before the server gets the piece. If after is true, the proxy breaks it after that,
	// before the reply.
	Decide func() (before, after bool)
}

// NewTCPProxy starts a proxy. When the test ends, the proxy ends, too.
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
