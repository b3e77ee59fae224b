//go:build unix

package checkpoint_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/powercut"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestPowerCut takes the power away while processes advance a checkpoint: what was
// acknowledged is there when it comes back, nothing is torn, nothing was invented.
func TestPowerCut(t *testing.T) {
	for _, fstype := range powercut.FileSystems() {
		t.Run(fstype, func(t *testing.T) {
			cuts := 4
			if os.Getenv("HOLDFAST_TORTURE") != "" {
				cuts = 1000
			}
			disk := powercut.New(t, fstype)
			acknowledged, lost := 0, uint64(0)
			for last := uint64(0); cuts > 0; cuts-- {
				c := cutOnce(t, disk, last, nil)
				if c.err != nil {
					t.Fatal(c.err)
				}
				if c.saved < c.known || c.saved > c.tried {
					t.Fatalf("%d is saved, %d was acknowledged, %d was tried", c.saved, c.known, c.tried)
				}
				last = c.saved
				acknowledged += c.acknowledged
				lost += c.tried - c.saved
			}
			t.Logf("%d acknowledged, %d were under way and lost", acknowledged, lost)
		})
	}
}

// The control: without the syncs, what was acknowledged is lost.
func TestPowerCutControl(t *testing.T) {
	for _, fstype := range powercut.FileSystems() {
		t.Run(fstype, func(t *testing.T) {
			disk := powercut.New(t, fstype)
			last := uint64(0)
			for range 10 {
				c := cutOnce(t, disk, last, []string{"HOLDFAST_UNSYNCED=1"})
				if c.saved < c.known || c.err != nil {
					return // lost, or not readable
				}
				last = c.saved
			}
			t.Error("nothing was lost without a sync in 10 cuts: the test of the power cuts tests nothing")
		})
	}
}

// aftermath is what one power cut left.
type aftermath struct {
	known        uint64 // the highest that was acknowledged before the cut
	tried        uint64 // the highest that was tried at all
	saved        uint64 // what was found after it
	acknowledged int    // how many were
	err          error  // of reading what was saved
}

// cutOnce runs two processes that continue from last, cuts the power, and returns what is
// saved after it.
func cutOnce(t *testing.T, disk *powercut.Disk, last uint64, env []string) aftermath {
	t.Helper()
	dir := filepath.Join(disk.Dir(), "store")
	l := &ledger{advanced: map[uint64]int{}, highest: last, tried: last}
	children := []*child{l.start(t, dir, env), l.start(t, dir, env)}
	defer func() {
		for _, c := range children {
			c.kill()
		}
	}()
	for began := time.Now(); l.acknowledged() == last; {
		time.Sleep(time.Millisecond) // until they are at it
		if time.Since(began) > time.Minute {
			t.Fatalf("nothing is acknowledged: %q", l.failed)
		}
	}
	time.Sleep(time.Duration(rand.IntN(40_000)) * time.Microsecond)
	// What a process says after this does not count: a sync that is under way when the
	// power goes can still report success, to a program that has no power to hear it.
	known := l.acknowledged()
	disk.Cut()
	for _, c := range children {
		c.kill()
	}
	children = nil
	disk.Remount()

	st, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	k, err := checkpoint.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := k.Get(t.Context(), "k", nil)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	if err := k.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return aftermath{known, l.tried, c.Sequence, len(l.advanced), err}
}
