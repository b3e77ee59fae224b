package leaderlock_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/adapters/leaderlock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// put makes a store whose record has this value.
func put(t *testing.T, value []byte) *memstore.Store {
	t.Helper()
	st := memstore.New()
	if _, err := st.Put(t.Context(), key, "", value); err != nil {
		t.Fatal(err)
	}
	return st
}

func golden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOldRecord: a record that an earlier version wrote.
func TestOldRecord(t *testing.T) {
	st := put(t, golden(t, "record-v1.json"))
	l := newLock(t, st)
	ler, _ := get(t, l)
	if ler.HolderIdentity != "old_AAAAAAAAAAAAAAAA" || ler.LeaseDurationSeconds != 15 || ler.LeaderTransitions != 1770091506123456 ||
		ler.AcquireTime.Unix() != 1770091506 || ler.RenewTime.Unix() != 1770091566 {
		t.Errorf("the record is %+v", ler)
	}
	if token := lead(t, l); token != 1770091506123457 {
		t.Errorf("the next token is %d", token)
	}
	// The record has the documented fields.
	var old, now map[string]any
	if err := json.Unmarshal(golden(t, "record-v1.json"), &old); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(mustGet(t, st)), &now); err != nil {
		t.Fatal(err)
	}
	for name := range now {
		if _, ok := old[name]; !ok || len(now) != len(old) {
			t.Errorf("the record has the fields of %v, want those of %v", now, old)
		}
	}
}

// TestFutureFields: the fields of a later version of this package, or of client-go, survive every write of this version.
func TestFutureFields(t *testing.T) {
	const future = `"zone":{"a":[1,2.50,"<&>"]}`
	st := put(t, []byte(strings.Replace(string(golden(t, "record-v1.json")), "{", "{"+future+",", 1)))
	a, b := newLock(t, st), newLock(t, st)
	lead(t, a)
	var ofA struct{ Zone json.RawMessage }
	for i, write := range []func() error{
		func() error { return a.Update(t.Context(), recordOf(a)) },
		func() error { return a.Update(t.Context(), freeRecord()) },
		func() error { lead(t, b); return nil },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(mustGet(t, st)), &ofA); err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(ofA.Zone, &value); err != nil || asJSON(t, value) != asJSON(t, map[string]any{"a": []any{1, 2.5, "<&>"}}) {
			t.Errorf("write %d leaves %s", i, ofA.Zone)
		}
	}
}

// TestForeignRecords: a register with another value is neither absent nor replaced.
func TestForeignRecords(t *testing.T) {
	good := string(golden(t, "record-v1.json"))
	for _, value := range []string{
		"", "null", "[]", "{}", "no JSON", good[:len(good)/2], good + good,
		strings.Replace(good, `"holdfast":1`, `"holdfast":2`, 1),
		strings.Replace(good, `"holdfast":1`, `"holdfast":"1"`, 1),
		strings.Replace(good, `"kind":"leader"`, `"kind":"checkpoint"`, 1),
		strings.Replace(good, election, "prod/another", 1),
		strings.Replace(good, "1770091506123456", "0", 1),
		strings.Replace(good, "1770091506123456", "-1", 1),
		strings.Replace(good, "1770091506123456", "18446744073709551615", 1),
		strings.Replace(good, `"leaseDurationSeconds":15`, `"leaseDurationSeconds":0`, 1),
		strings.Replace(good, `"acquireTime":"2026`, `"acquireTime":"now`, 1),
	} {
		if value == good {
			t.Fatal("a case changes nothing")
		}
		st := put(t, []byte(value))
		l := newLock(t, st)
		if _, _, err := l.Get(t.Context()); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), key) {
			t.Errorf("%.60q: Get returns %v", value, err)
		}
		if err := l.Create(t.Context(), recordOf(l)); err == nil {
			t.Errorf("%.60q: Create succeeds", value)
		}
		if err := l.Update(t.Context(), recordOf(l)); err == nil {
			t.Errorf("%.60q: Update succeeds", value)
		}
		if mustGet(t, st) != value {
			t.Errorf("%.60q was replaced", value)
		}
	}
	if _, _, err := newLock(t, put(t, []byte(strings.Replace(good, `"holdfast":1`, `"holdfast":2`, 1)))).Get(t.Context()); !strings.Contains(err.Error(), "newer program") {
		t.Errorf("the format of a later version: %v", err)
	}
}

// FuzzDecode: no value makes a candidate panic, or replaces a record that is not its own kind.
func FuzzDecode(f *testing.F) {
	text, err := os.ReadFile("testdata/record-v1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"holdfast":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) > 1000 {
			return
		}
		l, err := leaderlock.New(put(t, value), election, "host", nil)
		if err != nil {
			t.Fatal(err)
		}
		ler, _, err := l.Get(t.Context())
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("got %v", err)
			}
			return
		}
		if err := l.Update(t.Context(), recordOf(l)); err != nil {
			t.Fatal(err)
		}
		if after, _ := get(t, l); after.LeaderTransitions != ler.LeaderTransitions+1 {
			t.Errorf("LeaderTransitions is %d after %d", after.LeaderTransitions, ler.LeaderTransitions)
		}
	})
}
