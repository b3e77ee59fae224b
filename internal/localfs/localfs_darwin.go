package localfs

import (
	"os"
	"syscall"
)

// mntLocal is MNT_LOCAL: the file system is stored on this machine.
const mntLocal = 0x1000

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
		var name []byte
		for _, c := range st.Fstypename {
			if c == 0 {
				break
			}
			name = append(name, byte(c))
		}
		kind := string(name)
		switch kind {
		case "apfs", "hfs", "zfs", "tmpfs":
			return kind, st.Flags&mntLocal != 0, nil
		}
		return kind, false, nil
	}
}
