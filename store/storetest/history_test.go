package storetest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

type call = storetest.Call

func TestHistoryByHand(t *testing.T) {
	get := func(start, end int64, v store.Version, value string) call {
		return call{Kind: "get", Start: start, End: end, Version: v, Value: value}
	}
	put := func(start, end int64, prev, v store.Version, value string) call {
		return call{Kind: "put", Start: start, End: end, Prev: prev, Version: v, Value: value}
	}
	del := func(start, end int64, prev store.Version) call {
		return call{Kind: "delete", Start: start, End: end, Prev: prev}
	}
	refused := func(start, end int64, prev store.Version) call {
		return call{Kind: "refused", Start: start, End: end, Prev: prev}
	}
	met := func(start, end int64, prev, v store.Version, value string) call {
		return call{Kind: "refused", Start: start, End: end, Prev: prev, Version: v, Value: value, Known: true}
	}
	maybe := func(start int64, prev store.Version, value string) call {
		return call{Kind: "put?", Start: start, Prev: prev, Value: value}
	}
	maybeDelete := func(start int64, prev store.Version) call { return call{Kind: "delete?", Start: start, Prev: prev} }

	for _, c := range []struct {
		name  string
		calls []call
		wrong string // part of the error; empty: the history is sound
	}{
		{"nothing", nil, ""},
		{"one after the other", []call{put(1, 2, "", "a", "x"), get(3, 4, "a", "x"), put(5, 6, "a", "b", "y"), get(7, 8, "b", "y"), del(9, 10, "b"), get(11, 12, "", "")}, ""},
		{"a read while a put is under way may see it", []call{put(1, 10, "", "a", "x"), get(2, 3, "a", "x")}, ""},
		{"or not", []call{put(1, 10, "", "a", "x"), get(2, 3, "", "")}, ""},
		{"but not first see it and then not", []call{put(1, 10, "", "a", "x"), get(2, 3, "a", "x"), get(4, 5, "", "")}, "no order"},
		{"a read from the past", []call{put(1, 2, "", "a", "x"), put(3, 4, "a", "b", "y"), get(5, 6, "a", "x")}, "no order"},
		{"a read from the future", []call{get(1, 2, "a", "x"), put(3, 4, "", "a", "x")}, "no order"},
		{"a read from nowhere", []call{put(1, 2, "", "a", "x"), get(3, 4, "b", "y")}, "no order"},
		{"two winners", []call{put(1, 5, "", "a", "x"), put(2, 6, "", "b", "y")}, "no order"},
		{"two winners, and a delete between them", []call{put(1, 9, "", "a", "x"), del(2, 8, "a"), put(3, 7, "", "b", "y")}, ""},
		{"two winners, and a delete too late", []call{put(1, 3, "", "a", "x"), put(2, 4, "", "b", "y"), del(5, 6, "a")}, "no order"},
		{"a version twice", []call{put(1, 2, "", "a", "x"), del(3, 4, "a"), put(5, 6, "", "a", "y")}, "two writes have the version"},
		{"no version", []call{put(1, 2, "", "", "x")}, "no version"},
		{"a version with two values", []call{put(1, 2, "", "a", "x"), get(3, 4, "a", "y")}, "two values"},
		{"a refusal for no reason", []call{put(1, 2, "", "a", "x"), refused(3, 4, "a")}, "no order"},
		{"a refusal for a reason", []call{put(1, 2, "", "a", "x"), refused(3, 4, ""), refused(5, 6, "b")}, ""},
		{"a refusal of a creation where nothing is", []call{refused(1, 2, "")}, "no order"},
		{"a refusal that found an old state", []call{put(1, 2, "", "a", "x"), put(3, 4, "a", "b", "y"), met(5, 6, "", "a", "x")}, "no order"},
		{"a refusal that found the current state", []call{put(1, 2, "", "a", "x"), put(3, 4, "a", "b", "y"), met(5, 6, "a", "b", "y")}, ""},
		{"a lost update", []call{put(1, 2, "", "a", "x"), put(3, 4, "a", "b", "y"), put(5, 6, "a", "c", "z")}, "no order"},
		{"a delete undone", []call{put(1, 2, "", "a", "x"), del(3, 4, "a"), get(5, 6, "a", "x")}, "no order"},
		{"an unknown put that was applied", []call{maybe(1, "", "x"), get(2, 3, "q", "x"), put(4, 5, "q", "b", "y")}, ""},
		{"an unknown put that was not", []call{maybe(1, "", "x"), get(2, 3, "", ""), put(4, 5, "", "b", "y"), get(6, 7, "b", "y")}, ""},
		{"an unknown put that comes late", []call{maybe(1, "", "x"), get(2, 3, "", ""), get(4, 5, "q", "x")}, ""},
		{"an unknown put that comes and goes", []call{maybe(1, "", "x"), get(2, 3, "q", "x"), get(4, 5, "", "")}, "no order"},
		{"an unknown put that comes twice", []call{maybe(1, "", "x"), get(2, 3, "q", "x"), del(4, 5, "q"), get(6, 7, "r", "x")}, "no order"},
		{"two unknown puts", []call{maybe(1, "", "x"), maybe(2, "", "x"), get(3, 4, "q", "x"), del(5, 6, "q"), get(7, 8, "r", "x")}, ""},
		{"an unknown put with another value", []call{maybe(1, "", "x"), get(2, 3, "q", "y")}, "no order"},
		{"an unknown put seen only by its refusals", []call{maybe(1, "", "x"), refused(2, 3, ""), refused(4, 5, "")}, ""},
		{"an unknown delete that was applied", []call{put(1, 2, "", "a", "x"), maybeDelete(3, "a"), get(4, 5, "a", "x"), get(6, 7, "", "")}, ""},
		{"an unknown delete of something else", []call{put(1, 2, "", "a", "x"), put(3, 4, "a", "b", "y"), maybeDelete(5, "a"), get(6, 7, "", "")}, "no order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := storetest.HistoryOf(c.calls...).Check()
			switch {
			case c.wrong == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("got %v, want an error with %q", err, c.wrong)
			}
		})
	}
}

