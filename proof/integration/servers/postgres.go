package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is a PostgreSQL server for tests. Its user is "postgres", without a password.
type Postgres struct {
	*Restartable

	bin, data string
}

// NewPostgres creates an empty database cluster in a directory of the test, and starts its server. When
// the test ends, it stops the server.
func NewPostgres(t testing.TB) *Postgres {
	t.Helper()
	return get(t, "PostgreSQL", func(ctx context.Context) (*Postgres, error) {
		p, err := StartPostgres(ctx, t.TempDir())
		if err == nil {
			t.Cleanup(func() {
				p.Kill()
				// The other processes of the server end a moment later, and write until then.
				for try := 0; os.RemoveAll(p.data) != nil && try < 100; try++ {
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		return p, err
	})
}

// StartPostgres is like NewPostgres, for programs that are not tests. The cluster is in the directory for
// temporary files. The caller must kill the server.
func StartPostgres(ctx context.Context, dir string) (*Postgres, error) {
	p := &Postgres{data: filepath.Join(dir, "data")}
	p.Restartable = newRestartable("postgres", func(address string) (*exec.Cmd, error) {
		// Otherwise a server that is killed leaves its shared memory behind, in /dev/shm.
		return p.command("postgres", "-D", p.data, "-p", portOf(address), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "dynamic_shared_memory_type=mmap")
	}, func(ctx context.Context, address string) error {
		conn, err := pgx.Connect(ctx, p.URL(address))
		if err == nil {
			err = conn.Close(ctx)
		}
		return err
	})
	if err := p.init(ctx); err != nil {
		return nil, err
	}
	return p, p.Start(ctx)
}

// URL returns the URL of the database. If the parameter is not empty, it replaces the address of the
// server.
func (p *Postgres) URL(address string) string {
	return "postgres://postgres@" + cmp.Or(address, p.Address()) + "/postgres?sslmode=disable"
}

// init makes the cluster.
func (p *Postgres) init(ctx context.Context) error {
	// The server refuses to run as root: then it runs as the user of the package, which
	// must be able to reach the directory.
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian has it
	if path, err := exec.LookPath("initdb"); err == nil && len(found) == 0 {
		found = append(found, path)
	}
	if len(found) == 0 {
		return fmt.Errorf("PostgreSQL is %w", errMissing)
	}
	slices.Sort(found)
	p.bin = filepath.Dir(found[len(found)-1])
	if err := os.Mkdir(p.data, 0o700); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return fmt.Errorf("the user postgres is %w", errMissing)
		}
		uid, errU := strconv.Atoi(u.Uid)
		gid, errG := strconv.Atoi(u.Gid)
		if err := errors.Join(errU, errG, os.Chown(p.data, uid, gid)); err != nil {
			return err
		}
		for dir := filepath.Dir(p.data); dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				return err
			}
		}
	}
	inner, err := p.command("initdb", "-D", p.data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, inner.Path, inner.Args[1:]...)
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, tail(out))
	}
	return nil
}

// command returns a program of PostgreSQL, under the user that may run it.
func (p *Postgres) command(name string, args ...string) (*exec.Cmd, error) {
	args = append([]string{filepath.Join(p.bin, name)}, args...)
	if os.Geteuid() == 0 {
		setpriv, err := lookPath("setpriv")
		if err != nil {
			return nil, err
		}
		args = append([]string{setpriv, "--reuid=postgres", "--regid=postgres", "--clear-groups"}, args...)
	}
	return exec.Command(args[0], args[1:]...), nil
}
