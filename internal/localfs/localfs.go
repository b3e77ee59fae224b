// Package localfs decides whether a directory is on a local file system. Only this machine writes to a
// local file system.
//
// Only local file systems promise exclusive locks, atomic appends, and renames that survive a power cut.
// Some shared file systems grant the same flock to two processes, or split one append into two. Others
// answer from an old cache after another machine has changed the file. If the package does not know that
// a file system is local, it reports the file system as not local: NFS, SMB, CIFS, 9p, cluster file
// systems, and every FUSE file system, because it can be a network file system, too.
//
// The package knows only kinds of file systems, not disks. It cannot detect a disk that ignores flushes.
package localfs

// Check returns the kind of the file system of the directory dir, as a short name for people ("ext",
// "xfs", "nfs"), and whether that kind is local. It follows symbolic links. If the system does not
// answer, for example because dir does not exist, Check returns an error, and local is false.
//
// Check uses statfs on Linux and macOS, and the type and name of the volume on Windows. On other systems,
// no file system is known to be local.
func Check(dir string) (kind string, local bool, err error) {
	return check(dir)
}
