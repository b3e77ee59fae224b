package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// listCases are the rules of [store.Lister].
func listCases() []testCase {
	return []testCase{
		{"List", "List with an empty prefix yields every key once.", func(e *env) {
			need[store.Lister](e, e.other)
			e.wantList("")
			e.createAll("job", "job-2", "a/b", "a/b/c", "z")
			e.wantList("", "job", "job-2", "a/b", "a/b/c", "z")
		}},
		{"ListPrefix", "List of `a/b` yields the keys below `a/b/`, and neither `a/b` nor `a/bc`. (A listing by string prefix finds `job-2` below `job`.)", func(e *env) {
			need[store.Lister](e, e.other)
			e.createAll("a", "a/b", "a/b/c", "a/b/c/d", "a/b/e", "a/bc", "a/bc/d", "a/b-2", "a/b.", "a/b0", "a/B/c", "b", "ab", "x/a/b/c", "job/x", "job-2/x", "job")
			e.wantList("a/b", "a/b/c", "a/b/c/d", "a/b/e")
			e.wantList("a/b/c", "a/b/c/d")
			e.wantList("a", "a/b", "a/b/c", "a/b/c/d", "a/b/e", "a/bc", "a/bc/d", "a/b-2", "a/b.", "a/b0", "a/B/c")
			e.wantList("job", "job/x")
			e.wantList("a/b/c/d")
			e.wantList("nothing")
			e.wantList("a/b/c/d/e/f")
		}},
		{"ListDeleted", "Deleted keys are hidden. If they are created again, they are listed again.", func(e *env) {
			need[store.Lister](e, e.other)
			e.createAll("a/kept", "a/gone", "a/back")
			e.delete("a/gone", e.state("a/gone").Version)
			e.delete("a/back", e.state("a/back").Version)
			e.wantList("a", "a/kept")
			e.wantList("", "a/kept")
			e.create("a/back", "again")
			e.wantList("a", "a/kept", "a/back")
			e.put("a/back", e.state("a/back").Version, "more")
			e.wantList("a", "a/kept", "a/back")
		}},
		{"ListMany", "List yields all keys of a store with more than 1,000 keys. (Servers return long listings in pages.)", caseListMany},
		{"ListAwkward", "List yields every key unchanged, with any characters.", func(e *env) {
			need[store.Lister](e, e.other)
			keys := []string{
				"d/é", "d/e\u0301", "d/日本/語", "d/🔒", "d/a b", "d/ ", "d/a%2Fb", "d/a/b", "d/a\\b", "d/a\nb", "d/a\x00b", "d/CON", "d/.tmp", "d/x.", "d/Job", "d/job", "d/JOB", "d/%", "d/_", "d/*", "d/000000000001", "d/&amp;", "d/<x>", "d/\u0085",
				"d/" + strings.Repeat("x", e.MaxKey-2), "d/" + strings.Repeat("\x01", e.MaxKey-2), "d/" + strings.Repeat("y/", e.MaxKey/2-2) + "y",
			}
			e.createAll(keys...)
			e.wantList("", keys...)
			e.wantList("d", keys...)
			e.createAll("%_/x", "%/x", "_/x", "a/x", "aa/x")
			e.wantList("%_", "%_/x")
			e.wantList("%", "%/x")
			e.wantList("_", "_/x")
		}},
		{"ListBreak", "A caller may leave a listing early, and start a new listing.", func(e *env) {
			need[store.Lister](e, e.other)
			keys := make([]string, 20)
			for i := range keys {
				keys[i] = fmt.Sprintf("a/%d", i)
			}
			e.createAll(keys...)
			for want := 1; want <= len(keys); want += 6 {
				got := 0
				for key, err := range store.List(e.ctx, e.other, "a") {
					e.Must("list", err)
					if !slices.Contains(keys, key) {
						e.Errorf("List yielded %q, which was never created", key)
					}
					if got++; got == want {
						break
					}
				}
			}
			e.wantList("a", keys...)
		}},
		{"ListInvalid", "List of an invalid prefix yields ErrKey, and then ends.", func(e *env) {
			need[store.Lister](e, e.other)
			e.createAll("a/x", "x")
			for _, prefix := range []string{"/", "a/", "/a", "a//x", ".", "..", "a/..", "\xff", strings.Repeat("x", store.MaxKey+1)} {
				keys, err := e.list(e.ctx, prefix)
				if !errors.Is(err, store.ErrKey) || len(keys) > 0 {
					e.Errorf("List of the invalid prefix %.40q: got %q and %v, want ErrKey", prefix, keys, err)
				}
			}
		}},
		{"ListCancelled", "List with a context that has ended yields the context's error. It does not end without an error.", func(e *env) {
			need[store.Lister](e, e.other)
			e.createAll("a/x")
			keys, err := e.list(e.ended(), "a")
			if !errors.Is(err, context.Canceled) {
				e.Errorf("List: got %q and %v, want the context's error", keys, err)
			}
		}},
		{"ListTags", "ListTags yields the same keys as List, each with a tag. Every write gives the key a tag that it never had before. (If a waiter does not notice a changed record, it waits for a free lock.)", caseListTags},
		{"ListTagsCancelled", "ListTags of an invalid prefix yields ErrKey. With a context that has ended, it yields the context's error. It does not end without an error.", func(e *env) {
			l := need[store.TagLister](e, e.other)
			e.createAll("a/x")
			for _, prefix := range []string{"/", "a/", "/a", "..", strings.Repeat("x", store.MaxKey+1)} {
				if tags, err := e.tags(e.ctx, l, prefix); !errors.Is(err, store.ErrKey) || len(tags) > 0 {
					e.Errorf("ListTags of the invalid prefix %.40q: got %q and %v, want ErrKey", prefix, tags, err)
				}
			}
			if tags, err := e.tags(e.ended(), l, "a"); !errors.Is(err, context.Canceled) {
				e.Errorf("ListTags: got %q and %v, want the context's error", tags, err)
			}
		}},
		{"ListDuringWrites", "List yields a key once if it exists during the whole listing, even if the key is written in this time, and other keys are created and deleted.", caseListDuringWrites},
	}
}

