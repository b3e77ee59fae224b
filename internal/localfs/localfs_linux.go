package localfs

import (
	"fmt"
	"os"
	"syscall"
)

func check(dir string) (string, bool, error) {
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(dir, &st)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return "", false, &os.PathError{Op: "statfs", Path: dir, Err: err}
		}
		// The type is a signed word of the machine's size; the magic numbers have
		// 32 bits.
		kind, local := classify(uint32(st.Type))
		return kind, local, nil
	}
}

// kinds are the file systems by the magic numbers of statfs(2).
var kinds = []struct {
	magic uint32
	name  string
	local bool
}{
	// Local: one kernel holds the locks and the cache.
	{0xef53, "ext", true}, // ext2, ext3 and ext4 share the number
	{0x58465342, "xfs", true},
	{0x9123683e, "btrfs", true},
	{0x01021994, "tmpfs", true},
	{0x858458f6, "ramfs", true},
	{0x794c7630, "overlay", true}, // its writable layer cannot be a network file system
	{0xf2f52010, "f2fs", true},
	{0x2fc12fc1, "zfs", true},
	{0xca451a4e, "bcachefs", true},
	{0x3153464a, "jfs", true},
	{0x5346544e, "ntfs", true}, // the kernel's drivers; ntfs-3g is FUSE
	{0x7366746e, "ntfs", true},
	// Not local, or not known to be. They are named for the sake of the message.
	{0x6969, "nfs", false},
	{0x517b, "smb", false},
	{0xff534d42, "cifs", false},
	{0xfe534d42, "smb2", false},
	{0x01021997, "9p", false},
	{0x65735546, "fuse", false}, // virtiofs too
	{0x5346414f, "afs", false},
	{0x6b414653, "afs", false},
	{0x73757245, "coda", false},
	{0x00c36400, "ceph", false},
	{0x01161970, "gfs2", false},
	{0x7461636f, "ocfs2", false},
	{0x0bd00bd0, "lustre", false},
	{0x47504653, "gpfs", false},
	{0x19830326, "beegfs", false},
	{0x786f4256, "vboxsf", false},
	{0xbacbacbc, "vmhgfs", false},
	{0x4d44, "fat", false}, // no journal: a rename is not atomic over a power cut
	{0x2011bab0, "exfat", false},
}

// classify names a file system.
func classify(magic uint32) (kind string, local bool) {
	for _, k := range kinds {
		if k.magic == magic {
			return k.name, k.local
		}
	}
	return fmt.Sprintf("file system 0x%x", magic), false
}
