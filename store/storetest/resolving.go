package storetest

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// resolveCases are the rules of [store.Resolve]: its answers about writes whose outcome the
// suite knows, as if their replies had been lost.
func resolveCases() []testCase {
	return []testCase{
		{"ResolveApplied", "If a write was applied and is the current state, Resolve says so, with the version to name in the next write, or it says unknown. It never says that the write was not applied.", func(e *env) {
			v := e.create("job", "one")
			e.resolved("a create that is current", "", v, v, entry("job", v, "one"), store.ResolutionApplied)
			w := e.put("job", v, "two")
			e.resolved("a put that is current", v, w, w, entry("job", w, "two"), store.ResolutionApplied)
		}},
		{"ResolveSuperseded", "If a write was applied and other writes have followed, Resolve says superseded or unknown. It never says that the write was not applied.", func(e *env) {
			v := e.create("job", "one")
			w := e.put("job", v, "two")
			x := e.put("job", w, "three")
			e.resolved("a create that was followed twice", "", v, v, entry("job", x, "three"), store.ResolutionSuperseded)
			e.resolved("a put that was followed", v, w, w, entry("job", x, "three"), store.ResolutionSuperseded)
			e.delete("job", x)
			e.resolved("a put that was followed, and deleted", v, w, w, store.Entry{Key: "job"}, store.ResolutionSuperseded)
			y := e.create("job", "one")
			e.resolved("a put that was deleted and made again", w, x, x, entry("job", y, "one"), store.ResolutionSuperseded)
		}},
		{"ResolvePending", "If the register is still in the state that a write named, Resolve says that the write was not applied yet, or it says unknown.", func(e *env) {
			v := e.create("job", "one")
			e.resolved("no write", v, "", "", entry("job", v, "one"), store.ResolutionPending)
			e.resolved("a write without a name", v, unnamed, "", entry("job", v, "one"), store.ResolutionPending)
			e.resolved("no create", "", "", "", store.Entry{Key: "absent"}, store.ResolutionPending)
		}},
		{"ResolveOthers", "Resolve never mistakes another write for the one in question, not even with the same value. After the state has changed, the answer about a write without a version is unknown.", func(e *env) {
			v := e.create("job", "one")
			w := e.put("job", v, "two")
			e.resolved("no write, and another's", v, "", "", entry("job", w, "two"), store.ResolutionNotApplied)
			e.resolved("a write without a name, and another's", v, unnamed, "", entry("job", w, "two"))
			e.delete("job", w)
			e.resolved("a create without a name, and a deleted register", "", unnamed, "", store.Entry{Key: "job"})
		}},
		{"ResolveErrors", "Resolve under a context that has ended, or with an invalid key, fails, and its answer is unknown.", func(e *env) {
			v := e.create("job", "one")
			found, err := store.Resolve(e.ended(), e.other, "job", "", v)
			if !errors.Is(err, context.Canceled) || found.Resolution != store.ResolutionUnknown {
				e.errorf("under a context that has ended: got %v, %v", found.Resolution, err)
			}
			if found, err = store.Resolve(e.ctx, e.other, "job/", "", v); !errors.Is(err, store.ErrKey) || found.Resolution != store.ResolutionUnknown {
				e.errorf("of an invalid key: got %v, %v", found.Resolution, err)
			}
		}},
		{"PutAndResolve", "PutAndResolve writes, or returns the current state if another writer was faster.", func(e *env) {
			found, err := store.PutAndResolve(e.ctx, e.s, "job", "", []byte("one"))
			if err != nil || found.Resolution != store.ResolutionApplied {
				e.fatalf("create: got %v, %v", found.Resolution, err)
			}
			v := found.Current.Version
			e.expect("job", v, "one")
			found, err = store.PutAndResolve(e.ctx, e.other, "job", "", []byte("two"))
			if err != nil || found.Resolution != store.ResolutionNotApplied || found.Current.Version != v || string(found.Current.Value) != "one" {
				e.errorf("creating an existing register: got %v with %s, %v", found.Resolution, showEntry(found.Current), err)
			}
			found, err = store.PutAndResolve(e.ctx, e.other, "job", v, []byte("two"))
			if err != nil || found.Resolution != store.ResolutionApplied {
				e.fatalf("swap: got %v, %v", found.Resolution, err)
			}
			e.expect("job", found.Current.Version, "two")
		}},
	}
}

// unnamed is a write whose version is not known.
const unnamed store.Version = "unnamed"

// resolved calls Resolve for a write and checks the answer: its resolution is one of want,
// or unknown, and it carries the current state. If write is empty, Resolve gets no write.
func (e *env) resolved(what string, prev, write, applied store.Version, current store.Entry, want ...store.Resolution) {
	var writes []store.Version
	switch write {
	case "":
	case unnamed:
		writes = []store.Version{""}
	default:
		writes = []store.Version{write}
	}
	found, err := store.Resolve(e.ctx, e.other, current.Key, prev, writes...)
	if err != nil {
		e.fatalf("%s: %v", what, err)
	}
	if found.Resolution != store.ResolutionUnknown && !slices.Contains(want, found.Resolution) {
		e.errorf("%s: got %q, want %q, or unknown", what, found.Resolution, want)
	}
	if (found.Resolution == store.ResolutionApplied || found.Resolution == store.ResolutionSuperseded) != (found.Write != "") || found.Write != "" && found.Write != applied {
		e.errorf("%s: got %q of version %q, want that of %q", what, found.Resolution, found.Write, applied)
	}
	if got := found.Current; got.Key != current.Key || got.Version != current.Version || string(got.Value) != string(current.Value) {
		e.errorf("%s: it found %s, want %s", what, showEntry(got), showEntry(current))
	}
}