func (e *env) createAll(keys ...string) {
	e.each(len(keys), func(i int) { e.create(keys[i], "of "+keys[i]) })
}

// list returns what a listing yields, and checks that an error ends it.
func (e *env) list(ctx context.Context, prefix string) (keys []string, err error) {
	for key, kerr := range store.List(ctx, e.other, prefix) {
		switch {
		case err != nil:
			e.Errorf("List of %.40q does not end after the error %v", prefix, err)
		case kerr != nil:
			err = kerr
		default:
			keys = append(keys, key)
		}
	}
	return keys, err
}

func (e *env) wantList(prefix string, want ...string) {
	got, err := e.list(e.ctx, prefix)
	e.Must(fmt.Sprintf("List of %q", prefix), err)
	slices.Sort(got)
	slices.Sort(want)
	if slices.Equal(got, want) {
		return
	}
	for i, key := range got {
		switch {
		case i > 0 && got[i-1] == key:
			e.Errorf("List of %q yielded %q twice", prefix, key)
		case !slices.Contains(want, key):
			e.Errorf("List of %q yielded %q, which is not below the prefix or not in the store", prefix, key)
		}
	}
	for _, key := range want {
		if !slices.Contains(got, key) {
			e.Errorf("List of %q did not yield %q", prefix, key)
		}
	}
}

// tags returns what a listing of tags yields, and checks that an error ends it.
func (e *env) tags(ctx context.Context, l store.TagLister, prefix string) (tags map[string]string, err error) {
	tags = map[string]string{}
	for t, terr := range l.ListTags(ctx, prefix) {
		_, twice := tags[t.Key]
		switch {
		case err != nil:
			e.Errorf("ListTags of %.40q does not end after the error %v", prefix, err)
		case terr != nil:
			err = terr
		case twice:
			e.Errorf("ListTags of %q yielded %q twice", prefix, t.Key)
		default:
			tags[t.Key] = t.Tag
		}
	}
	return tags, err
}

