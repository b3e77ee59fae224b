package powercut_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/powercut"
)

// A process in a mount namespace of its own, which another test started, keeps the disk
// mounted there. The disk comes back as it was cut only when that process has ended.
func TestCutWithAnotherNamespace(t *testing.T) {
	for _, fstype := range powercut.FileSystems() {
		t.Run(fstype, func(t *testing.T) {
			t.Parallel()
			d := powercut.New(t, fstype)
			name := filepath.Join(d.Dir(), "safe")
			if err := os.WriteFile(name, []byte("safe"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("sync", "--file-system", name).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			other := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", "echo up; exec sleep 1")
			up, err := other.StdoutPipe()
			if err == nil {
				err = other.Start()
			}
			if err == nil {
				_, err = bufio.NewReader(up).ReadString('\n')
			}
			if err != nil {
				t.Fatal(err)
			}
			d.Cut()
			d.Remount()
			if data, err := os.ReadFile(name); string(data) != "safe" {
				t.Errorf("after the cut: %q, %v", data, err)
			}
			if err := other.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
