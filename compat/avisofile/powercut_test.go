//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/powercut"
)

// cutPower lets two processes of the role write to the disk, takes the power away,
// and gives it back.
func cutPower(t *testing.T, d *powercut.Disk, role string, acked acknowledged) {
	t.Helper()
	path := filepath.Join(d.Dir(), "state.json")
	var wg sync.WaitGroup
	var writers []*exec.Cmd
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	for i := range 2 {
		cmd := command(t, role, nil, path, fmt.Sprint(3*i), "3")
		out, err := cmd.StdoutPipe()
		do(t, err)
		do(t, cmd.Start())
		writers = append(writers, cmd)
		wg.Go(func() { acked.read(out, begin) }) // its errors come from the power cut
	}
	select {
	case <-begun:
	case <-time.After(20 * time.Second):
		t.Error("nothing was acknowledged")
	}
	time.Sleep(rand.N(100 * time.Millisecond))
	d.Cut()
	// A writer that still runs must not acknowledge anything.
	time.Sleep(2 * time.Millisecond)
	for _, cmd := range writers {
		_ = cmd.Process.Kill() // it may have ended by itself
	}
	wg.Wait()
	for _, cmd := range writers {
		_ = cmd.Wait()
	}
	d.Remount()
}

// TestPowerCuts takes the power away from a disk while processes write: what was
// acknowledged is there afterwards, and the file is whole.
func TestPowerCuts(t *testing.T) {
	cuts := 3
	if torture() {
		cuts = 500
	}
	for _, fstype := range powercut.FileSystems() {
		t.Run(fstype, func(t *testing.T) {
			d := powercut.New(t, fstype)
			acked := newAcknowledged()
			for range cuts {
				cutPower(t, d, "writers", acked)
				acked.check(t, filepath.Join(d.Dir(), "state.json"))
			}
			total := uint64(0)
			for _, sequence := range acked.sequences.copy() {
				total += sequence
			}
			t.Logf("%d cuts, %d positions were acknowledged", cuts, total)
		})
		t.Run(fstype+", control", func(t *testing.T) {
			d := powercut.New(t, fstype)
			acked := newAcknowledged()
			for range 5 {
				cutPower(t, d, "careless", acked)
				raw, err := loadPeer(filepath.Join(d.Dir(), "state.json"))
				if err != nil {
					return // torn
				}
				for key, sequence := range acked.sequences.copy() {
					if raw[key].Sequence < sequence {
						return // lost
					}
				}
			}
			t.Error("nothing was lost without a sync")
		})
	}
}

// careless is a writer that leaves the syncs out.
func careless(path string) {
	for seq := uint64(1); ; seq++ {
		b, err := encodePeer(map[string]mark{resumeKey("k"): {Sequence: seq}})
		if err == nil {
			err = os.WriteFile(path+".new", b, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			fmt.Println("err", err)
			return
		}
		fmt.Println("ack k", seq)
	}
}
