package object_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// sheet is a memory that several goroutines write to at once, each at its own offsets.
type sheet struct {
	mu   sync.Mutex
	data []byte
	full int64 // the disk has so many bytes; 0: enough
}

func (s *sheet) WriteAt(p []byte, at int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := at + int64(len(p))
	if s.full > 0 && end > s.full {
		return 0, errFull
	}
	if end > int64(len(s.data)) {
		s.data = append(s.data, make([]byte, end-int64(len(s.data)))...)
	}
	return copy(s.data[at:], p), nil
}

var errFull = errors.New("the disk is full")

// badConnection is a bucket whose answers break off, or come slowly.
type badConnection struct {
	*membucket.Bucket
	mu      sync.Mutex
	after   int64 // an answer breaks off after so many bytes; 0: none does
	breaks  int   // so many answers break off; -1: all
	short   bool  // they end in place of breaking off
	slow    time.Duration
	most    int // answers that were open at once
	open    int
	ignores bool           // conditions are ignored
	version object.Version // what answers claim; empty: the truth
	gets    int
	hook    func(n int)
}

func (b *badConnection) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	b.mu.Lock()
	b.gets++
	n := b.gets
	broken := b.after > 0 && b.breaks != 0
	if broken {
		b.breaks--
	}
	b.mu.Unlock()
	if b.hook != nil {
		b.hook(n)
	}
	if b.ignores && opts.IfMatch != "" {
		changed := *opts
		changed.IfMatch = ""
		opts = &changed
	}
	r, err := b.Bucket.Get(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	if b.version != "" {
		r.Info.Version = b.version
	}
	b.mu.Lock()
	b.open++
	b.most = max(b.most, b.open)
	b.mu.Unlock()
	time.Sleep(b.slow)
	l := &line{b: b, ReadCloser: r.ReadCloser}
	l.body = r.ReadCloser
	if broken && b.short {
		l.body = io.LimitReader(l.body, b.after)
	} else if broken {
		l.body = io.MultiReader(io.LimitReader(l.body, b.after), cutConnection{})
	}
	r.ReadCloser = l
	return r, nil
}

type line struct {
	io.ReadCloser
	b    *badConnection
	body io.Reader
}

func (l *line) Read(p []byte) (int, error) { return l.body.Read(p) }

func (l *line) Close() error {
	l.b.mu.Lock()
	l.b.open--
	l.b.mu.Unlock()
	return l.ReadCloser.Close()
}

type cutConnection struct{}

func (cutConnection) Read([]byte) (int, error) { return 0, store.ErrUnavailable }

const kib = 1 << 10

// random returns a body of this size.
func random(size int) []byte {
	body := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(body)
	return body
}

func newBadConnection(t *testing.T, body []byte) *badConnection {
	t.Helper()
	b := &badConnection{Bucket: membucket.New()}
	if _, err := b.Put(t.Context(), "k", bytes.NewReader(body), nil); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDownload: a body of any size arrives whole, and Progress ends with its size.
func TestDownload(t *testing.T) {
	for _, size := range []int{0, 1, 64 * kib, 64*kib + 1, 300 * kib, 640 * kib} {
		for _, fault := range []string{"none", "breaks off", "ends early"} {
			t.Run(fmt.Sprint(size, " ", fault), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					body := random(size)
					b := newBadConnection(t, body)
					if fault != "none" {
						b.after, b.breaks, b.short = 10*kib, 7, fault == "ends early"
					}
					w := &sheet{}
					last := int64(-1)
					info, err := object.Download(t.Context(), b, "k", w, object.InRanges(object.DownloadOptions{Progress: func(done, total int64) {
						if done < last || total != int64(size) {
							t.Errorf("%d of %d after %d", done, total, last)
						}
						last = done
					}}, 64*kib))
					if err != nil || info.Size != int64(size) || !bytes.Equal(w.data, body) || last != int64(size) {
						t.Errorf("got %d bytes, %+v, %v, progress %d", len(w.data), info, err, last)
					}
					if b.open != 0 {
						t.Errorf("%d answers are still open", b.open)
					}
				})
			})
		}
	}
}

// TestDownloadParallel: as many ranges as the options say are read at a time.
func TestDownloadParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBadConnection(t, random(640*kib))
		b.slow = time.Second
		start := time.Now()
		if _, err := object.Download(t.Context(), b, "k", &sheet{}, object.InRanges(object.DownloadOptions{Parallel: 3}, 64*kib)); err != nil {
			t.Fatal(err)
		}
		// The first range is requested alone, since its answer has the size.
		if took := time.Since(start); took != 4*time.Second || b.most != 3 {
			t.Errorf("took %v, %d at a time, want 4 s and 3", took, b.most)
		}
	})
}

// TestDownloadInWholeTurns: each goroutine reads as many ranges as the others, none of which is
// more than twice as long as the first.
func TestDownloadInWholeTurns(t *testing.T) {
	for ranges, want := range map[int]int{1: 1, 2: 2, 5: 5, 6: 5, 9: 5, 10: 10, 16: 15, 21: 20} {
		body := random(ranges * kib)
		b, w := newBadConnection(t, body), &sheet{}
		if _, err := object.Download(t.Context(), b, "k", w, object.InRanges(object.DownloadOptions{Parallel: 5}, kib)); err != nil || !bytes.Equal(w.data, body) {
			t.Fatalf("%d bytes, %v", len(w.data), err)
		}
		if b.gets != want {
			t.Errorf("%d KiB: %d requests, want %d", ranges, b.gets, want)
		}
	}
}

