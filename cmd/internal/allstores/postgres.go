package allstores

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// maxMessage is larger than any message of PostgreSQL that holds a register, in bytes.
const maxMessage = 1 << 20

// thisMachine reports whether a host of PostgreSQL is reached without a network: by a
// loopback address, or by a socket. For a socket, host is its directory.
func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || ip != nil && ip.IsLoopback()
}

// PostgresParameters are the parameters of libpq that a URL may have.
var PostgresParameters = []string{
	"application_name", "connect_timeout", "host", "options", "port", "search_path", "service",
	"sslcert", "sslkey", "sslmode", "sslrootcert", "target_session_attrs", "user",
}

// hosts reports whether the parameter host names hosts, or directories of sockets, and nothing else:
// the errors of a connection repeat it.
func hosts(value string) bool {
	for _, host := range strings.Split(value, ",") {
		socket := strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@")
		if !socket && net.ParseIP(host) == nil && strings.ContainsAny(host, ":@/") {
			return false
		}
	}
	return true
}

// postgres parses postgres://HOST[:PORT]/DATABASE[/PREFIX], with the parameters of libpq.
// The password comes from PGPASSWORD or the password file.
func (d *database) postgres(u *url.URL, query url.Values, _ bool) error {
	if query.Has("sslpassword") || slices.ContainsFunc(query["host"], func(host string) bool { return !hosts(host) }) {
		return credentials(u)
	}
	name, err := d.named(u, query, PostgresParameters)
	if err != nil {
		return err
	}
	config, err := pgx.ParseConfig((&url.URL{Scheme: "postgres", Host: u.Host, Path: "/" + name, RawQuery: query.Encode()}).String())
	if err != nil {
		return exit.Usagef("store postgres:...: the address or its parameters cannot be read (see the connection strings of libpq)")
	}
	sent := &sentSecrets{password: config.Password}
	d.opts.Hide = sent.hide
	// pgx would allocate as much memory as the length of a message announces, up to 1 GiB.
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, secretsWriter{w, sent})
		f.SetMaxBodyLen(d.largest)
		return f
	}
	dial, limit := config.DialFunc, cmp.Or(config.ConnectTimeout/10*9, silenceLimit) // before pgx gives up
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		a := &awaitedConn{Conn: c, limit: limit}
		a.timer = time.AfterFunc(limit, func() {
			a.silent.Store(true)
			_ = c.Close()
		})
		return a, nil
	}
	clear := func(host string, t *tls.Config) {
		if t == nil && config.Password != "" && !thisMachine(host) {
			d.inTheClear = host
		}
	}
	clear(config.Host, config.TLSConfig)
	for _, other := range config.Fallbacks {
		clear(other.Host, other.TLSConfig)
	}
	d.dialect, d.db = sqlstore.PostgreSQL, stdlib.OpenDB(*config)
	d.opts.Listen = sqlstore.Listener(
		func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) },
		func(n *pgconn.Notification) string { return n.Payload },
	)
	return nil
}

// awaitedConn is a connection to a server that has to show that it speaks the protocol of PostgreSQL.
type awaitedConn struct {
	net.Conn
	limit  time.Duration
	timer  *time.Timer // it closes the connection if no answer arrives
	silent atomic.Bool // the timer did so
	knows  atomic.Bool // the first answer was read
}

func (c *awaitedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.knows.Load() {
		return n, err
	}
	switch {
	case n == 0 && c.silent.Load():
		return 0, errSilent(c.limit, "PostgreSQL")
	case n == 0:
		return 0, err
	}
	c.timer.Stop()
	c.knows.Store(true)
	// The answer about TLS, or the kind of the first message. The greeting of MySQL can begin with the same letter.
	if !strings.Contains("SNREv", string(b[:1])) || n > 4 && string(b[1:5]) == "\x00\x00\x00\x0a" {
		return 0, fmt.Errorf("%w: the server at %s does not speak the protocol of PostgreSQL", store.ErrMisconfigured, c.RemoteAddr())
	}
	return n, err
}

func (c *awaitedConn) Close() error {
	c.timer.Stop()
	return c.Conn.Close()
}

// sentSecrets are the password of a database, and what was sent to prove that this user has it:
// the readers of a message could find a weak password from that.
type sentSecrets struct {
	password string

	mu     sync.Mutex
	proofs []string // of the last connections
}

func (s *sentSecrets) hide(text string) string {
	s.mu.Lock()
	secrets := append([]string{s.password}, s.proofs...)
	s.mu.Unlock()
	return secrettext.Hide(text, secrets)
}

// secretsWriter notes the proofs in what pgx sends, one message for each write.
type secretsWriter struct {
	io.Writer
	sent *sentSecrets
}

func (w secretsWriter) Write(b []byte) (int, error) {
	const header = 5 // the kind of the message, and its length
	if len(b) > header && b[0] == 'p' {
		// MD5: the hash. SCRAM: fields with commas in between, of which p is the proof.
		for _, field := range strings.FieldsFunc(string(b[header:]), func(r rune) bool { return r == ',' || r == 0 }) {
			proof, scram := strings.CutPrefix(field, "p=")
			if !scram && !strings.HasPrefix(field, "md5") {
				continue
			}
			w.sent.mu.Lock()
			w.sent.proofs = append(w.sent.proofs[max(0, len(w.sent.proofs)-2*sqlConnections):], proof)
			w.sent.mu.Unlock()
		}
	}
	return w.Writer.Write(b)
}
