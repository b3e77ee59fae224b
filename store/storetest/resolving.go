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
		{"ResolveApplied", "If a write was applied and made the current state, Resolve returns ResolutionApplied with the version for the next write, or ResolutionUnknown.", func(e *env) {
			v := e.create("job", "one")
			e.resolved("a create that is current", "", v, v, entry("job", v, "one"), store.ResolutionApplied)
			w := e.put("job", v, "two")
			e.resolved("a put that is current", v, w, w, entry("job", w, "two"), store.ResolutionApplied)
		}},
		{"ResolveSuperseded", "If a write was applied and other writes have replaced its state, Resolve returns ResolutionSuperseded or ResolutionUnknown.", func(e *env) {
			v := e.create("job", "one")
			w := e.put("job", v, "two")
			x := e.put("job", w, "three")
			e.resolved("a create with two later writes", "", v, v, entry("job", x, "three"), store.ResolutionSuperseded)
			e.resolved("a put with a later write", v, w, w, entry("job", x, "three"), store.ResolutionSuperseded)
			e.delete("job", x)
			e.resolved("a put with a later write and a delete", v, w, w, store.Entry{Key: "job"}, store.ResolutionSuperseded)
			y := e.create("job", "one")
			e.resolved("a put, deleted and created again", w, x, x, entry("job", y, "one"), store.ResolutionSuperseded)
		}},
		{"ResolvePending", "If the register is still in the state that a write named, Resolve returns ResolutionPending or ResolutionUnknown.", func(e *env) {
			v := e.create("job", "one")
			e.resolved("no write", v, "", "", entry("job", v, "one"), store.ResolutionPending)
			e.resolved("a write without a version", v, unnamed, "", entry("job", v, "one"), store.ResolutionPending)
			e.resolved("no create", "", "", "", store.Entry{Key: "absent"}, store.ResolutionPending)
		}},
		{"ResolveOthers", "Resolve never mistakes the write of another caller for one of the given writes, even with the same value. If a given write has no version and the state has changed, it returns ResolutionUnknown.", func(e *env) {
			v := e.create("job", "one")
			w := e.put("job", v, "two")
			e.resolved("no write, and a write of another caller", v, "", "", entry("job", w, "two"), store.ResolutionNotApplied)
			e.resolved("a write without a version, and a write of another caller", v, unnamed, "", entry("job", w, "two"))
			e.delete("job", w)
			e.resolved("a create without a version, and a deleted register", "", unnamed, "", store.Entry{Key: "job"})
		}},
		{"ResolveErrors", "If the context has ended or the key is invalid, Resolve returns an error and ResolutionUnknown.", func(e *env) {
			v := e.create("job", "one")
			found, err := store.Resolve(e.ended(), e.other, "job", "", v)
			if !errors.Is(err, context.Canceled) || found.Resolution != store.ResolutionUnknown {
				e.Errorf("Resolve with a context that has ended: got %v, %v", found.Resolution, err)
			}
			if found, err = store.Resolve(e.ctx, e.other, "job/", "", v); !errors.Is(err, store.ErrKey) || found.Resolution != store.ResolutionUnknown {
				e.Errorf("Resolve of an invalid key: got %v, %v", found.Resolution, err)
			}
		}},
		{"PutAndResolve", "PutAndResolve writes the value. If another writer was faster, it returns the current state.", func(e *env) {
			found, err := store.PutAndResolve(e.ctx, e.s, "job", "", []byte("one"))
			if err != nil || found.Resolution != store.ResolutionApplied {
				e.Fatalf("PutAndResolve that creates: got %v, %v", found.Resolution, err)
			}
			v := found.Current.Version
			e.expect("job", v, "one")
			found, err = store.PutAndResolve(e.ctx, e.other, "job", "", []byte("two"))
			if err != nil || found.Resolution != store.ResolutionNotApplied || found.Current.Version != v || string(found.Current.Value) != "one" {
				e.Errorf("PutAndResolve that creates an existing register: got %v with %s, %v", found.Resolution, showEntry(found.Current), err)
			}
			found, err = store.PutAndResolve(e.ctx, e.other, "job", v, []byte("two"))
			if err != nil || found.Resolution != store.ResolutionApplied {
				e.Fatalf("PutAndResolve that replaces: got %v, %v", found.Resolution, err)
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
	e.Must(what, err)
	if found.Resolution != store.ResolutionUnknown && !slices.Contains(want, found.Resolution) {
		e.Errorf("Resolve of %s: got %q, want %q or ResolutionUnknown", what, found.Resolution, want)
	}
	if (found.Resolution == store.ResolutionApplied || found.Resolution == store.ResolutionSuperseded) != (found.Write != "") || found.Write != "" && found.Write != applied {
		e.Errorf("Resolve of %s: got %q for the version %q, want the version %q", what, found.Resolution, found.Write, applied)
	}
	if got := found.Current; got.Key != current.Key || got.Version != current.Version || string(got.Value) != string(current.Value) {
		e.Errorf("Resolve of %s: the current state is %s, want %s", what, showEntry(got), showEntry(current))
	}
}
