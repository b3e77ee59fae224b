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

// fenced writes a hash unless it has a higher token.
var fenced = redis.NewScript(`if tonumber(redis.call('HGET', KEYS[1], 'token') or 0) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'by', ARGV[2]) return 1`)

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
		client := redis.NewClient(&redis.Options{Addr: address})
		return writers(newHoldfast(st, &lease.Options{ManualRenewal: !keep}), func(ctx context.Context, c claimant, lock string, n uint64) (bool, error) {
			token := c.(*holdfast).guard.Token()
			done, err := fenced.Run(ctx, client, []string{lock + "-object"}, uint64(token), n).Int()
			return done == 1, err
		}), nil
	}
	client := redis.NewClient(&redis.Options{Addr: address, Dialer: n.dial})
	if err := client.Ping(context.Background()).Err(); err != nil {
		return nil, err
	}
	return writers(func(lock string) (claimant, error) {
		if kind == kindRedislock {
			return renewed(&redisLock{c: redislock.New(client), name: lock}, keep, redislockTTL/3), nil
		}
		// By default redsync gives up after 32 tries, which is five seconds.
		m := redsync.New(goredis.NewPool(client)).NewMutex(lock, redsync.WithTries(math.MaxInt32))
		return renewed(redMutex{m}, keep, redsyncExpiry/3), nil
	}, func(ctx context.Context, _ claimant, lock string, n uint64) (bool, error) {
		return unlessRefused(false, client.HSet(ctx, lock+"-object", "by", n).Err())
	}), nil
}

// redMutex is a lock of redsync.
type redMutex struct{ m *redsync.Mutex }

func (c redMutex) try(ctx context.Context) (bool, error) {
	err := c.m.TryLockContext(ctx)
	return unlessRefused(errors.As(err, new(*redsync.ErrTaken)) || errors.Is(err, redsync.ErrFailed), err)
}

func (c redMutex) wait(ctx context.Context) error    { return c.m.LockContext(ctx) }
func (c redMutex) renew(ctx context.Context) error   { return must(c.m.ExtendContext(ctx)) }
func (c redMutex) release(ctx context.Context) error { return must(c.m.UnlockContext(ctx)) }

// redisLock is a lock of redislock.
type redisLock struct {
	c    *redislock.Client
	name string
	lock *redislock.Lock
}

func (c *redisLock) try(ctx context.Context) (_ bool, err error) {
	c.lock, err = c.c.Obtain(ctx, c.name, redislockTTL, nil)
	return unlessRefused(errors.Is(err, redislock.ErrNotObtained), err)
}

func (c *redisLock) wait(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour) // without a deadline it waits for the TTL at most
	defer cancel()
	c.lock, err = c.c.Obtain(ctx, c.name, redislockTTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockPause)})
	return err
}

func (c *redisLock) renew(ctx context.Context) error   { return c.lock.Refresh(ctx, redislockTTL, nil) }
func (c *redisLock) release(ctx context.Context) error { return c.lock.Release(ctx) }

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
