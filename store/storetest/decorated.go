package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

// decoratorCases check that the store can be decorated: the decorators of package
// store keep its contract and show all of its abilities.
func decoratorCases() []testCase {
	return []testCase{
		{"AbilitiesKept", "A decorator has exactly the abilities of the store below it.", func(e *env) {
			for _, ability := range store.Abilities(e.s) {
				if !slices.Contains(Cases(), ruleOf(ability)) {
					e.Errorf("this suite has no case for the ability %s", ability)
				}
			}
			for name, d := range e.decorated() {
				got, want := store.Abilities(d), store.Abilities(e.s)
				if !slices.Equal(got, want) {
					e.Errorf("%s has the abilities %q, the store has %q", name, got, want)
				}
				gotTraits, wantTraits := store.TraitsOf(d), store.TraitsOf(e.s)
				if below, ok := strings.CutPrefix(gotTraits.Prefix, wantTraits.Prefix); ok && (below == "" || below == "some/prefix/") {
					gotTraits.Prefix = wantTraits.Prefix
				}
				if gotTraits != wantTraits {
					e.Errorf("%s has the traits %+v, the store has %+v", name, gotTraits, wantTraits)
				}
			}
		}},
		{"DecoratedWorks", "A decorated store works like the store below the decorator.", func(e *env) {
			for name, d := range e.decorated() {
				e.s, e.other = d, d
				v := e.create("job", "one")
				_, err := d.Put(e.ctx, "job", "", []byte("two"))
				e.refused(name+": creating an existing register", err, entry("job", v, "one"))
				v = e.put("job", v, "two")
				e.expect("job", v, "two")
				if w, ok := store.As[store.Watcher](d); ok {
					e.watchEnds(w, "job", "", "the register exists, and seen is zero")
				}
				if _, ok := store.As[store.Lister](d); ok {
					e.create("job/x", "x")
					e.wantList("job", "job/x")
					e.delete("job/x", e.state("job/x").Version)
				}
				if p, ok := store.As[store.UnsyncedPutter](d); ok {
					v = e.putUnsynced(p, "job", v, "three")
				}
				e.delete("job", v)
				e.expectAbsent("job")
			}
		}},
		{"DecoratorHides", "As[store.Store] of a decorator returns the decorator itself, so no call bypasses the decorator.", caseDecoratorHides},
		{"PrefixApart", "Stores below two prefixes are independent, unless one prefix is below the other: no call on one store shows or changes a key of the other.", casePrefixApart},
	}
}

// decorated returns the store under the decorators of package store, by name.
func (e *env) decorated() map[string]store.Store {
	pass := func(ctx context.Context, op *store.Op, next store.Handler) error { return next(ctx, op) }
	p := e.prefix("some/prefix")
	return map[string]store.Store{
		"an Intercept that does nothing": store.Intercept(e.s, pass),
		"a Prefix":                       p,
		"an Intercept of a Prefix":       store.Intercept(p, pass),
	}
}

func (e *env) prefix(prefix string) store.Store {
	p, err := store.Prefix(e.s, prefix)
	e.Must(fmt.Sprintf("prefix %q", prefix), err)
	return p
}

// ruleOf names a case for each ability. An ability without a case could be broken
// unnoticed.
func ruleOf(ability string) string {
	return map[string]string{
		"Watcher": "WatchDiffers", "Lister": "ListInvalid", "UnsyncedPutter": "UnsyncedPut", "AgeReader": "Age", "ConditionalGetter": "GetIfChanged",
		"UncommittedReader": "GetUncommitted", "Resolver": "ResolveApplied", "Presence": "PresenceAlive", "Describer": "Traits",
		"TagLister": "ListTags", "Waker": "Wake",
	}[ability]
}

// caseDecoratorHides checks that no call bypasses a decorator: As finds a store with the
// same registers.
func caseDecoratorHides(e *env) {
	stores := e.decorated()
	stores["the store"] = e.s
	for name, d := range stores {
		whole, ok := store.As[store.Store](d)
		if !ok {
			e.Fatalf("As[store.Store] does not find %s", name)
		}
		e.OK(name+", found by As[store.Store]", suitetest.ErrOf(whole.Put(e.ctx, "job", "", []byte(name))))
		value, v, err := d.Get(e.ctx, "job")
		if err != nil || string(value) != name {
			e.Fatalf("%s: As[store.Store] found a different store: a read of its write returned %s and the error %v", name, show(value), err)
		}
		e.Must(name+": delete", d.Delete(e.ctx, "job", v))
	}
}

func casePrefixApart(e *env) {
	whole := e.s
	prefixes := []string{"a", "a/b", "a-b", "ab", "A"}
	var all []store.Store
	for i, prefix := range prefixes {
		all = append(all, e.prefix(prefix))
		e.s, e.other = all[i], all[i]
		e.expectAbsent("x")
		e.create("x", "of "+prefix)
		e.create("c/y", "of "+prefix)
		e.s, e.other = whole, whole
	}
	for i, prefix := range prefixes {
		e.s, e.other = all[i], all[i]
		v := e.state("x").Version
		e.expect("x", v, "of "+prefix)
		e.put("x", v, "again")
		for _, outside := range []string{"../x", "", "/x", "../" + prefix + "/x", "."} {
			_, err := e.s.Put(e.ctx, outside, "", []byte("wrong"))
			e.wantErrKey("put below a prefix", outside, err)
			if _, _, err := e.s.Get(e.ctx, outside); !errors.Is(err, store.ErrKey) {
				e.Errorf("get of %q below a prefix: got %v, want ErrKey", outside, err)
			}
		}
		if _, ok := store.As[store.Lister](e.s); ok {
			want := []string{"x", "c/y"}
			if prefix == "a" {
				want = append(want, "b/x", "b/c/y")
			}
			e.wantList("", want...)
		}
		e.s, e.other = whole, whole
		e.expect(prefix+"/x", e.state(prefix+"/x").Version, "again")
	}
}
