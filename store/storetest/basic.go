package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/registerrules"
	"github.com/holdfast-go/holdfast/store"
)

// basicCases are the rules of one register, one caller at a time.
func basicCases() []testCase {
	return []testCase{
		{"GetAbsent", "Get of an absent register returns an error that matches ErrNotFound, and no value and no version.", func(e *env) {
			e.expectAbsent("job")
			_, _, err := e.s.Get(e.ctx, "job")
			if !errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
				e.Errorf("Get of an absent register: got %v, want ErrNotFound", err)
			}
		}},
		{"Create", "Put with a zero version creates an absent register. Get then returns the value and the version of this Put.", func(e *env) {
			v := e.create("job", "one")
			e.expect("job", v, "one")
		}},
		{"CreateExisting", "Put with a zero version is refused if the register exists. (On a store that ignores this rule, two clients hold one lock.)", rule((*registerrules.Space).CreateTwice)},
		{"CreateExistingEmpty", "A register with an empty value exists, so a put that creates it is refused.", func(e *env) {
			v := e.create("job", "")
			_, err := e.s.Put(e.ctx, "job", "", []byte("two"))
			e.refused("creating an existing register with an empty value", err, entry("job", v, ""))
		}},
		{"Swap", "Put with the current version replaces the value and returns a new version.", func(e *env) {
			v := e.create("job", "one")
			for _, value := range []string{"two", "three", "four"} {
				v = e.put("job", v, value)
				e.expect("job", v, value)
			}
		}},
		{"SwapSuperseded", "Put with a version that is no longer current is refused, and changes nothing.", rule((*registerrules.Space).PutSuperseded)},
		{"SwapAbsent", "Put with a version is refused if the register is absent: it must not create a register. (After a delete, such a put is a conflict.)", func(e *env) {
			rule((*registerrules.Space).PutAbsent)(e)
			v := e.create("job", "one")
			e.delete("job", v)
			_, err := e.s.Put(e.ctx, "job", v, []byte("two"))
			e.refused("a put with the version that was deleted", err, entry("job", "", ""))
		}},
		{"SwapOtherKey", "A version names one state of one key. So a put with the current version of another key is refused.", func(e *env) {
			a, b := e.create("a", "same"), e.create("b", "same")
			a = e.put("a", a, "a2")
			if a == b {
				// Equal versions of two keys are no fault, and cannot be distinguished.
				a = e.put("a", a, "a3")
			}
			_, err := e.s.Put(e.ctx, "b", a, []byte("wrong"))
			e.refused("a put with another key's version", err, entry("b", b, "same"))
		}},
		{"SwapMadeUp", "A put with a version that the store never returned is refused with ErrConflict or ErrVersion, and changes nothing.", func(e *env) {
			v := e.create("job", "one")
			for _, bad := range madeUp(v) {
				_, err := e.s.Put(e.ctx, "job", bad, []byte("wrong"))
				e.refusedMadeUp("put", bad, err, entry("job", v, "one"))
				_, err = e.s.Put(e.ctx, "absent", bad, []byte("wrong"))
				e.refusedMadeUp("put on an absent register", bad, err, entry("absent", "", ""))
			}
		}},
		{"Delete", "Delete with the current version makes the register absent: Get does not find it, and a put can create it again.", func(e *env) {
			v := e.create("job", "one")
			e.delete("job", v)
			e.expectAbsent("job")
			v = e.create("job", "two")
			e.expect("job", v, "two")
		}},
		{"DeleteSuperseded", "Delete with a version that is no longer current is refused. (Another client may acquire the lock after a release has read it and before the release deletes it.)", rule((*registerrules.Space).DeleteSuperseded)},
		{"DeleteAbsent", "Delete of a register that does not exist is refused.", func(e *env) {
			v := e.create("job", "one")
			e.refused("a delete of a register that never existed", e.s.Delete(e.ctx, "never-made", v), entry("never-made", "", ""))
			e.delete("job", v)
			e.refused("a second delete", e.s.Delete(e.ctx, "job", v), entry("job", "", ""))
		}},
		{"DeleteZero", "Delete with a zero version is refused with ErrVersion, because it has no condition.", func(e *env) {
			v := e.create("job", "one")
			for _, key := range []string{"job", "absent"} {
				err := e.s.Delete(e.ctx, key, "")
				e.WantRefused(fmt.Sprintf("Delete of %q with a zero version", key), err, store.ErrVersion)
			}
			e.expect("job", v, "one")
			e.expectAbsent("absent")
		}},
		{"DeleteOtherKey", "Delete with the version of another key is refused.", func(e *env) {
			a, b := e.create("a", "same"), e.create("b", "same")
			a = e.put("a", a, "a2")
			if a == b {
				a = e.put("a", a, "a3")
			}
			e.refused("a delete with another key's version", e.s.Delete(e.ctx, "b", a), entry("b", b, "same"))
		}},
		{"DeleteMadeUp", "A delete with a version that the store never returned is refused with ErrConflict or ErrVersion. (Some stores honour the conditions of puts, but not those of deletes.)", func(e *env) {
			v := e.create("job", "one")
			for _, bad := range madeUp(v) {
				e.refusedMadeUp("delete", bad, e.s.Delete(e.ctx, "job", bad), entry("job", v, "one"))
			}
		}},
		{"KeysApart", "Keys are independent: a put, a refused put and a delete of one key change no value and no version of another key.", func(e *env) {
			v := e.create("job", "one")
			w := e.create("job2", "two")
			w = e.put("job2", w, "three")
			e.expect("job", v, "one")
			_, err := e.s.Put(e.ctx, "job2", v+"x", []byte("wrong"))
			if err == nil {
				e.Errorf("a put with a made-up version succeeded")
			}
			e.delete("job2", w)
			e.expect("job", v, "one")
			e.put("job", v, "four")
			e.expectAbsent("job2")
		}},
		{"ConflictCarriesState", "If the Traits say ConflictCarriesState, every conflict carries the state that the write found.", caseConflictCarriesState},
		{"TwoHandles", "All stores with the same registers show the same state. A client of one store can read, replace and delete what a client of another store wrote.", func(e *env) {
			if e.Reopen == nil {
				e.Absent("Options.Reopen is not set")
			}
			v, err := e.other.Put(e.ctx, "job", "", []byte("one"))
			e.Must("Put that creates, through the second store", err)
			v = e.put("job", v, "two")
			e.Must("Delete through the second store", e.other.Delete(e.ctx, "job", v))
			_, _, err = e.s.Get(e.ctx, "job")
			e.WantErr("Get through the first store after the delete", err, store.ErrNotFound)
		}},
		{"LaterHandle", "A store that is opened later shows all earlier writes.", func(e *env) {
			if e.Reopen == nil {
				e.Absent("Options.Reopen is not set")
			}
			v := e.create("kept", "one")
			w := e.create("deleted", "one")
			e.delete("deleted", w)
			e.other = e.Reopen(e.t, e.s)
			e.expect("kept", v, "one")
			e.expectAbsent("deleted")
			_, err := e.other.Put(e.ctx, "deleted", w, []byte("two"))
			e.refused("a put with a deleted version through a later store", err, entry("deleted", "", ""))
		}},
	}
}

