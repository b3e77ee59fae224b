package sample

import (
	"math/rand/v2"
	"testing"
)

func TestMax(t *testing.T) {
	t.Run("the first is larger", func(t *testing.T) {
		if Max(2, 1) != 2 {
			t.Error("Max(2, 1)")
		}
	})
	t.Run("the second is larger", func(t *testing.T) {
		if Max(1, 2) != 2 {
			t.Error("Max(1, 2)")
		}
	})
}

func TestEqual(t *testing.T) {
	if Max(1, 1) != 1 {
		t.Error("Max(1, 1)")
	}
}

// TestSomeNumber needs luck to see that the smaller number is returned.
func TestSomeNumber(t *testing.T) {
	if a := rand.IntN(2); Max(a, 0) != a {
		t.Errorf("Max(%d, 0)", a)
	}
}

func TestShapes(t *testing.T) {
	var c counter
	if sum, err := c.add(1, 2, "more"); sum != 3 || err != nil {
		t.Error(sum, err)
	}
	if got := join("%d %s", c.n, c.unit()); got != "3 apples" {
		t.Error(got)
	}
	if c.reset(); c.n != 0 {
		t.Error(c.n)
	}
	if first(1, 2) != 1 {
		t.Error("first")
	}
}
