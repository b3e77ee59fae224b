package redis_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// await waits until a condition is true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// says reports whether the answer of INFO replication contains a text.
func says(t *testing.T, server *servers.Redis, text string) bool {
	info, err := server.Client(t).Info(t.Context(), "replication").Result()
	return err == nil && strings.Contains(info, text)
}

// TestSentinel: the store finds the primary server through a sentinel, and finds the next one after a failover.
func TestSentinel(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	primary := servers.NewRedis(t)
	replica := servers.NewRedis(t, "--replicaof", strings.ReplaceAll(primary.Address(), ":", " "), "--repl-diskless-sync-delay", "0")
	sentinel := servers.NewSentinel(t, primary)
	st := open(t, "redis://"+sentinel+"/0/app?sentinel=main")
	v, err := st.Put(ctx, "lock", "", []byte("held"))
	if err != nil {
		t.Fatal(err)
	}
	copied := open(t, "redis://"+replica.Address()+"/0/app")
	await(t, "the replica has the write", func() bool { _, got, err := copied.Get(ctx, "lock"); return err == nil && got == v })
	raw := redis.NewClient(&redis.Options{Addr: sentinel})
	defer raw.Close()
	await(t, "the sentinel knows the replica", func() bool {
		known, err := raw.Do(ctx, "SENTINEL", "REPLICAS", "main").Slice()
		return err == nil && len(known) == 1
	})
	primary.Kill()
	await(t, "the replica is the primary server", func() bool { return says(t, replica, "role:master") })
	await(t, "a write", func() bool { _, err := st.Put(ctx, "lock", v, []byte("free")); return err == nil })
	if value, _, err := copied.Get(ctx, "lock"); err != nil || string(value) != "free" {
		t.Errorf("the new primary server has %q, %v", value, err)
	}
}

// TestFailoverLoses is the control for the warning about replicas: a write that the primary server has
// acknowledged is lost, because the next primary server has not received it.
func TestFailoverLoses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	primary := servers.NewRedis(t)
	var cut atomic.Bool
	proxy := servers.NewTCPProxy(t, func() string {
		if cut.Load() {
			return "127.0.0.1:1"
		}
		return primary.Address()
	}, func() (before, after bool) { return cut.Load(), false })
	replica := servers.NewRedis(t, "--replicaof", strings.ReplaceAll(proxy.Address, ":", " "), "--repl-diskless-sync-delay", "0")
	await(t, "replication", func() bool { return says(t, replica, "master_link_status:up") })
	cut.Store(true)
	await(t, "the end of replication", func() bool { return says(t, replica, "master_link_status:down") })
	if _, err := open(t, "redis://"+primary.Address()).Put(ctx, "lock", "", []byte("held")); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	do(t, replica, "REPLICAOF NO ONE")
	if _, err := open(t, "redis://"+replica.Address()).Put(ctx, "lock", "", []byte("held by another")); err != nil {
		t.Errorf("the failover has lost nothing: %v", err)
	}
}
