package storetest_test

import (
	"flag"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestCounter(t *testing.T) {
	ctx := t.Context()
	c := storetest.NewCounter(memstore.New())
	v, err := c.Put(ctx, "job", "", nil)
	if err == nil {
		_, err = store.PutUnsynced(ctx, c, "job", v, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _, _ = c.Get(ctx, "job")
	_, _, _ = c.Get(ctx, "absent")
	w, _ := store.As[store.Watcher](c)
	_ = w.Watch(ctx, "job", "")
	for _, count := range []struct {
		name      string
		got, want int
	}{
		{"all", c.Calls(), 4}, {"gets", c.Calls(store.OpGet), 2}, {"writes", c.Calls(store.OpPut, store.OpPutUnsynced, store.OpDelete), 2},
		{"watches", c.Calls(store.OpWatch), 1},
	} {
		if count.got != count.want {
			t.Errorf("%s: got %d, want %d", count.name, count.got, count.want)
		}
	}
	c.Reset()
	if c.Calls() != 0 {
		t.Error("Reset does not clear the counts")
	}
	p, err := store.Prefix(c, "p")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := store.As[*storetest.Counter](c); !ok || got != c {
		t.Error("it is not found")
	}
	if _, ok := store.As[*storetest.Counter](p); ok {
		t.Error("a decorator hands it out")
	}
}

func TestCounted(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return storetest.NewCounter(newAble()) }, &storetest.Options{Rounds: 4})
}

// counted is a store that counts its requests: here, the calls of Requests.
type counted struct {
	*able
	asked *atomic.Uint64
}

func (c counted) Requests() uint64 { return c.asked.Add(1) }

func BenchmarkMemory(b *testing.B) {
	storetest.Bench(b, func(*testing.B) store.Store { return memstore.New() })
}

// TestBench runs each benchmark once, so that they are known to work.
func TestBench(t *testing.T) {
	benchtime := flag.Lookup("test.benchtime")
	before := benchtime.Value.String()
	if err := benchtime.Value.Set("1x"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = benchtime.Value.Set(before) }()
	var asked atomic.Uint64
	opened := 0
	testing.Benchmark(func(b *testing.B) {
		storetest.Bench(b, func(*testing.B) store.Store {
			opened++
			return counted{newAble(), &asked}
		})
	})
	// The first store only shows its abilities. A benchmark that fails does not call Requests a second
	// time.
	if measured := opened - 1; measured < 10 || asked.Load() != uint64(2*measured) {
		t.Errorf("%d stores were measured and asked %d times for their requests, want twice each", measured, asked.Load())
	}
}
