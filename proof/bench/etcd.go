package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// startEtcd builds etcd in the version of etcdserver/go.mod, and starts a server with its data in a directory. It runs in a
// separate process, so that measurements of a client do not include the server. The caller must kill the server.
func startEtcd(ctx context.Context, dir string) (*servers.Etcd, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "etcd"), "go.etcd.io/etcd/server/v3")
	build.Dir, build.Stderr = "etcdserver", os.Stderr // bench runs in its own directory
	build.Env = append(os.Environ(), "GOWORK=off")
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build etcd: %w", err)
	}
	if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return nil, err
	}
	return servers.StartEtcd(ctx, dir, "--log-level", "error")
}

// etcdMember is a program that coordinates through etcd: a client with a connection and a
// session of its own.
type etcdMember struct {
	c     *clientv3.Client
	s     *concurrency.Session
	under string
}

// joinEtcd counts all messages that the client sends, and those that only keep its session
// alive under beats, too.
func joinEtcd(ctx context.Context, endpoint, under string, ttl time.Duration, requests, beats *atomic.Int64) (member, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, Context: ctx, Logger: zap.NewNop(),
		DialOptions: countCalls(func(_ context.Context, keepAlive bool) {
			requests.Add(1)
			if keepAlive {
				beats.Add(1)
			}
		}),
	})
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl/time.Second)))
	if err != nil {
		c.Close()
		return nil, err
	}
	return &etcdMember{c, s, under}, nil
}

// countCalls are options of a client that calls count for each message that it sends, with the context of the call, and
// whether the message keeps a lease of etcd alive.
func countCalls(count func(ctx context.Context, keepAlive bool)) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
			count(ctx, false)
			return invoke(ctx, method, req, reply, cc, o...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := stream(ctx, desc, cc, method, o...)
			return countedStream{s, func() { count(ctx, strings.HasSuffix(method, "LeaseKeepAlive")) }}, err
		}),
	}
}

type countedStream struct {
	grpc.ClientStream
	count func()
}

func (s countedStream) SendMsg(m any) error {
	s.count()
	return s.ClientStream.SendMsg(m)
}

func (m *etcdMember) lock(ctx context.Context, name string, mode mode) (lock, error) {
	switch mode {
	case exclusive, fair, once: // its locks are given in the order of arrival
		l := concurrency.NewMutex(m.s, "/"+m.under+"/lock/"+name)
		if err := l.Lock(ctx); err != nil {
			return nil, err
		}
		return (*etcdLock)(l), nil
	case shared:
		l := recipe.NewRWMutex(m.s, "/"+m.under+"/shared/"+name)
		if err := l.RLock(); err != nil {
			return nil, err
		}
		return unlock(l.RUnlock), nil
	}
	return nil, errAbsent
}

type etcdLock concurrency.Mutex

func (l *etcdLock) Release(ctx context.Context) error { return (*concurrency.Mutex)(l).Unlock(ctx) }

func (m *etcdMember) leave() error {
	_ = m.s.Close() // the server may have ended before
	return m.c.Close()
}

// rss returns the resident memory of this process in bytes, 0 if it cannot be read.
func rss() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
