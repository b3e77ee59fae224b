package dirbucket_test

import (
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/object/dirbucket"
)

var sweptObjects = flag.Int("objects", 20_000, "how many objects BenchmarkSweep sweeps")

// BenchmarkSweep sweeps a directory of many objects, and of a tenth as many bodies that no object has. The
// live memory is at most 64 MiB, for any number of objects. The benchmark is for a file system in memory, since
// it waits for no disk there: TMPDIR=/dev/shm.
func BenchmarkSweep(b *testing.B) {
	n := *sweptObjects
	for b.Loop() {
		b.StopTimer()
		bucket := crowd(b, n)
		runtime.GC()
		before, done, most := live(), make(chan bool), make(chan uint64)
		go func() {
			peak := uint64(0)
			for ticks := time.NewTicker(5 * time.Millisecond); ; {
				select {
				case <-ticks.C:
					peak = max(peak, live())
				case <-done:
					ticks.Stop()
					most <- peak
					return
				}
			}
		}()
		b.StartTimer()
		removed, err := bucket.Sweep(b.Context())
		b.StopTimer()
		close(done)
		used := float64(max(<-most, before)-before) / (1 << 20)
		if err != nil || removed != n/10 || used > 64 {
			b.Fatalf("%d removed, %v, %.1f MiB", removed, err, used)
		}
		b.ReportMetric(used, "MiB-live")
		b.StartTimer()
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
}

// crowd returns a bucket of n objects, with a tenth as many old bodies that no object has.
func crowd(b *testing.B, n int) *dirbucket.Bucket {
	dir := b.TempDir()
	bucket, err := dirbucket.Open(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = bucket.Close() })
	var all sync.WaitGroup
	const writers = 16
	for w := range writers {
		all.Go(func() {
			for i := w; i < n; i += writers {
				if _, err := bucket.Put(b.Context(), fmt.Sprint(i), strings.NewReader(""), nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	bodies, err := filepath.Glob(filepath.Join(dir, "*", "*", strings.Repeat("?", 24)))
	if err != nil || len(bodies) != n {
		b.Fatalf("%d bodies, %v", len(bodies), err)
	}
	old := time.Now().Add(-dirbucket.OrphanAge - time.Hour)
	for i := range n / 10 {
		path := filepath.Join(filepath.Dir(bodies[i]), rand.Text()[:24])
		err := os.WriteFile(path, nil, 0o600)
		if err == nil {
			err = os.Chtimes(path, old, old)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return bucket
}

// live is what the heap held at the end of the last collection, in bytes.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
