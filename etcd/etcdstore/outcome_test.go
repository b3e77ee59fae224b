package etcdstore_test

import (
	"context"
	"net"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/etcd/etcdstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// server answers transactions by a function.
type server struct {
	etcdserverpb.UnimplementedKVServer
	answer func(ctx context.Context) error
}

func (s *server) Txn(ctx context.Context, _ *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	return nil, s.answer(ctx)
}

func open(t *testing.T, answer func(ctx context.Context) error) *etcdstore.Store {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	etcdserverpb.RegisterKVServer(g, &server{answer: answer})
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	s, err := etcdstore.Open(t.Context(), "etcd://"+l.Addr().String()+"/app", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestOutcomes: what an error of the server proves. A full database proves nothing: the transaction that fills it
// is applied, and is answered by the same error as those that are refused.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer error
		want   store.Outcome
	}{
		{rpctypes.ErrGRPCNoSpace, store.Unknown},
		{rpctypes.ErrGRPCTimeout, store.Unknown},
		{rpctypes.ErrGRPCLeaderChanged, store.Unknown},
		{rpctypes.ErrGRPCStopped, store.Unknown},
		{rpctypes.ErrGRPCRequestTooManyRequests, store.NotApplied},
		{rpctypes.ErrGRPCPermissionDenied, store.NotApplied},
		{rpctypes.ErrGRPCRequestTooLarge, store.NotApplied},
	} {
		s := open(t, func(context.Context) error { return c.answer })
		if _, err := s.Put(t.Context(), "k", "", nil); store.OutcomeOf(err) != c.want {
			t.Errorf("%v: %v (%v), want %v", c.answer, err, store.OutcomeOf(err), c.want)
		}
	}
}

// TestCauseOfContext: if the context of a write ends before the answer, the outcome is unknown. This is so for
// each cause, also for one that says of something else that it was not applied.
func TestCauseOfContext(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{store.ErrConflict, store.ErrDenied, engine.ErrBusy, nil} {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := open(t, func(ctx context.Context) error {
			cancel(cause)
			<-ctx.Done()
			return ctx.Err()
		})
		if _, err := s.Put(ctx, "k", "", nil); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("the cause %v: %v (%v)", cause, err, store.OutcomeOf(err))
		}
	}
}
