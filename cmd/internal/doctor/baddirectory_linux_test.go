package doctor_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/store"
)

// TestBadDirectory: what is no directory, and one without rights, are errors that say
// so.
func TestBadDirectory(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := doctor.Run(t.Context(), doctor.Directory(plain, nil), nil); err == nil {
		t.Errorf("a file: %v", r)
	}
	if os.Geteuid() == 0 { // root may do everything: another user runs the rest
		base, err := os.MkdirTemp("/tmp", "doctor-test-")
		if err == nil {
			err = os.Chmod(base, 0o777)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^TestBadDirectory$")
		cmd.Dir, cmd.Env = "/", []string{"TMPDIR=" + base}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54322, Gid: 54322}}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestBadDirectory") {
			t.Errorf("as another user: %v\n%s", err, out)
		}
		return
	}
	if _, err := doctor.Run(t.Context(), doctor.Directory("/proc/nope", nil), nil); err == nil {
		t.Error("/proc: no error")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := doctor.Run(t.Context(), doctor.Directory(closed, nil), nil); !errors.Is(err, store.ErrDenied) {
		t.Errorf("a directory without rights: %v", err)
	}
}
