package lease_test

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden() map[string]*lease.Record {
	at := time.Date(2026, 11, 1, 12, 0, 0, 123456789, time.UTC)
	return map[string]*lease.Record{
		"held": {
			Name: "jobs/nightly", State: lease.Held, Token: 1793534400001, Holder: "root@db1 pid 4711", Grant: "GRANT",
			TTL: 30 * time.Second, Nonce: "NONCE", Granted: at, Renewed: at.Add(10 * time.Second), Process: "PROCESS",
			Presence: "boot/random", Data: []byte("step 3 of 7"),
		},
		"ran": {
			Name: "report", State: lease.Free, Token: 12, Holder: "root@db1 pid 4711", Grant: "GRANT", TTL: time.Minute, Nonce: "N", Granted: at, Renewed: at.Add(time.Minute),
			Run: &lease.Run{
				Period: "day Europe/Zurich", Began: at, Until: at.Add(12 * time.Hour), Ended: at.Add(time.Minute), Outcome: lease.Failed,
				Error: "exit status 3", Holder: "root@db1 pid 4711", Tries: 2, Grant: "GRANT", Again: true,
			},
		},
		"free":           {Name: "a", State: lease.Free, Token: math.MaxUint64, Holder: "x", Grant: "G", TTL: time.Second, Nonce: "N", Granted: at, Renewed: at},
		"broken-waiting": {Name: "Größe", State: lease.Broken, Token: 8, Holder: "x", Grant: "G", TTL: time.Minute, Nonce: "N", Granted: at, Renewed: at, Process: "P", Presence: "boot/random", Broke: "LAST", Stood: 1500 * time.Millisecond},
		"broken":         {Name: "Größe", State: lease.Broken, Token: 7, Holder: "<&>", Grant: "G", TTL: 24 * time.Hour, Nonce: "N", Now: true, Data: []byte{0xff, 0x00}},
	}
}

// Records that were written once can be read for ever, and are written the same.
func TestRecordGolden(t *testing.T) {
	for name, rec := range golden() {
		path := "testdata/" + name + ".json"
		got, err := lease.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want = bytes.TrimSpace(want); !bytes.Equal(got, want) {
			t.Errorf("%s: wrote\n%s\nwant\n%s", name, got, want)
		}
		back, err := lease.Decode(rec.Name, want)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, rec) {
			t.Errorf("%s: read\n%+v\nwant\n%+v", name, back, rec)
		}
	}
}

// Fields of later versions are kept when the record is rewritten.
func TestRecordKeepsUnknownFields(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		value := `{"holdfast":1,"kind":"lease","name":"job","state":"free","token":41,"nonce":"x","ttl_ms":1000,"zone":{"a":[1,2.50]},"\"q":null}`
		if _, err := st.Put(t.Context(), "lock/job", "", []byte(value)); err != nil {
			t.Fatal(err)
		}
		c := client(t, st, nil)
		g := mustTry(t, c, "job")
		mustRelease(t, g)
		if g.Token() != 42 {
			t.Errorf("token %d, want 42", g.Token())
		}
		got, _, err := st.Get(t.Context(), "lock/job")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"zone":{"a":[1,2.50]}`, `"\"q":null`} {
			if !bytes.Contains(got, []byte(want)) {
				t.Errorf("%s is gone from %s", want, got)
			}
		}
	})
}

func FuzzRecord(f *testing.F) {
	for _, rec := range golden() {
		value, err := lease.Encode(rec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(rec.Name, value)
	}
	f.Add("job", []byte(`{"holdfast":2}`))
	f.Add("job", []byte(`{"holdfast":1,"kind":"lease","name":"job","state":"free","token":1,"nonce":"x","x":{}}`))
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		rec, err := lease.Decode(name, value)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%v is no ErrCorrupt", err)
			}
			return
		}
		again, err := lease.Encode(rec)
		if err != nil {
			if errors.Is(err, store.ErrTooLarge) {
				return
			}
			t.Fatal(err)
		}
		back, err := lease.Decode(name, again)
		if err != nil {
			t.Fatalf("wrote what can't be read: %s: %v", again, err)
		}
		last, err := lease.Encode(back)
		if err != nil || !bytes.Equal(last, again) {
			t.Errorf("wrote\n%s\nthen\n%s (%v)", again, last, err)
		}
	})
}
