package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestStore(t *testing.T) {
	kinds(t, func(t *testing.T, s *server) {
		var at *server
		storetest.Run(t, func(t *testing.T) store.Store {
			at = &server{tags: s.tags, carriesState: s.carriesState, number: s.number}
			return at.open(t, nil)
		}, &storetest.Options{Reopen: func(t *testing.T, _ store.Store) store.Store { return at.open(t, nil) }, Rounds: 5})
	})
}

func mustPut(t *testing.T, s store.Store, key string, prev store.Version, value string) store.Version {
	t.Helper()
	v, err := s.Put(t.Context(), key, prev, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestOneEventOneOutcome: the outcome of a write is the same on every kind of server,
// however the engine finds it out.
func TestOneEventOneOutcome(t *testing.T) {
	for _, c := range []struct {
		name    string
		faults  []fault
		create  bool // the register does not exist before
		deleted bool // it is a tombstone before
		want    store.Outcome
		value   string // of the register afterwards
	}{
		{"swap", nil, false, false, store.Applied, "ours"},
		{"create", nil, true, false, store.Applied, "ours"},
		{"create over a tombstone", nil, true, true, store.Applied, "ours"},
		{"swap, applied, reply lost", []fault{lost}, false, false, store.Applied, "ours"},
		{"create, applied, reply lost", []fault{lost}, true, false, store.Applied, "ours"},
		{"swap, not applied, reply lost", []fault{dropped}, false, false, store.Applied, "ours"},
		{"swap, both lost, the second applied", []fault{dropped, lost}, false, false, store.Applied, "ours"},
		{"swap, repeated on the way", []fault{twice}, false, false, store.Applied, "ours"},
		{"create, repeated on the way", []fault{twice}, true, false, store.Applied, "ours"},
		{"swap, repeated on the way, and superseded by seven", []fault{twiceSeven}, false, false, store.Applied, "another's 6"},
		// It looks like a write on an old version. See docs/lost-replies.md.
		{"swap, repeated on the way, and superseded by eight", []fault{twiceEight}, false, false, store.NotApplied, "another's 7"},
		{"swap, busy", []fault{busy, busy}, false, false, store.Applied, "ours"},
		{"swap, busy for ever", []fault{busy, busy, busy, busy, busy}, false, false, store.NotApplied, "before"},
		{"swap, denied", []fault{denied}, false, false, store.NotApplied, "before"},
		{"swap, lost, then denied", []fault{dropped, denied}, false, false, store.Unknown, "before"},
		{"swap, lost, then busy for ever", []fault{dropped, busy, busy, busy, busy}, false, false, store.Unknown, "before"},
		{"swap, another was faster", []fault{faster}, false, false, store.NotApplied, "another's 0"},
		{"swap, ten others were faster", []fault{fasterTen}, false, false, store.NotApplied, "another's 9"},
		{"swap, lost, then another was faster", []fault{dropped, faster}, false, false, store.NotApplied, "another's 0"},
		{"create, lost, then another was faster", []fault{dropped, faster}, true, false, store.NotApplied, "another's 0"},
		{"swap, lost, then ten others were faster", []fault{dropped, fasterTen}, false, false, store.Unknown, "another's 9"},
		{"swap, applied, lost, and superseded", []fault{lostFaster}, false, false, store.Applied, "another's 0"},
		{"create, applied, lost, and superseded", []fault{lostFaster}, true, false, store.Applied, "another's 0"},
		{"swap, applied, lost, and superseded by seven", []fault{lostSeven}, false, false, store.Applied, "another's 6"},
		{"swap, applied, lost, and superseded by eight", []fault{lostEight}, false, false, store.Unknown, "another's 7"},
		{"create, applied, lost, and deleted", []fault{lostDeleted}, true, false, store.Applied, ""},
		{"create over a tombstone, lost", []fault{right, lost}, true, true, store.Applied, "ours"},
		{"create over a tombstone, another was faster", []fault{right, faster}, true, true, store.NotApplied, "another's 0"},
		{"create, lost, created and deleted by another, and created", []fault{dropped, fasterDeleted, faster}, true, false, store.NotApplied, "another's 0"},
		{"never answered", []fault{dropped, dropped, dropped, dropped, dropped}, false, false, store.Unknown, "before"},
	} {
		kinds(t, func(t *testing.T, f *server) {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var prev store.Version
					if !c.create || c.deleted {
						prev = mustPut(t, f.honest(), "k", "", "before")
					}
					if c.deleted {
						f.remove(t.Context(), "k")
						prev = ""
					}
					s := f.open(t, nil)
					f.faults = c.faults
					v, err := s.Put(t.Context(), "k", prev, []byte("ours"))
					if got := store.OutcomeOf(err); got != c.want || (v != "") != (err == nil) {
						t.Fatalf("outcome %v, want %v: version %q, %v", got, c.want, v, err)
					}
					value, now, getErr := s.Get(t.Context(), "k")
					if string(value) != c.value || (getErr != nil) != (c.value == "") {
						t.Errorf("the register holds %q, %v; want %q", value, getErr, c.value)
					}
					if c.want == store.Applied && (v.WithoutHint() == now.WithoutHint()) != (c.value == "ours") {
						t.Errorf("put gave %q, the register has %q", v, now)
					}
					checkUnknown(t, s, prev, err, c.value)
				})
			})
		})
	}
}

