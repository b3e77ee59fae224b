// Package powercut tests which data survives a power cut. It creates a small file system in a file and
// mounts it. Then it shuts the file system down, as if the machine had lost its power. Data that was not
// flushed to the disk is lost.
//
// It needs Linux, the right to mount (root, and loop devices), and mkfs.ext4 or mkfs.xfs (packages
// e2fsprogs and xfsprogs). If one of these is missing, a test that needs a disk is skipped, with the
// reason. With CI=true in the environment the test fails, unless only the kernel lacks the file system.
//
// # What it shows, and what not
//
// The package uses a call that the file systems have for this purpose: EXT4_IOC_SHUTDOWN or
// XFS_IOC_GOINGDOWN, without a flush of the journal. After this call, no more data reaches the file. The
// next mount recovers the file system from the data in the file. So a missing fsync of a file or of a
// directory loses data. The call does not lose data that the kernel has already written to the disk
// without a flush. It also does not simulate a disk that reorders the writes in its cache.
package powercut

import (
	"os/exec"
	"testing"
)

// FileSystems are the file systems that this package can cut off.
func FileSystems() []string { return []string{"ext4", "xfs"} }

// Disk is a separate file system, which is mounted while its power is on.
type Disk struct {
	t       testing.TB
	fstype  string
	image   string
	dir     string
	mounted bool
}

// New creates a disk with an empty file system, and mounts it. When the test ends, New unmounts the disk.
// If New cannot create a disk, the test is skipped or fails; see the package comment.
func New(t testing.TB, fstype string) *Disk {
	t.Helper()
	return newDisk(t, fstype)
}

// Dir returns the directory where the disk is mounted. The directory is empty at first, and every user
// may write to it.
func (d *Disk) Dir() string { return d.dir }

// Freeze(true) blocks all writes to the disk until Freeze(false).
func (d *Disk) Freeze(frozen bool) { d.setFrozen(frozen) }

// Cut cuts the power: every operation on the disk fails from now on. If processes use the
// disk, call [Disk.CutUnder] instead.
func (d *Disk) Cut() {
	d.t.Helper()
	d.cut()
}

// CutUnder cuts the power while processes use the disk. It first stops the processes, at whatever point
// they are. They stay stopped until they are killed. The kernel continues after this kind of cut. So a
// running sync could report a false success, which cannot happen on a real machine. What a process wrote
// to other disks, it wrote before the cut.
func (d *Disk) CutUnder(procs ...*exec.Cmd) {
	d.t.Helper()
	for _, cmd := range procs {
		freeze(d.t, cmd.Process)
	}
	d.cut()
}

// Remount restores the power, after a Cut or without a Cut. No file of the disk may be open: processes
// that used it must have ended, and stores must be closed.
func (d *Disk) Remount() {
	d.t.Helper()
	d.unmount()
	d.mount()
}
