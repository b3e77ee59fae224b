package filestore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/powercut"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// Calls end with their context on a disk that hangs. The write that was abandoned is applied when
// the disk works again.
func TestFrozenDisk(t *testing.T) {
	disk := powercut.New(t, "ext4")
	s, err := filestore.Open(disk.Dir()+"/locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Put(t.Context(), "key", "", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	disk.Freeze(true)
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
	disk.Freeze(false)
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
