//go:build unix

package localfs_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Another file is another one, also where it has got the inode of the first.
func TestIdentifyAgain(t *testing.T) {
	two := filepath.Join(t.TempDir(), "two")
	write(t, two)
	first := identify(t, two)
	if err := os.Remove(two); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // births have the resolution of the kernel's ticks
	write(t, two)                     // many file systems give it the same inode
	if now := identify(t, two); now == first {
		t.Errorf("a file that was made again has the identity %s of the earlier one", now)
	}
}
