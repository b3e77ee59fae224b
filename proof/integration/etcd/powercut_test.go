package etcd_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/powercut"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// TestEtcdPowerCut: a power cut loses no acknowledged write.
func TestEtcdPowerCut(t *testing.T) {
	t.Parallel()
	disk := powercut.New(t, "xfs") // etcd needs more space than the disks of ext4 have
	server := servers.NewEtcdIn(t, disk.Dir())
	st := open(t, "etcd://"+server.Address()+"/app")
	const keys = 20
	for i := range keys {
		if _, err := st.Put(t.Context(), fmt.Sprint("key-", i), "", []byte("held")); err != nil {
			t.Fatal(err)
		}
	}
	disk.Cut()
	server.Kill()
	disk.Remount()
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := open(t, "etcd://"+server.Address()+"/app")
	for i := range keys {
		if value, _, err := again.Get(t.Context(), fmt.Sprint("key-", i)); err != nil || string(value) != "held" {
			t.Errorf("key %d: %q, %v", i, value, err)
		}
	}
	server.Kill() // before the disk is unmounted
}
