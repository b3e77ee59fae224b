// Package tlstest has a server for tests of clients that speak TLS.
package tlstest

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Damaged starts a server whose TLS connection breaks after each request, before the answer: a device on the way sends
// plain text. The server ends with the test.
func Damaged(t testing.TB) *httptest.Server {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn.(*tls.Conn).NetConn(), "HTTP/1.1 302 Found\r\n\r\n")
		conn.Close()
	}))
	t.Cleanup(srv.Close)
	return srv
}