// checkUnknown: an unknown outcome names its version, does not look like a conflict, and
// can be resolved.
func checkUnknown(t *testing.T, s *engine.Store, prev store.Version, err error, value string) {
	t.Helper()
	if store.OutcomeOf(err) != store.Unknown {
		if store.AttemptedVersion(err) != "" {
			t.Errorf("a certain outcome names a version: %v", err)
		}
		return
	}
	if errors.Is(err, store.ErrConflict) || store.AttemptedVersion(err) == "" {
		t.Errorf("unknown: %v, version %q", err, store.AttemptedVersion(err))
	}
	want := store.ResolutionUnknown
	if value == "before" {
		want = store.ResolutionPending
	}
	found, resolveErr := s.Resolve(t.Context(), "k", prev, store.AttemptedVersion(err))
	if resolveErr != nil || found.Resolution != want || string(found.Current.Value) != value {
		t.Errorf("resolved: %+v, %v; want %v", found, resolveErr, want)
	}
}

// TestRequests: what each operation costs.
func TestRequests(t *testing.T) {
	kinds(t, func(t *testing.T, f *server) {
		synctest.Test(t, func(t *testing.T) {
			s := f.open(t, nil)
			var v store.Version
			conflict := map[bool]string{true: "write", false: "write read"}[f.carriesState]
			retry := map[bool]string{true: "write write", false: "write read write"}[f.carriesState]
			for _, c := range []struct {
				name   string
				faults []fault
				do     func() error
				want   string
			}{
				{"create", nil, func() (err error) { v, err = s.Put(t.Context(), "k", "", nil); return err }, "write"},
				{"create again", nil, func() error { _, _ = s.Put(t.Context(), "k", "", nil); return nil }, conflict},
				{"swap", nil, func() (err error) { v, err = s.Put(t.Context(), "k", v, nil); return err }, "write"},
				{"swap, reply lost", []fault{dropped}, func() (err error) { v, err = s.Put(t.Context(), "k", v, nil); return err }, retry},
				{"swap, busy", []fault{busy}, func() (err error) { v, err = s.Put(t.Context(), "k", v, nil); return err }, "write write"},
				{"get", nil, func() error { _, _, err := s.Get(t.Context(), "k"); return err }, "read"},
				{"resolve", nil, func() error { _, err := s.Resolve(t.Context(), "k", v, v, v); return err }, "read"},
				{"delete", nil, func() error { return s.Delete(t.Context(), "k", v) }, "write"},
				{"create over a tombstone", nil, func() (err error) { v, err = s.Put(t.Context(), "k", "", nil); return err }, retry},
			} {
				f.requests()
				f.faults = c.faults
				if err := c.do(); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				if got := f.requests(); got != c.want {
					t.Errorf("%s: %q, want %q", c.name, got, c.want)
				}
			}
		})
	})
}

