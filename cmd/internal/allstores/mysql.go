package allstores

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/internal/drivers/tlsurl"
	"github.com/holdfast-go/holdfast/internal/username"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// MySQLParameters are the parameters that a URL of MySQL may have, besides those of all databases.
var MySQLParameters = []string{"connect_timeout", "socket", "sslcert", "sslkey", "sslmode", "sslrootcert", "user"}

// mysql parses mysql://HOST[:PORT]/DATABASE[/PREFIX]. The password comes from MYSQL_PWD or the user's
// option file.
func (d *database) mysql(u *url.URL, query url.Values, _ bool) error {
	name, err := d.named(u, query, MySQLParameters)
	if err != nil {
		return err
	}
	var file map[string]string
	if os.Getenv("MYSQL_PWD") == "" || !query.Has("user") {
		if file, err = readOptionFile(); err != nil {
			return err
		}
	}
	config := mysql.NewConfig()
	config.User = cmp.Or(query.Get("user"), file["user"], username.Current())
	config.Passwd = cmp.Or(os.Getenv("MYSQL_PWD"), file["password"])
	config.DBName = name
	config.Net, config.Addr = "tcp", net.JoinHostPort(cmp.Or(u.Hostname(), "localhost"), cmp.Or(u.Port(), "3306"))
	if socket := query.Get("socket"); socket != "" {
		if !strings.HasPrefix(socket, "/") || strings.ContainsAny(socket, ":@") {
			return exit.Usagef("store mysql:...: socket is not an absolute path of a socket")
		}
		config.Net, config.Addr = "unix", socket
	}
	config.InterpolateParams = true // one request for each statement
	config.Logger = &mysql.NopLogger{}
	// Settings of the server do not matter for the sessions of the command. A statement gives up waiting for a
	// row before the store gives up waiting for the statement, so that its outcome is known.
	config.Params = map[string]string{"sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'", "time_zone": "'+00:00'", "autocommit": "1", "innodb_lock_wait_timeout": "5"}
	if seconds := query.Get("connect_timeout"); seconds != "" {
		n, err := strconv.Atoi(seconds)
		if err != nil || n < 1 || n > 3600 {
			return exit.Usagef("store mysql:...: connect_timeout is a number of seconds from 1 to 3600")
		}
		config.Timeout = time.Duration(n) * time.Second
	}
	if err := encrypt(config, query, u.Hostname()); err != nil {
		return err
	}
	if config.Passwd != "" && (config.TLS == nil || config.AllowFallbackToPlaintext) && config.Net == "tcp" && !thisMachine(u.Hostname()) {
		d.inTheClear = u.Host
	}
	limit := 4 * int64(d.largest)
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		b := &boundedConn{Conn: c, limit: limit, greeting: make([]byte, 5)}
		if err := b.greeted(ctx, cmp.Or(config.Timeout, silenceLimit)); err != nil {
			c.Close()
			return nil, err
		}
		return b, nil
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return exit.Usagef("store mysql:...: the address or its parameters cannot be read")
	}
	d.opts.Hide = func(text string) string { return secrettext.Hide(text, []string{config.Passwd}) }
	d.dialect, d.db = sqlstore.MySQL, sql.OpenDB(mysqlConnector{connector, config})
	return nil
}

// encrypt sets the encryption of a connection. The values of sslmode are those of libpq.
func encrypt(config *mysql.Config, query url.Values, host string) error {
	mode := cmp.Or(query.Get("sslmode"), "prefer")
	if mode == "disable" {
		return nil
	}
	t, err := tlsurl.Certificates(query, "sslrootcert", "sslcert", "sslkey")
	if err != nil {
		return exit.Usagef("store mysql:...: %v", err)
	}
	t.ServerName = host
	switch mode {
	case "prefer", "require":
		t.InsecureSkipVerify = true // as for libpq: these modes only encrypt
		config.AllowFallbackToPlaintext = mode == "prefer"
	case "verify-full":
	default:
		return exit.Usagef("store mysql:...: sslmode is disable, prefer, require or verify-full")
	}
	if t.RootCAs != nil && mode != "verify-full" {
		return exit.Usagef("store mysql:...: sslrootcert needs sslmode=verify-full")
	}
	config.TLS = t
	return nil
}

