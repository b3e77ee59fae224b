package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Redis is a Redis server for tests.
type Redis struct {
	*Restartable

	tls *tls.Config
}

// NewRedis starts a server without data, which syncs each write to its log before it answers. The arguments
// are further settings for its command line, such as "--appendonly", "no". When the test ends, the server
// ends.
func NewRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	r := newRedis(t.TempDir(), nil, args...)
	r.startFor(t)
	return r
}

// NewRedisTLS is like NewRedis, for a server that accepts connections with TLS only. The files are those of
// [Certificate].
func NewRedisTLS(t testing.TB, cert, key string, args ...string) *Redis {
	t.Helper()
	client, err := trustingTLS(cert)
	if err != nil {
		t.Fatal(err)
	}
	r := newRedis(t.TempDir(), client, append(args, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")...)
	r.startFor(t)
	return r
}

// StartRedis is like NewRedis, for programs that are not tests. The data is in a directory. The caller must
// kill the server.
func StartRedis(ctx context.Context, dir string) (*Redis, error) {
	r := newRedis(dir, nil)
	return r, r.Start(ctx)
}

func newRedis(dir string, secure *tls.Config, args ...string) *Redis {
	r := &Redis{tls: secure}
	r.Restartable = newRestartable("Redis", func(address string) (*exec.Cmd, error) {
		bin, err := lookPath("redis-server")
		if err != nil {
			return nil, err
		}
		port := []string{"--port", portOf(address)}
		if secure != nil {
			port = []string{"--port", "0", "--tls-port", portOf(address)}
		}
		settings := append(port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no")
		return exec.Command(bin, append(settings, args...)...), nil
	}, func(ctx context.Context, address string) error { return ping(ctx, address, secure) })
	return r
}

// Client returns a client of the server.
func (r *Redis) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: r.Address(), TLSConfig: r.tls, MaxRetries: -1})
	t.Cleanup(func() { c.Close() })
	return c
}

// NewRedisCluster starts a cluster of servers, each of which has a part of the slots. For a minute, none
// takes another for dead: on a busy machine a server can stop for some seconds, and then all refuse writes.
func NewRedisCluster(t testing.TB, n int) []*Redis {
	t.Helper()
	var all []*Redis
	var addresses []string
	for range n {
		// A fixed port would collide with other tests; the port of the bus must be below 65536, too.
		bus := get(t, "a free port", func(context.Context) (string, error) { return freeAddress() })
		r := NewRedis(t, "--cluster-enabled", "yes", "--cluster-port", portOf(bus), "--cluster-node-timeout", "60000")
		all, addresses = append(all, r), append(addresses, r.Address())
	}
	cli := get(t, "redis-cli", func(context.Context) (string, error) { return lookPath("redis-cli") })
	cmd := exec.CommandContext(t.Context(), cli, slices.Concat([]string{"--cluster", "create"}, addresses, []string{"--cluster-yes"})...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("redis-cli --cluster create: %v\n%s", err, tail(out))
	}
	// The tool ends when the servers agree about the slots. Each can still refuse all requests for a second.
	for _, r := range all {
		c := r.Client(t)
		get(t, "a server of the cluster", func(ctx context.Context) (*Redis, error) {
			return r, r.proc.await(ctx, func(ctx context.Context) error {
				info, err := c.ClusterInfo(ctx).Result()
				if err == nil && !strings.Contains(info, "cluster_state:ok") {
					err = errors.New(info)
				}
				return err
			})
		})
	}
	return all
}

// NewSentinel starts a sentinel that watches a server under the name "main". If the server does not answer for
// a second, the sentinel makes a replica the primary server. It returns the address of the sentinel.
func NewSentinel(t testing.TB, primary *Redis) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf") // the sentinel writes its state there
	text := "sentinel monitor main 127.0.0.1 " + portOf(primary.Address()) + " 1\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRestartable("Sentinel", func(address string) (*exec.Cmd, error) {
		bin, err := lookPath("redis-server")
		return exec.Command(bin, file, "--sentinel", "--port", portOf(address), "--bind", "127.0.0.1", "--daemonize", "no"), err
	}, func(ctx context.Context, address string) error { return ping(ctx, address, nil) })
	r.startFor(t)
	return r.Address()
}

func ping(ctx context.Context, address string, secure *tls.Config) error {
	c := redis.NewClient(&redis.Options{Addr: address, TLSConfig: secure, MaxRetries: -1, DialerRetries: 1})
	defer c.Close()
	err := c.Ping(ctx).Err()
	if redis.HasErrorPrefix(err, "NOAUTH") {
		return nil
	}
	return err
}
