package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// TestFullDisk: a disk that is full, from the beginning or from the middle of the examination
// on, is reported as that, once. It proves nothing: neither that the store is unsafe, nor that processes
// cannot be distinguished there.
func TestFullDisk(t *testing.T) {
	suitetest.NeedRoot(t, "a mount")
	for _, from := range []string{"the store", "processes that append", "notification of changes", "presence of processes", "reading a register that was just written"} {
		t.Run(from, func(t *testing.T) {
			root := t.TempDir()
			if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "mode=0700,size=1m"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(root, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			o := doctor.Quick()
			filler := filepath.Join(root, "filler")
			o.Progress = func(what string) {
				switch what {
				case from:
					// More than there is room for.
					if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err == nil {
						t.Error("the disk is not full")
					}
				case "removing the test data of doctor":
					if err := os.Remove(filler); err != nil {
						t.Error(err)
					}
				}
			}
			r := examine(t, doctor.Directory(root, doctor.DirectoryOptions{Helper: helper("good")}.On(nil, 10)), o)
			told := 0
			for _, c := range r.Checks {
				if strings.Contains(c.Found, "no space left") {
					told++
				}
				if c.Result == doctor.Unsafe || strings.Contains(c.Found, "told apart") {
					t.Errorf("%s: %s (%s)", c.ID, c.Result, c.Found)
				}
			}
			if r.Verdict != doctor.NotProven || told != 1 {
				t.Errorf("verdict %q, told %d times, want once: %s", r.Verdict, told, text(r))
			}
			if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}
