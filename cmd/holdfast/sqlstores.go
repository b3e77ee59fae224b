package main

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/holdfast-go/holdfast/internal/localfs"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/internal/secrettext"
	"github.com/holdfast-go/holdfast/internal/storeurl"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// sqlConnections is the largest number of connections that one command uses.
const sqlConnections = 8

// database is what the URL of a database names.
type database struct {
	db      *sql.DB
	dialect sqlstore.Dialect
	opts    *sqlstore.Options

	largest    int    // row that is read, in bytes
	inTheClear string // a host to which a password may go unencrypted; empty: there is none
}

// openDatabase opens the registers in a database.
func openDatabase(_ context.Context, u *url.URL, log *slog.Logger) (opened, error) {
	d, err := databaseOf(u, false, maxMessage)
	if err != nil {
		return opened{}, err
	}
	if d.inTheClear != "" {
		log.Warn("the connection to the database may be unencrypted, and other machines of the network could read the password: add sslmode=verify-full or sslmode=require to the store's URL", "host", d.inTheClear)
	}
	d.opts.Logger = log
	st, err := sqlstore.New(d.db, d.dialect, d.opts)
	if err != nil {
		d.db.Close()
		return opened{}, err
	}
	return opened{Store: st, Closer: d.db, url: d.opts.Name}, nil
}

// initDatabase makes the tables, and the file of an SQLite database.
func initDatabase(ctx context.Context, u *url.URL) error {
	d, err := databaseOf(u, true, maxMessage)
	if err != nil {
		return err
	}
	defer d.db.Close()
	return sqlstore.CreateTables(ctx, d.db, d.dialect, d.opts)
}

// databaseOf returns what a URL names. It connects to nothing. With create, the first use
// makes a database file that does not exist. largest bounds what is read at a time.
func databaseOf(u *url.URL, create bool, largest int) (*database, error) {
	d := &database{opts: &sqlstore.Options{}, largest: largest}
	query := u.Query()
	take := func(name string) string {
		value := query.Get(name)
		query.Del(name)
		return value
	}
	d.opts.Table, d.opts.Prefix = take("table"), take("prefix")
	var err error
	if u.Scheme == "sqlite" {
		err = d.sqlite(u, query, create)
	} else {
		err = d.postgres(u, query)
	}
	if err != nil {
		return nil, err
	}
	d.db.SetMaxOpenConns(sqlConnections)
	return d, nil
}

// sqlite parses sqlite:PATH. It demands a file that only this user and root can change.
// SQLite obeys the files next to the database: if another user had put a journal there,
// SQLite would remove any file of this user that the journal names.
func (d *database) sqlite(u *url.URL, query url.Values, create bool) error {
	network, accepted, err := insisted(query, "table, prefix, ")
	if err != nil {
		return err
	}
	path := u.Path
	if u.Opaque != "" {
		path, _ = url.PathUnescape(u.Opaque)
	}
	if path == "" || u.Host != "" || strings.HasPrefix(path, "~") {
		return usagef("the store's URL does not name a file: write sqlite:/PATH or sqlite:PATH")
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	named := path
	if path, err = safefile.ExclusiveFile(path, []string{"-journal", "-wal", "-shm"}, accepted); errors.Is(err, fs.ErrNotExist) {
		return &statusError{statusNotFound, fmt.Errorf("the directory %s does not exist: create it first", filepath.Dir(named))}
	} else if err != nil {
		return err
	}
	kind, local, err := localfs.Check(filepath.Dir(path))
	switch {
	case err != nil:
		return err
	case !local && !network:
		return fmt.Errorf("%w: %s is on %s, and the locks of SQLite may not work there; to accept this risk, add network=allow to the store's URL", store.ErrUnsafe, path, kind)
	}
	d.dialect, d.opts.Name = sqlstore.SQLite, "sqlite:"+path
	if create {
		// Make the file here: SQLite would make it readable for other users.
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			err = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	} else if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &statusError{statusNotFound, noDatabase{path, "init"}}
	}
	// To open a file here, and close it, would end the locks that SQLite has on it in this process.
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		if !canRead(file) {
			return fmt.Errorf("%s: %w: this user may not read %s", d.opts.Name, store.ErrDenied, file)
		}
	}
	source := &url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"mode":    {"rw"},
		"_pragma": {"busy_timeout(5000)", "trusted_schema(OFF)", "journal_mode(WAL)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}.Encode()}
	d.db, err = sql.Open("sqlite", source.String())
	return err
}

// maxMessage is larger than any message of PostgreSQL that holds a register, in bytes.
const maxMessage = 1 << 20

// thisMachine reports whether a host of PostgreSQL is reached without a network: by a
// loopback address, or by a socket. For a socket, host is its directory.
func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || ip != nil && ip.IsLoopback()
}

// postgresParameters are the parameters of libpq that a URL may have.
var postgresParameters = []string{
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
// The password comes from PGPASSWORD or the password file, never from the URL, in whose path a @ is %40.
func (d *database) postgres(u *url.URL, query url.Values) error {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	switch {
	case query.Has("password") || query.Has("sslpassword") || strings.ContainsAny(name, ":@") || strings.Contains(u.EscapedPath(), "@"),
		slices.ContainsFunc(query["user"], func(user string) bool { return strings.Contains(user, ":") }),
		slices.ContainsFunc(query["host"], func(host string) bool { return !hosts(host) }):
		return &statusError{statusUnsafe, fmt.Errorf("store postgres:...: %w", storeurl.ErrCredentials)}
	case name == "" || u.Opaque != "":
		return usagef("store postgres:...: the URL does not name a database: write postgres://HOST/DATABASE/PREFIX")
	}
	if prefix != "" {
		d.opts.Prefix = prefix
	}
	for parameter, values := range query {
		if !slices.Contains(postgresParameters, parameter) {
			return usagef("the store's URL has an unknown parameter %s (known: table, prefix, %s)", storeurl.Parameter(parameter, values), strings.Join(postgresParameters, ", "))
		}
	}
	config, err := pgx.ParseConfig((&url.URL{Scheme: "postgres", Host: u.Host, Path: "/" + name, RawQuery: query.Encode()}).String())
	if err != nil {
		return usagef("store postgres:...: the address or its parameters cannot be read (see the connection strings of libpq)")
	}
	sent := &sentSecrets{password: config.Password}
	d.opts.Hide = sent.hide
	// pgx would allocate as much memory as the length of a message announces, up to 1 GiB.
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, secretsWriter{w, sent})
		f.SetMaxBodyLen(d.largest)
		return f
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
	d.opts.Name = strings.TrimSuffix(fmt.Sprintf("postgres://%s/%s/%s", u.Host, name, d.opts.Prefix), "/")
	d.opts.Listen = sqlstore.Listener(
		func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) },
		func(n *pgconn.Notification) string { return n.Payload },
	)
	return nil
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

// noDatabase is the error for a file of SQLite that does not exist.
type noDatabase struct{ path, madeBy string }

func (e noDatabase) Error() string {
	return fmt.Sprintf("there is no database %s: create it with holdfast %s", e.path, e.madeBy)
}
