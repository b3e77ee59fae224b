package moving

import (
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/jsontest"
)

// The JSON that programs read stays as it is.
func TestJSON(t *testing.T) {
	jsontest.Golden(t, map[string]any{
		"copy": view{
			From: "file:/a", To: "file:/b", Locks: []lockView{{Name: "jobs/nightly", Token: 1795220270042317, Changed: true}},
			Checkpoints: []checkpointView{{Key: "orders", Status: "behind", Sequence: 17, Present: 20}}, NotCopied: 3,
		},
		"empty": view{From: "file:/a", To: "file:/b", DryRun: true, Locks: []lockView{}, Checkpoints: []checkpointView{}},
	})
}
