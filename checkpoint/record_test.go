package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

const goldenKey = "jobs/orders"

// holding returns a store whose register of the checkpoint goldenKey has this value.
func holding(t testing.TB, value []byte) store.Store {
	t.Helper()
	st := memstore.New()
	if _, err := st.Put(t.Context(), "checkpoint/"+goldenKey, "", value); err != nil {
		t.Fatal(err)
	}
	return st
}

func raw(t testing.TB, st store.Store, key string) []byte {
	t.Helper()
	value, _, err := st.Get(t.Context(), "checkpoint/"+key)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	value, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(value, []byte("\n"))
}

// What an earlier release wrote still reads, to the last byte.
func TestGoldenRecordsRead(t *testing.T) {
	written := time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.UTC)
	for name, want := range map[string]checkpoint.Checkpoint{
		"record-v1.json": {
			Key: goldenKey, Exists: true, Epoch: 3, Token: 1763680000123, Written: written,
			Position: checkpoint.Position{Sequence: 1<<64 - 1, EventID: "mars@17 <ü>", Data: []byte(`{"cursor":"a&b"}`)},
		},
		"tombstone-v1.json": {Key: goldenKey, Epoch: 4, Token: 7, Written: written},
		"binary-v1.json": {
			Key: goldenKey, Exists: true, Epoch: 1,
			Position: checkpoint.Position{Data: []byte{0xff, 0, 0xfe}},
		},
	} {
		got, err := open(t, holding(t, golden(t, name)), nil).Get(t.Context(), goldenKey, nil)
		if (err == nil) != want.Exists || err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, want)
		}
	}
}

// varying are the parts of a record that no two writes have in common.
var varying = regexp.MustCompile(`"(nonce|written)":"[^"]*"`)

func TestRecordsWritten(t *testing.T) {
	st := memstore.New()
	k := open(t, st, nil)
	check := func(want string) {
		t.Helper()
		value := raw(t, st, "k")
		got := varying.ReplaceAllString(string(value), `"$1":_`)
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if bytes.ContainsAny(value, "\n") || !json.Valid(value) {
			t.Errorf("not JSON in one line: %s", value)
		}
	}
	advance(t, k, "k", at(0), nil, checkpoint.Advanced)
	check(`{"holdfast":1,"kind":"checkpoint","key":"k","epoch":1,"sequence":0,"n":1,"nonce":_,"written":_}`)
	advance(t, k, "k", checkpoint.Position{Sequence: 9, EventID: "<e>", Data: []byte(`{"a":1}`)}, &checkpoint.AdvanceOptions{Token: 4}, checkpoint.Advanced)
	check(`{"holdfast":1,"kind":"checkpoint","key":"k","epoch":1,"sequence":9,"event_id":"<e>","data":"{\"a\":1}","token":4,"n":2,"nonce":_,"written":_}`)
	if _, err := k.Reset(t.Context(), "k", checkpoint.Position{Data: []byte{0xff}}, &checkpoint.ChangeOptions{Token: 4}); err != nil {
		t.Fatal(err)
	}
	check(`{"holdfast":1,"kind":"checkpoint","key":"k","epoch":2,"sequence":0,"data_base64":"/w==","token":4,"n":3,"nonce":_,"written":_}`)
	if _, err := k.Delete(t.Context(), "k", &checkpoint.ChangeOptions{Token: 4}); err != nil {
		t.Fatal(err)
	}
	check(`{"holdfast":1,"kind":"checkpoint","key":"k","epoch":3,"token":4,"n":4,"nonce":_,"written":_}`)
}

