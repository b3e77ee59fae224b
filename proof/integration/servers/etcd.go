package servers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/workerpool"
)

// Etcd is one member of etcd for tests.
type Etcd struct{ *Restartable }

// NewEtcd starts a cluster of one member without data. The parameter flags are more arguments of the
// server. When the test ends, the server ends.
func NewEtcd(t testing.TB, flags ...string) *Etcd {
	t.Helper()
	return NewEtcdCluster(t, 1, flags...)[0]
}

// NewEtcdIn is like NewEtcd, with the data of the server in an empty directory.
func NewEtcdIn(t testing.TB, dir string, flags ...string) *Etcd {
	t.Helper()
	return newEtcd(t, dir, 1, flags...)[0]
}

// NewEtcdCluster starts a cluster of n members without data; see NewEtcd.
func NewEtcdCluster(t testing.TB, n int, flags ...string) []*Etcd {
	t.Helper()
	return newEtcd(t, t.TempDir(), n, flags...)
}

func newEtcd(t testing.TB, dir string, n int, flags ...string) []*Etcd {
	t.Helper()
	return get(t, "etcd", func(ctx context.Context) ([]*Etcd, error) {
		members, err := StartEtcd(ctx, dir, n, flags...)
		for _, m := range members {
			t.Cleanup(m.Kill)
		}
		return members, err
	})
}

// StartEtcd is like NewEtcdCluster, for programs that are not tests. The data of the members are below dir.
// The caller must kill all members, also after an error.
func StartEtcd(ctx context.Context, dir string, n int, flags ...string) ([]*Etcd, error) {
	bin, err := lookPath("etcd")
	if err != nil {
		return nil, err
	}
	var members []*Etcd
	var peers, cluster []string
	for i := range n {
		peer, err := freeAddress()
		if err != nil {
			return nil, err
		}
		peers, cluster = append(peers, "http://"+peer), append(cluster, fmt.Sprintf("m%d=http://%s", i, peer))
	}
	for i := range n {
		members = append(members, &Etcd{newRestartable("etcd", func(address string) (*exec.Cmd, error) {
			return exec.Command(bin, append([]string{
				"--name", fmt.Sprint("m", i), "--data-dir", filepath.Join(dir, fmt.Sprint("m", i)),
				"--listen-client-urls", "http://" + address, "--advertise-client-urls", "http://" + address,
				"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
				"--initial-cluster", strings.Join(cluster, ","), "--logger", "zap",
			}, flags...)...), nil
		}, healthy)})
	}
	errs := make([]error, n)
	workerpool.Each(n, n, func(i int) { errs[i] = members[i].Start(ctx) })
	return members, errors.Join(errs...)
}

// healthy returns nil if a member has a leader.
func healthy(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("its health: %s", resp.Status)
	}
	return nil
}