// TestHistoryAgainstBruteForce compares the check with one that tries every order, on
// random small histories, correct ones and spoiled ones.
func TestHistoryAgainstBruteForce(t *testing.T) {
	histories := 3000
	if os.Getenv("HOLDFAST_TORTURE") == "1" {
		histories = 300_000
	}
	verdicts := map[bool]int{}
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(seed, 1))
		calls, spoiled := randomCalls(r)
		err := storetest.HistoryOf(slices.Clone(calls)...).Check()
		want := explain(calls, make([]bool, len(calls)), "", "", map[store.Version]bool{})
		if (err == nil) != want || !spoiled && err != nil {
			t.Fatalf("seed %d, spoiled %v: the check says %v, brute force says %v, of\n%+v", seed, spoiled, err, want, calls)
		}
		verdicts[want]++
	}
	if verdicts[true] < histories/4 || verdicts[false] < histories/10 {
		t.Errorf("the histories are too much alike: %v", verdicts)
	}
}

// randomCalls runs random calls on a register, one after the other, widens them so
// that they overlap, and then spoils some of the results.
func randomCalls(r *rand.Rand) (calls []call, spoiled bool) {
	var v store.Version
	var value string
	versions := []store.Version{""}
	n := 2 + r.IntN(8)
	for i := range n {
		at := int64(100 * (i + 1))
		c := call{Start: at - r.Int64N(250), End: at + r.Int64N(250) + 1, Prev: v}
		if r.IntN(3) == 0 {
			c.Prev = versions[r.IntN(len(versions))]
		}
		newValue := string(rune('x' + r.IntN(2)))
		newV := store.Version(rune('a' + i))
		switch p := r.IntN(10); {
		case p < 4:
			c.Kind, c.Version, c.Value = "get", v, value
		case p < 8 && c.Prev == v:
			c.Kind, c.Version, c.Value = "put", newV, newValue
			v, value = newV, newValue
			versions = append(versions, v)
		case c.Prev == v && v != "":
			c.Kind = "delete"
			v, value = "", ""
		case c.Prev != v:
			c.Kind, c.Known = "refused", r.IntN(2) == 0
			if c.Known {
				c.Version, c.Value = v, value
			}
		default:
			continue
		}
		if c.Kind == "put" && r.IntN(4) == 0 {
			c.Kind, c.Version = "put?", ""
		} else if c.Kind == "delete" && r.IntN(4) == 0 {
			c.Kind = "delete?"
		}
		calls = append(calls, c)
	}
	unique(calls)
	if spoiled = r.IntN(2) == 0 && len(calls) > 0; spoiled {
		c := &calls[r.IntN(len(calls))]
		switch r.IntN(4) {
		case 0:
			c.Prev = versions[r.IntN(len(versions))]
		case 1:
			if c.Kind == "get" {
				c.Version, c.Value = versions[r.IntN(len(versions))], "x"
				if c.Version == "" {
					c.Value = ""
				}
			}
		case 2:
			c.Start, c.End = c.Start+150, c.End+150
		case 3:
			c.Start, c.End = c.Start-150, c.End-150
		}
		unique(calls)
	}
	return calls, spoiled
}

// unique numbers starts and ends so that no two are equal, and keeps their order.
func unique(calls []call) {
	var times []*int64
	for i := range calls {
		times = append(times, &calls[i].Start, &calls[i].End)
	}
	slices.SortStableFunc(times, func(a, b *int64) int { return cmp.Compare(*a, *b) })
	for i, at := range times {
		*at = int64(i + 1)
	}
}