func caseConflictCarriesState(e *env) {
	if !store.TraitsOf(e.s).ConflictCarriesState {
		e.Absent("the conflicts of the store do not carry the state")
	}
	tells := func(what string, err error, want store.Entry) {
		e.refused(what, err, want)
		var c *store.ConflictError
		if !errors.As(err, &c) || !c.HasCurrent {
			e.Errorf("%s: the conflict does not carry the state: %v", what, err)
		}
	}
	for i, value := range []string{"one", "", awkwardValue(), big(store.MaxValue)} {
		key := fmt.Sprintf("job-%d", i)
		old := e.create(key, "before")
		v := e.put(key, old, value)
		_, err := e.s.Put(e.ctx, key, "", []byte("x"))
		tells("creating an existing register", err, entry(key, v, value))
		_, err = e.s.Put(e.ctx, key, old, []byte("x"))
		tells("a put with a superseded version", err, entry(key, v, value))
		e.delete(key, v)
		_, err = e.s.Put(e.ctx, key, v, []byte("x"))
		tells("a put on an absent register", err, entry(key, "", ""))
	}
	// The next try can name the version that the conflict carries.
	v := e.create("job", "one")
	_, err := e.other.Put(e.ctx, "job", "", []byte("two"))
	var c *store.ConflictError
	if errors.As(err, &c) && c.HasCurrent {
		e.put("job", c.Version, "two")
	} else {
		e.Errorf("creating over version %q: the conflict does not carry the state: %v", v, err)
	}
}

// madeUp returns versions that no store gave for a register whose only version is v.
func madeUp(v store.Version) []store.Version {
	all := []store.Version{"x", "0", "1", "null", "*", `"*"`, "''", " ", "\x00", "ü", v + "x", "x" + v, v + v}
	if len(v) > 1 {
		all = append(all, v[:len(v)-1], v[1:])
	}
	return slices.DeleteFunc(all, func(bad store.Version) bool { return bad == v })
}

func (e *env) refusedMadeUp(what string, bad store.Version, err error, want store.Entry) {
	what = fmt.Sprintf("%s with the made-up version %q", what, bad)
	if errors.Is(err, store.ErrVersion) {
		if store.OutcomeOf(err) != store.NotApplied {
			e.Errorf("%s: the write was not applied, but its error has the outcome %q: %v", what, store.OutcomeOf(err), err)
		}
		e.expect(want.Key, want.Version, string(want.Value))
		return
	}
	e.refused(what, err, want)
}
