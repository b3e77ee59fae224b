package redis_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/proof/integration/registers"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// patience is how long an operator waits for a server: on a busy machine, a server can stop for some seconds.
const patience = time.Minute

// cluster is a cluster of three primary servers. Its Kill moves the keys of a space to other servers.
type cluster struct {
	t       *testing.T
	members []*servers.Redis
	clients []*redis.Client
	ids     []string
	keys    []string // on the servers
	moves   int
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, members: servers.NewRedisCluster(t, 3)}
	for _, m := range c.members {
		client := m.Client(t).WithTimeout(patience)
		id, err := client.Do(t.Context(), "CLUSTER", "MYID").Text()
		if err != nil {
			t.Fatal(err)
		}
		c.clients, c.ids = append(c.clients, client), append(c.ids, id)
	}
	return c
}

func (c *cluster) Address() string             { return c.members[0].Address() }
func (c *cluster) Start(context.Context) error { return nil }

func (c *cluster) Kill() {
	for range 5 {
		for _, key := range c.keys {
			c.move(key)
		}
	}
}

// move moves the slot of a key to the next server, while programs use the key.
func (c *cluster) move(key string) {
	ctx := context.Background()
	slot, err := c.clients[0].ClusterKeySlot(ctx, key).Result()
	if err != nil {
		c.t.Error(err)
		return
	}
	c.agree()
	from := -1
	shards, err := c.clients[0].ClusterShards(ctx).Result()
	for _, shard := range shards {
		for _, s := range shard.Slots {
			if s.Start <= slot && slot <= s.End {
				from = slices.Index(c.ids, shard.Nodes[0].ID)
			}
		}
	}
	if err != nil || from < 0 {
		c.t.Errorf("the slot %d has no server: %v", slot, err)
		return
	}
	to := (from + 1) % len(c.clients)
	host, port, _ := net.SplitHostPort(c.members[to].Address())
	// A slot that changes its server without its keys loses them: nothing follows a step that failed.
	do := func(of int, args ...any) {
		if err == nil {
			if err = c.clients[of].Do(ctx, args...).Err(); err != nil {
				c.t.Errorf("%v: %v", args, err)
			}
		}
	}
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from])
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
	do(from, "MIGRATE", host, port, key, 0, patience.Milliseconds()) // NOKEY if the key is not there yet
	for _, of := range []int{to, from, 3 - to - from} {
		do(of, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
	}
	c.moves++
}

// agree waits until all servers have the same view of the cluster. Without this wait, a server
// refused some moves because it did not own the slot, and one of three runs lost acknowledged writes.
func (c *cluster) agree() {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		views := map[string]bool{}
		for _, client := range c.clients {
			text, err := client.ClusterNodes(context.Background()).Result()
			var view []string
			for line := range strings.Lines(text) {
				if f := strings.Fields(line); len(f) > 7 {
					view = append(view, f[0]+strings.Join(f[6:], " ")) // epoch, connection, slots
				}
			}
			slices.Sort(view)
			views[fmt.Sprint(view, err)] = true
		}
		if len(views) == 1 {
			return
		}
		if time.Now().After(end) {
			c.t.Errorf("the servers do not agree: %v", views)
			return
		}
	}
}

// TestCluster: contenders and writers use keys whose slots move between the servers of a cluster. Then the
// suite of registers runs on the cluster.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	t.Run("Moves", func(t *testing.T) {
		c.t = t
		registers.Kind{
			Start: func(t *testing.T) registers.Server { return c },
			NewSpace: func(t *testing.T, _ registers.Server) registers.Open {
				prefix := servers.Unique("redis")
				c.keys = []string{fmt.Sprintf("holdfast:%s/job", prefix), fmt.Sprintf("holdfast:%s/counter", prefix)}
				return func(t testing.TB, address string) store.Store {
					return open(t, "redis://"+address+"/0/"+prefix+"?cluster=true")
				}
			},
		}.RunKills(t)
		if c.moves < 20 {
			t.Errorf("only %d moves", c.moves)
		}
	})
	t.Run("Registers", func(t *testing.T) {
		new := space("?cluster=true")
		storetest.Run(t, func(t *testing.T) store.Store { return new(t, c)(t, c.Address()) }, &storetest.Options{Rounds: 3})
	})
	t.Run("NotNamed", func(t *testing.T) {
		st := space("")(t, c)(t, c.Address())
		if _, err := st.Put(t.Context(), "k", "", nil); !refused(err, store.ErrMisconfigured, "cluster=true") {
			t.Errorf("without cluster=true: %v", err)
		}
	})
}
