// Package etcd_test tests the registers in etcd on its real server.
package etcd_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/etcd/etcdstore"
	"github.com/holdfast-go/holdfast/proof/integration/registers"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(new(servers.Set).Main(m)) }

// open opens the registers at a URL.
func open(t testing.TB, url string) *etcdstore.Store {
	t.Helper()
	st, err := etcdstore.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// unary is what happens to each request of a client.
type unary = func(ctx context.Context, method string, request, reply any, send func() error) error

// intercepted opens the registers at a URL with a client whose requests pass through f.
func intercepted(t testing.TB, url string, f unary) *etcdstore.Store {
	t.Helper()
	config, opts, err := etcdstore.FromURL(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := etcdstore.New(client(t, config, f), opts)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func client(t testing.TB, config clientv3.Config, f unary) *clientv3.Client {
	t.Helper()
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
			return f(ctx, method, request, reply, func() error { return invoke(ctx, method, request, reply, cc, o...) })
		}))
	c, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// space is a new prefix on a server.
func space(testing.TB, registers.Server) registers.Open {
	prefix := servers.Unique("etcd")
	return func(t testing.TB, address string) store.Store { return open(t, "etcd://"+address+"/"+prefix) }
}

// TestEtcd: the suites on one member of etcd, while connections are cut, and while the server is killed.
func TestEtcd(t *testing.T) {
	registers.Kind{
		Start:    func(t *testing.T) registers.Server { return servers.NewEtcd(t) },
		NewSpace: func(t *testing.T, server registers.Server) registers.Open { return space(t, server) },
		Registers: storetest.Options{
			Intercept: func(t *testing.T, first store.Store, carry func(func() error) error) store.Store {
				return intercepted(t, store.TraitsOf(first).Name, func(_ context.Context, _ string, _, _ any, send func() error) error { return carry(send) })
			},
		},
	}.Run(t)
}

// leads reports whether the member at an address leads its cluster.
func leads(t *testing.T, address string) bool {
	found, err := open(t, "etcd://"+address+"/none").Describe(t.Context())
	return err == nil && len(found.Members) > 0 && found.Members[0].Leads
}

// TestEtcdCluster: the leader of three members is killed with -9 under contenders and writers. The others
// elect a leader, and lose nothing that was acknowledged.
func TestEtcdCluster(t *testing.T) {
	t.Parallel()
	registers.Kind{
		Start: func(t *testing.T) registers.Server {
			members := servers.NewEtcdCluster(t, 3)
			return registers.NewCluster(t, members, func(string) int {
				return slices.IndexFunc(members, func(m *servers.Etcd) bool { return leads(t, m.Address()) })
			})
		},
		NewSpace: func(t *testing.T, server registers.Server) registers.Open { return space(t, server) },
	}.RunKills(t)
}

// TestEtcdWakes: a waiter hears of a release at once, although it would look by itself only after seconds.
func TestEtcdWakes(t *testing.T) {
	t.Parallel()
	server := servers.NewEtcd(t)
	registers.Wakes(t, func() *etcdstore.Store { return open(t, "etcd://"+server.Address()+"/wakes") })
}

// TestEtcdCompacted: etcd removes the revision from which a waiter wants to watch, after the waiter has
// read. The watch returns, so that its caller reads again.
func TestEtcdCompacted(t *testing.T) {
	t.Parallel()
	server := servers.NewEtcd(t)
	url := "etcd://" + server.Address() + "/compacted"
	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Address()}})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var compact sync.Once
	st := intercepted(t, url, func(ctx context.Context, _ string, _, _ any, send func() error) error {
		err := send()
		compact.Do(func() {
			var last int64
			for range 3 {
				put, err := raw.Put(ctx, "another", "value")
				if err != nil {
					t.Error(err)
					return
				}
				last = put.Header.Revision
			}
			if _, err := raw.Compact(ctx, last); err != nil {
				t.Error(err)
			}
		})
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := st.Watch(ctx, "job", ""); err != nil {
		t.Errorf("a watch from a removed revision: %v", err)
	}
	// The control: without a removed revision, and without a change, the watch does not return.
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := st.Watch(short, "job", ""); err == nil {
		t.Error("a watch without a change returned")
	}
}
