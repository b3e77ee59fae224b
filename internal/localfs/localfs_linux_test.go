package localfs_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/localfs"
)

func TestClassify(t *testing.T) {
	// Numbers of linux/magic.h and of the file systems themselves.
	for _, tt := range []struct {
		magic uint32
		kind  string
		local bool
	}{
		{0xef53, "ext", true},
		{0x58465342, "xfs", true},
		{0x9123683e, "btrfs", true},
		{0x01021994, "tmpfs", true},
		{0x794c7630, "overlay", true},
		{0xf2f52010, "f2fs", true},
		{0x2fc12fc1, "zfs", true},
		{0x6969, "nfs", false},
		{0xff534d42, "cifs", false},
		{0xfe534d42, "smb2", false},
		{0x517b, "smb", false},
		{0x01021997, "9p", false},
		{0x65735546, "fuse", false},
		{0x12345678, "file system 0x12345678", false},
	} {
		kind, local := localfs.Classify(tt.magic)
		if kind != tt.kind || local != tt.local {
			t.Errorf("magic %#x: got %q local=%v, want %q local=%v", tt.magic, kind, local, tt.kind, tt.local)
		}
	}
}

func TestCheckFindsPseudoFileSystems(t *testing.T) {
	kind, local, err := localfs.Check("/proc")
	if err != nil || local || kind == "" {
		t.Errorf("/proc: got %q local=%v err=%v, want a name and not local", kind, local, err)
	}
}
