package etcd_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/etcd/etcdstore"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// relay passes requests on to etcd, as a proxy for gRPC does. It carries out one transaction without an
// answer: the client gets an error instead.
type relay struct {
	etcdserverpb.UnimplementedKVServer
	kv   etcdserverpb.KVClient
	lose atomic.Pointer[error]
	txns atomic.Int64
}

func (r *relay) Range(ctx context.Context, in *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return r.kv.Range(ctx, in)
}

func (r *relay) Txn(ctx context.Context, in *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	r.txns.Add(1)
	out, err := r.kv.Txn(ctx, in)
	if lose := r.lose.Swap(nil); lose != nil && err == nil {
		return nil, *lose
	}
	return out, err
}

// newRelay starts a relay, and returns its address.
func newRelay(t *testing.T, etcd string) (*relay, string) {
	t.Helper()
	conn, err := grpc.NewClient(etcd, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{kv: etcdserverpb.NewKVClient(conn)}
	server := grpc.NewServer()
	etcdserverpb.RegisterKVServer(server, r)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); conn.Close() })
	return r, l.Addr().String()
}

// sdkCreate creates a key by a transaction, with the client of etcd as it is by default.
func sdkCreate(ctx context.Context, c *clientv3.Client, key string) (created bool, err error) {
	resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, "mine")).Commit()
	return err == nil && resp.Succeeded, err
}

// TestEtcdLostReplies: one reply to a transaction is lost. By default, the client of etcd does not repeat
// the transaction after a broken connection, and says so. But after the statuses Canceled and
// DeadlineExceeded, which a proxy can send, it repeats the transaction, and reports its own success as a
// conflict. A register reports its success in each case.
func TestEtcdLostReplies(t *testing.T) {
	t.Parallel()
	server := servers.NewEtcd(t)
	r, through := newRelay(t, server.Address())
	for name, c := range map[string]struct {
		lose     error // nil: cut the connection
		repeats  bool  // the default client does
		conflict bool  // the default client reports one
	}{
		"a cut connection":        {},
		"status Unavailable":      {lose: status.Error(codes.Unavailable, "the upstream has gone")},
		"status Canceled":         {lose: status.Error(codes.Canceled, "the proxy gave up"), repeats: true, conflict: true},
		"status DeadlineExceeded": {lose: status.Error(codes.DeadlineExceeded, "the proxy gave up"), repeats: true, conflict: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var cut *atomic.Bool  // the proxy of the newest client cuts a connection
			var sent atomic.Int64 // transactions that write
			count := func(_ context.Context, method string, request, _ any, send func() error) error {
				txn, ok := request.(*etcdserverpb.TxnRequest)
				if !ok || len(txn.Compare) == 0 {
					return send()
				}
				if sent.Add(1) == 1 {
					if c.lose != nil {
						r.lose.Store(&c.lose)
					} else {
						cut.Store(true)
					}
				}
				return send()
			}
			key := strings.ReplaceAll(name, " ", "-")
			connected := func(config clientv3.Config) *clientv3.Client {
				if c.lose == nil {
					// If clients shared a proxy, it could cut the connection of an earlier client, which still sends
					// answers to pings.
					cuts := new(atomic.Bool)
					proxy := servers.NewTCPProxy(t, server.Address, func() (before, after bool) { return false, cuts.Swap(false) })
					cut, config.Endpoints = cuts, []string{proxy.Address}
				}
				made := client(t, config, count)
				if _, err := made.Get(ctx, "nothing"); err != nil {
					t.Fatal(err)
				}
				return made
			}
			byDefault := clientv3.Config{Endpoints: []string{through}, Logger: zap.NewNop()}
			sdk := connected(byDefault)
			created, err := sdkCreate(ctx, sdk, key)
			t.Logf("the client of etcd sent %d transactions; created %v, error %v", sent.Load(), created, err)
			if repeats := sent.Load() > 1; repeats != c.repeats {
				t.Errorf("the client of etcd sent the transaction %d times", sent.Load())
			}
			if conflict := err == nil && !created; conflict != c.conflict || created {
				t.Errorf("the client of etcd: created %v, error %v; want a conflict: %v", created, err, c.conflict)
			}
			if got, err := sdk.Get(ctx, key); c.lose != nil && (err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "mine") {
				t.Errorf("the transaction was not applied: %v, %v", got, err)
			}

			// A client that a program passes has the retries of its own configuration. A register with it
			// reports its success, too.
			config, opts, err := etcdstore.FromURL("etcd://"+through+"/ours", nil)
			if err != nil {
				t.Fatal(err)
			}
			sent.Store(0)
			if created, err := sdkCreate(ctx, connected(config), key+"/once"); err == nil || created || sent.Load() != 1 {
				t.Errorf("the client that Open makes sent the transaction %d times: created %v, error %v", sent.Load(), created, err)
			}
			for by, config := range map[string]clientv3.Config{"its own client": config, "the default client": byDefault} {
				sent.Store(0)
				st, err := etcdstore.New(connected(config), opts)
				if err != nil {
					t.Fatal(err)
				}
				key := key + "/" + by
				v, err := st.Put(ctx, key, "", []byte("mine"))
				if err != nil || sent.Load() != 2 {
					t.Errorf("a register with %s: %v after %d transactions", by, err, sent.Load())
				}
				if value, now, err := st.Get(ctx, key); err != nil || now != v || string(value) != "mine" {
					t.Errorf("a register with %s: %q %q, %v; want the version %q", by, value, now, err, v)
				}
			}
		})
	}
}
