//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
)

// spread calls do n times from so many goroutines. do is given the number of the
// goroutine, and how often it was called there before.
func spread(writers, n int, do func(writer, call int) error) error {
	var left atomic.Int64
	left.Store(int64(n))
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for call := 0; left.Add(-1) >= 0 && errs[w] == nil; call++ {
				errs[w] = do(w, call)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// advancer returns a function for spread that advances a key for each writer.
func advancer(ctx context.Context, s *avisofile.Store, process string) func(writer, call int) error {
	return func(writer, call int) error {
		r, err := s.Advance(ctx, resumeKey(fmt.Sprint(process, "w", writer)), at(uint64(call)+1), nil)
		if err == nil && r.Status != checkpoint.Advanced {
			err = r.Status.Err()
		}
		return err
	}
}

// benchDir is where the benchmarks write: a directory of HOLDFAST_BENCH_DIR if that
// is set, since a temporary directory can lie in memory.
func benchDir(b *testing.B) string {
	dir, err := os.MkdirTemp(os.Getenv("HOLDFAST_BENCH_DIR"), "avisofile")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// BenchmarkAdvance measures durable advances: group commit, and one rewrite with its
// syncs for each put, as a program without it does.
func BenchmarkAdvance(b *testing.B) {
	for _, keys := range []int{10, 1000, 10000} {
		for _, writers := range []int{1, 4, 16, 64} {
			b.Run(fmt.Sprintf("keys=%d/writers=%d", keys, writers), func(b *testing.B) {
				path := filepath.Join(benchDir(b), "state.json")
				fill(b, path, keys)
				var rewrites atomic.Int64
				s := open(b, path, avisofile.OnCommit(func(c avisofile.CommitStats) { rewrites.Add(int64(c.Rewrites)) }))
				b.ResetTimer()
				if err := spread(writers, b.N, advancer(b.Context(), s, "")); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				closeStore(b, s)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "advances/s")
				b.ReportMetric(float64(rewrites.Load())/float64(b.N), "rewrites/op")
			})
		}
		b.Run(fmt.Sprintf("keys=%d/rewrite-per-put", keys), func(b *testing.B) {
			path := filepath.Join(benchDir(b), "state.json")
			fill(b, path, keys)
			b.ResetTimer()
			for range b.N {
				if err := rewritePerPut(path); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "advances/s")
			b.ReportMetric(1, "rewrites/op")
		})
	}
}

// rewritePerPut does what a put costs where each is written by itself: the file is
// locked, read, decoded, encoded, and replaced with two syncs. It has the codec of
// this package, so that the measurement compares the orders of steps.
func rewritePerPut(path string) error {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if b, err = avisofile.Rewrite(b); err != nil {
		return err
	}
	return replaceBytes(path, b)
}

// benchProcess is a process of BenchmarkProcesses: it advances on request.
func benchProcess(path, writers, name string) {
	s, err := avisofile.Open(path, nil)
	if err != nil {
		panic(err)
	}
	w, _ := strconv.Atoi(writers)
	serve(func(ctx context.Context, f []string) string {
		n, _ := strconv.Atoi(f[1])
		return answerOf(spread(w, n, advancer(ctx, s, name)))
	})
}

// BenchmarkProcesses measures durable advances of several processes on one file.
func BenchmarkProcesses(b *testing.B) {
	const keys = 1000
	for _, processes := range []int{1, 2, 4} {
		for _, writers := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("keys=%d/processes=%d/writers=%d", keys, processes, writers), func(b *testing.B) {
				path := filepath.Join(benchDir(b), "state.json")
				fill(b, path, keys)
				all := make([]*process, processes)
				for i := range all {
					// The name is new in each run, since a run begins at 1.
					name := fmt.Sprint(i, "-", b.N)
					all[i] = start(b, command(b, "bench", nil, path, strconv.Itoa(writers), name))
				}
				for i, p := range all {
					if got := p.ask("key %d", i); len(got) != 64 {
						b.Fatal(got)
					}
				}
				b.ResetTimer()
				for i, p := range all {
					p.send("advance %d", (b.N+i)/processes)
				}
				for _, p := range all {
					if got := p.receive(); got != "ok" {
						b.Fatal(got)
					}
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "advances/s")
			})
		}
	}
}

// contended is how long the processes of BenchmarkContended put.
const contended = 2 * time.Second

// contend is a process of BenchmarkContended: it advances a key, waits for a line, advances
// the key without pause, and prints how many nanoseconds each advance took.
func contend(path, kind, name string) {
	ctx, key := context.Background(), resumeKey(name)
	var put func(n uint64) error
	switch kind {
	case "theirs":
		p, err := openPeer(path)
		if err != nil {
			panic(err)
		}
		put = func(n uint64) error { return p.put(key, mark{Sequence: n}) }
	case "ours":
		s, err := avisofile.Open(path, nil)
		if err != nil {
			panic(err)
		}
		put = func(n uint64) error {
			r, err := s.Advance(ctx, key, at(n), nil)
			return errors.Join(err, r.Status.Err())
		}
	}
	if err := put(1); err != nil {
		panic(err)
	}
	fmt.Println("ready")
	if _, err := fmt.Scanln(); err != nil {
		panic(err)
	}
	var took []time.Duration
	for begin, n := time.Now(), uint64(2); time.Since(begin) < contended; n++ {
		start := time.Now()
		if err := put(n); err != nil {
			panic(err)
		}
		took = append(took, time.Since(start))
	}
	for _, d := range took {
		fmt.Println(d.Nanoseconds())
	}
	fmt.Println("end")
}

// BenchmarkContended measures how long a put takes while other processes put all the time,
// half of them programs of the other kind, which wait for the lock in the kernel.
func BenchmarkContended(b *testing.B) {
	for _, processes := range []int{4, 8, 16} {
		b.Run(fmt.Sprintf("processes=%d", processes), func(b *testing.B) {
			path := filepath.Join(benchDir(b), "state.json")
			fill(b, path, 10)
			took := map[string][]time.Duration{}
			for range b.N {
				all := make([]*process, processes)
				for i := range all {
					kind := []string{"ours", "theirs"}[i%2]
					all[i] = start(b, command(b, "contend", nil, path, kind, fmt.Sprint(i, "-", len(took["ours"]))))
					if got := all[i].receive(); got != "ready" {
						b.Fatal(got)
					}
				}
				for _, p := range all {
					p.send("")
				}
				for i, p := range all {
					kind := []string{"ours", "theirs"}[i%2]
					for line := p.receive(); line != "end"; line = p.receive() {
						ns, err := strconv.Atoi(line)
						if err != nil {
							b.Fatal(err)
						}
						took[kind] = append(took[kind], time.Duration(ns))
					}
				}
			}
			for kind, times := range took {
				slices.Sort(times)
				ms := func(i int) float64 { return float64(times[i].Microseconds()) / 1000 }
				b.ReportMetric(float64(len(times))/contended.Seconds()/float64(b.N), kind+"-puts/s")
				b.ReportMetric(ms(len(times)/2), kind+"-median-ms")
				b.ReportMetric(ms(len(times)*99/100), kind+"-p99-ms")
				b.ReportMetric(ms(len(times)-1), kind+"-worst-ms")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, cached := range []bool{false, true} {
		b.Run(fmt.Sprintf("cached=%v", cached), func(b *testing.B) {
			path := filepath.Join(benchDir(b), "state.json")
			fill(b, path, 1000)
			s := open(b, path, nil)
			for b.Loop() {
				if _, err := s.Get(b.Context(), resumeKey("key1"), &checkpoint.GetOptions{Cached: cached}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
