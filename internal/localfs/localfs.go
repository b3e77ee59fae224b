// Package localfs decides whether a directory lies on a file system that this
// machine alone writes to.
//
// Exclusive locks, atomic appends and a rename that survives a power cut are
// promised by local file systems. Some shared ones grant the same flock twice,
// split one append into two, or answer from a cache that another machine has
// outdated. So what is not known to be local counts as not local: NFS, SMB, CIFS,
// 9p, every FUSE file system (it can be anything, a network one too), cluster file
// systems, and all names that are not on the list.
//
// The list is a statement about kinds, not about one disk: a disk that lies about
// flushing is found by nobody here.
package localfs

// Check tells on which kind of file system the directory dir lies, by a short name
// for people ("ext", "xfs", "nfs"), and whether that kind is local. It follows
// symbolic links. An error means that the question could not be asked (dir does
// not exist, say); local is then false.
//
// Linux and macOS answer through statfs, Windows through the volume's type and
// name. On other systems no kind is known, and nothing counts as local.
func Check(dir string) (kind string, local bool, err error) {
	return check(dir)
}