// TestDownloadCut: a download that fails says how much is complete, and another continues
// from there.
func TestDownloadCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := random(640*kib + 5)
		b := newBadConnection(t, body)
		w := &sheet{full: 400 * kib}
		o := object.InRanges(object.DownloadOptions{}, 64*kib)
		_, err := object.Download(t.Context(), b, "k", w, o)
		var cut *object.TruncatedError
		if !errors.As(err, &cut) || !errors.Is(err, errFull) || b.open != 0 {
			t.Fatalf("got %v, %d answers are open", err, b.open)
		}
		if !bytes.Equal(w.data[:cut.Done], body[:cut.Done]) {
			t.Error("what is complete differs")
		}
		w.full = 0
		o.Offset, o.IfMatch = cut.Done, cut.Info.Version
		for range 2 { // and once more, when all is there
			b.gets = 0
			info, err := object.Download(t.Context(), b, "k", w, o)
			if err != nil || !bytes.Equal(w.data, body) {
				t.Errorf("got %d bytes, %v", len(w.data), err)
			}
			if n := b.gets; int64(n) > (info.Size-o.Offset)/(64*kib)+1 {
				t.Errorf("%d requests for the rest", n)
			}
			o.Offset = info.Size
		}
		if _, err := b.Put(t.Context(), "k", strings.NewReader("another"), nil); err != nil {
			t.Fatal(err)
		}
		for _, offset := range []int64{5, int64(len(body))} {
			o.Offset = offset
			if _, err := object.Download(t.Context(), b, "k", w, o); !errors.Is(err, store.ErrConflict) {
				t.Errorf("another state, from %d on: %v", offset, err)
			}
		}
	})
}

// TestDownloadOneState: a body is never put together from two states, whether the server
// checks the version that is requested, ignores it, or returns another than that of the
// bytes.
func TestDownloadOneState(t *testing.T) {
	for _, server := range []string{"good", "ignores conditions", "mixes states"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBadConnection(t, random(640*kib))
			info, err := b.Stat(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			var bucket object.Bucket = b
			switch server {
			case "ignores conditions":
				b.ignores = true
			case "mixes states":
				b.ignores, b.version = true, info.Version
				bucket = plain{b} // without the promise of unique versions
			}
			b.hook = func(n int) {
				if n == 4 {
					if _, err := b.Put(t.Context(), "k", bytes.NewReader(bytes.Repeat([]byte("x"), 640*kib)), nil); err != nil {
						t.Error(err)
					}
				}
			}
			_, err = object.Download(t.Context(), bucket, "k", &sheet{}, object.InRanges(object.DownloadOptions{}, 64*kib))
			var cut *object.TruncatedError
			if !errors.Is(err, store.ErrConflict) || !errors.As(err, &cut) || b.version != "" && cut.Done != 0 {
				t.Errorf("a server that %s: got %v", server, err)
			}
		})
	}
}

// TestDownloadOneStateInParts: the same, if only one range is read, but by two requests: its first answer broke off,
// or an earlier download did.
func TestDownloadOneStateInParts(t *testing.T) {
	for _, offset := range []int64{0, 100 * kib} {
		synctest.Test(t, func(t *testing.T) {
			b := newBadConnection(t, random(640*kib))
			info, err := b.Stat(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			b.ignores, b.version = true, info.Version
			b.after, b.breaks = 100*kib, 1
			b.hook = func(n int) {
				if n == 2 {
					put(t, b, "k", strings.Repeat("x", 640*kib), nil)
				}
			}
			o := object.InRanges(object.DownloadOptions{}, 1024*kib)
			if offset > 0 {
				o.Offset, o.IfMatch = offset, info.Version
				b.hook(2)
				b.breaks = 0
			}
			_, err = object.Download(t.Context(), plain{b}, "k", &sheet{}, o)
			var cut *object.TruncatedError
			if !errors.Is(err, store.ErrConflict) || !errors.As(err, &cut) || cut.Done != 0 {
				t.Errorf("from %d on: got %v", offset, err)
			}
		})
	}
}

// TestDownloadEnds: a line that breaks each time ends the download, and so does the
// context.
func TestDownloadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBadConnection(t, random(640*kib))
		b.after, b.breaks = 1, -1
		start := time.Now()
		bound, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		_, err := object.Download(bound, b, "k", &sheet{}, object.InRanges(object.DownloadOptions{}, 64*kib))
		if !errors.Is(err, store.ErrUnavailable) || b.gets > 60 || time.Since(start) > time.Minute {
			t.Errorf("got %v after %d requests and %v", err, b.gets, time.Since(start))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		b = newBadConnection(t, random(640*kib))
		b.hook = func(n int) {
			if n == 3 {
				cancel(why)
			}
		}
		_, err = object.Download(ctx, b, "k", &sheet{}, object.InRanges(object.DownloadOptions{}, 64*kib))
		if !errors.Is(err, why) || b.open != 0 {
			t.Errorf("got %v, %d open", err, b.open)
		}
		for _, o := range []object.DownloadOptions{{Parallel: -1}, {Parallel: 100}, {Offset: -1}, {Offset: 1}} {
			if _, err := object.Download(t.Context(), b, "k", &sheet{}, &o); !errors.Is(err, object.ErrInvalid) {
				t.Errorf("%+v: %v", o, err)
			}
		}
	})
}
