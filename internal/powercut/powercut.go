// Package powercut tests what survives the loss of power: it makes a small file system in
// a file, mounts it, and cuts it off, as if the machine had lost its power at that
// moment. Everything that was not flushed to the disk is lost.
//
// It needs Linux, the right to mount (root, and loop devices), and mkfs.ext4 or
// mkfs.xfs (packages e2fsprogs and xfsprogs). Where these are missing a test that
// asks for a disk is skipped, with the reason; but with CI=true in the environment
// it fails, unless the kernel does not have the file system.
//
// # What it shows, and what not
//
// The cut is the file systems' own (EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN), without a
// flush of the log: after it nothing more reaches the file, and the next mount
// recovers what is there. So a missing fsync of a file or of a directory loses
// data. The cut loses nothing that was written back on its own before, and does not
// reorder what the disk itself holds in its cache.
package powercut

import (
	"os/exec"
	"testing"
)

// FileSystems are the file systems that can be cut off.
func FileSystems() []string { return []string{"ext4", "xfs"} }

// Disk is a separate file system, mounted while it has power.
type Disk struct {
	t       testing.TB
	fstype  string
	image   string
	dir     string
	mounted bool
}

// New makes a disk with an empty file system, and mounts it. It is unmounted when
// the test ends. If no disk can be made here, the test is skipped or fails; see the
// package.
func New(t testing.TB, fstype string) *Disk {
	t.Helper()
	return newDisk(t, fstype)
}

// Dir returns the directory where the disk is mounted. It is empty at first, and
// all may write to it.
func (d *Disk) Dir() string { return d.dir }

// Freeze makes all writes to the disk wait, until it is called with false.
func (d *Disk) Freeze(frozen bool) { d.setFrozen(frozen) }

// Cut cuts the power: every operation on the disk fails from now on. If processes use the
// disk, call [Disk.CutUnder] instead.
func (d *Disk) Cut() {
	d.t.Helper()
	d.cut()
}

// CutUnder cuts the power while processes use the disk. It stops the processes first,
// wherever they are, and they stay stopped until they are killed. The system continues
// after this kind of cut, so a running sync could be reported as a false success, which
// cannot happen on a real machine. Everything that a process wrote elsewhere was written
// before the cut.
func (d *Disk) CutUnder(procs ...*exec.Cmd) {
	d.t.Helper()
	for _, cmd := range procs {
		freeze(d.t, cmd.Process)
	}
	d.cut()
}

// Remount restores the power, after a Cut or without one. No file of the disk may be
// open: processes that used it must have ended, and stores must be closed.
func (d *Disk) Remount() {
	d.t.Helper()
	d.unmount()
	d.mount()
}
