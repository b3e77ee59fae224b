package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/etcd/etcdstore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/nats/natsstore"
	"github.com/holdfast-go/holdfast/store"
)

// The kinds of locks on servers that agree by a majority.
const (
	kindEtcdStore = "holdfast, etcdstore"
	kindEtcdMutex = "etcd's concurrency.Mutex"
	kindNATSStore = "holdfast, natsstore"
	kindKVCreate  = "recipe: create in a key-value bucket with a TTL"
)

// recipeTTL is the TTL of the bucket of the recipe: that of Holdfast's leases.
const recipeTTL = 30 * time.Second

// openQuorum returns what makes claimants of a kind. The server is at an address.
func openQuorum(kind, address string, n *counter, keep bool) (claimants, error) {
	ctx := context.Background()
	var st store.Store
	switch kind {
	case kindEtcdStore, kindEtcdMutex:
		config, opts, err := etcdstore.FromURL("etcd://"+address+"/bench", nil)
		if err != nil {
			return nil, err
		}
		if kind == kindEtcdMutex {
			config = clientv3.Config{Endpoints: config.Endpoints, Logger: zap.NewNop()}
		}
		config.DialOptions = append(config.DialOptions, countCalls(func(ctx context.Context, keepAlive bool) {
			if !keepAlive || ctx.Value(renewal{}) != nil {
				n.n.Add(1)
			}
		})...)
		client, err := clientv3.New(config)
		if err != nil {
			return nil, err
		}
		if kind == kindEtcdMutex {
			return writers(func(lock string) (claimant, error) {
				s, err := concurrency.NewSession(client)
				if err != nil {
					return nil, err
				}
				return &etcdMutex{client, s, concurrency.NewMutex(s, "/mutex/"+lock)}, nil
			}, func(ctx context.Context, _ claimant, lock string, n uint64) (bool, error) {
				_, err := client.Put(ctx, "/data/"+lock, strconv.FormatUint(n, 10))
				return unlessRefused(false, err)
			}), nil
		}
		if st, err = etcdstore.New(client, opts); err != nil {
			return nil, err
		}
	case kindNATSStore, kindKVCreate:
		conn, err := nats.Connect("nats://"+address, nats.ReconnectBufSize(-1), nats.SetCustomDialer(countingDialer{n}))
		if err != nil {
			return nil, err
		}
		if kind == kindKVCreate {
			js, err := jetstream.New(conn)
			if err != nil {
				return nil, err
			}
			locks, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "recipe", TTL: recipeTTL, Storage: jetstream.FileStorage})
			if err != nil {
				return nil, err
			}
			data, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "data", Storage: jetstream.FileStorage})
			return writers(func(lock string) (claimant, error) {
				return renewed(&kvLock{kv: locks, name: lock}, keep, recipeTTL/3), nil
			}, func(ctx context.Context, _ claimant, lock string, n uint64) (bool, error) {
				_, err := data.Put(ctx, lock, []byte(strconv.FormatUint(n, 10)))
				return unlessRefused(false, err)
			}), err
		}
		if err := natsstore.CreateBucket(ctx, conn, "bench", nil); err != nil {
			return nil, err
		}
		if st, err = natsstore.New(conn, "bench", nil); err != nil {
			return nil, err
		}
	}
	saved, err := checkpoint.New(st, nil)
	if err != nil {
		return nil, err
	}
	return writers(newHoldfast(st, &lease.Options{ManualRenewal: !keep}), func(ctx context.Context, c claimant, lock string, n uint64) (bool, error) {
		// The holder saves its progress with the token of its lease.
		_, err := saved.Advance(ctx, lock, checkpoint.Position{Sequence: n}, &checkpoint.AdvanceOptions{Token: c.(*holdfast).guard.Token()})
		return unlessRefused(errors.Is(err, checkpoint.ErrFenced), err)
	}), nil
}

// renewal marks the context of a renewal that is counted. A session also renews its lease by itself, at times that no
// step chooses. The leases of Holdfast that are counted do not do that (ManualRenewal).
type renewal struct{}

type etcdMutex struct {
	client *clientv3.Client
	s      *concurrency.Session
	m      *concurrency.Mutex
}

func (c *etcdMutex) try(ctx context.Context) (bool, error) {
	err := c.m.TryLock(ctx)
	return unlessRefused(errors.Is(err, concurrency.ErrLocked), err)
}

func (c *etcdMutex) wait(ctx context.Context) error { return c.m.Lock(ctx) }
func (c *etcdMutex) renew(ctx context.Context) error {
	_, err := c.client.KeepAliveOnce(context.WithValue(ctx, renewal{}, true), c.s.Lease())
	return err
}
func (c *etcdMutex) release(ctx context.Context) error { return c.m.Unlock(ctx) }

// kvLock is the recipe for locks that programs on NATS use: the holder creates a key, and renews it before
// the TTL of the bucket removes it. No watcher of the bucket hears of that removal.
type kvLock struct {
	kv       jetstream.KeyValue
	name     string
	revision uint64
}

func (c *kvLock) try(ctx context.Context) (_ bool, err error) {
	c.revision, err = c.kv.Create(ctx, c.name, []byte("held"))
	return unlessRefused(errors.Is(err, jetstream.ErrKeyExists), err)
}

func (c *kvLock) wait(ctx context.Context) error { return poll(ctx, c.try) }

func (c *kvLock) renew(ctx context.Context) (err error) {
	c.revision, err = c.kv.Update(ctx, c.name, []byte("held"), c.revision)
	return err
}

func (c *kvLock) release(ctx context.Context) error {
	return c.kv.Delete(ctx, c.name, jetstream.LastRevision(c.revision))
}

// countingDialer counts the messages that a client of NATS publishes.
type countingDialer struct{ n *counter }

func (d countingDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &counted{c, func(messages []byte) { d.n.n.Add(int64(bytes.Count(messages, []byte("PUB ")))) }}, err
}

// quorum compares locks of several kinds on one server.
func quorum[S interface{ Address() string }](title string, kinds ...string) func(ctx context.Context, w io.Writer, server S, r *run) error {
	return func(ctx context.Context, w io.Writer, server S, r *run) (err error) {
		on := on{title: title, unit: "requests", spread: 5 * time.Second, lateLocks: 5}
		if on.raw, err = rawQuorum(ctx, kinds[0], server.Address()); err != nil {
			return err
		}
		return onServer(ctx, w, on, server.Address(), r, kinds...)
	}
}

// rawQuorum returns a function that overwrites one key on the condition that it is still what it was.
func rawQuorum(ctx context.Context, kind, address string) (func(context.Context) error, error) {
	text := strings.Repeat("x", 400)
	if kind == kindEtcdStore {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
		revision := int64(0)
		return func(ctx context.Context) error {
			resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("raw"), "=", revision)).Then(clientv3.OpPut("raw", text)).Commit()
			if err != nil {
				return err
			}
			revision = resp.Header.Revision
			return must(resp.Succeeded, nil)
		}, err
	}
	conn, err := nats.Connect("nats://" + address)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "raw"})
	revision := uint64(0)
	return func(ctx context.Context) (err error) {
		revision, err = kv.Update(ctx, "raw", []byte(text), revision)
		return err
	}, err
}
