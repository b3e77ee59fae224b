package checkpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

var keeping = &checkpoint.Options{History: true}

// entries reads a history, as one line for each entry.
func entries(t testing.TB, k *checkpoint.RegisterStore, key string) (lines []string) {
	t.Helper()
	all, err := k.History(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		line := fmt.Sprintf("%d %s", e.Write, e.Kind)
		if e.Exists {
			line += fmt.Sprintf(" at %d", e.Sequence)
		}
		if e.Token > 0 {
			line += fmt.Sprintf(" token %d", e.Token)
		}
		lines = append(lines, line)
	}
	return lines
}

func sameEntries(t testing.TB, k *checkpoint.RegisterStore, want ...string) {
	t.Helper()
	if got := entries(t, k, "k"); !slices.Equal(got, want) {
		t.Errorf("the history is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// done does not accept an error.
func done[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// everything changes the checkpoint k in every way.
func everything(t testing.TB, k *checkpoint.RegisterStore) {
	t.Helper()
	advance(t, k, "k", at(3), nil, checkpoint.Advanced)
	advance(t, k, "k", at(5), nil, checkpoint.Advanced)
	advance(t, k, "k", at(4), nil, checkpoint.Behind)
	done(k.Fence(t.Context(), "k", 7))(t)
	advance(t, k, "k", at(6), &checkpoint.AdvanceOptions{Token: 7}, checkpoint.Advanced)
	advance(t, k, "k", at(8), &checkpoint.AdvanceOptions{Token: 9}, checkpoint.Advanced)
	done(k.Reset(t.Context(), "k", at(2), &checkpoint.ChangeOptions{Token: 9}))(t)
	done(k.Delete(t.Context(), "k", &checkpoint.ChangeOptions{Token: 9}))(t)
	done(k.Copy(t.Context(), checkpoint.Checkpoint{Key: "k", Exists: true, Position: at(20), Epoch: 5, Token: 10}))(t)
}

var allOfIt = []string{
	"1 created at 3", "2 advanced at 5", "3 new token at 5 token 7", "4 advanced at 6 token 7", "5 new token at 8 token 9",
	"6 reset at 2 token 9", "7 deleted token 9", "8 copied at 20 token 10",
}

// Each change leaves its entry, in the same write: the keeper sends no request more.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := map[bool]int{}
		for _, on := range []bool{true, false} {
			mem := memstore.New()
			st := store.Intercept(mem, func(ctx context.Context, op *store.Op, next store.Handler) error {
				requests[on]++
				return next(ctx, op)
			})
			k := open(t, st, &checkpoint.Options{History: on})
			everything(t, k)
			before := requests[on]
			if want := allOfIt; on {
				sameEntries(t, k, want...)
			} else {
				sameEntries(t, k)
			}
			if reads := requests[on] - before; reads != 1 {
				t.Errorf("History sent %d requests", reads)
			}
			if has := bytes.Contains(raw(t, mem, "k"), []byte(`"history"`)); has != on {
				t.Errorf("the record has a history: %v, want %v", has, on)
			}
			requests[on] = before
			// A deleted checkpoint keeps its history.
			done(k.Delete(t.Context(), "k", &checkpoint.ChangeOptions{Token: 10}))(t)
			if got := entries(t, open(t, mem, nil), "k"); on && got[len(got)-1] != "9 deleted token 10" {
				t.Errorf("after the deletion: %q", got)
			}
			if _, err := k.History(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("no checkpoint: %v", err)
			}
		}
		if requests[true] != requests[false] {
			t.Errorf("%d requests with a history, %d without", requests[true], requests[false])
		}
	})
}

// A history begins with the state before. A keeper without the option continues it, and the change of a
// program without histories is unrecorded.
func TestHistoryOfOtherKeepers(t *testing.T) {
	st := memstore.New()
	plain, k := open(t, st, nil), open(t, st, keeping)
	advance(t, plain, "k", at(1), nil, checkpoint.Advanced)
	advance(t, k, "k", at(2), nil, checkpoint.Advanced)
	advance(t, plain, "k", at(3), nil, checkpoint.Advanced)
	older := func(sequence, n int) {
		t.Helper()
		value, version, err := st.Get(t.Context(), "checkpoint/k")
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(value, &all); err != nil {
			t.Fatal(err)
		}
		all["sequence"], all["n"] = json.RawMessage(fmt.Sprint(sequence)), json.RawMessage(fmt.Sprint(n))
		all["nonce"] = json.RawMessage(`"other"`)
		done(st.Put(t.Context(), "checkpoint/k", version, done(json.Marshal(all))(t)))(t)
	}
	older(9, 6) // after two more writes
	sameEntries(t, k, "1 begun at 1", "2 advanced at 2", "3 advanced at 3", "6 unrecorded at 9")
	advance(t, plain, "k", at(10), nil, checkpoint.Advanced)
	older(11, 8)
	sameEntries(t, k, "1 begun at 1", "2 advanced at 2", "3 advanced at 3", "6 unrecorded at 9", "7 advanced at 10", "8 unrecorded at 11")
}

// A long history answers approximately where the checkpoint was, at every age, and keeps a reset. The record
// does not grow.
func TestHistoryThins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		k := open(t, st, keeping)
		begun := time.Now()
		for minute := range 3 * 24 * 60 {
			time.Sleep(time.Minute)
			opts := &checkpoint.AdvanceOptions{Token: 1795220270042317 + uint64(minute)/600}
			advance(t, k, "k", at(1e12+uint64(minute)), opts, checkpoint.Advanced)
			if minute == 24*60 {
				done(k.Reset(t.Context(), "k", at(1e12+uint64(minute)-100), &checkpoint.ChangeOptions{Token: opts.Token}))(t)
			}
		}
		all := done(k.History(t.Context(), "k"))(t)
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw(t, st, "k"), &fields); err != nil {
			t.Fatal(err)
		}
		size := len(fields["history"])
		t.Logf("%d entries in %d bytes", len(all), size)
		if size > 640 || len(all) < 20 {
			t.Errorf("%d entries in %d bytes", len(all), size)
		}
		if all[0].Kind != checkpoint.HistoryCreated || all[0].Time.Sub(begun) != time.Minute {
			t.Errorf("the first entry is %+v", all[0])
		}
		if !slices.ContainsFunc(all, func(e checkpoint.HistoryEntry) bool { return e.Kind == checkpoint.HistoryReset }) {
			t.Error("the reset is not in the history")
		}
		now := time.Now()
		for _, ago := range []time.Duration{15 * time.Minute, time.Hour, 7 * time.Hour, 24 * time.Hour, 60 * time.Hour} {
			i := slices.IndexFunc(all, func(e checkpoint.HistoryEntry) bool { return !e.Time.Before(now.Add(-ago)) })
			gap := all[i].Time.Sub(all[i-1].Time)
			t.Logf("%v ago the entries are %v apart", ago, gap)
			if gap > ago*3/4+time.Minute {
				t.Errorf("%v ago, the entries are %v apart", ago, gap)
			}
		}
	})
}

