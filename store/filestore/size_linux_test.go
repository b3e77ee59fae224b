package filestore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/fold"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// allocates fails the test if f allocates more than limit bytes in all.
func allocates(t *testing.T, limit uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > limit {
		t.Errorf("%d bytes were allocated, want at most %d", got, limit)
	}
}

// lengthen makes a file longer, with a hole at its end.
func lengthen(t *testing.T, file string, size int64) {
	t.Helper()
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
}

const firstSegment = "000000000001"

// TestSparseSegment: a segment of 100 GB is an error of its key alone, and costs neither
// memory nor time; for those who have it open, too.
func TestSparseSegment(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	s := open(t, dir, nil)
	bad := []string{"bad", strings.Repeat("x", store.MaxKey)} // one whose name is cut
	var versions []store.Version
	for _, key := range bad {
		versions = append(versions, put(t, s, key, "", "1"))
	}
	good := put(t, s, "good", "", "1")
	for _, key := range bad {
		lengthen(t, filepath.Join(dir, "k", filestore.EncodeKey(key), firstSegment), 100<<30)
	}
	start := time.Now()
	allocates(t, 4<<20, func() {
		for _, s := range []*filestore.Store{s, open(t, dir, filestore.Impatient())} {
			for i, key := range bad {
				_, _, err := s.Get(ctx, key)
				if !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("get: got %v, want corrupt", err)
				} else if !strings.Contains(err.Error(), "107374182400 bytes") {
					t.Errorf("the error does not tell the size: %v", err)
				}
				_, err = s.Put(ctx, key, versions[i], nil)
				wantOutcome(t, "put", err, store.NotApplied, store.ErrCorrupt)
			}
			if _, _, err := s.Get(ctx, "good"); err != nil {
				t.Error(err)
			}
			listed, failed := 0, 0
			for _, err := range s.List(ctx, "") {
				if err != nil {
					failed++
				} else {
					listed++
				}
			}
			if listed != 1 || failed != 1 {
				t.Errorf("the listing has %d keys and %d errors, want one of each", listed, failed)
			}
		}
	})
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := s.Put(ctx, "good", good, []byte("2")); err != nil {
		t.Error(err)
	}
}

// TestLongHole: a log that another program has lengthened by less than that works on, with little
// memory, since what they added is one line without a sense.
func TestLongHole(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	s, other := open(t, dir, nil), open(t, dir, nil)
	v := put(t, s, "key", "", "1")
	if _, _, err := other.Get(ctx, "key"); err != nil {
		t.Fatal(err)
	}
	lengthen(t, filepath.Join(dir, "k/key", firstSegment), 200<<20)
	allocates(t, 16<<20, func() {
		for i := range 6 { // until the log goes on in a new file
			if value, now, err := other.Get(ctx, "key"); err != nil || now != v {
				t.Fatalf("get %d: got %q at %s, %v, want %s", i, value, now, err, v)
			}
			v = put(t, s, "key", v, fmt.Sprint(i))
		}
	})
}

// TestLongLine: an entry that is longer than any may be is void for every reader, however
// much of it each has read at a time.
func TestLongLine(t *testing.T) {
	ctx := t.Context()
	for _, length := range []int{store.MaxValue, store.MaxValue + 1, 128 << 10, 200 << 10, 256 << 10, 300 << 10, 600 << 10} {
		dir := memoryDir(t)
		s, slow := open(t, dir, nil), open(t, dir, nil)
		v := put(t, s, "key", "", "1")
		number, nonce, _ := strings.Cut(string(v), ".")
		if number != "1" {
			t.Fatal(v)
		}
		file, err := os.OpenFile(filepath.Join(dir, "k/key", firstSegment), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		value := `"` + strings.Repeat("x", length-2) + `"`
		entry := fold.AppendLine(nil, fold.Entry{Kind: fold.Value, Number: 2, Nonce: "forged", Prev: nonce, Value: []byte(value)})
		for len(entry) > 0 { // slow reads it in parts
			n := min(len(entry), 10_000)
			if _, err := file.Write(entry[:n]); err != nil {
				t.Fatal(err)
			}
			entry = entry[n:]
			if _, now, err := slow.Get(ctx, "key"); err != nil || now != v && len(entry) > 0 {
				t.Fatalf("%d bytes are missing: got %s, %v", len(entry), now, err)
			}
		}
		want := v
		if length <= store.MaxValue {
			want = "2.forged"
		}
		for what, s := range map[string]*filestore.Store{"in parts": slow, "at once": s, "from its start": open(t, dir, nil)} {
			if _, now, err := s.Get(ctx, "key"); err != nil || now != want {
				t.Errorf("a value of %d bytes, read %s: got %s, %v, want %s", length, what, now, err, want)
			}
		}
	}
}

// TestSparsePresence: a presence file of 8 TB keeps no process from announcing itself, and
// nothing of it is read.
func TestSparsePresence(t *testing.T) {
	dir := memoryDir(t)
	first := open(t, dir, nil)
	if _, err := first.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-48 * time.Hour)
	file := filepath.Join(dir, "alive", rand.Text())
	if err := os.WriteFile(file, []byte(`{"pid":`), 0o600); err != nil {
		t.Fatal(err)
	}
	lengthen(t, file, 8<<40)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	allocates(t, 4<<20, func() {
		if _, err := open(t, dir, nil).Announce(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if info, err := os.Stat(file); err != nil || info.Size() != 8<<40 {
		t.Errorf("the file was touched: %v, %v", info, err)
	}
}

// TestCrowdedLog: the directory of a log with more names than a log can have is an error
// of its key alone.
func TestCrowdedLog(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	s := open(t, dir, nil)
	put(t, s, "bad", "", "1")
	put(t, s, "good", "", "1")
	for i := range 10_001 {
		if err := os.WriteFile(filepath.Join(dir, "k/bad", fmt.Sprint("x", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir, filestore.Impatient())
	if _, _, err := s.Get(ctx, "bad"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("got %v, want corrupt", err)
	}
	if _, _, err := s.Get(ctx, "good"); err != nil {
		t.Error(err)
	}
}

// TestCrowdedStore: more names than a listing reads are an error of the listing, not of
// the keys; more temporaries, or presence files, than a sweep looks at are no error.
func TestCrowdedStore(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	s := open(t, dir, filestore.FewKeys(100))
	put(t, s, "key", "", "1")
	if _, err := s.Announce(ctx); err != nil {
		t.Fatal(err)
	}
	if got := len(keys(t, s, "")); got != 1 {
		t.Errorf("%d keys are listed", got)
	}
	for i := range 100 {
		if err := os.Mkdir(filepath.Join(dir, "k", fmt.Sprint("x", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for range 10_001 {
		for _, sub := range []string{"tmp", "alive"} {
			if err := os.WriteFile(filepath.Join(dir, sub, rand.Text()), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = open(t, dir, filestore.FewKeys(100))
	var last error
	for _, err := range s.List(ctx, "") {
		last = err
	}
	if !errors.Is(last, store.ErrTooLarge) || !strings.Contains(last.Error(), "more than 100 keys") {
		t.Errorf("the listing: got %v, want too large", last)
	}
	put(t, s, "another", "", "1")
	if _, _, err := s.Get(ctx, "key"); err != nil {
		t.Error(err)
	}
	if _, err := s.Announce(ctx); err != nil {
		t.Error(err)
	}
}
