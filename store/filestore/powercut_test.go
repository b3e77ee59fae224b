//go:build linux

package filestore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/powercut"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestPowerCut: acknowledged writes survive, each log can be read, and work continues after
// the cut.
func TestPowerCut(t *testing.T) {
	cuts := 3
	if torture {
		cuts = 250
	}
	swept := 0
	for _, fstype := range powercut.FileSystems() {
		for _, mode := range []string{"tiny", "plain"} {
			t.Run(fstype+" "+mode, func(t *testing.T) {
				d := powercut.New(t, fstype)
				dir := t.TempDir()
				const keys = 6
				var sum tally
				for cut := range cuts {
					sum = cutFight(t, d, dir, cut, keys, mode)
					if t.Failed() {
						t.Fatalf("cut %d", cut+1)
					}
				}
				t.Logf("%d cuts, all durable writes found: %+v", cuts, sum)
				swept += sum.swept
				if sum.acked == 0 {
					t.Error("nothing was written")
				}
			})
		}
	}
	if swept == 0 {
		t.Error("nothing was swept")
	}
}

// cutFight lets processes work until the power goes, and compares what is left with
// what they wrote down elsewhere.
func cutFight(t *testing.T, d *powercut.Disk, dir string, cut, keys int, mode string) tally {
	storeDir := filepath.Join(d.Dir(), "var/lib/store")
	var running []*exec.Cmd
	for i := range 3 {
		running = append(running, startFighter(t, dir, storeDir, 3*cut+i, keys, mode))
	}
	awaitWrites(t, dir, fmt.Sprintf("w%d", 3*cut))
	time.Sleep(time.Duration(rand.IntN(250)) * time.Millisecond)
	d.CutUnder(running...)
	for _, cmd := range running {
		kill(cmd)
	}
	d.Remount()
	// Unsynced writes may be lost, so earlier states may no longer be true. No durable
	// number is used again.
	floors, err := mapFloors(filepath.Join(dir, "floors"), 2*keys)
	if err != nil {
		t.Fatal(err)
	}
	histories, _ := readDiaries(t, dir, keys, true)
	for key, h := range histories {
		floors[key].Store(h.top)
		floors[keys+key].Store(h.top)
	}
	s, err := filestore.Open(storeDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return lastValues(t, s, dir, keys, true)
}

// TestNoDirSyncLoses is the control: without syncs of the directories an acknowledged write
// is lost.
func TestNoDirSyncLoses(t *testing.T) {
	for _, fstype := range powercut.FileSystems() {
		t.Run(fstype, func(t *testing.T) {
			d := powercut.New(t, fstype)
			if !survives(t, d, filepath.Join(d.Dir(), "synced"), nil) {
				t.Error("an acknowledged register is lost")
			}
			if survives(t, d, filepath.Join(d.Dir(), "unsynced"), filestore.NoDirSync()) {
				t.Error("without the syncs it is there all the same: this proves nothing")
			}
		})
	}
}

// survives reports whether a register is there after a power cut.
func survives(t *testing.T, d *powercut.Disk, dir string, opts *filestore.Options) bool {
	t.Helper()
	s, err := filestore.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "key", "", []byte("value")); err != nil {
		t.Fatal(err)
	}
	d.Cut()
	if _, err := s.Put(t.Context(), "late", "", nil); store.OutcomeOf(err) == store.Applied {
		t.Error("a write without power succeeded")
	}
	s.Close() // it may fail, since the disk has no power
	d.Remount()
	if s, err = filestore.Open(dir, nil); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	value, _, err := s.Get(t.Context(), "key")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	return string(value) == "value"
}
