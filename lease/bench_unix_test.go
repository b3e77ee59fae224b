//go:build unix

package lease_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// BenchmarkSessionLocks measures what the locks that a program holds cost it under a session,
// and plain, with the store on files, which keeps nothing for them in memory: the bytes of a lock,
// on Linux also those by which the resident memory grows, after a collection, and the part of a
// core for all of them in the time in which each lease is renewed once.
func BenchmarkSessionLocks(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // what was finalized by the first
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	resident := func() (pages int64) {
		debug.FreeOSMemory()
		text, _ := os.ReadFile("/proc/self/statm")
		_, _ = fmt.Sscan(string(text), new(int64), &pages)
		return pages * int64(os.Getpagesize())
	}
	processor := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for _, under := range []string{"session", "plain"} {
		b.Run(under, func(b *testing.B) {
			st, err := filestore.Open(b.TempDir(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			c, err := lease.New(st, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close(context.Background())
			acquire := c.TryAcquire
			if under == "session" {
				s, err := c.OpenSession(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				acquire = s.TryAcquire
			}
			guards := make([]*lease.Guard, 0, b.N)
			before, pages := heap(), resident()
			b.ResetTimer()
			for i := range b.N {
				g, err := acquire(context.Background(), strconv.Itoa(i), nil)
				if err != nil {
					b.Fatal(err)
				}
				guards = append(guards, g)
			}
			b.StopTimer()
			b.ReportMetric(float64(heap()-before)/float64(b.N), "B/held")
			if pages > 0 {
				b.ReportMetric(float64(resident()-pages)/float64(b.N), "B-resident/held")
			}
			if b.N > 1 { // it is called with 1 first, for nothing that is reported
				busy, window := processor(), c.Options().RenewInterval
				time.Sleep(window)
				b.ReportMetric(100*float64(processor()-busy)/float64(window), "%core")
			}
			runtime.KeepAlive(guards)
		})
	}
}
