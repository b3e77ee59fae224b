package sample

import "testing"

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