// Two entries always fit, and notable ones alone are bounded as well.
func TestHistoryOfResets(t *testing.T) {
	st := memstore.New()
	k := open(t, st, keeping)
	for i := range uint64(200) {
		done(k.Reset(t.Context(), "k", at(1<<63+i), &checkpoint.ChangeOptions{Token: 1<<63 + i<<50}))(t)
	}
	got := entries(t, k, "k")
	if value := raw(t, st, "k"); len(value) > 1024 || len(got) < 5 || !strings.HasPrefix(got[len(got)-1], "200 reset") || !strings.HasPrefix(got[0], "1 reset") {
		t.Errorf("%d bytes: %q", len(value), got)
	}
}

// Whatever the field has, the checkpoint works. A keeper without the option leaves it as it is.
func TestDamagedCheckpointHistory(t *testing.T) {
	for _, field := range []string{
		`null`, `7`, `{}`, `"x"`, `[7]`, `[[]]`, `[[0,1,1]]`, `[[0,1,1,1,1,1]]`, `[["a",1,1,1]]`, `[[0,1.5,1,1]]`, `[[0,-1,1,1]]`, `[[0,99999999999999,1,1]]`,
		`[[0,8000000000000,1,1],[0,8000000000000,1,1]]`, `[[0,1,1,1],[0,9223372036854775807,1,1]]`, `[[0,1,18446744073709551615,1]]`,
		`[[0,8000000000000,1,1],[0,8000000000000,1,1],[0,-8000000000000,1,1]]`, `[` + strings.Repeat(`[0,1,1,1],`, 5000) + `[0,1,1,1]]`,
	} {
		value := fmt.Sprintf(`{"holdfast":1,"kind":"checkpoint","key":"k","epoch":1,"sequence":1,"n":2,"nonce":"N","history":%s}`, field)
		st := memstore.New()
		done(st.Put(t.Context(), "checkpoint/k", "", []byte(value)))(t)
		k := open(t, st, nil)
		if _, err := k.History(t.Context(), "k"); field != "null" && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%.60s: read with %v", field, err)
		}
		advance(t, k, "k", at(2), nil, checkpoint.Advanced)
		if got := raw(t, st, "k"); field != "null" && !bytes.Contains(got, []byte(`"history":`+field)) {
			t.Errorf("%.60s: changed to %.200s", field, got)
		}
		advance(t, open(t, st, keeping), "k", at(3), nil, checkpoint.Advanced)
		got := entries(t, k, "k")
		if want := []string{"3 begun at 2", "4 advanced at 3"}; field != "null" && !slices.Equal(got, want) {
			t.Errorf("%.60s: the new history is %q", field, got)
		}
	}
}

