package registers

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"
)

// RunKills runs only the test that kills the server. Use it for a second set-up of a server whose other
// tests show nothing new, such as a cluster.
func (k Kind) RunKills(t *testing.T) { kills(t, k, cmp.Or(k.TTL, 4*time.Second)) }

// cluster is a [Server] of several members.
type cluster[S Server] struct {
	t       *testing.T
	members []S
	leader  func(address string) int

	mu     sync.Mutex
	killed int // -1: none
	next   int
}

// NewCluster returns a cluster, of which a test kills the leader. Its address is that of a member that runs. The
// function leader asks the member at an address, and returns the index of the leader; it is negative if there is
// none.
func NewCluster[S Server](t *testing.T, members []S, leader func(address string) int) Server {
	return &cluster[S]{t: t, members: members, leader: leader, killed: -1}
}

func (c *cluster[S]) Address() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		c.next++
		if i := c.next % len(c.members); i != c.killed {
			return c.members[i].Address()
		}
	}
}

func (c *cluster[S]) Kill() {
	leader := -1
	for end := time.Now().Add(time.Minute); leader < 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatal("the cluster has no leader")
		}
		leader = c.leader(c.Address())
	}
	c.mu.Lock()
	c.killed = leader
	c.mu.Unlock()
	c.members[leader].Kill()
}

func (c *cluster[S]) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.members[c.killed].Start(ctx)
	c.killed = -1
	return err
}
