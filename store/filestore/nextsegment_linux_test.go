package filestore_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// created returns a function that counts the files made in a directory from now on whose names start
// with a prefix.
func created(t *testing.T, dir, prefix string) (count func() int) {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if _, err := syscall.InotifyAddWatch(fd, dir, syscall.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	n := 0
	return func() int {
		buf := make([]byte, 64<<10)
		for {
			size, err := syscall.Read(fd, buf)
			if err == syscall.EAGAIN {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			for b := buf[:size]; len(b) > 0; {
				end := syscall.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
				if strings.HasPrefix(string(b[syscall.SizeofInotifyEvent:end]), prefix) {
					n++
				}
				b = b[end:]
			}
		}
	}
}

// TestSealerMakesTheNextSegment: processes that find a sealed segment leave the next one to the process
// that sealed it. Otherwise each of them makes a file, with a sync.
func TestSealerMakesTheNextSegment(t *testing.T) {
	dir := memoryDir(t)
	sealer := open(t, dir, nil)
	put(t, sealer, "key", "", "0")
	made := created(t, filepath.Join(dir, "k/key"), "tmp-")
	var others sync.WaitGroup
	if err := sealer.SealSlowly(t.Context(), "key", func() {
		for range 8 {
			s := open(t, dir, filestore.Patient())
			others.Go(func() {
				if _, _, err := s.Get(t.Context(), "key"); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		if n := made(); n > 0 {
			t.Errorf("others made %d files", n)
		}
	}); err != nil {
		t.Fatal(err)
	}
	others.Wait()
	if n := made(); n != 1 {
		t.Errorf("%d files were made, want 1", n)
	}
}

// TestFarBehind: a process that knows only a segment which was removed long ago opens the newest one, and
// makes no file.
func TestFarBehind(t *testing.T) {
	dir := memoryDir(t)
	writer, reader := open(t, dir, filestore.Tiny()), open(t, dir, filestore.Tiny())
	v := put(t, writer, "key", "", "0")
	for round := range 20 {
		if _, got, err := reader.Get(t.Context(), "key"); err != nil || got != v {
			t.Fatalf("got %s, %v, want %s", got, err, v)
		}
		for i := range 8 {
			v = put(t, writer, "key", v, fmt.Sprint(round, i))
		}
		made := created(t, filepath.Join(dir, "k/key"), "tmp-")
		if _, got, err := reader.Get(t.Context(), "key"); err != nil || got != v {
			t.Fatalf("got %s, %v, want %s", got, err, v)
		}
		if n := made(); n > 0 {
			t.Fatalf("a reader made %d files", n)
		}
	}
}

// TestLargeValuesShareASegment: a new segment takes four syncs, so that values of some kilobytes do not
// need one for every fourth write. Larger ones do.
func TestLargeValuesShareASegment(t *testing.T) {
	for _, tt := range []struct {
		size, writes, least, most int
	}{
		{12 << 10, 20, 1, 1}, {12 << 10, 80, 3, 5}, {60 << 10, 16, 4, 5},
	} {
		dir := memoryDir(t)
		s := open(t, dir, nil)
		v := store.Version("")
		for i := range tt.writes {
			v = put(t, s, "key", v, fmt.Sprintf(`"%*d"`, tt.size, i))
		}
		names, err := os.ReadDir(filepath.Join(dir, "k/key"))
		if err != nil {
			t.Fatal(err)
		}
		var newest int
		if _, err := fmt.Sscan(names[len(names)-1].Name(), &newest); err != nil {
			t.Fatal(err)
		}
		if newest < tt.least || newest > tt.most {
			t.Errorf("%d writes of %d bytes made %d segments, want %d to %d", tt.writes, tt.size, newest, tt.least, tt.most)
		}
	}
}

// TestListingContinuesALongKey: a listing meets a sealed log, and the name of its directory does not contain the whole key.
// The file with which the listing continues the log has this key.
func TestListingContinuesALongKey(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	long := strings.Repeat("x", store.MaxKey)
	v := put(t, s, long, "", "1")
	err := s.SealSlowly(t.Context(), long, func() {
		if got := keys(t, open(t, dir, nil), ""); !slices.Equal(got, []string{long}) {
			t.Errorf("listed %q", got)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, open(t, dir, nil), long, v, "2")
	files, err := filepath.Glob(filepath.Join(dir, "k/*/0*"))
	if err != nil || len(files) != 2 {
		t.Errorf("the log has the files %q, %v", files, err)
	}
}
