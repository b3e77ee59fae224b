package nats_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/powercut"
	"github.com/holdfast-go/holdfast/nats/natsstore"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// TestNATSPowerCut: with sync_interval: always, a power cut loses no acknowledged write. The control: by
// default, it does.
func TestNATSPowerCut(t *testing.T) {
	t.Parallel()
	for _, always := range []bool{false, true} {
		t.Run(fmt.Sprint("always=", always), func(t *testing.T) {
			t.Parallel()
			disk := powercut.New(t, "ext4")
			config := "jetstream { store_dir: \"DIR\" }\n"
			if always {
				config = "jetstream { store_dir: \"DIR\", sync_interval: always }\n"
			}
			server := servers.NewNATSIn(t, disk.Dir(), config)
			bucket := newBucket(t, server.Address(), 1)
			st := open(t, "nats://"+server.Address()+"/"+bucket)
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
			lost := 0
			again, err := natsstore.Open(t.Context(), "nats://"+server.Address()+"/"+bucket, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			for i := range keys {
				if _, _, err := again.Get(t.Context(), fmt.Sprint("key-", i)); err != nil {
					lost++
				}
			}
			server.Kill() // before the disk is unmounted
			t.Logf("%d of %d acknowledged writes were lost", lost, keys)
			if (lost > 0) == always {
				t.Errorf("%d of %d acknowledged writes were lost", lost, keys)
			}
		})
	}
}
