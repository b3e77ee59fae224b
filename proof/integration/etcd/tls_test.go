package etcd_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
)

// tlsFront passes connections with TLS on to a server without TLS.
func tlsFront(t *testing.T, backend func() string, cert, key string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}
	return listen(t, func(c net.Conn) {
		outer := tls.Server(c, config)
		defer outer.Close()
		inner, err := net.Dial("tcp", backend())
		if err != nil {
			return
		}
		defer inner.Close()
		go func() { _, _ = io.Copy(outer, inner); outer.Close() }()
		_, _ = io.Copy(inner, outer)
	})
}
