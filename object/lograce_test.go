package object_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
)

// TestReadDuringAppendAndTrim: a reader looks for the next entry, which is not there yet.
// Before it looks at the floor, the entry is appended and becomes the first one of the log.
// That is no damage: the reader finds the entry.
func TestReadDuringAppendAndTrim(t *testing.T) {
	m := membucket.New()
	writer := newLog(t, m)
	fill(t, writer, 3)
	again := func(n uint64) {
		if _, err := writer.Append(t.Context(), n-1, []byte{'0' + byte(n)}); err != nil {
			t.Error(err)
		}
		if err := writer.Trim(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
	next := uint64(4)
	b := objecttest.NewFaulty(m, func(c objecttest.Call) objecttest.Fault {
		if c.Key == "log/floor" && next == 4 {
			again(next)
			next++
		}
		return 0
	})
	if bodies, err := readLog(t, newLog(t, b), 4); err != nil || !slices.Equal(bodies, []string{"4"}) {
		t.Errorf("got %q, %v", bodies, err)
	}
}
