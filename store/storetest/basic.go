package storetest

import (
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// basicCases are the rules of one register, one caller at a time.
func basicCases() []testCase {
	return []testCase{
		{"GetAbsent", "Get of a register that does not exist returns an error that matches ErrNotFound.", func(e *env) {
			e.expectAbsent("job")
			_, _, err := e.s.Get(e.ctx, "job")
			if !errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
				e.errorf("got %v, want ErrNotFound", err)
			}
		}},
		{"Create", "Put with a zero version creates a register that does not exist; Get returns what Put wrote.", func(e *env) {
			v := e.create("job", "one")
			e.expect("job", v, "one")
		}},
		{"CreateExisting", "Put with a zero version means \"must not exist\": it is refused where something is (C1, a store that ignores the condition has two owners).", func(e *env) {
			v := e.create("job", "one")
			_, err := e.s.Put(e.ctx, "job", "", []byte("two"))
			e.refused("creating an existing register", err, entry("job", v, "one"))
			_, err = e.other.Put(e.ctx, "job", "", []byte("one"))
			e.refused("creating an existing register with the value it has", err, entry("job", v, "one"))
		}},
		{"Swap", "Put with the current version replaces the value and returns a new version.", func(e *env) {
			v := e.create("job", "one")
			for _, value := range []string{"two", "three", "four"} {
				v = e.put("job", v, value)
				e.expect("job", v, value)
			}
		}},
		{"SwapSuperseded", "Put with a version that is no longer current is refused, and changes nothing.", func(e *env) {
			v1 := e.create("job", "one")
			v2 := e.put("job", v1, "two")
			_, err := e.s.Put(e.ctx, "job", v1, []byte("late"))
			e.refused("a put with a superseded version", err, entry("job", v2, "two"))
		}},
		{"Delete", "Delete with the current version makes the register absent.", func(e *env) {
			v := e.create("job", "one")
			e.delete("job", v)
			e.expectAbsent("job")
		}},
	}
}
