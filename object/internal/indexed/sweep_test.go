package indexed

import (
	"crypto/rand"
	"testing"
)

// TestNames: a set of names has each that was added, and few others.
func TestNames(t *testing.T) {
	n := newNames()
	added := make([]string, 200_000)
	for i := range added {
		added[i] = rand.Text()
		n.add(added[i])
	}
	for _, name := range added {
		if !n.has(name) {
			t.Fatalf("%s is missing", name)
		}
	}
	others := 0
	for range added {
		if n.has(rand.Text()) {
			others++
		}
	}
	if others > len(added)/1000 {
		t.Errorf("%d of %d others are taken for names that were added", others, len(added))
	}
}
