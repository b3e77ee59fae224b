package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// MariaDB is a MariaDB server for tests. Its user is "root", without a password.
type MariaDB struct{ *Restartable }

// NewMariaDB creates empty data in a directory of the test, and starts their server with more arguments. When
// the test ends, it stops the server.
func NewMariaDB(t testing.TB, args ...string) *MariaDB {
	t.Helper()
	return get(t, "MariaDB", func(ctx context.Context) (*MariaDB, error) {
		m, err := StartMariaDB(ctx, t.TempDir(), args...)
		if err == nil {
			t.Cleanup(m.Kill)
		}
		return m, err
	})
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
	common := []string{"--no-defaults", "--datadir=" + data, "--user=" + u.Username}
	made := exec.CommandContext(ctx, install, append(common, "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M")...)
	made.Dir = "/"
	if out, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, tail(out))
	}
	m := &MariaDB{}
	m.Restartable = newRestartable("mariadb", func(address string) (*exec.Cmd, error) {
		socket := filepath.Join(dir, "s")
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return exec.Command(server, append(append([]string{}, common...), append([]string{"--bind-address=" + host, "--port=" + port, "--socket=" + socket,
			"--innodb-log-file-size=8M", "--max-connections=300", "--innodb-buffer-pool-size=32M", "--server-id=1"}, args...)...)...), nil
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
	if address == "" {
		address = m.Address()
	}
	return "root@tcp(" + address + ")/" + database
}
