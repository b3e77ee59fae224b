package allstores

import (
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// TestDriversAreComplete: each kind of store has a driver, and the driver opens what the help says.
func TestDriversAreComplete(t *testing.T) {
	drivers := Drivers()
	if len(drivers) != len(stores.Schemes()) {
		t.Errorf("%d drivers, %d schemes", len(drivers), len(stores.Schemes()))
	}
	for _, s := range stores.Schemes() {
		d := drivers[s.Name]
		if d == nil || d.Open == nil || (d.OpenBucket == nil) != (s.ObjectForm == "") || (d.Tables == nil) != (s.TableForm == "") {
			t.Errorf("%s: the driver is not complete: %+v", s.Name, d)
		}
	}
}
