package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// decoratorCases check that the store can be decorated: the decorators of package
// store keep its contract and show all of its abilities.
func decoratorCases() []testCase {
	return []testCase{
		{"AbilitiesKept", "A decorator has exactly the abilities of the store below it.", func(e *env) {
			for name, d := range e.decorated() {
				got, want := abilities(d), abilities(e.s)
				if !slices.Equal(got, want) {
					e.errorf("%s has the abilities %q, the store has %q", name, got, want)
				}
				gotTraits, wantTraits := store.TraitsOf(d), store.TraitsOf(e.s)
				if below, ok := strings.CutPrefix(gotTraits.Prefix, wantTraits.Prefix); ok && (below == "" || below == "some/prefix/") {
					gotTraits.Prefix = wantTraits.Prefix
				}
				if gotTraits != wantTraits {
					e.errorf("%s has the traits %+v, the store has %+v", name, gotTraits, wantTraits)
				}
			}
		}},
		{"DecoratedWorks", "Through a decorator, the store works as without it.", func(e *env) {
			for name, d := range e.decorated() {
				e.s, e.other = d, d
				v := e.create("job", "one")
				_, err := d.Put(e.ctx, "job", "", []byte("two"))
				e.refused(name+": creating an existing register", err, entry("job", v, "one"))
				v = e.put("job", v, "two")
				e.expect("job", v, "two")
				if w, ok := store.As[store.Watcher](d); ok {
					e.watchEnds(w, "job", "", "the register exists, absent was seen")
				}
				if _, ok := store.As[store.Lister](d); ok {
					e.create("job/x", "x")
					e.wantList("job", "job/x")
					e.delete("job/x", e.state("job/x").Version)
				}
				if p, ok := store.As[store.VolatilePutter](d); ok {
					v = e.putVolatile(p, "job", v, "three")
				}
				e.delete("job", v)
				e.expectAbsent("job")
			}
		}},
		{"PrefixApart", "Two prefixes of one space are two spaces, unless one lies below the other: neither sees nor changes the other's keys.", casePrefixApart},
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
	if err != nil {
		e.fatalf("prefix %q: %v", prefix, err)
	}
	return p
}

// abilities names the abilities that s offers.
func abilities(s store.Store) []string {
	var names []string
	note := func(name string, ok bool) {
		if ok {
			names = append(names, name)
		}
	}
	note("Watcher", has[store.Watcher](s))
	note("Lister", has[store.Lister](s))
	note("VolatilePutter", has[store.VolatilePutter](s))
	note("Ager", has[store.Ager](s))
	note("ConditionalGetter", has[store.ConditionalGetter](s))
	note("Peeker", has[store.Peeker](s))
	note("TokenFloorer", has[store.TokenFloorer](s))
	note("Settler", has[store.Settler](s))
	note("Presence", has[store.Presence](s))
	note("Describer", has[store.Describer](s))
	return names
}

func has[T any](s store.Store) bool {
	_, ok := store.As[T](s)
	return ok
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
				e.errorf("get of %q below a prefix: got %v, want ErrKey", outside, err)
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
