package largeitem_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
)

// crowd is a table and a bucket with any number of objects, which are made up as they are
// asked for: two of each item. Every tenth object is an orphan.
type crowd struct {
	object.Bucket
	n       int
	now     time.Time
	latency time.Duration // of each request
	deleted atomic.Int64
}

func (c *crowd) key(i int) string {
	return fmt.Sprintf("p/T/pk=item-%08d/attr=body%d/%032x", i/2, i%2, i)
}

func (c *crowd) item(n int) largeitem.Attributes {
	item := largeitem.Attributes{}
	for i := 2 * n; i < min(2*n+2, c.n); i++ {
		if i%10 != 0 {
			item[fmt.Sprint("body", i%2)] = refer(c.key(i))
		}
	}
	return item
}

func (c *crowd) List(_ context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		for i := range c.n {
			if i%1000 == 0 {
				time.Sleep(c.latency)
			}
			if !yield(object.Info{Key: c.key(i), Version: "v", Size: 1000, Now: c.now, Modified: c.now.Add(-2 * day)}, nil) {
				return
			}
		}
	}
}

func (c *crowd) Get(_ context.Context, key string, _ *object.GetOptions) (*object.Reader, error) {
	return &object.Reader{ReadCloser: io.NopCloser(strings.NewReader(`{"table":"test:T","name":"test"}`)), Info: c.info(key)}, nil
}

func (c *crowd) Stat(_ context.Context, key string) (object.Info, error) { return c.info(key), nil }

func (c *crowd) info(key string) object.Info {
	return object.Info{Key: key, Version: "v", Now: c.now, Modified: c.now}
}

func (c *crowd) Delete(_ context.Context, key string, _ *object.DeleteOptions) error {
	if i, err := strconv.ParseInt(key[strings.LastIndexByte(key, '/')+1:], 16, 64); err != nil || i%10 != 0 {
		panic(fmt.Sprintf("%s is in use, and was removed", key))
	}
	c.deleted.Add(1)
	time.Sleep(c.latency)
	return nil
}

// crowdTable is the table of a crowd.
type crowdTable struct {
	largeitem.Table
	c *crowd
}

func (t crowdTable) Schema(context.Context) (largeitem.Schema, error) {
	return newSweptTable().schema, nil
}

func (t crowdTable) GetMany(_ context.Context, keys []largeitem.Key, _ *largeitem.GetOptions) ([]largeitem.Attributes, error) {
	time.Sleep(t.c.latency)
	items := make([]largeitem.Attributes, len(keys))
	for i, key := range keys {
		n, err := strconv.Atoi(strings.TrimPrefix(key.Partition.Text, "item-"))
		if err != nil {
			return nil, err
		}
		items[i] = t.c.item(n)
	}
	return items, nil
}

func (t crowdTable) Scan(context.Context, *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
	return func(yield func(largeitem.Row, error) bool) {
		for n := range (t.c.n + 1) / 2 {
			if !yield(largeitem.Row{Key: textKey(fmt.Sprintf("item-%08d", n)), Attributes: t.c.item(n)}, nil) {
				return
			}
		}
	}
}

// heap is what the heap holds now, in bytes, garbage included.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// TestSweepMemory: however many objects there are, a sweep holds no more than 64 MiB.
// HOLDFAST_TORTURE=1 sweeps a million.
func TestSweepMemory(t *testing.T) {
	n := 20_000
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		n = 1_000_000
	}
	for _, scan := range []bool{false, true} {
		t.Run(fmt.Sprintf("scan %v", scan), func(t *testing.T) {
			c := &crowd{n: n, now: time.Now()}
			s, err := largeitem.New(crowdTable{c: c}, c, &largeitem.Options{Prefix: "p", BaseURI: sweptBase})
			if err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			before, peak := heap(), uint64(0)
			got, err := s.Sweep(t.Context(), &largeitem.SweepOptions{Scan: scan, Dir: t.TempDir(), Progress: func(largeitem.SweepStats) {
				peak = max(peak, heap())
			}})
			orphans := int64((n + 9) / 10)
			if err != nil || got.Seen != int64(n) || got.Deleted != orphans || c.deleted.Load() != orphans || got.Referenced != int64(n)-orphans {
				t.Errorf("%v, %+v, and %d were deleted", err, got, c.deleted.Load())
			}
			t.Logf("%d objects in %v: %.0f a second; the heap held %.1f MiB at most, %.1f before", n, got.Elapsed,
				float64(n)/got.Elapsed.Seconds(), float64(peak)/(1<<20), float64(before)/(1<<20))
			if peak-min(peak, before) > 64<<20 {
				t.Errorf("the heap grew from %d to %d bytes", before, peak)
			}
		})
	}
}

// TestSweepRate: how long a sweep takes where each request takes 10 ms. For each 1,000 objects,
// of which 100 are orphans, that is a page of the listing, the look-ups of 500 items at once,
// the second look at 100, and the deletes, 8 at a time. HOLDFAST_TORTURE=1 sweeps 100,000
// and 1,000,000.
func TestSweepRate(t *testing.T) {
	sizes := []int{20_000}
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		sizes = []int{100_000, 1_000_000}
	}
	for _, n := range sizes {
		for parallel, want := range map[int]time.Duration{8: 160 * time.Millisecond, 64: 50 * time.Millisecond} {
			bubbles(t, fmt.Sprintf("%d objects, %d at a time", n, parallel), func(t *testing.T) {
				c := &crowd{n: n, now: time.Now(), latency: 10 * time.Millisecond}
				s, err := largeitem.New(crowdTable{c: c}, c, &largeitem.Options{Prefix: "p", BaseURI: sweptBase})
				if err != nil {
					t.Fatal(err)
				}
				got, err := s.Sweep(t.Context(), &largeitem.SweepOptions{Parallel: parallel})
				if err != nil || got.Deleted != int64(n/10) {
					t.Errorf("%v, %+v", err, got)
				}
				t.Logf("%v: %.0f objects a second", got.Elapsed, float64(n)/got.Elapsed.Seconds())
				if most := time.Duration(n/1000)*want + time.Second; got.Elapsed > most {
					t.Errorf("it took %v, want %v at most", got.Elapsed, most)
				}
			})
		}
	}
}

// BenchmarkSweep measures what a sweep costs in addition to its requests, at 100,000 and 1,000,000
// objects of which a tenth are orphans: go test ./items/largeitem -run - -bench Sweep -benchtime 1x
func BenchmarkSweep(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		for _, scan := range []bool{false, true} {
			b.Run(fmt.Sprintf("objects=%d/scan=%v", n, scan), func(b *testing.B) {
				for b.Loop() {
					c := &crowd{n: n, now: time.Now()}
					s, err := largeitem.New(crowdTable{c: c}, c, &largeitem.Options{Prefix: "p", BaseURI: sweptBase})
					if err != nil {
						b.Fatal(err)
					}
					peak := uint64(0)
					got, err := s.Sweep(b.Context(), &largeitem.SweepOptions{Scan: scan, Dir: b.TempDir(), Progress: func(largeitem.SweepStats) {
						peak = max(peak, heap())
					}})
					if err != nil || got.Deleted != int64(n/10) {
						b.Fatalf("%v, %+v", err, got)
					}
					b.ReportMetric(float64(n)/got.Elapsed.Seconds(), "objects/s")
					b.ReportMetric(float64(peak)/(1<<20), "MiB")
				}
			})
		}
	}
}
