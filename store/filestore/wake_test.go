//go:build linux

package filestore_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store/filestore"
)

// expect expects a wake-up, and prints what happens. Its arguments: the directory, the name.
func expect(args []string) error {
	s, err := filestore.Open(args[0], nil)
	if err != nil {
		return err
	}
	woken := make(chan bool, 1)
	if _, err := s.ExpectWake(testContext(), args[1], func() { woken <- true }); err != nil {
		return err
	}
	fmt.Println("expects")
	<-woken
	fmt.Println("woken")
	select {} // until it is killed
}

// TestWakeKilled: another process is woken. When it was killed, wake-ups for it do nothing, and a sweep
// removes its file, but not that of a process that came later.
func TestWakeKilled(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	cmd := worker(t, "expect", dir, "A1.0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"expects", "woken"} {
		if lines.Scan(); lines.Text() != want {
			t.Fatalf("got %q; want %q", lines.Text(), want)
		}
		s.Wake(t.Context(), "A1.0")
	}
	kill(cmd)
	s.Wake(t.Context(), "A1.0")
	path := filepath.Join(dir, "wake", "A1.0")
	if _, err := os.Stat(path); err != nil {
		t.Fatal("this test needs the file of the killed process:", err)
	}
	end, err := s.ExpectWake(t.Context(), "B1.0", func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	put(t, open(t, dir, nil), "key", "", "1") // its first temporary begins a sweep
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file of the killed process is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "wake", "B1.0")); err != nil {
		t.Error(err)
	}
}

// TestWakeSwept: a waiter whose file is swept wakes up, and can expect again.
func TestWakeSwept(t *testing.T) {
	dir := memoryDir(t)
	s, other := open(t, dir, nil), open(t, dir, nil)
	for range 2 {
		woken := make(chan bool, 8)
		end, err := s.ExpectWake(t.Context(), "A1.0", func() { woken <- true })
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "wake", "A1.0")); err != nil {
			t.Fatal(err)
		}
		<-woken
		end()
	}
	other.Wake(t.Context(), "A1.0")
}

// TestWakeBounded: a store keeps few files, and none when it is closed.
func TestWakeBounded(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	for i := range 200 {
		end, err := s.ExpectWake(t.Context(), fmt.Sprint("A", i), func() {})
		if err != nil {
			t.Fatal(err)
		}
		end()
	}
	count := func() int {
		names, err := os.ReadDir(filepath.Join(dir, "wake"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	if n := count(); n == 0 || n > 64 {
		t.Errorf("%d files are kept", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := count(); n > 0 {
		t.Errorf("%d files are left after the end", n)
	}
}

// TestWakeHostile: what another user puts in the place of a waiter's file is not followed, and nothing
// waits for it.
func TestWakeHostile(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	end, err := s.ExpectWake(t.Context(), "A1.0", func() {})
	if err != nil {
		t.Fatal(err)
	}
	end()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := syscall.Mkfifo(filepath.Join(dir, "wake", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": outside, "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, "wake", name)); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for _, name := range []string{"pipe", "link", "loop"} {
		s.Wake(t.Context(), name)
		if end, err := s.ExpectWake(t.Context(), name, func() {}); err == nil {
			end()
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := os.Lstat(outside); !os.IsNotExist(err) {
		t.Error("a file outside of the store was made")
	}
}

// TestNoWake: a store that only reads, and one where the system reports no changes, cannot expect a
// wake-up, and make nothing.
func TestNoWake(t *testing.T) {
	dir := memoryDir(t)
	open(t, dir, nil)
	for _, o := range []*filestore.Options{{ReadOnly: true}, filestore.Polling()} {
		s := open(t, dir, o)
		if _, err := s.ExpectWake(t.Context(), "A1.0", func() {}); err == nil {
			t.Error("it expects a wake-up")
		}
		s.Wake(t.Context(), "A1.0")
		if _, err := os.Lstat(filepath.Join(dir, "wake")); !os.IsNotExist(err) {
			t.Error("the directory was made")
		}
	}
}
