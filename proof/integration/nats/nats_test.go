// Package nats_test tests the registers in a bucket of NATS JetStream on its real server.
package nats_test

import (
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/nats/natsstore"
	"github.com/holdfast-go/holdfast/proof/integration/registers"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) { os.Exit(new(servers.Set).Main(m)) }

// open opens the registers at a URL.
func open(t testing.TB, url string) *natsstore.Store {
	t.Helper()
	st, err := natsstore.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// connected returns a connection with the defaults of the client.
func connected(t testing.TB, address string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect("nats://"+address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// newBucket creates a bucket on a server, and returns its name.
func newBucket(t testing.TB, address string, replicas int) string {
	t.Helper()
	bucket := servers.Unique("nats")
	conn := connected(t, address)
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		err := natsstore.CreateBucket(t.Context(), conn, bucket, &natsstore.Options{Replicas: replicas})
		if err == nil {
			return bucket
		}
		// A new cluster first elects a leader.
		if replicas == 1 || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// space is a new bucket on a server.
func space(replicas int) func(*testing.T, registers.Server) registers.Open {
	return func(t *testing.T, server registers.Server) registers.Open {
		bucket := newBucket(t, server.Address(), replicas)
		return func(t testing.TB, address string) store.Store {
			return open(t, "nats://"+address+"/"+bucket+"/pre/fix")
		}
	}
}

// TestNATS: the suites on one server of NATS, while connections are cut, and while the server is killed.
func TestNATS(t *testing.T) {
	registers.Kind{
		Start:    func(t *testing.T) registers.Server { return servers.NewNATS(t, "") },
		NewSpace: space(1),
	}.Run(t)
}
