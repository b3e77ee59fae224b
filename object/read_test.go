package object_test

import (
	"math"
	"testing"

	"github.com/holdfast-go/holdfast/object/membucket"
)

// TestLargestLimit: the largest limit that there is reads the whole body.
func TestLargestLimit(t *testing.T) {
	c := newClient(t, membucket.New(), nil)
	if _, err := c.Put(t.Context(), "a", body("precious"), nil); err != nil {
		t.Fatal(err)
	}
	if text, _, err := c.ReadAll(t.Context(), "a", math.MaxInt64, nil); string(text) != "precious" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
}
