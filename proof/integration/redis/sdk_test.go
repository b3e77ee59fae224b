package redis_test

import (
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// TestLostReply: if one reply is lost, the client with its default settings sends a conditional write again.
// The second try is refused because of the first, and the caller hears that it lost. The store knows its own
// write, through the same proxy.
func TestLostReply(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t)
	var lose atomic.Bool
	proxy := servers.NewTCPProxy(t, server.Address, func() (before, after bool) { return false, lose.Swap(false) })
	ctx := t.Context()

	plain := redis.NewClient(&redis.Options{Addr: proxy.Address})
	defer plain.Close()
	if err := plain.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	lose.Store(true)
	got, err := plain.SetNX(ctx, "plain", "mine", 0).Result()
	value, _ := plain.Get(ctx, "plain").Result()
	if got || err != nil || value != "mine" || lose.Load() {
		t.Errorf("the control: SetNX reports %v, %v, and the value is %q; it should report that it lost against itself", got, err, value)
	}

	for name, warm := range map[string]bool{"a connection that was used": true, "the first write": false} {
		st := open(t, "redis://"+proxy.Address+"/0/"+servers.Unique("lost"))
		if warm {
			if _, err := st.Put(ctx, "other", "", nil); err != nil {
				t.Fatal(err)
			}
		}
		lose.Store(true)
		v, err := st.Put(ctx, "own", "", []byte("mine"))
		if err != nil || v == "" || lose.Load() {
			t.Errorf("%s: %v", name, err)
		}
	}
}
