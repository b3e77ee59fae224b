package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// NATS is a server of NATS with JetStream for tests.
type NATS struct{ *Restartable }

// NewNATS starts a server without data. The parameter config is a part of its configuration. When the test
// ends, the server ends.
func NewNATS(t testing.TB, config string) *NATS {
	t.Helper()
	return newNATS(t, t.TempDir(), 1, config)[0]
}

// NewNATSIn is like NewNATS, with the data of the server in an empty directory.
func NewNATSIn(t testing.TB, dir, config string) *NATS {
	t.Helper()
	return newNATS(t, dir, 1, config)[0]
}

// NewNATSCluster starts a cluster of n servers without data.
func NewNATSCluster(t testing.TB, n int) []*NATS {
	t.Helper()
	return newNATS(t, t.TempDir(), n, "")
}

func newNATS(t testing.TB, dir string, n int, config string) []*NATS {
	t.Helper()
	return startedAll(t, "NATS", func(ctx context.Context) ([]*NATS, error) { return startNATS(ctx, dir, n, config) })
}

// StartNATS is like NewNATSIn, for programs that are not tests. The caller must kill the server.
func StartNATS(ctx context.Context, dir string) (*NATS, error) {
	members, err := startNATS(ctx, dir, 1, "")
	if err != nil {
		return nil, err
	}
	return members[0], nil
}

func startNATS(ctx context.Context, dir string, n int, config string) ([]*NATS, error) {
	bin, err := natsServer.path(ctx)
	if err != nil {
		return nil, err
	}
	var routes []string
	for range n {
		route, err := freeAddress()
		if err != nil {
			return nil, err
		}
		routes = append(routes, route)
	}
	if !strings.Contains(config, "jetstream") {
		config += "\njetstream { store_dir: \"DIR\" }\n"
	}
	var members []*NATS
	for i := range n {
		members = append(members, &NATS{newRestartable("nats-server", func(address string) (*exec.Cmd, error) {
			data := filepath.Join(dir, fmt.Sprint("n", i))
			text := fmt.Sprintf("listen: %q\nserver_name: n%d\n", address, i) + strings.ReplaceAll(config, "DIR", data)
			if n > 1 {
				text += fmt.Sprintf("cluster {\n name: test\n listen: %q\n routes: [", routes[i])
				for _, route := range routes {
					text += fmt.Sprintf("%q\n", "nats://"+route)
				}
				text += "]\n}\n"
			}
			file := filepath.Join(dir, fmt.Sprintf("n%d.conf", i))
			return exec.Command(bin, "-c", file), os.WriteFile(file, []byte(text), 0o600)
		}, func(ctx context.Context, address string) error {
			// The server listens for clients first. If it cannot listen for the others of the cluster, it ends then.
			if err := greets(ctx, address); err != nil || n == 1 {
				return err
			}
			return greets(ctx, routes[i])
		})})
	}
	return startAll(ctx, members)
}

// greets returns nil if a server of NATS accepts connections.
func greets(ctx context.Context, address string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	b := make([]byte, 5)
	if _, err := c.Read(b); err != nil || string(b) != "INFO " {
		return fmt.Errorf("it says %q: %w", b, cmp.Or(err, errors.New("not a server of NATS")))
	}
	return nil
}
