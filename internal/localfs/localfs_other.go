//go:build !linux && !darwin && !windows

package localfs

import "os"

func check(dir string) (string, bool, error) {
	if _, err := os.Stat(dir); err != nil {
		return "", false, err
	}
	return "unknown file system", false, nil
}
