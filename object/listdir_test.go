package object_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// many is a bucket that has so many keys of this form, without keeping them.
type many struct {
	object.Bucket
	keys   int
	format string
}

func (m many) List(_ context.Context, prefix string, _ *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		for i := range m.keys {
			if !yield(object.Info{Key: prefix + fmt.Sprintf(m.format, i), Size: 1}, nil) {
				return
			}
		}
	}
}

// grouped is many as a bucket that lists one level.
type grouped struct{ many }

func (g grouped) ListDir(ctx context.Context, prefix string) iter.Seq2[object.Info, error] {
	return g.List(ctx, prefix, nil)
}

// TestListDirIsBounded: the memory of a listing does not grow with the segments where the
// bucket groups them, and is bounded elsewhere.
func TestListDirIsBounded(t *testing.T) {
	const segments = 600_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, n := heap(), 0
	for info, err := range object.ListDir(t.Context(), grouped{many{membucket.New(), 2 * segments, "segment-%[1]d/x"}}, "p/") {
		if n++; err != nil || info.Key != fmt.Sprintf("p/segment-%d/", n-1) {
			t.Fatalf("got %+v, %v", info, err)
		}
		if n == segments {
			if now := heap(); now > before+4<<20 {
				t.Errorf("after %d segments the heap has %d KiB more", n, (now-before)>>10)
			}
			break
		}
	}
	n = 0
	var last error
	for _, err := range object.ListDir(t.Context(), many{membucket.New(), segments, "segment-%d/x"}, "p/") {
		n++
		last = err
	}
	if !errors.Is(last, store.ErrTooLarge) || n < 300_000 {
		t.Errorf("%d segments of a bucket in any order, then %v", n, last)
	}
}

// TestLargeDirectory: a directory that does not fit into memory is read a few entries at a
// time, each once; one that just fits is read as a whole.
func TestLargeDirectory(t *testing.T) {
	for _, keys := range []int{object.MaxDir, object.MaxDir + 1, object.MaxDir + 2500} {
		c := newClient(t, many{membucket.New(), keys, "d%07d"}, nil)
		files := object.FS(t.Context(), c)
		all, err := fs.ReadDir(files, ".")
		if keys > object.MaxDir != errors.Is(err, store.ErrTooLarge) || err == nil && len(all) != keys {
			t.Errorf("%d entries at once: %d, %v", keys, len(all), err)
		}
		f, err := files.Open(".")
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for {
			entries, err := f.(fs.ReadDirFile).ReadDir(999)
			for _, e := range entries {
				if want := fmt.Sprintf("d%07d", seen); e.Name() != want {
					t.Fatalf("got %s, want %s", e.Name(), want)
				}
				seen++
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil || seen != keys {
			t.Errorf("%d of %d entries, %v", seen, keys, err)
		}
	}
}
