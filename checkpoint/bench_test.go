package checkpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// The benchmarks report durable advances per second. Compare them with the Rewrite
// benchmark of the same run: each put rewrites and syncs a JSON file of all keys.

// counted returns st, and what it counts: puts.
func counted(st store.Store) (store.Store, *atomic.Int64) {
	var puts atomic.Int64
	return store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind == store.OpPut {
			puts.Add(1)
		}
		return next(ctx, op)
	}), &puts
}

func onDisk(b *testing.B) store.Store {
	b.Helper()
	st, err := filestore.Open(filepath.Join(b.TempDir(), "store"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	return st
}

// share lets goroutines do b.N calls of f between them.
func share(b *testing.B, writers int, f func(writer, n int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		wg.Go(func() {
			for n := int(next.Add(1)); n <= b.N; n = int(next.Add(1)) {
				f(w, n)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}

// advances runs writers that advance: all of them one key, or each its own.
func advances(b *testing.B, st store.Store, writers int, key func(writer, n int) string) {
	st, puts := counted(st)
	k := open(b, st, nil)
	var advanced atomic.Int64
	share(b, writers, func(w, n int) {
		r, err := k.Advance(b.Context(), key(w, n), at(uint64(n)), nil)
		if err != nil {
			b.Error(err)
		}
		if r.Status == checkpoint.Advanced {
			advanced.Add(1)
		}
	})
	b.ReportMetric(float64(advanced.Load())/b.Elapsed().Seconds(), "advances/s")
	b.ReportMetric(float64(puts.Load())/float64(advanced.Load()), "writes/advance")
}

func BenchmarkAdvance(b *testing.B) {
	for _, s := range []struct {
		name string
		open func(b *testing.B) store.Store
	}{
		{"memory", func(*testing.B) store.Store { return memstore.New() }},
		{"file", onDisk},
	} {
		for _, writers := range []int{1, 4, 16, 64} {
			b.Run(fmt.Sprintf("%s/one-key/writers=%d", s.name, writers), func(b *testing.B) {
				advances(b, s.open(b), writers, func(int, int) string { return "k" })
			})
			b.Run(fmt.Sprintf("%s/own-keys/writers=%d", s.name, writers), func(b *testing.B) {
				advances(b, s.open(b), writers, func(w, _ int) string { return fmt.Sprint("k", w) })
			})
		}
	}
}

// BenchmarkKeys shows what the number of keys costs: with 16 of them in use the rest
// should cost nothing; with all of them in use each write finds its file cold.
func BenchmarkKeys(b *testing.B) {
	for _, keys := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprintf("file/keys=%d", keys), func(b *testing.B) {
			st := onDisk(b)
			fill(b, st, keys)
			for _, used := range slices.Compact([]int{min(16, keys), keys}) {
				for _, writers := range []int{1, 16} {
					b.Run(fmt.Sprintf("used=%d/writers=%d", used, writers), func(b *testing.B) {
						k := open(b, st, nil)
						c, err := k.Get(b.Context(), "k0", nil)
						if err != nil {
							b.Fatal(err)
						}
						share(b, writers, func(_, n int) {
							p := at(c.Sequence + uint64(n))
							if _, err := k.Advance(b.Context(), fmt.Sprint("k", n%used), p, nil); err != nil {
								b.Error(err)
							}
						})
						b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "advances/s")
					})
				}
			}
		})
	}
}

// fill makes the keys k0 to k<keys-1>.
func fill(b *testing.B, st store.Store, keys int) {
	k := open(b, st, nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < int64(keys); n = next.Add(1) - 1 {
				if _, err := k.Advance(b.Context(), fmt.Sprint("k", n), at(0), nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkRewrite is the way of a single state file without group commit.
func BenchmarkRewrite(b *testing.B) {
	type entry struct {
		Sequence uint64 `json:"last_committed_sequence"`
		EventID  string `json:"last_event_id"`
	}
	for _, keys := range []int{1, 10, 1000, 10000} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("keys=%d/writers=%d", keys, writers), func(b *testing.B) {
				dir := b.TempDir()
				all := map[string]entry{}
				for i := range keys {
					all[fmt.Sprintf("%064x", i)] = entry{1, "event"}
				}
				var mu sync.Mutex
				share(b, writers, func(_, n int) {
					mu.Lock()
					defer mu.Unlock()
					all[fmt.Sprintf("%064x", n%keys)] = entry{uint64(n), "event"}
					if err := rewrite(dir, all); err != nil {
						b.Error(err)
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "advances/s")
			})
		}
	}
}

// rewrite replaces a file durably.
func rewrite(dir string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "state")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, "state.json")); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
