package filestore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
		for i := range 6 { // until the log continues in a new file
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

// TestListingByPages: a listing of more names than it holds at a time yields each key once,
// whatever other files the directory has.
func TestListingByPages(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	var want []string
	for i := range 60 {
		key := fmt.Sprintf("job/%d", i)
		v := put(t, s, key, "", "1")
		if i%3 == 0 {
			if err := s.Delete(t.Context(), key, v); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want = append(want, key)
	}
	long := strings.Repeat("x", store.MaxKey) // its name is cut
	put(t, s, long, "", "1")
	for i := range 40 {
		if err := os.WriteFile(filepath.Join(dir, "k", fmt.Sprint("No key ", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	for _, page := range []int{1, 7, 60, 1000} {
		s := open(t, dir, filestore.SmallPages(page))
		if got := keys(t, s, "job"); !slices.Equal(got, want) {
			t.Errorf("by %d: got %q, want %q", page, got, want)
		}
		if got := keys(t, s, ""); len(got) != len(want)+1 {
			t.Errorf("by %d: got %d keys", page, len(got))
		}
	}
}

// TestDamagedLogsShareOneTimeout: 300 logs that are not complete cost a listing the patience
// for one, and the keys that can be read are listed. Their errors are bounded.
func TestDamagedLogsShareOneTimeout(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, filestore.Impatient())
	for i := range 300 {
		if err := os.MkdirAll(filepath.Join(dir, "k", fmt.Sprint("empty", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "first", "", "1")
	put(t, s, "z", "", "1")
	start := time.Now()
	var got []string
	var last error
	for key, err := range s.List(t.Context(), "") {
		if last = err; err == nil {
			got = append(got, key)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v, with a patience of 0.1 s", took)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"first", "z"}) {
		t.Errorf("got %q", got)
	}
	if !errors.Is(last, store.ErrCorrupt) || !strings.Contains(last.Error(), "200 more keys cannot be read") || len(last.Error()) > 32<<10 {
		t.Errorf("got %.200v", last)
	}
}

// TestIncompleteInAListing: a log that is not complete when a listing first meets it, and is
// soon after, is listed.
func TestIncompleteInAListing(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	put(t, s, "key", "", "1")
	log := filepath.Join(dir, "k/key")
	file := filepath.Join(log, firstSegment)
	if err := os.Rename(file, filepath.Join(dir, "aside")); err != nil {
		t.Fatal(err)
	}
	listed := make(chan []string)
	go func() { listed <- keys(t, open(t, dir, nil), "") }()
	time.Sleep(200 * time.Millisecond)
	if err := os.Rename(filepath.Join(dir, "aside"), file); err != nil {
		t.Fatal(err)
	}
	if got := <-listed; !slices.Equal(got, []string{"key"}) {
		t.Errorf("got %q", got)
	}
}

// TestCrowdedStore: more temporaries, or presence files, than a sweep looks at are no error.
func TestCrowdedStore(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	put(t, s, "key", "", "1")
	if _, err := s.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 10_001 {
		for _, sub := range []string{"tmp", "alive"} {
			if err := os.WriteFile(filepath.Join(dir, sub, rand.Text()), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = open(t, dir, nil)
	put(t, s, "another", "", "1")
	if _, _, err := s.Get(t.Context(), "key"); err != nil {
		t.Error(err)
	}
	if _, err := s.Announce(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUnreadableLongKey: a listing reports a log that it cannot read also if the name of its directory does not
// contain the whole key. A bucket that relied on such a listing would remove the body of this object.
func TestUnreadableLongKey(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	long := "job/" + strings.Repeat("x", store.MaxKey-4)
	put(t, s, long, "", "1")
	put(t, s, "job/good", "", "1")
	log := filepath.Join(dir, "k", filestore.EncodeKey(long))
	if err := os.WriteFile(filepath.Join(log, firstSegment), []byte("damaged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, filestore.Impatient())
	if _, _, err := s.Get(t.Context(), long); !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("control: %v", err)
	}
	var got []string
	var last error
	for key, err := range s.List(t.Context(), "job") {
		if last = err; err == nil {
			got = append(got, key)
		}
	}
	if !errors.Is(last, store.ErrCorrupt) || !slices.Equal(got, []string{"job/good"}) {
		t.Errorf("listed %q, then %v", got, last)
	}
	for key, err := range s.List(t.Context(), "other") {
		t.Errorf("a listing of another prefix: %q, %v", key, err)
	}
}
