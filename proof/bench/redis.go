package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/redis/redisstore"
)

// The kinds of locks on Redis.
const (
	kindRedisStore = "holdfast, redisstore"
	kindRedsync    = "redsync"
	kindRedislock  = "redislock"
)

const (
	// redsyncExpiry is the default of redsync.
	redsyncExpiry = 8 * time.Second

	// redislockTTL is the default of Holdfast: redislock has none.
	redislockTTL = 30 * time.Second

	// redislockPause is that of the example in the documents of redislock.
	redislockPause = 100 * time.Millisecond
)

// openRedis returns what makes claimants of a kind. Those that are to keep what they have renew it: redsync and
// redislock do not do that by themselves.
func openRedis(kind, address string, n *counter, keep bool) (claimants, error) {
	if kind == kindRedisStore {
		connect, opts, err := redisstore.FromURL("redis://"+address, nil)
		if err != nil {
			return nil, err
		}
		connect.Dialer = n.dial
		st, err := redisstore.New(connect, opts)
		if err != nil {
			return nil, err
		}
		of := newHoldfast(st, &lease.Options{ManualRenewal: !keep})
		client := redis.NewClient(&redis.Options{Addr: address})
		return func(lock string) (claimant, error) {
			c, err := of(lock)
			return redisWriter{c, client, lock + "-object"}, err
		}, nil
	}
	client := redis.NewClient(&redis.Options{Addr: address, Dialer: n.dial})
	if err := client.Ping(context.Background()).Err(); err != nil {
		return nil, err
	}
	return func(lock string) (claimant, error) {
		if kind == kindRedislock {
			return redisWriter{&redisLock{c: redislock.New(client), name: lock, keep: keep}, client, lock + "-object"}, nil
		}
		// By default redsync gives up after 32 tries, which is five seconds.
		m := redsync.New(goredis.NewPool(client)).NewMutex(lock, redsync.WithTries(math.MaxInt32))
		return redisWriter{&redMutex{m: m, keep: keep}, client, lock + "-object"}, nil
	}, nil
}

// every calls f until the function that it returns is called.
func every(d time.Duration, f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for ticker := time.NewTicker(d); ; {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
				f(ctx)
			}
		}
	}()
	return cancel
}

// redMutex is a lock of redsync.
type redMutex struct {
	m    *redsync.Mutex
	keep bool
	stop func()
}

func (c *redMutex) got(err error) error {
	if err == nil && c.keep {
		c.stop = every(redsyncExpiry/3, func(ctx context.Context) { _, _ = c.m.ExtendContext(ctx) })
	}
	return err
}

func (c *redMutex) try(ctx context.Context) (bool, error) {
	err := c.m.TryLockContext(ctx)
	if taken := new(redsync.ErrTaken); errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return false, nil
	}
	return err == nil, c.got(err)
}

func (c *redMutex) wait(ctx context.Context) error  { return c.got(c.m.LockContext(ctx)) }
func (c *redMutex) renew(ctx context.Context) error { return must(c.m.ExtendContext(ctx)) }

func (c *redMutex) release(ctx context.Context) error {
	if c.stop != nil {
		c.stop()
	}
	return must(c.m.UnlockContext(ctx))
}

// redisLock is a lock of redislock.
type redisLock struct {
	c    *redislock.Client
	name string
	keep bool
	lock *redislock.Lock
	stop func()
}

func (c *redisLock) obtain(ctx context.Context, o *redislock.Options) (err error) {
	c.lock, err = c.c.Obtain(ctx, c.name, redislockTTL, o)
	if err == nil && c.keep {
		c.stop = every(redislockTTL/3, func(ctx context.Context) { _ = c.renew(ctx) })
	}
	return err
}

func (c *redisLock) try(ctx context.Context) (bool, error) {
	err := c.obtain(ctx, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (c *redisLock) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Hour) // without a deadline it waits for the TTL at most
	defer cancel()
	return c.obtain(ctx, &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockPause)})
}

func (c *redisLock) renew(ctx context.Context) error { return c.lock.Refresh(ctx, redislockTTL, nil) }

func (c *redisLock) release(ctx context.Context) error {
	if c.stop != nil {
		c.stop()
	}
	return c.lock.Release(ctx)
}

// onRedis compares locks on Redis.
func onRedis(ctx context.Context, w io.Writer, server *servers.Redis, r *run) error {
	address := server.Address()
	on := on{title: "Redis", unit: "requests", spread: 5 * time.Second, raw: rawRedis(address), lateLocks: 20}
	return onServer(ctx, w, on, address, r, kindRedisStore, kindRedsync, kindRedislock)
}

// rawRedis returns a function that overwrites one key on the condition that it still has its value.
func rawRedis(address string) func(context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: address})
	swap := redis.NewScript(`if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end redis.call('SET', KEYS[1], ARGV[2]) return 1`)
	value := ""
	return func(ctx context.Context) error {
		next := strings.Repeat(rand.Text(), 16)
		done, err := swap.Run(ctx, client, []string{"raw"}, value, next).Int()
		value = next
		return must(done == 1, err)
	}
}

// fenced writes a hash unless it has a higher token.
var fenced = redis.NewScript(`if tonumber(redis.call('HGET', KEYS[1], 'token') or 0) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'by', ARGV[2]) return 1`)

// redisWriter writes a hash, with the token of its lease if it has one.
type redisWriter struct {
	claimant
	client *redis.Client
	object string
}

func (c redisWriter) write(ctx context.Context, n uint64) (bool, error) {
	if h, ok := c.claimant.(*holdfast); ok {
		done, err := fenced.Run(ctx, c.client, []string{c.object}, uint64(h.guard.Token()), n).Int()
		return done == 1, err
	}
	err := c.client.HSet(ctx, c.object, "by", n).Err()
	return err == nil, err
}