// TestTagChanges: another program changes the tag of a state several times. With TagChanges this is no conflict, also
// if a reply was lost. A state that another writer has written is one.
func TestTagChanges(t *testing.T) {
	for _, changes := range []bool{true, false} {
		f := &server{tags: true}
		s := f.open(t, func(o *engine.Options) {
			o.TagChanges = func(_, to engine.Tag) bool { return changes && strings.HasPrefix(string(to), "touched") }
		})
		v := mustPut(t, s, "k", "", "one")
		for i := range 4 {
			f.mu.Lock()
			row := f.rows["k"]
			row.Tag = engine.Tag(fmt.Sprint("touched", i))
			f.rows["k"] = row
			f.mu.Unlock()
			f.requests()
			w, err := s.Put(t.Context(), "k", v, []byte("two"))
			if got := f.requests(); changes && (err != nil || got != "write read write") {
				t.Fatalf("%v, requests %q", err, got)
			}
			if !changes && !errors.Is(err, store.ErrConflict) {
				t.Fatalf("without TagChanges: %v", err)
			}
			if changes {
				if _, err := s.Put(t.Context(), "k", v, nil); !errors.Is(err, store.ErrConflict) {
					t.Fatalf("a put over an older state: %v", err)
				}
				v = w
			}
		}
	}
}

// TestVersionWithoutTag: a version whose tag was in a lost reply can be named in a write:
// the engine reads the tag again.
func TestVersionWithoutTag(t *testing.T) {
	f := &server{tags: true}
	s := f.open(t, nil)
	v := mustPut(t, s, "k", "", "one")
	bare := v[:12]
	if bare != v.WithoutHint() {
		t.Fatalf("%q and %q", bare, v)
	}
	f.requests()
	w := mustPut(t, s, "k", bare, "two")
	if got := f.requests(); got != "read write" {
		t.Errorf("requests %q", got)
	}
	f.requests()
	var c *store.ConflictError
	if _, err := s.Put(t.Context(), "k", bare, nil); !errors.As(err, &c) || c.Version != w || f.requests() != "read" {
		t.Errorf("got %v", err)
	}
}

// TestRemovedByHand: if a register was removed without the engine, and created again by
// another writer, it proves nothing about a write whose reply was lost.
func TestRemovedByHand(t *testing.T) {
	kinds(t, func(t *testing.T, f *server) {
		synctest.Test(t, func(t *testing.T) {
			s := f.open(t, func(o *engine.Options) { engine.SetTries(o, 1) })
			v := mustPut(t, s, "k", "", "before")
			f.faults = []fault{lost}
			ctx, cancel := context.WithCancel(t.Context())
			if !f.carriesState {
				time.AfterFunc(time.Microsecond, cancel) // no time to read back
			}
			_, err := s.Put(ctx, "k", v, []byte("ours"))
			cancel()
			if store.OutcomeOf(err) != store.Unknown {
				t.Fatal(err)
			}
			delete(f.rows, "k")
			settle := func(want store.Resolution) {
				t.Helper()
				if found, err := s.Resolve(t.Context(), "k", v, store.AttemptedVersion(err)); err != nil || found.Resolution != want {
					t.Errorf("got %+v, %v; want %v", found, err, want)
				}
			}
			settle(store.ResolutionUnknown)
			mustPut(t, f.honest(), "k", "", "another's")
			settle(store.ResolutionUnknown)
		})
	})
}

// TestLateArrival: a try that reaches the server late cannot undo anything.
func TestLateArrival(t *testing.T) {
	kinds(t, func(t *testing.T, f *server) {
		synctest.Test(t, func(t *testing.T) {
			s := f.open(t, nil)
			v := mustPut(t, s, "k", "", "before")
			f.faults = []fault{delayed}
			v = mustPut(t, s, "k", v, "ours")
			mustPut(t, s, "k", v, "last")
			f.release()
			if value, _, err := s.Get(t.Context(), "k"); err != nil || string(value) != "last" {
				t.Errorf("after the late arrival: %s %v", value, err)
			}
		})
	})
}