func caseListTags(e *env) {
	l := need[store.TagLister](e, e.other)
	if cost := l.ListCost(); cost.Gets < 1 || cost.Keys < 1 || cost != l.ListCost() {
		e.Errorf("ListCost returned %+v, want at least one of each", cost)
	}
	e.createAll("job", "a/bc", "a/b/x", "a/bb/y", "a/b/c/d", "a/b/ \x01é")
	had := map[string]bool{}
	fresh := func(what string) {
		tags, err := e.tags(e.ctx, l, "a/b")
		e.Must("tags", err)
		tag, ok := tags["a/b/x"]
		if ok && (tag == "" || had[tag]) {
			e.Errorf("%s: the key has the tag %q, which it had before", what, tag)
		}
		had[tag] = true
		again, err := e.tags(e.ctx, l, "a/b")
		if err != nil || !maps.Equal(tags, again) {
			e.Errorf("%s: two listings without a write between them yielded %q, and %q with the error %v", what, tags, again, err)
		}
		_, err = e.s.Put(e.ctx, "a/b/ \x01é", e.state("a/b/ \x01é").Version, []byte("same"))
		e.Must("put", err)
		later, err := e.tags(e.ctx, l, "")
		if err != nil || later["a/b/x"] != tag || later["a/b/c/d"] != tags["a/b/c/d"] {
			e.Errorf("%s: two listings yielded %q, and %q with the error %v, although only another key was written", what, tags, later, err)
		}
		delete(tags, "a/b/x")
		if len(tags) != 2 || tags["a/b/c/d"] == "" || tags["a/b/ \x01é"] == "" || later["a/b/ \x01é"] == tags["a/b/ \x01é"] {
			e.Errorf("%s: a listing of a/b yielded the tags %q, and a listing of all keys %q", what, tags, later)
		}
	}
	v := e.state("a/b/x").Version
	fresh("created")
	for _, value := range []string{"same", "same", "of a/b/x"} {
		v = e.put("a/b/x", v, value)
		fresh("written")
	}
	if p, ok := store.As[store.UnsyncedPutter](e.s); ok {
		v = e.putUnsynced(p, "a/b/x", v, "same")
		fresh("written as unsynced")
	}
	e.delete("a/b/x", v)
	fresh("deleted")
	e.create("a/b/x", "of a/b/x")
	fresh("created anew")
}

func caseListMany(e *env) {
	need[store.Lister](e, e.other)
	want := make([]string, e.Keys)
	for i := range want {
		want[i] = fmt.Sprintf("job/%d", i)
	}
	e.race(e.Racers, func(i int, s store.Store) {
		for n := i; n < len(want); n += e.Racers {
			err := e.insist(func() error {
				_, err := s.Put(e.ctx, want[n], "", []byte("x"))
				return err
			})
			if err != nil {
				e.Errorf("create %q: %v", want[n], err)
				return
			}
		}
	})
	e.inTime()
	e.wantList("job", want...)
	e.create("job-2/x", "x")
	e.wantList("job", want...)
	e.wantList("", append(want, "job-2/x")...)
}

func caseListDuringWrites(e *env) {
	need[store.Lister](e, e.other)
	kept := make([]string, 30)
	for i := range kept {
		kept[i] = fmt.Sprintf("a/%02d", i)
	}
	e.createAll(kept...)
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	e.race(1+min(e.Racers, 4), func(i int, s store.Store) {
		if i > 0 {
			_, own, err := s.Get(e.ctx, kept[i])
			for n := 0; ctx.Err() == nil; n++ {
				key, v := fmt.Sprintf("a/%02d-%d", (n*7)%30, i), store.Version("")
				if err == nil {
					own, err = s.Put(e.ctx, kept[i], own, []byte("x"))
				}
				if err == nil {
					v, err = s.Put(e.ctx, key, "", []byte("x"))
				}
				if err == nil {
					breathe()
					err = s.Delete(e.ctx, key, v)
				}
				if err != nil && e.ctx.Err() == nil {
					e.Errorf("a call on the caller's own register: %v", err)
					return
				}
			}
			return
		}
		defer cancel()
		for range e.Rounds {
			keys, err := e.list(e.ctx, "a")
			if !e.OK("list", err) {
				return
			}
			slices.Sort(keys)
			if once := slices.Compact(slices.Clone(keys)); len(once) != len(keys) {
				e.Errorf("List yielded a key twice: %q", keys)
			}
			for _, key := range kept {
				if !slices.Contains(keys, key) {
					e.Errorf("%q existed during the whole listing, but List did not yield it", key)
				}
			}
		}
	})
}
