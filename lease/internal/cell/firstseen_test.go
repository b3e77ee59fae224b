package cell

import (
	"strconv"
	"testing"
)

// What a client keeps of locks is bounded. It forgets some of them, but not those that it uses all the
// time.
func TestRecentsAreBounded(t *testing.T) {
	var r Recents[int]
	r.Put("used", -1)
	for i := range 2*maxRecent + 100 {
		r.Put(strconv.Itoa(i), i)
		if i%1000 == 0 {
			r.Get("used")
		}
	}
	if n := len(r.young) + len(r.old); n > 2*maxRecent {
		t.Errorf("%d keys are kept, want at most %d", n, 2*maxRecent)
	}
	if v, ok := r.Get("used"); !ok || v != -1 {
		t.Errorf("the key that was used all the time has %d, %v", v, ok)
	}
	if _, ok := r.Get("0"); ok {
		t.Error("nothing was forgotten")
	}
}