// TestFollowsTombstone: a register that is created again names the states before its
// deletion, so that a write from before can be resolved.
func TestFollowsTombstone(t *testing.T) {
	kinds(t, func(t *testing.T, f *server) {
		s := f.open(t, nil)
		v := mustPut(t, s, "k", "", "old")
		if err := s.Delete(t.Context(), "k", v); err != nil {
			t.Fatal(err)
		}
		w := mustPut(t, s, "k", "", "new")
		row := f.rows["k"]
		if len(row.Predecessors) != 2 || f.number && row.Number != 3 {
			t.Errorf("it follows %q, number %d; version %q", row.Predecessors, row.Number, w)
		}
	})
}

// TestSync: on a server whose reads can show a write before it is durable, a write whose reply is lost counts as
// applied only if Sync has made it durable.
func TestSync(t *testing.T) {
	kinds(t, func(t *testing.T, s *server) {
		var syncs int
		var fail error
		st := s.open(t, func(o *engine.Options) {
			o.Sync = func(context.Context) error { syncs++; return fail }
		})
		v := mustPut(t, st, "k", "", "one")
		if syncs != 0 {
			t.Errorf("a write with a reply called Sync %d times", syncs)
		}
		s.faults = []fault{lost}
		v2, err := st.Put(t.Context(), "k", v, []byte("two"))
		if err != nil || syncs != 1 {
			t.Fatalf("a lost reply: %v, after %d calls of Sync", err, syncs)
		}
		if found, err := st.Resolve(t.Context(), "k", v, v2); err != nil || found.Resolution != store.ResolutionApplied || syncs != 2 {
			t.Errorf("Resolve: %v, %v, after %d calls of Sync", found.Resolution, err, syncs)
		}
		fail = errLost
		s.faults = []fault{lost}
		if _, err := st.Put(t.Context(), "k", v2, []byte("three")); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("Sync failed: %v (%v)", err, store.OutcomeOf(err))
		}
		if found, err := st.Resolve(t.Context(), "k", v, v2); err == nil {
			t.Errorf("Resolve although Sync failed: %v", found.Resolution)
		}
	})
}

// damaged is a server whose only register is damaged until a write replaces it.
type damaged struct {
	*server
	first engine.Stored
}

func (d damaged) Read(ctx context.Context, key string, seen engine.Tag) (engine.Stored, error) {
	found, err := d.server.Read(ctx, key, seen)
	if err == nil && found.Nonce == d.first.Nonce {
		err = store.ErrCorrupt
	}
	return found, err
}

func (d damaged) ReadRaw(context.Context, string) ([]byte, engine.Stored, error) {
	return []byte("?"), d.first, nil
}

// TestRepairWithoutACopy: if the copy fails, Repair does not ask for the end of the copy, and changes nothing.
func TestRepairWithoutACopy(t *testing.T) {
	s := &server{}
	mustPut(t, s.open(t, nil), "k", "", "one")
	st, err := engine.New(damaged{s, s.rows["k"]}, &engine.Options{Trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	before, full := s.rows["k"], errors.New("the disk is full")
	err = st.Repair(t.Context(), "k", func(version string, _ []byte) error {
		if version == "" {
			t.Error("a copy that failed was to be ended")
		}
		return full
	})
	if !errors.Is(err, full) || store.OutcomeOf(err) != store.NotApplied || s.rows["k"].Nonce != before.Nonce {
		t.Errorf("%v, %+v", err, s.rows["k"])
	}
}

// TestRepairSync: like TestSync, for the tombstone that Repair writes.
func TestRepairSync(t *testing.T) {
	for _, fail := range []error{nil, errLost} {
		s := &server{}
		mustPut(t, s.open(t, nil), "k", "", "one")
		syncs := 0
		st, err := engine.New(damaged{s, s.rows["k"]}, &engine.Options{Trusted: true, Sync: func(context.Context) error { syncs++; return fail }})
		if err != nil {
			t.Fatal(err)
		}
		s.faults = []fault{lost}
		err = st.Repair(t.Context(), "k", func(string, []byte) error { return nil })
		if syncs != 1 || (err == nil) != (fail == nil) || fail != nil && store.OutcomeOf(err) != store.Unknown {
			t.Errorf("Sync returns %v: %v (%v), after %d calls of Sync", fail, err, store.OutcomeOf(err), syncs)
		}
	}
}