// Fields that a later release added outlive the writes of this one.
func TestUnknownFieldsKept(t *testing.T) {
	st := holding(t, golden(t, "future-fields.json"))
	k := open(t, st, nil)
	advance(t, k, goldenKey, at(6), nil, checkpoint.Advanced)
	if _, err := k.Reset(t.Context(), goldenKey, at(2), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Delete(t.Context(), goldenKey, nil); err != nil {
		t.Fatal(err)
	}
	value := string(raw(t, st, goldenKey))
	if want := `,"Epoch":"not ours","a note":"kept","zone":{"b":[1,2.50,"<"],"a":null}}`; !strings.HasSuffix(value, want) {
		t.Errorf("got %s\nwant it to end in %s", value, want)
	}
}

// What is no checkpoint is neither absent nor overwritten.
func TestBadRecords(t *testing.T) {
	fields := `"holdfast":1,"kind":"checkpoint","key":"` + goldenKey + `","epoch":1,"sequence":1,"n":1,"nonce":"N"`
	swap := func(old, new string) string {
		if !strings.Contains(fields, old) {
			t.Fatalf("no %s", old)
		}
		return "{" + strings.Replace(fields, old, new, 1) + "}"
	}
	for name, value := range map[string]string{
		"empty":            "",
		"null":             "null",
		"a string":         `"x"`,
		"an array":         "[1]",
		"no version":       "{}",
		"garbage":          "\x00\x01garbage",
		"invalid UTF-8":    "{" + fields + ",\"x\":\"\xff\"}",
		"cut off":          "{" + fields,
		"something after":  "{" + fields + "} {}",
		"twice":            "{" + fields + `,"sequence":2}`,
		"unknown twice":    "{" + fields + `,"x":2,"x":3}`,
		"another kind":     swap(`"kind":"checkpoint"`, `"kind":"lease"`),
		"another key":      swap(goldenKey, "jobs/other"),
		"negative":         swap(`"sequence":1`, `"sequence":-1`),
		"fraction":         swap(`"sequence":1`, `"sequence":1.5`),
		"exponent":         swap(`"sequence":1`, `"sequence":1e3`),
		"above 2^64-1":     swap(`"sequence":1`, `"sequence":18446744073709551616`),
		"sequence as text": swap(`"sequence":1`, `"sequence":"1"`),
		"no epoch":         swap(`"epoch":1`, `"epoch":0`),
		"huge epoch":       swap(`"epoch":1`, `"epoch":18446744073709551615`),
		"no number":        swap(`,"n":1`, ``),
		"huge number":      swap(`"n":1`, `"n":18446744073709551615`),
		"no nonce":         swap(`"nonce":"N"`, `"nonce":""`),
		"event alone":      swap(`"sequence":1`, `"event_id":"x"`),
		"data alone":       swap(`"sequence":1`, `"data":""`),
		"data twice":       swap(`"sequence":1`, `"sequence":1,"data":"","data_base64":"AA=="`),
		"bad base64":       swap(`"sequence":1`, `"sequence":1,"data_base64":"%"`),
		"deep":             "{" + fields + `,"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}",
		"newer":            swap(`"holdfast":1`, `"holdfast":2`),
		"huge version":     swap(`"holdfast":1`, `"holdfast":99999999999999999999`),
	} {
		t.Run(name, func(t *testing.T) {
			st := holding(t, []byte(value))
			k := open(t, st, nil)
			want := store.ErrCorrupt
			if name == "newer" {
				want = checkpoint.ErrFormat
			}
			if _, err := k.Get(t.Context(), goldenKey, nil); !errors.Is(err, want) || !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
				t.Errorf("get: %v", err)
			}
			_, err := k.Advance(t.Context(), goldenKey, at(100), nil)
			refused(t, err, want)
			_, err = k.Fence(t.Context(), goldenKey, 100)
			refused(t, err, want)
			_, err = k.Reset(t.Context(), goldenKey, at(100), &checkpoint.ChangeOptions{Force: true})
			refused(t, err, want)
			_, err = k.Delete(t.Context(), goldenKey, &checkpoint.ChangeOptions{Force: true})
			refused(t, err, want)
			if got := string(raw(t, st, goldenKey)); got != value {
				t.Errorf("it was overwritten: %.200q", got)
			}
		})
	}
}

// A record that turns bad under a keeper that knows better is not overwritten.
func TestTurnedBad(t *testing.T) {
	st := memstore.New()
	k := open(t, st, nil)
	advance(t, k, "k", at(1), nil, checkpoint.Advanced)
	_, v, err := st.Get(t.Context(), "checkpoint/k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Put(t.Context(), "checkpoint/k", v, []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	_, err = k.Advance(t.Context(), "k", at(2), nil)
	refused(t, err, store.ErrCorrupt)
}

func TestPayload(t *testing.T) {
	st := memstore.New()
	k := open(t, st, nil)
	big := bytes.Repeat([]byte("x"), checkpoint.MaxPayload-100)
	advance(t, k, "k", checkpoint.Position{Sequence: 1, Data: big}, &checkpoint.AdvanceOptions{Token: 1 << 63}, checkpoint.Advanced)
	for i := range uint64(12) { // what could be saved can be fenced and written again
		if _, err := k.Fence(t.Context(), "k", 1<<63+i); err != nil {
			t.Fatal(err)
		}
	}
	if c := expectAt(t, k, "k", 1); !bytes.Equal(c.Data, big) {
		t.Error("the data came back changed")
	}
	for name, p := range map[string]checkpoint.Position{
		"data":      {Data: append(big, big...)},
		"event id":  {EventID: strings.Repeat("e", 70_000)},
		"escapes":   {Data: bytes.Repeat([]byte{1}, 20_000)},
		"in base64": {Data: bytes.Repeat([]byte{0xff}, 50_000)},
		"together":  {EventID: strings.Repeat("e", 31_000), Data: bytes.Repeat([]byte("d"), 31_000)},
	} {
		_, err := k.Advance(t.Context(), "k2", p, nil)
		refused(t, err, store.ErrTooLarge)
		if !strings.Contains(err.Error(), fmt.Sprint(len(p.Data))) {
			t.Errorf("%s: the error does not tell the size: %v", name, err)
		}
		_, err = k.Reset(t.Context(), "k2", p, nil)
		refused(t, err, store.ErrTooLarge)
	}
	_, err := k.Advance(t.Context(), "k2", checkpoint.Position{EventID: "\xff"}, nil)
	refused(t, err, store.ErrInvalid)
	// Whatever the bytes, they come back as they were; nil and empty differ.
	for i, data := range [][]byte{nil, {}, {0}, []byte("\xff\x00"), []byte("\u2028<&>\"\\\n\ufffd"), bytes.Repeat([]byte{0xc3}, 3)} {
		p := checkpoint.Position{Sequence: uint64(i), EventID: "\x00\u2028<", Data: data}
		advance(t, k, "bytes", p, nil, checkpoint.Advanced)
		if c := expectAt(t, open(t, st, nil), "bytes", uint64(i)); !reflect.DeepEqual(c.Position, p) {
			t.Errorf("got %#v, want %#v", c.Position, p)
		}
	}
}

// Whatever the register contains, the keeper does one of two things: it reads the record,
// and can update it without losing a field, or it refuses the record and leaves it as it
// is.
func FuzzRecord(f *testing.F) {
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		value, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) > store.MaxValue {
			return
		}
		st := holding(t, value)
		k := open(t, st, nil)
		before, err := k.Get(t.Context(), goldenKey, nil)
		if errors.Is(err, store.ErrCorrupt) {
			if _, err := k.Fence(t.Context(), goldenKey, 1<<63); !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("refused to Get and not to Fence: %v", err)
			}
			if !bytes.Equal(raw(t, st, goldenKey), value) {
				t.Fatal("a bad record was overwritten")
			}
			return
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if !utf8.ValidString(before.EventID) {
			t.Fatalf("event id %q", before.EventID)
		}
		if before.Token == 1<<64-1 {
			return
		}
		after, err := k.Fence(t.Context(), goldenKey, before.Token+1)
		if errors.Is(err, store.ErrTooLarge) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := open(t, st, nil).Get(t.Context(), goldenKey, nil)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("what was written does not read: %v", err)
		}
		again.Written, after.Written, before.Written = time.Time{}, time.Time{}, time.Time{}
		before.Token++
		if !reflect.DeepEqual(again, after) || !reflect.DeepEqual(again, before) {
			t.Fatalf("read  %+v\nwrote %+v\nread  %+v", before, after, again)
		}
	})
}

// An early release kept the nonces of the writes before in the record, and believed in
// them. They are read, and not written again: kept as they are they would be stale.
func TestRecentIsDropped(t *testing.T) {
	value := golden(t, "tombstone-v1.json")
	if !bytes.Contains(value, []byte(`"recent"`)) {
		t.Fatalf("no old record: %s", value)
	}
	st := holding(t, value)
	advance(t, open(t, st, nil), goldenKey, at(1), &checkpoint.AdvanceOptions{Token: 1 << 62}, checkpoint.Advanced)
	if value := raw(t, st, goldenKey); bytes.Contains(value, []byte("recent")) {
		t.Errorf("written again: %s", value)
	}
}
