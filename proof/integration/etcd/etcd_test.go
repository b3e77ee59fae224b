// Package etcd_test tests the registers in etcd on its real server.
package etcd_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/etcd/etcdstore"
	"github.com/holdfast-go/holdfast/proof/integration/registers"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

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

// TestEtcd: the suites on one member of etcd, while connections are cut, and while the server is killed.
func TestEtcd(t *testing.T) {
	registers.Kind{
		Start: func(t *testing.T) registers.Server { return servers.NewEtcd(t) },
		NewSpace: func(_ *testing.T, _ registers.Server) registers.Open {
			prefix := servers.Unique("etcd")
			return func(t testing.TB, address string) store.Store { return open(t, "etcd://"+address+"/"+prefix) }
		},
	}.Run(t)
}
