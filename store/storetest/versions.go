package storetest

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/registerrules"
	"github.com/holdfast-go/holdfast/store"
)

// versionCases are the rules of versions: none is used twice. Tokens, observations and
// read-backs rely on that.
func versionCases() []testCase {
	return []testCase{
		{"VersionAfterRecreate", "After a delete and a create, a register has a version that it never had before. (In one system, the generation of a lease restarted at 1 after each release.)", func(e *env) {
			seen := make(versions)
			for i := range 10 {
				v := e.create("job", "same")
				seen.add(e, v, fmt.Sprintf("incarnation %d", i+1))
				w := e.put("job", v, "same")
				seen.add(e, w, fmt.Sprintf("incarnation %d, second write", i+1))
				e.delete("job", w)
			}
		}},
		{"VersionOfEqualValue", "If a put writes the current value again, the register gets a new version: a version names a state, not a value. (Equal bodies have equal ETags.)", rule(func(s *registerrules.Space, ctx context.Context) error {
			s.Rounds = 10
			return s.EqualValues(ctx)
		})},
		{"VersionOfOldValue", "If a put writes an old value again, the register gets a new version: the values A, B, A have three versions. (Without a nonce, an old state would look like the current state.)", func(e *env) {
			a := e.create("job", "A")
			b := e.put("job", a, "B")
			a2 := e.put("job", b, "A")
			if a2 == a {
				e.Fatalf("the second A has the same version %q as the first A", a)
			}
			_, err := e.s.Put(e.ctx, "job", a, []byte("C"))
			e.refused("a put with the first A's version", err, entry("job", a2, "A"))
			e.refused("a delete with the first A's version", e.s.Delete(e.ctx, "job", a), entry("job", a2, "A"))
			e.put("job", a2, "C")
		}},
		{"OldIncarnation", "After a delete and a create, a write with a version from before the delete is refused, even if the value is the same.", func(e *env) {
			rule((*registerrules.Space).Recreate)(e)
			v := e.create("job", "same")
			e.delete("job", v)
			w := e.create("job", "same")
			e.refused("a delete with a version of the deleted register", e.s.Delete(e.ctx, "job", v), entry("job", w, "same"))
		}},
		{"OldIncarnationManyWrites", "A delete does not restart the versions: after the same number of writes as before the delete, the old version is still refused. (In one system, a removed row was created again with generation 0.)", func(e *env) {
			const writes = 4
			write := func() store.Version {
				v := e.create("job", "0")
				for i := range writes {
					v = e.put("job", v, fmt.Sprint(i+1))
				}
				return v
			}
			old := write()
			e.delete("job", old)
			v := write()
			_, err := e.s.Put(e.ctx, "job", old, []byte("late"))
			e.refused("a put with the version that the same number of writes gave before the delete", err, entry("job", v, fmt.Sprint(writes)))
		}},
		{"VersionsAllDistinct", "No two writes of a key have the same version, in any order of puts and deletes.", func(e *env) {
			seen := make(versions)
			v := e.create("job", "0")
			seen.add(e, v, "create")
			for i := range 4 * e.Rounds {
				what := fmt.Sprintf("write %d", i+1)
				if i%5 == 4 {
					e.delete("job", v)
					v = e.create("job", fmt.Sprint(i%3))
				} else {
					v = e.put("job", v, fmt.Sprint(i%3))
				}
				seen.add(e, v, what)
			}
		}},
		{"VersionStable", "Only an applied write changes the version of a register. A read and a refused write do not change it.", func(e *env) {
			v1 := e.create("job", "one")
			v2 := e.put("job", v1, "two")
			for range 3 {
				e.expect("job", v2, "two")
				_, err := e.s.Put(e.ctx, "job", v1, []byte("late"))
				e.refused("a put with a superseded version", err, entry("job", v2, "two"))
				_, err = e.s.Put(e.ctx, "job", "", []byte("late"))
				e.refused("creating an existing register", err, entry("job", v2, "two"))
				e.refused("a delete with a superseded version", e.s.Delete(e.ctx, "job", v1), entry("job", v2, "two"))
			}
			e.put("job", v2, "three")
		}},
		{"VersionFromGet", "A write may name a version from Get or a version from Put.", func(e *env) {
			e.create("job", "one")
			e.put("job", e.state("job").Version, "two")
			e.delete("job", e.state("job").Version)
			e.expectAbsent("job")
		}},
	}
}

// versions names the write that made each version.
type versions map[store.Version]string

func (seen versions) add(e *env, v store.Version, what string) {
	if first, ok := seen[v]; ok {
		e.Fatalf("%s has version %q, which %s already had", what, v, first)
	}
	seen[v] = what
}
