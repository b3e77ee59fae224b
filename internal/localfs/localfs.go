// Package localfs decides whether a directory is on a file system that this
// machine alone writes to.
//
// Exclusive locks, atomic appends and a rename that survives a power cut are
// promised by local file systems. Some shared ones grant the same flock twice,
// split one append into two, or answer from a cache that another machine has
// outdated. So what is not known to be local counts as not local: NFS, SMB, CIFS,
// 9p, every FUSE file system (it can be anything, a network one too), cluster file
// systems, and all names that are not on the list.
//
// The list is about kinds of file systems, not about single disks: this package cannot
// detect a disk that ignores flushes.
package localfs

// Check returns the kind of the file system of the directory dir, as a short name for
// people ("ext", "xfs", "nfs"), and whether that kind is local. It follows symbolic
// links. An error means that the system did not answer (dir does not exist, for example);
// local is then false.
//
// Linux and macOS answer through statfs, Windows through the volume's type and
// name. On other systems no kind is known, and nothing counts as local.
func Check(dir string) (kind string, local bool, err error) {
	return check(dir)
}
