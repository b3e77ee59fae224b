package command

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// What cannot be written to a full disk is named as the user has named it, and nothing is left of it:
// no empty report, nor an old one.
func TestFilesOnAFullDisk(t *testing.T) {
	suitetest.NeedRoot(t, "a mount")
	t.Parallel()
	p, store := newPlaceOfFiles(t)
	disk, file := filepath.Join(p.dir, "disk"), filepath.Join(p.dir, "file")
	bucket := "file:" + filepath.Join(p.dir, "bucket") + "/key"
	if err := errors.Join(os.Mkdir(disk, 0o700), os.WriteFile(file, make([]byte, 1<<20), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "mode=0700,size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	p.must(t, store, "put", file, bucket)
	p.must(t, store, "run", "job", "--report", "disk/old", "--", "true")
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 8<<10) // what removing the old report frees is too little for it
	for name, args := range map[string][]string{
		"new": {"run", "job", "--report", "disk/new", "--", "true", long}, "old": {"run", "job", "--report", "disk/old", "--", "true", long},
		"copy": {"get", bucket, "disk/copy"}, "part": {"get", bucket, "disk/part", "--length", "100000"},
	} {
		_, said, status := p.run(t, store, args...)
		if status != exit.Failed || !strings.Contains(said, " disk/"+name+": no space left on device") {
			t.Errorf("%s: status %d: %s", name, status, said)
		}
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) != 1 {
		t.Errorf("on the disk are %v, %v", left, err)
	}
}

// On a full disk, whose reads are answered, a run that waits says after a few seconds what is wrong,
// and ends with the status of a store that cannot be reached; or continues if there is room again.
func TestRunOnAFullDisk(t *testing.T) {
	suitetest.NeedRoot(t, "a mount")
	t.Parallel()
	bin := holdfastBinary(t)
	for _, roomAgain := range []bool{true, false} {
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size=256k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		run := func(name string) *exec.Cmd {
			cmd := exec.Command(bin, "run", name, "--", "true")
			cmd.Env = environ(dir, "HOME="+t.TempDir())
			return cmd
		}
		if said, err := run("earlier").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		filler := filepath.Join(dir, "filler")
		if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		cmd := run("job") // the last page of the other lock has room
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := time.AfterFunc(2*leases.UnresponsiveTimeout, func() { _ = cmd.Process.Kill() })
		defer killed.Stop()
		lines := bufio.NewReader(errs)
		first, _ := lines.ReadString('\n')
		if took := time.Since(began); !strings.Contains(first, "no space left on device; holdfast tries again for up to") || took > leases.UnresponsiveTimeout/2 {
			t.Errorf("after %v it says %q", took, first)
		}
		if roomAgain {
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
		}
		rest, _ := io.ReadAll(lines)
		_ = cmd.Wait()
		status, took := cmd.ProcessState.ExitCode(), time.Since(began)
		switch {
		case roomAgain && (status != exit.OK || took > leases.UnresponsiveTimeout):
			t.Errorf("with room again, status %d after %v: %s", status, took, rest)
		case !roomAgain && (status != exit.Unreachable || took < leases.UnresponsiveTimeout || !strings.Contains(string(rest), "no space left on device\n")):
			t.Errorf("status %d after %v: %s", status, took, rest)
		}
	}
}
