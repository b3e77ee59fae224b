package localfs

import (
	"fmt"
	"io/fs"
)

// Identify identifies a file or directory by what lasts as long as it does, and what a copy
// does not have: its inode and the time of its birth. Neither its path counts, which differs
// between containers and through links and bind mounts, nor the number of the device, which
// a reboot can change. Where the file system has no time of birth, the device does count. Windows
// knows a file by its path without links. A clone of a whole disk is not distinguished.
func Identify(path string, info fs.FileInfo) (string, error) {
	id, err := identify(path, info)
	if err != nil {
		return "", fmt.Errorf("cannot identify the file %s: %w", path, err)
	}
	return "file:" + id, nil
}
