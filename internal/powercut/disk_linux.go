package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

const (
	// shutdownRequest is _IOR('X', 125, __u32), of ext4 and XFS alike.
	shutdownRequest = 0x8004587D

	// noLogFlush is the flag for a shutdown that leaves the log as it is on the disk.
	noLogFlush = 2
)

// makers has the command that makes each file system, and the least size in bytes.
var makers = map[string]struct {
	command []string
	size    int64
}{
	"ext4": {[]string{"mkfs.ext4", "-q", "-F"}, 48 << 20},
	"xfs":  {[]string{"mkfs.xfs", "-q", "-f"}, 300 << 20},
}

func newDisk(t testing.TB, fstype string) *Disk {
	t.Helper()
	maker, ok := makers[fstype]
	if !ok {
		t.Fatalf("powercut: no file system is called %q", fstype)
	}
	suitetest.NeedRoot(t, "a mount of a disk")
	mkfs := suitetest.NeedProgram(t, maker.command[0])
	base, err := filepath.EvalSymlinks(t.TempDir()) // as the system names the image
	if err != nil {
		t.Fatal(err)
	}
	d := &Disk{t: t, fstype: fstype, image: filepath.Join(base, "image"), dir: filepath.Join(base, "disk")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, maker.size); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), mkfs, append(maker.command[1:], d.image)...).CombinedOutput(); err != nil {
		t.Fatalf("powercut: %s: %v\n%s", maker.command[0], err, out)
	}
	t.Cleanup(d.unmount)
	d.mount()
	if err := os.Chmod(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if fstype == "ext4" {
		if err := os.Remove(filepath.Join(d.dir, "lost+found")); err != nil {
			t.Fatal(err)
		}
	}
	// The system call sync would flush the disks of other tests too, and they would lose nothing in their cut.
	if err := safefile.SyncDir(d.dir); err != nil {
		d.t.Fatal(err)
	}
	return d
}

func (d *Disk) mount() {
	d.t.Helper()
	d.awaitDetached()
	out, err := exec.Command("mount", "-t", d.fstype, "-o", "loop", d.image, d.dir).CombinedOutput()
	if err == nil {
		d.mounted = true
		return
	}
	text := strings.TrimSpace(string(out))
	if !known(d.fstype) {
		suitetest.Missing(d.t, fmt.Sprintf("no power can be cut here: the kernel has no %s: %s", d.fstype, text))
	}
	if strings.Contains(text, "loop") || strings.Contains(text, "permitted") || strings.Contains(text, "denied") {
		suitetest.Missing(d.t, "no power can be cut here: "+text)
	}
	d.t.Fatalf("powercut: mount: %v: %s", err, text)
}

// awaitDetached waits until no loop device has the image. An unmount leaves the disk mounted
// in the mount namespaces that other processes have cloned (unshare). A mount would then
// return the file system of before, which has no power.
func (d *Disk) awaitDetached() {
	d.t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		attached := ""
		devices, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
		for _, device := range devices {
			if image, err := os.ReadFile(device); err == nil && strings.TrimSpace(string(image)) == d.image {
				attached = device
			}
		}
		if attached == "" {
			return
		}
		if time.Now().After(limit) {
			d.t.Fatalf("powercut: another process keeps the disk for a minute: %s", attached)
		}
	}
}

// known reports whether the kernel has a file system; a mount that was tried has
// loaded its module.
func known(fstype string) bool {
	list, err := os.ReadFile("/proc/filesystems")
	return err != nil || bytes.Contains(list, []byte("\t"+fstype+"\n"))
}

func (d *Disk) cut() {
	d.t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	flag := uint32(noLogFlush)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdownRequest, uintptr(unsafe.Pointer(&flag)))
	if errno != 0 {
		d.t.Fatalf("powercut: shutdown: %v", errno)
	}
}

func (d *Disk) unmount() {
	if !d.mounted {
		return
	}
	var err error
	for range 100 {
		err = syscall.Unmount(d.dir, 0)
		if !errors.Is(err, syscall.EBUSY) {
			break
		}
		time.Sleep(20 * time.Millisecond) // a killed process does not end at once
	}
	if err != nil {
		d.t.Errorf("powercut: unmount: %v (is a file still open?)", err)
		return
	}
	d.mounted = false
}

// freeze stops a process, and waits until none of its threads runs. A thread that is in a
// system call may finish that, and stops before it can report the result.
func freeze(t testing.TB, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return // it has ended
	}
	for range 1000 {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid))
		if err != nil {
			t.Fatal(err)
		}
		running := false
		for _, task := range tasks {
			text, _ := os.ReadFile(task) // a thread may have ended
			_, rest, _ := strings.Cut(string(text), ") ")
			running = running || strings.HasPrefix(rest, "R") || strings.HasPrefix(rest, "S")
		}
		if !running {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("powercut: process %d does not stop", p.Pid)
}

func (d *Disk) setFrozen(frozen bool) {
	d.t.Helper()
	const fifreeze, fithaw = 0xC0045877, 0xC0045878
	dir, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer dir.Close()
	op := uintptr(fithaw)
	if frozen {
		op = fifreeze
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), op, 0); errno != 0 {
		d.t.Fatalf("freeze %t: %v", frozen, errno)
	}
}
