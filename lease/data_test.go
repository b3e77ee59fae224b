package lease_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// longestHolder takes most room in JSON.
var longestHolder = strings.Repeat("\x01", 1024)

// longestName is one of the longest names, of characters that JSON writes in two bytes.
func longestName() string {
	return strings.Repeat(`"`, store.MaxKey-len(lease.DefaultKeyPrefix)-1)
}

// MaxData bytes of any content can be set, and outlast renewals, breaks, releases and holders with
// the longest names. One byte more is refused, and the lease continues.
func TestDataAtTheLimit(t *testing.T) {
	for name, unit := range map[string]string{
		"text": "abcdefgh", "control characters": "\x01", "quotes": `"`, "line separators": "\u2028", "not text": "\xff",
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, st store.Store, client newParty) {
				short, long := client(t, st, &lease.Options{Holder: "a"}), client(t, st, &lease.Options{Holder: longestHolder})
				data := bytes.Repeat([]byte(unit), lease.MaxData)[:lease.MaxData/len(unit)*len(unit)]
				check := func(c inspector, state lease.State) lease.Record {
					t.Helper()
					rec := wantState(t, c, longestName(), state)
					if !bytes.Equal(rec.Data, data) {
						t.Fatalf("%d bytes of data, want %d", len(rec.Data), len(data))
					}
					return rec
				}
				g := mustTry(t, short, longestName())
				must(t, g.SetData(t.Context(), data))
				for range 100 {
					time.Sleep(7*time.Second + 123456789)
					must(t, g.Err())
				}
				err := g.SetData(t.Context(), make([]byte, lease.MaxData+1))
				if !errors.Is(err, store.ErrTooLarge) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), fmt.Sprint(lease.MaxData)) {
					t.Errorf("one byte more: %v", err)
				}
				check(short, lease.Held)
				mustRelease(t, g)
				check(short, lease.Free)
				g = mustTry(t, long, longestName())
				check(short, lease.Held)
				must(t, errOf(short.Break(t.Context(), longestName(), g.Token(), nil)))
				rec := check(short, lease.Broken)
				must(t, errOf(short.Break(t.Context(), longestName(), rec.Token, &lease.BreakOptions{Immediate: true})))
				last := mustTry(t, client(t, st, &lease.Options{Holder: longestHolder}), longestName())
				check(short, lease.Held)
				mustRelease(t, last)
				check(short, lease.Free)
			})
		})
	}
}

// A record that an earlier version filled up, or another program, wedges no lock: it is
// renewed, broken, taken over and freed, with its data while there is room for it.
func TestFullRecordBlocksNoLock(t *testing.T) {
	full := func(t *testing.T, state lease.State, unknown int) (value, data []byte) {
		t.Helper()
		rec := map[string]any{
			"holdfast": 1, "kind": "lease", "name": "job", "state": state, "token": 9, "holder": strings.Repeat("x", 40), "ttl_ms": 30000,
			"grant": rand.Text(), "nonce": rand.Text(), "process": rand.Text(),
			"granted": "2026-01-02T03:04:05Z", "renewed": "2026-01-02T03:04:05Z",
			"later": strings.Repeat("u", unknown),
		}
		rec["data"] = ""
		value, err := json.Marshal(rec)
		must(t, err)
		data = bytes.Repeat([]byte("d"), store.MaxValue-len(value))
		rec["data"] = string(data)
		if value, err = json.Marshal(rec); err != nil || len(value) != store.MaxValue {
			t.Fatal(len(value), err)
		}
		return value, data
	}
	for _, state := range []lease.State{lease.Free, lease.Held, lease.Broken} {
		for _, unknown := range []int{0, 60_000} {
			for _, holder := range []string{"a", longestHolder} {
				t.Run(fmt.Sprint(state, unknown, len(holder)), func(t *testing.T) {
					bothWays(t, func(t *testing.T, st store.Store, client newParty) {
						value, data := full(t, state, unknown)
						put(t, st, "job", value)
						c := client(t, st, &lease.Options{Holder: holder})
						if state == lease.Held {
							must(t, errOf(c.Break(t.Context(), "job", 9, nil)))
						}
						g := mustAcquire(t, c, "job")
						time.Sleep(10 * time.Minute)
						must(t, g.Err())
						if got := g.Data(); !bytes.Equal(got, data) {
							t.Errorf("%d bytes of data, of %d", len(got), len(data))
						}
						if rec := wantState(t, c, "job", lease.Held); !bytes.Equal(rec.Data, g.Data()) {
							t.Error("the guard tells other data than the record")
						}
						if err := g.SetData(t.Context(), make([]byte, lease.MaxData)); unknown > 0 != errors.Is(err, store.ErrTooLarge) {
							t.Errorf("SetData: %v", err)
						}
						mustRelease(t, g)
						mustRelease(t, mustTry(t, c, "job"))
					})
				})
			}
		}
	}
}

// Fields of later versions are kept when the record is rewritten.
func TestRecordKeepsUnknownFields(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		value := `{"holdfast":1,"kind":"lease","name":"job","state":"free","token":41,"nonce":"x","ttl_ms":1000,"zone":{"a":[1,2.50]},"\"q":null}`
		put(t, st, "job", []byte(value))
		c := client(t, st, nil)
		g := mustTry(t, c, "job")
		mustRelease(t, g)
		if g.Token() != 42 {
			t.Errorf("token %d, want 42", g.Token())
		}
		got, _ := stored(t, st, "lock/job")
		for _, want := range []string{`"zone":{"a":[1,2.50]}`, `"\"q":null`} {
			if !bytes.Contains(got, []byte(want)) {
				t.Errorf("%s is gone from %s", want, got)
			}
		}
	})
}
