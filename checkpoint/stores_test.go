package checkpoint_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// kinds are the keepers, each as a function that opens another handle on the same
// checkpoints at every call. The worker's loop and the command know no difference.
func kinds(t *testing.T) map[string]func() checkpoint.Store {
	mem := memstore.New()
	disk, err := filestore.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disk.Close() })
	shared, err := store.Prefix(disk, "team/a")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]func() checkpoint.Store{
		"memory": func() checkpoint.Store { return open(t, mem, nil) },
		"file":   func() checkpoint.Store { return open(t, disk, nil) },
		"prefix": func() checkpoint.Store { return open(t, shared, nil) },
	}
}

func TestStores(t *testing.T) {
	for name, open := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			checkpointtest.Run(t, func(*testing.T) checkpoint.Store { return open() }, nil)
		})
	}
}
