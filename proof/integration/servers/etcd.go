package servers

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
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
	return newEtcd(t, nil, dir, 1, flags...)[0]
}

// NewEtcdWithoutSync is like NewEtcdIn, but the server's calls of fsync and fdatasync do nothing. So it does what
// etcd 3.5 does with --unsafe-no-fsync.
func NewEtcdWithoutSync(t testing.TB, dir string) *Etcd {
	t.Helper()
	strace := suitetest.NeedProgram(t, "strace")
	// With -D, strace is not the process that Kill kills.
	return newEtcd(t, []string{strace, "-D", "-f", "-qq", "-o", os.DevNull, "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:retval=0"}, dir, 1)[0]
}

// NewEtcdCluster starts a cluster of n members without data; see NewEtcd.
func NewEtcdCluster(t testing.TB, n int, flags ...string) []*Etcd {
	t.Helper()
	return newEtcd(t, nil, t.TempDir(), n, flags...)
}

func newEtcd(t testing.TB, under []string, dir string, n int, flags ...string) []*Etcd {
	t.Helper()
	return startedAll(t, "etcd", func(ctx context.Context) ([]*Etcd, error) { return startEtcd(ctx, under, dir, n, flags...) })
}

// StartEtcd is like NewEtcdIn, for programs that are not tests. The caller must kill the server.
func StartEtcd(ctx context.Context, dir string, flags ...string) (*Etcd, error) {
	members, err := startEtcd(ctx, nil, dir, 1, flags...)
	if err != nil {
		return nil, err
	}
	return members[0], nil
}

// startEtcd starts the members under another program, which starts the command that its arguments end with.
func startEtcd(ctx context.Context, under []string, dir string, n int, flags ...string) ([]*Etcd, error) {
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
			line := slices.Concat(under, []string{
				bin, "--name", fmt.Sprint("m", i), "--data-dir", filepath.Join(dir, fmt.Sprint("m", i)),
				"--listen-client-urls", "http://" + address, "--advertise-client-urls", "http://" + address,
				"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
				"--initial-cluster", strings.Join(cluster, ","), "--logger", "zap",
			}, flags)
			return exec.Command(line[0], line[1:]...), nil
		}, func(ctx context.Context, address string) error { // which it is if it has a leader
			return answers(ctx, http.DefaultClient, "http://"+address+"/health")
		})})
	}
	return startAll(ctx, members)
}