// explain tries all orders of the calls that are not placed yet.
func explain(calls []call, placed []bool, v store.Version, value string, made map[store.Version]bool) bool {
	done := true
	for i, c := range calls {
		done = done && (placed[i] || strings.HasSuffix(c.Kind, "?"))
	}
	if done {
		return true
	}
	for i, c := range calls {
		if placed[i] || !mayBeNext(calls, placed, c) {
			continue
		}
		placed[i] = true
		for _, next := range effects(calls, c, v, value, made) {
			if next.v != v && next.v != "" {
				made[next.v] = true
			}
			if explain(calls, placed, next.v, next.value, made) {
				return true
			}
			if next.v != v {
				delete(made, next.v)
			}
		}
		placed[i] = false
	}
	return false
}

func mayBeNext(calls []call, placed []bool, c call) bool {
	for j, d := range calls {
		if !placed[j] && !strings.HasSuffix(d.Kind, "?") && d.End < c.Start {
			return false
		}
	}
	return true
}

type effect struct {
	v     store.Version
	value string
}

// effects returns the states that c may leave; none if it cannot happen now.
func effects(calls []call, c call, v store.Version, value string, made map[store.Version]bool) []effect {
	same := []effect{{v, value}}
	switch c.Kind {
	case "get":
		if c.Version == v && c.Value == value {
			return same
		}
	case "refused":
		if c.Prev != v && (!c.Known || c.Version == v && c.Value == value) {
			return same
		}
	case "put":
		if c.Prev == v && !made[c.Version] {
			return []effect{{c.Version, c.Value}}
		}
	case "delete", "delete?":
		if c.Prev == v {
			return []effect{{"", ""}}
		}
	case "put?":
		if c.Prev != v {
			return nil
		}
		all := []effect{{store.Version(fmt.Sprint("unseen", c.Start)), c.Value}}
		for _, d := range calls {
			for _, v := range []store.Version{d.Version, d.Prev} {
				if v != "" && !made[v] && !known(calls, v) && fitting(calls, v, c.Value) {
					all = append(all, effect{v, c.Value})
				}
			}
		}
		return all
	}
	return nil
}

// fitting reports whether no call saw v with another value.
func fitting(calls []call, v store.Version, value string) bool {
	return !slices.ContainsFunc(calls, func(c call) bool {
		return (c.Kind == "get" || c.Known) && c.Version == v && c.Value != value
	})
}

func known(calls []call, v store.Version) bool {
	return slices.ContainsFunc(calls, func(c call) bool { return c.Kind == "put" && c.Version == v })
}

// TestHistoryRecords checks how a history records real calls and their errors.
func TestHistoryRecords(t *testing.T) {
	ctx := t.Context()
	var h storetest.History
	lost := errors.New("reply lost")
	m := memstore.New()
	s := h.Record(store.Intercept(m, func(ctx context.Context, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		if string(op.Value) == "lost" && op.Kind.Write() {
			op.Version = ""
			return lost
		}
		return err
	}))
	v, err := s.Put(ctx, "job", "", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(ctx, "job", "", []byte("two")); !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
	if _, _, changed, err := store.GetIfChanged(ctx, s, "job", v); changed || err != nil {
		t.Fatal(changed, err)
	}
	if _, err := s.Put(ctx, "job", v, []byte("lost")); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	_, w, err := s.Get(ctx, "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, "job", w); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(ctx, "job"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if err := h.Check(); err != nil {
		t.Error(err)
	}
	if h.Len() != 7 {
		t.Errorf("%d calls were recorded, want 7", h.Len())
	}
	// A change that the history did not record: another history must notice it.
	if _, err := m.Put(ctx, "job", "", []byte("stranger")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(ctx, "job"); err != nil {
		t.Fatal(err)
	}
	if err := h.Check(); err == nil {
		t.Error("a value from nowhere was explained")
	}
}

// TestHistoryUnderWay checks a history while calls have not returned.
func TestHistoryUnderWay(t *testing.T) {
	var h storetest.History
	release := make(chan struct{})
	entered := make(chan struct{})
	s := h.Record(store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		if op.Kind == store.OpPut {
			close(entered)
			<-release
		}
		return err
	}))
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = s.Put(t.Context(), "job", "", []byte("one")) })
	<-entered
	if _, _, err := s.Get(t.Context(), "job"); err != nil {
		t.Error(err)
	}
	if err := h.Check(); err != nil {
		t.Errorf("with the put under way: %v", err)
	}
	close(release)
	wg.Wait()
	if err := h.Check(); err != nil {
		t.Errorf("after it returned: %v", err)
	}
}