// A record without room for the history loses it, and nothing else.
func TestFullRecordDropsHistory(t *testing.T) {
	// In virtual time, because an entry contains the time since the entry before.
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		other := strings.Repeat("x", store.MaxValue-400)
		value := fmt.Sprintf(`{"holdfast":1,"kind":"checkpoint","key":"k","epoch":1,"sequence":1,"n":1,"nonce":"N","other":%q}`, other)
		done(st.Put(t.Context(), "checkpoint/k", "", []byte(value)))(t)
		k := open(t, st, keeping)
		for i := range uint64(30) {
			time.Sleep(time.Second)
			advance(t, k, "k", at(1e15+i), nil, checkpoint.Advanced)
		}
		if got := raw(t, st, "k"); !bytes.Contains(got, []byte(other)) {
			t.Error("another field is lost")
		}
		if got := entries(t, k, "k"); len(got) > 15 {
			t.Errorf("the history is %q", got)
		}
		// Control: with more room there are all of them.
		k = open(t, memstore.New(), keeping)
		for i := range uint64(20) {
			time.Sleep(time.Second)
			advance(t, k, "k", at(1e15+i), nil, checkpoint.Advanced)
		}
		if got := entries(t, k, "k"); len(got) != 20 {
			t.Errorf("the history is %q", got)
		}
	})
}

// What this version has written can always be read, also a kind of a later version.
func TestGoldenHistory(t *testing.T) {
	k := open(t, holding(t, golden(t, "history-v1.json")), nil)
	all := done(k.History(t.Context(), goldenKey))(t)
	at := time.Date(2026, 11, 24, 2, 0, 0, 0, time.UTC)
	want := []checkpoint.HistoryEntry{
		{Kind: checkpoint.HistoryCreated, Time: at, Write: 1, Exists: true, Sequence: 17},
		{Kind: checkpoint.HistoryAdvanced, Time: at.Add(time.Minute), Write: 5, Token: 7, Exists: true, Sequence: 1<<64 - 1},
		{Kind: checkpoint.HistoryUnrecorded, Time: at, Write: 6, Token: 7},
	}
	if !slices.Equal(all, want) {
		t.Errorf("got  %+v\nwant %+v", all, want)
	}
}

