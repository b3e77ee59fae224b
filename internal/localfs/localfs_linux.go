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

// classify names the magic numbers of statfs(2).
func classify(magic uint32) (kind string, local bool) {
	switch magic {
	// Local: one kernel holds the locks and the cache.
	case 0xef53:
		return "ext", true // ext2, ext3 and ext4 share the number
	case 0x58465342:
		return "xfs", true
	case 0x9123683e:
		return "btrfs", true
	case 0x01021994:
		return "tmpfs", true
	case 0x858458f6:
		return "ramfs", true
	case 0x794c7630:
		return "overlay", true // its writable layer cannot be a network file system
	case 0xf2f52010:
		return "f2fs", true
	case 0x2fc12fc1:
		return "zfs", true
	case 0xca451a4e:
		return "bcachefs", true
	case 0x3153464a:
		return "jfs", true
	case 0x5346544e, 0x7366746e:
		return "ntfs", true // the kernel's drivers; ntfs-3g is FUSE

	// Not local, or not known to be. They are named for the sake of the message.
	case 0x6969:
		return "nfs", false
	case 0x517b:
		return "smb", false
	case 0xff534d42:
		return "cifs", false
	case 0xfe534d42:
		return "smb2", false
	case 0x01021997:
		return "9p", false
	case 0x65735546:
		return "fuse", false // virtiofs too
	case 0x5346414f, 0x6b414653:
		return "afs", false
	case 0x73757245:
		return "coda", false
	case 0x00c36400:
		return "ceph", false
	case 0x01161970:
		return "gfs2", false
	case 0x7461636f:
		return "ocfs2", false
	case 0x0bd00bd0:
		return "lustre", false
	case 0x47504653:
		return "gpfs", false
	case 0x19830326:
		return "beegfs", false
	case 0x786f4256:
		return "vboxsf", false
	case 0xbacbacbc:
		return "vmhgfs", false
	case 0x4d44:
		return "fat", false // no journal: a rename is not atomic over a power cut
	case 0x2011bab0:
		return "exfat", false
	}
	return fmt.Sprintf("file system 0x%x", magic), false
}
