package filestore_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/powercut"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// freeze makes all writes to the file system of a directory hang, until it is called with false.
func freeze(t *testing.T, dir string, frozen bool) {
	t.Helper()
	const fifreeze, fithaw = 0xC0045877, 0xC0045878
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	op := uintptr(fithaw)
	if frozen {
		op = fifreeze
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, d.Fd(), op, 0); errno != 0 {
		t.Fatalf("freeze %t: %v", frozen, errno)
	}
}

// Calls end with their context on a disk that hangs. The write that was abandoned is applied when
// the disk works again.
func TestFrozenDisk(t *testing.T) {
	dir := powercut.New(t, "ext4").Dir()
	s, err := filestore.Open(dir+"/locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Put(t.Context(), "key", "", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	freeze(t, dir, true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	value := []byte("2")
	began := time.Now()
	_, err = s.Put(ctx, "key", v, value)
	if took := time.Since(began); store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Errorf("Put on a frozen disk returned %v after %v", err, took)
	}
	value[0] = 'x' // the caller may use its memory again
	if n := s.AbandonedCalls(); n != 1 {
		t.Errorf("%d calls are abandoned; want 1", n)
	}
	freeze(t, dir, false)
	for s.AbandonedCalls() > 0 {
		time.Sleep(time.Millisecond)
	}
	got, _, err := s.Get(t.Context(), "key")
	if err != nil || string(got) != "2" {
		t.Errorf("after the thaw: %q, %v; want the abandoned write", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
