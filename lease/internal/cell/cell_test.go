package cell

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// hangingCache reports each call of Load. The call returns when end is closed.
type hangingCache struct{ asked, end chan struct{} }

func (c *hangingCache) Load(string, string) (Observation, bool) {
	c.asked <- struct{}{}
	<-c.end
	return Observation{}, false
}

func (c *hangingCache) Save(Observation) {}

// While one user of a cell waits for a cache that hangs, others can use the cell.
func TestHangingCacheDelaysOnlyItsReader(t *testing.T) {
	cache := &hangingCache{make(chan struct{}, 1), make(chan struct{})}
	set := &Settings{TTL: time.Minute, Cache: cache, Traits: store.Traits{ID: "s"}}
	c := &Cell{Space: NewSpace(context.Background(), &memstore.Store{}, set, nil), Key: "/job"}
	known, noted := make(chan *Seen, 1), make(chan struct{})
	go func() { known <- c.Known() }()
	<-cache.asked
	go func() {
		defer close(noted)
		c.Note(&Seen{Version: "1"})
	}()
	select {
	case <-noted:
	case <-known: // with its time limit
		t.Fatal("a state could not be noted before the cache answered")
	}
	close(cache.end)
	if got := <-known; got == nil || got.Version != "1" {
		t.Errorf("after the cache answered, the cell knows %+v, want what the store has shown", got)
	}
}

// A goroutine that forgets a state does not forget what another one has seen since.
func TestForget(t *testing.T) {
	c := &Cell{Space: NewSpace(context.Background(), &memstore.Store{}, &Settings{}, nil), Key: "/job"}
	c.Note(&Seen{Version: "1"})
	c.Note(&Seen{Version: "2"})
	if c.Forget("1"); c.Known() == nil {
		t.Error("version 2 was forgotten with version 1")
	}
	if c.Forget("2"); c.Known() != nil {
		t.Error("version 2 was not forgotten")
	}
}
