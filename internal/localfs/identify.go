package localfs

import (
	"fmt"
	"io/fs"
)

// Identify returns a text that identifies a file or directory: its inode and its time of birth. Both stay
// the same as long as the file exists, and a copy has other values. The text does not contain the path,
// because the path differs between containers, and through links and bind mounts. It contains the device
// number only if the file system has no time of birth, because a reboot can change this number. On
// Windows, the text is the path without symbolic links. A clone of a whole disk has the same texts as the
// disk.
func Identify(path string, info fs.FileInfo) (string, error) {
	id, err := identify(path, info)
	if err != nil {
		return "", fmt.Errorf("cannot identify the file %s: %w", path, err)
	}
	return "file:" + id, nil
}
