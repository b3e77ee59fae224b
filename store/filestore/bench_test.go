//go:build linux

package filestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// record is about as long as that of a lease.
var record = []byte(`{"v":1,"name":"nightly","state":"held","token":1234567890123,"holder":"host 4711","grant":"0123456789abcdef0123456789abcdef","ttl":30000,"nonce":"0123456789abcdef0123456789abcdef"}`)

func BenchmarkGet(b *testing.B) {
	s := open(b, b.TempDir(), nil)
	put(b, s, "key", "", string(record))
	for b.Loop() {
		if _, _, err := s.Get(b.Context(), "key"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutUnsynced(b *testing.B) {
	s := open(b, b.TempDir(), nil)
	v := put(b, s, "key", "", string(record))
	for b.Loop() {
		var err error
		if v, err = s.PutUnsynced(b.Context(), "key", v, record); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPair is the two durable writes of an acquire and a release, as a multiple
// of two appends to a file that is already there, each with fdatasync.
func BenchmarkPair(b *testing.B) {
	dir := b.TempDir()
	s := open(b, filepath.Join(dir, "store"), nil)
	v := put(b, s, "key", "", string(record))
	raw, err := os.OpenFile(filepath.Join(dir, "raw"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	var ours, theirs time.Duration
	for b.Loop() {
		start := time.Now()
		for range 2 {
			if v, err = s.Put(b.Context(), "key", v, record); err != nil {
				b.Fatal(err)
			}
		}
		middle := time.Now()
		for range 2 {
			if _, err := raw.Write(record); err != nil {
				b.Fatal(err)
			}
			if err := syscall.Fdatasync(int(raw.Fd())); err != nil {
				b.Fatal(err)
			}
		}
		ours += middle.Sub(start)
		theirs += time.Since(middle)
	}
	b.ReportMetric(float64(ours)/float64(theirs), "raw")
}

// BenchmarkCreate makes registers.
func BenchmarkCreate(b *testing.B) {
	s := open(b, b.TempDir(), nil)
	for i := 0; b.Loop(); i++ {
		put(b, s, fmt.Sprint("key", i), "", string(record))
	}
}

// BenchmarkCold opens the store and reads one register, as a command does.
func BenchmarkCold(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir, nil)
	v := store.Version("")
	for range 200 {
		v = put(b, s, "key", v, string(record))
	}
	for b.Loop() {
		s := open(b, dir, nil)
		if _, _, err := s.Get(b.Context(), "key"); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkContended runs 8 processes that write one register, half of the writes durable,
// and reports how many succeed in a second.
func BenchmarkContended(b *testing.B) {
	const procs = 8
	for b.Loop() {
		dir := b.TempDir()
		var kills []func()
		for i := range procs {
			cmd := worker(b, "fight", dir, filepath.Join(dir, "store"), fmt.Sprint("w", i), "1", "plain")
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			kills = append(kills, func() { kill(cmd) })
		}
		s := open(b, filepath.Join(dir, "store"), nil)
		number := func() (n uint64) {
			_, v, _ := s.Get(b.Context(), "fight/0") // absent at first
			_, _ = fmt.Sscanf(string(v), "%d.", &n)
			return n
		}
		for number() < 10 {
			time.Sleep(10 * time.Millisecond)
		}
		start, before := time.Now(), number()
		time.Sleep(2 * time.Second)
		rate := float64(number()-before) / time.Since(start).Seconds()
		for _, kill := range kills {
			kill()
		}
		b.ReportMetric(rate, "writes/s")
	}
}
