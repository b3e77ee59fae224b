package moving

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestRemovedMeanwhile: a lock that was removed from the old store during the copy is a use of that store.
func TestRemovedMeanwhile(t *testing.T) {
	from := memstore.New()
	client, err := lease.New(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	c := &copier{from: &side{Client: leases.Client{Client: client, Store: stores.Opened{Store: from}}}, progress: func(string) {}}
	if err := c.unused(t.Context(), map[string]string{}); err != nil {
		t.Errorf("an empty store: %v", err)
	}
	if err := c.unused(t.Context(), map[string]string{lockDir + "gone": "v"}); !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a lock was removed: %v", err)
	}
}