// mysqlConnector makes connections. Its errors never repeat a text of the server, which has just received
// the password, or a proof of the password.
type mysqlConnector struct {
	driver.Connector
	config *mysql.Config
}

func (c mysqlConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	var refused *mysql.MySQLError
	_ = errors.As(err, &refused)
	switch {
	case err == nil:
		return conn, nil
	case refused != nil && refused.Number == 1049:
		return nil, fmt.Errorf("%w: there is no database %.80q: create it, then create its tables by holdfast init", store.ErrMisconfigured, c.config.DBName)
	case refused != nil:
		return nil, &mysql.MySQLError{Number: refused.Number, SQLState: refused.SQLState, Message: c.reason(refused.Number)}
	case errors.Is(err, mysql.ErrNoTLS):
		return nil, fmt.Errorf("%w: the server does not encrypt connections, and the store's URL demands that by sslmode", store.ErrMisconfigured)
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(x509.HostnameError)):
		return nil, fmt.Errorf("%w: the certificate of the server is not valid for this connection: %w", store.ErrMisconfigured, err)
	}
	return nil, err
}

// reason says why a server refuses a connection.
func (c mysqlConnector) reason(number uint16) string {
	switch number {
	case 1045, 1698:
		if c.config.Passwd == "" {
			return fmt.Sprintf("no access for the user %.80q without a password: set MYSQL_PWD, or write the password to ~/.my.cnf", c.config.User)
		}
		return fmt.Sprintf("no access for the user %.80q with this password", c.config.User)
	case 1044:
		return fmt.Sprintf("the user %.80q has no rights in the database %.80q", c.config.User, c.config.DBName)
	case 1040, 1203, 1226:
		return "the server has too many connections"
	case 1130:
		return "the server accepts no connections from this machine"
	case 3159:
		return "the server demands encryption: add sslmode=require to the store's URL"
	}
	return "the server refuses the connection"
}

// boundedConn is a connection with a limit for the bytes of one reply.
type boundedConn struct {
	net.Conn
	limit    int64
	read     atomic.Int64 // since the last request
	greeting []byte       // what was read, and the driver has not seen
}

// greeted reads the beginning of the greeting: length, number 0, and protocol 10 or an error. It cannot
// distinguish a server that waits for the client from a server that hangs.
func (c *boundedConn) greeted(ctx context.Context, limit time.Duration) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(within, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	_, err := io.ReadFull(c.Conn, c.greeting)
	switch {
	case !stop() && ctx.Err() != nil:
		return fmt.Errorf("the server accepted the connection, and did not answer: %w", context.Cause(ctx))
	case within.Err() != nil:
		return errSilent(limit, "MySQL")
	case err != nil:
		return err
	case c.greeting[3] != 0 || c.greeting[4] != 10 && c.greeting[4] != 0xff:
		return fmt.Errorf("%w: the server at %s does not speak the protocol of MySQL", store.ErrMisconfigured, c.RemoteAddr())
	}
	return nil
}

func (c *boundedConn) Read(b []byte) (int, error) {
	if n := copy(b, c.greeting); n > 0 {
		c.greeting = c.greeting[n:]
		return n, nil
	}
	if c.read.Load() > c.limit {
		return 0, fmt.Errorf("the server sent more than %d bytes", c.limit)
	}
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

func (c *boundedConn) Write(b []byte) (int, error) {
	c.read.Store(0)
	return c.Conn.Write(b)
}

// SyscallConn lets the driver find out, before it sends a statement, that the server has closed the connection.
func (c *boundedConn) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