// A write whose reply is lost leaves exactly one entry; a request that is lost leaves none.
func TestHistoryOfLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		st := faultstore.New(mem, faultstore.MustParse("put * #1 lose; put * #3 drop; put * #4 lose; put * #6 lose; put * #9 drop"))
		everything(t, open(t, st, keeping))
		sameEntries(t, open(t, mem, nil), allOfIt...)
		if rules := st.Unmatched(); len(rules.Rules) > 0 {
			t.Errorf("no call matched %v", rules)
		}
	})
}

// A write that fails leaves no entry, and the keeper does not remember one.
func TestHistoryOfFailedWrite(t *testing.T) {
	mem := memstore.New()
	st := faultstore.New(mem, faultstore.MustParse("put * #2 fail"))
	k := open(t, st, keeping)
	advance(t, k, "k", at(1), nil, checkpoint.Advanced)
	if _, err := k.Advance(t.Context(), "k", at(2), nil); store.OutcomeOf(err) != store.NotApplied || err == nil {
		t.Fatalf("got %v", err)
	}
	advance(t, k, "k", at(3), nil, checkpoint.Advanced)
	sameEntries(t, k, "1 created at 1", "2 advanced at 3")
}

// checkHistories compares the history in each record with the writes that took effect, and returns the number
// of entries.
func checkHistories(t *testing.T, register string, states []stored) (n int) {
	t.Helper()
	same := func(a, b stored) bool {
		return a.Epoch == b.Epoch && a.Token == b.Token && (a.Sequence == nil) == (b.Sequence == nil) && (a.Sequence == nil || *a.Sequence == *b.Sequence)
	}
	// first is the first write of the state that write w has.
	first := func(w uint64) uint64 {
		for ; w > 1 && same(states[w-1], states[w-2]); w-- {
		}
		return w
	}
	for i, s := range states {
		all, err := checkpoint.DecodeHistory(s.History)
		if err != nil {
			t.Fatalf("%s: write %d: %v", register, s.N, err)
		}
		if len(all) == 0 {
			if i > 0 && states[i-1].History != nil {
				t.Errorf("%s: write %d lost the history", register, s.N)
			}
			continue
		}
		n += len(all)
		told := map[uint64]bool{}
		for _, e := range all {
			if e.Write > s.N {
				t.Fatalf("%s: write %d has an entry of write %d", register, s.N, e.Write)
			}
			w := first(e.Write)
			told[w] = true
			is, was := states[w-1], stored{Epoch: 1}
			if w > 1 {
				was = states[w-2]
			}
			if is.Token != e.Token || (is.Sequence != nil) != e.Exists || e.Exists && *is.Sequence != e.Sequence {
				t.Errorf("%s: write %d is %+v, and the history tells %+v", register, e.Write, is, e)
			}
			kind := checkpoint.HistoryAdvanced
			switch {
			case is.Epoch > was.Epoch && is.Sequence != nil:
				kind = checkpoint.HistoryReset
			case is.Epoch > was.Epoch:
				kind = checkpoint.HistoryDeleted
			case is.Sequence != nil && was.Sequence == nil:
				kind = checkpoint.HistoryCreated
			case is.Token > was.Token:
				kind = checkpoint.HistoryNewToken
			}
			if e.Kind != kind && e.Kind != checkpoint.HistoryBegun {
				t.Errorf("%s: write %d is told as %s, and was %s", register, e.Write, e.Kind, kind)
			}
		}
		if last := all[len(all)-1].Write; last != s.N {
			t.Errorf("%s: the last entry of write %d is of write %d", register, s.N, last)
		}
		for w := all[0].Write + 1; w <= s.N && len(s.History) < 560; w++ { // with more bytes, entries may have been dropped
			if !told[first(w)] {
				t.Errorf("%s: write %d has no entry for write %d: %s", register, s.N, w, s.History)
			}
		}
	}
	return n
}
