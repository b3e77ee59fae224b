package servers

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// MariaDB is a MariaDB server for tests. Its user is "root", without a password.
type MariaDB struct{ *Restartable }

// NewMariaDB creates empty data in a directory of the test, and starts their server with more arguments. When
// the test ends, it stops the server.
func NewMariaDB(t testing.TB, args ...string) *MariaDB {
	t.Helper()
	return started(t, "MariaDB", func(ctx context.Context) (*MariaDB, error) { return StartMariaDB(ctx, t.TempDir(), args...) })
}

// StartMariaDB is like NewMariaDB, for programs that are not tests. The caller must kill the server.
func StartMariaDB(ctx context.Context, dir string, args ...string) (*MariaDB, error) {
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		if server, err = exec.LookPath("/usr/sbin/mariadbd"); err != nil {
			return nil, fmt.Errorf("MariaDB is %w", errMissing)
		}
	}
	install, err := lookPath("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	// The server refuses to run as root without the name of a user.
	u, err := user.Current()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	common := []string{"--no-defaults", "--datadir=" + data, "--user=" + u.Username, "--tmpdir=" + dir}
	made := exec.CommandContext(ctx, install, append(common, "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M")...)
	made.Dir = "/"
	if out, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, tail(out))
	}
	m := &MariaDB{}
	m.Restartable = newRestartable("mariadb", func(address string) (*exec.Cmd, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return exec.Command(server, slices.Concat(common, []string{"--bind-address=" + host, "--port=" + port, "--socket=s", "--server-id=1",
			"--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--max-connections=300"}, args)...), nil
	}, func(ctx context.Context, address string) error {
		config, err := mysql.ParseDSN(m.DSN(address, "mysql"))
		if err != nil {
			return err
		}
		config.Logger = &mysql.NopLogger{} // the server does not listen yet
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return err
		}
		db := sql.OpenDB(connector)
		defer db.Close()
		return db.PingContext(ctx)
	})
	return m, m.Start(ctx)
}

// DSN returns the name of a database for the driver. If the address is not empty, it replaces the address of
// the server.
func (m *MariaDB) DSN(address, database string) string {
	return "root@tcp(" + cmp.Or(address, m.Address()) + ")/" + database
}
