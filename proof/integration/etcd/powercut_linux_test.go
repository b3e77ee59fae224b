package etcd_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/powercut"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// TestEtcdPowerCut: a power cut loses no acknowledged write. The control: if the server does not sync its files, as
// with --unsafe-no-fsync, a power cut does.
func TestEtcdPowerCut(t *testing.T) {
	t.Parallel()
	for _, syncs := range []bool{true, false} {
		t.Run(fmt.Sprint("syncs=", syncs), func(t *testing.T) {
			t.Parallel()
			disk := powercut.New(t, "xfs") // etcd needs more space than the disks of ext4 have
			start := servers.NewEtcdWithoutSync
			if syncs {
				start = func(t testing.TB, dir string) *servers.Etcd { return servers.NewEtcdIn(t, dir) }
			}
			server := start(t, disk.Dir())
			st := open(t, "etcd://"+server.Address()+"/app")
			put := func(key string) {
				t.Helper()
				if _, err := st.Put(t.Context(), key, "", []byte("held")); err != nil {
					t.Fatal(err)
				}
			}
			put("before")
			syncDisk(t, disk.Dir()) // else the server may find half of its files, and not start again
			const keys = 20
			for i := range keys {
				put(fmt.Sprint("key-", i))
			}
			disk.Cut()
			server.Kill()
			disk.Remount()
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			again := open(t, "etcd://"+server.Address()+"/app")
			held := func(key string) bool {
				value, _, err := again.Get(t.Context(), key)
				return err == nil && string(value) == "held"
			}
			lost := 0
			for i := range keys {
				if !held(fmt.Sprint("key-", i)) {
					lost++
				}
			}
			before := held("before")
			server.Kill() // before the disk is unmounted
			t.Logf("%d of %d acknowledged writes were lost", lost, keys)
			if (lost == 0) != syncs || !before {
				t.Errorf("%d of %d acknowledged writes were lost; the write before them is there: %v", lost, keys, before)
			}
		})
	}
}

// syncDisk writes to the disk what the kernel has of a file system.
func syncDisk(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
}
