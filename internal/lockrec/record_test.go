package lockrec_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden() map[string]*lockrec.Record {
	at := time.Date(2026, 11, 1, 12, 0, 0, 123456789, time.UTC)
	return map[string]*lockrec.Record{
		"held": {
			Name: "jobs/nightly", State: lockrec.Held, Token: 1793534400001, Holder: "root@db1 pid 4711", Grant: "GRANT",
			TTL: 30 * time.Second, Nonce: "NONCE", Granted: at, Renewed: at.Add(10 * time.Second), Process: "PROCESS",
			Presence: "boot/random", Data: []byte("step 3 of 7"),
		},
		"ran": {
			Name: "report", State: lockrec.Free, Token: 12, Holder: "root@db1 pid 4711", Grant: "GRANT", TTL: time.Minute, Nonce: "N", Granted: at, Renewed: at.Add(time.Minute),
			Run: &lockrec.Run{
				Period: "day Europe/Zurich", Began: at, PeriodEnd: at.Add(12 * time.Hour), Ended: at.Add(time.Minute), Outcome: lockrec.RunFailed,
				Error: "exit status 3", Holder: "root@db1 pid 4711", Attempts: 2, Grant: "GRANT", RerunAllowed: true,
			},
		},
		"session": {
			Name: "SESSION", Kind: lockrec.KindSession, State: lockrec.Held, Token: 7, Holder: "root@db1 pid 4711", Grant: "G", TTL: 30 * time.Second,
			Nonce: "N2", HolderNonce: "N1", Granted: at, Renewed: at, Process: "P", LocksToCheck: []string{"a", "b/c"},
		},
		"session-closed": {Name: "SESSION", Kind: lockrec.KindSession, State: lockrec.Free, Token: 7, Grant: "G", TTL: time.Second, Nonce: "N", Granted: at, Renewed: at},
		"session-fenced": {Name: "SESSION", Kind: lockrec.KindSession, State: lockrec.Revoked, Token: 8, Grant: "G", TTL: time.Second, Nonce: "N", Granted: at, Renewed: at},
		"under-session": {
			Name: "a", State: lockrec.Held, Token: 9, Holder: "x", Grant: "S.1z", Session: "S", TTL: time.Second, Nonce: "N2", HolderNonce: "N1", Granted: at, Renewed: at,
			Linger: time.Minute, YieldRequest: &lockrec.YieldRequest{Grant: "S.1z", By: "root@db2 pid 1", Reason: "a deployment", At: at, Acknowledged: true, RefusalReason: "in the middle of it"},
			Queue: []lockrec.Member{member("T.0", lockrec.ModeExclusive, 0, 0), member("U.0", lockrec.ModeShared, 0, 0)},
		},
		"readers": {
			Name: "a", State: lockrec.Shared, Token: 9, Nonce: "N", Holders: []lockrec.Member{member("S.1z", lockrec.ModeShared, 0, 9), member("T.0", lockrec.ModeShared, 0, 9)},
			Queue: []lockrec.Member{member("U.0", lockrec.ModeExclusive, 0, 0)},
		},
		"slots":          {Name: "a", State: lockrec.Shared, Token: 11, Nonce: "N", Slots: 3, Holders: []lockrec.Member{member("S.1z", lockrec.ModeSlot, 2, 10), member("T.0", lockrec.ModeSlot, 1, 11)}},
		"slots-free":     {Name: "a", State: lockrec.Free, Token: 11, Nonce: "N", Slots: 3},
		"free":           {Name: "a", State: lockrec.Free, Token: math.MaxUint64, Holder: "x", Grant: "G", TTL: time.Second, Nonce: "N", Granted: at, Renewed: at},
		"broken-waiting": {Name: "Größe", State: lockrec.Broken, Token: 8, Holder: "x", Grant: "G", TTL: time.Minute, Nonce: "N", Granted: at, Renewed: at, Process: "P", Presence: "boot/random", BrokenNonce: "LAST", HolderWriteAge: 1500 * time.Millisecond},
		"broken":         {Name: "Größe", State: lockrec.Broken, Token: 7, Holder: "<&>", Grant: "G", TTL: 24 * time.Hour, Nonce: "N", Immediate: true, Data: []byte{0xff, 0x00}},
	}
}

// member is a member that entered at a time of its own.
func member(grant string, mode lockrec.Mode, slot int, token uint64) lockrec.Member {
	session, _, _ := strings.Cut(grant, ".")
	return lockrec.Member{Grant: grant, Session: session, TTL: 30 * time.Second, Mode: mode, Slot: slot, Token: token, Since: time.Unix(1793534400, 0).UTC()}
}

// decode decodes a record of its own kind.
func decode(rec *lockrec.Record, value []byte) (*lockrec.Record, error) {
	return lockrec.Decode(rec.Kind, rec.Name, value)
}

// Records that were written once can be read for ever, and are written the same.
func TestRecordGolden(t *testing.T) {
	for name, rec := range golden() {
		path := "testdata/" + name + ".json"
		got, err := lockrec.Encode(rec)
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
		back, err := decode(rec, want)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, rec) {
			t.Errorf("%s: read\n%+v\nwant\n%+v", name, back, rec)
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, rec := range golden() {
		value, err := lockrec.Encode(rec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(rec.Name, rec.Kind != "", value)
	}
	f.Add("job", false, []byte(`{"holdfast":3}`))
	f.Add("job", false, []byte(`{"holdfast":1,"kind":"lease","name":"job","state":"free","token":1,"nonce":"x","x":{}}`))
	f.Add("job", false, []byte(`{"holdfast":2,"kind":"lease","name":"job","state":"free","token":1,"nonce":"x","ask":{"x":1},"queue":[["S.1","r",5,6]]}`))
	f.Fuzz(func(t *testing.T, name string, session bool, value []byte) {
		kind := ""
		if session {
			kind = lockrec.KindSession
		}
		rec, err := lockrec.Decode(kind, name, value)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%v is no ErrCorrupt", err)
			}
			return
		}
		again, err := lockrec.Encode(rec)
		if err != nil {
			if errors.Is(err, store.ErrTooLarge) {
				return
			}
			t.Fatal(err)
		}
		back, err := lockrec.Decode(kind, name, again)
		if err != nil {
			t.Fatalf("wrote what can't be read: %s: %v", again, err)
		}
		last, err := lockrec.Encode(back)
		if err != nil || !bytes.Equal(last, again) {
			t.Errorf("wrote\n%s\nthen\n%s (%v)", again, last, err)
		}
	})
}

// A record that uses none of the newer fields is written as programs of format 1 know it, and
// one that does is refused by them.
func TestRecordFormat(t *testing.T) {
	for name, rec := range golden() {
		value, err := lockrec.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		switch name {
		case "session", "session-closed", "session-fenced", "under-session", "readers", "slots", "slots-free":
			want = 2
		}
		if !bytes.HasPrefix(value, fmt.Appendf(nil, `{"holdfast":%d,`, want)) {
			t.Errorf("%s: not of format %d: %s", name, want, value)
		}
	}
}

// A record that cannot be as it says is unreadable, and none of it is taken for granted.
func TestRecordBadInput(t *testing.T) {
	const free = `"state":"free","token":9,"nonce":"N"`
	const readers = `"state":"shared","token":9,"nonce":"N","holders":[["S.1","r",5,6,7]]`
	many := strings.TrimSuffix(strings.Repeat(`["S.%x","r",5,6],`, lockrec.MaxMembers+1), ",")
	numbers := make([]any, lockrec.MaxMembers+1)
	for i := range numbers {
		numbers[i] = i
	}
	many = fmt.Sprintf(many, numbers...)
	for _, fields := range []string{
		`"state":"gone","token":9,"nonce":"N","ttl_ms":1`,
		`"state":"free","token":-1,"nonce":"N"`,
		`"state":"held","grant":"G","ttl_ms":31536000000,"token":9,"nonce":"N"`,
		free + `,"NAME":"x"`,
		`"state":"shared","token":9,"nonce":"N"`,
		`"state":"shared","token":9,"nonce":"N","holders":[]`,
		`"state":"fenced","token":9,"nonce":"N","ttl_ms":5`,
		`"state":"open","token":9,"nonce":"N","ttl_ms":5`,
		free + `,"holders":[["S.1","r",5,6,7]]`,
		`"state":"held","grant":"G","ttl_ms":5,"token":9,"nonce":"N","holders":[["S.1","r",5,6,7]]`,
		`"state":"held","grant":"G","ttl_ms":5,"token":9,"nonce":"N","slots":2`,
		`"state":"held","grant":"G","ttl_ms":5,"token":9,"nonce":"N","session":"S"`,
		`"state":"held","grant":"S.1","ttl_ms":5,"token":9,"nonce":"N","session":"T"`,
		`"state":"held","grant":"S.1","ttl_ms":5,"token":9,"nonce":"N","session":"S","queue":[["S.1","w",5,6]]`,
		readers + `,"slots":2`,
		readers + `,"queue":[["S.1","w",5,6]]`,
		readers + `,"queue":[["T.1","s",5,6]]`,
		readers + `,"attend":["a"]`,
		free + `,"granted":"9999-12-31T23:59:59-10:00"`, free + `,"renewed":"0000-01-01T00:00:00+10:00"`, free + `,"not_before":"9999-12-31T23:59:59-00:01"`,
		free + `,"ask":{"at":"9999-12-31T23:59:59-10:00"}`,
		free + `,"run":{"began":"2025-01-01T00:00:00Z","until":"9999-12-31T23:59:59-10:00","outcome":"done","tries":1,"grant":"g"}`,
		free + `,"slots":-1`, free + `,"slots":1000000`, free + `,"slots":"2"`, free + `,"slots":1.5`,
		free + `,"linger_ms":-1`, free + `,"linger_ms":86400001`,
		free + `,"ask":7`, free + `,"ask":{"By":"x"}`, free + `,"ask":{"by":"` + strings.Repeat("x", 1025) + `"}`,
		free + `,"slots":[["S.1","r",5,6]],"queue":[["S.1","r",5,6]]`, `"state":[["S.1","r",5,6]],"token":9,"nonce":"N","queue":[["S.1","r",5,6]]`,
		free + `,"queue":7`, free + `,"queue":[null]`, free + `,"queue":[[]]`, free + `,"queue":[["S.1","r",5]]`,
		free + `,"queue":[["S.1","r",5,6,0,0,0]]`, free + `,"queue":[["S.1","r",5,6,7]]`, free + `,"queue":[["S.1","x",5,6]]`,
		free + `,"queue":[["S.1","r",0,6]]`, free + `,"queue":[["S.1","r",86400001,6]]`, free + `,"queue":[["S.1","r",5,-6]]`, free + `,"queue":[["S.1","r",5,null]]`,
		free + `,"queue":[["S","r",5,6]]`, free + `,"queue":[["S.","r",5,6]]`, free + `,"queue":[[".1","r",5,6]]`, free + `,"queue":[["S.A","r",5,6]]`,
		free + `,"queue":[["a/b.1","r",5,6]]`, free + `,"queue":[["S.1.2","r",5,6]]`, free + `,"queue":[["S.00000000000000","r",5,6]]`,
		free + `,"queue":[["S.1","r",5,6],["S.1","w",5,6]]`,
		free + `,"queue":[` + many + `]`,
		`"state":"shared","token":9,"nonce":"N","holders":[["S.1","r",5,6,10]]`,
		`"state":"shared","token":9,"nonce":"N","holders":[["S.1","r",5,6]]`,
		`"state":"shared","token":9,"nonce":"N","holders":[["S.1","w",5,6,7]]`,
		`"state":"shared","token":9,"nonce":"N","holders":[["S.1","r",5,6,7,1]]`,
		`"state":"shared","token":9,"nonce":"N","slots":2,"holders":[["S.1","s",5,6,7]]`,
		`"state":"shared","token":9,"nonce":"N","slots":2,"holders":[["S.1","s",5,6,7,501]]`,
		`"state":"shared","token":9,"nonce":"N","slots":2,"holders":[["S.1","s",5,6,7,-1]]`,
		`"state":"shared","token":9,"nonce":"N","slots":2,"holders":[["S.1","s",5,6,7,1],["T.1","s",5,6,7,1]]`,
	} {
		value := `{"holdfast":2,"kind":"lease","name":"job",` + fields + `}`
		if rec, err := lockrec.Decode("", "job", []byte(value)); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%.200s: read %+v, %v", value, rec, err)
		}
	}
	for _, fields := range []string{free, readers, readers + `,"queue":[["T.1","w",5,6],["S.2","r",5,6]]`, free + `,"slots":500`, free + `,"ask":{"later":[1]}`,
		free + `,"granted":"9999-12-31T23:59:59Z"`, free + `,"not_before":"0000-01-01T00:00:00Z"`,
		free + `,"holder":"[[\"S.1\",\"r\",5,6]] []","queue":[["S.1","r",5,6]],"holders":[],"later":[["S.1","r",5,6]]`} {
		value := `{"holdfast":2,"kind":"lease","name":"job",` + fields + `}`
		if _, err := lockrec.Decode("", "job", []byte(value)); err != nil {
			t.Errorf("%s: %v", value, err)
		}
		if _, err := lockrec.Decode(lockrec.KindSession, "job", []byte(value)); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s was read as a session's: %v", value, err)
		}
	}
	const session = `{"holdfast":2,"kind":"session","token":9,"nonce":"N","ttl_ms":5,"grant":"G",`
	for value, good := range map[string]bool{
		session + `"state":"open","name":"job"}`:                           true,
		session + `"state":"held","name":"job"}`:                           false,
		session + `"state":"free","name":"job"}`:                           false,
		session + `"state":"broken","name":"job"}`:                         false,
		session + `"state":"shared","name":"job"}`:                         false,
		session + `"state":"open","name":"other"}`:                         false,
		session + `"state":"open","name":"job","slots":2}`:                 false,
		session + `"state":"open","name":"job","queue":[["S.1","r",5,6]]}`: false,
		session + `"state":"open","name":"job","attend":[""]}`:             false,
		session + `"state":"open","name":"job","attend":["*"]}`:            true,
	} {
		if _, err := lockrec.Decode(lockrec.KindSession, "job", []byte(value)); (err == nil) != good || err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// full returns a record with as many members as there may be, each as long as its id, TTL,
// token and slot usually are.
func full(slots bool) *lockrec.Record {
	rec := &lockrec.Record{Name: "job", State: lockrec.Shared, Token: 1793534400000500, Nonce: "N"}
	mode := lockrec.ModeShared
	if slots {
		rec.Slots, mode = lockrec.MaxMembers, lockrec.ModeSlot
	}
	for i := range lockrec.MaxMembers {
		m := member(fmt.Sprintf("ABCDEFGHIJKLMNOPQRSTUV%04d.%d", i, 1000+i), mode, 0, 1793534400000000)
		if m.TTL = lockrec.MaxTTL; slots {
			m.Slot = i + 1
		}
		rec.Holders = append(rec.Holders, m)
	}
	return rec
}

// 500 members leave a quarter of a record for the rest.
func TestRecordHasRoomForAllMembers(t *testing.T) {
	for _, slots := range []bool{false, true} {
		value, err := lockrec.Encode(full(slots))
		if err != nil || len(value) > 48<<10 {
			t.Errorf("%d bytes, %v", len(value), err)
		}
	}
}

// Where there is no room the data is left out, so that the lock can be used. Members never are.
func TestEncodeNeverDropsMembers(t *testing.T) {
	rec := full(true)
	rec.Data = bytes.Repeat([]byte("d"), lockrec.MaxData)
	value, err := lockrec.Encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := lockrec.Decode("", "job", value); err != nil || len(back.Holders) != lockrec.MaxMembers {
		t.Errorf("%d members, %v", len(back.Holders), err)
	}
	rec = full(true)
	for i := range rec.Holders { // ids that this package does not make, but reads
		rec.Holders[i].Session = fmt.Sprintf("%040d", i)
		rec.Holders[i].Grant = rec.Holders[i].Session + "." + strings.Repeat("z", 13)
		rec.Holders[i].Token = math.MaxUint64
	}
	rec.Name, rec.Token = strings.Repeat("é", 200), math.MaxUint64
	if value, err = lockrec.Encode(rec); err == nil {
		rec.Nonce = strings.Repeat("n", store.MaxValue-len(value)+2)
		_, err = lockrec.Encode(rec)
	}
	if !errors.Is(err, lockrec.ErrFull) || !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if len(rec.Holders) != lockrec.MaxMembers {
		t.Errorf("%d members are left", len(rec.Holders))
	}
}

// A hand-over to all waiters leaves out no data that a record has accepted: the data was stored before the last waiter
// entered the queue, or after it.
func TestDataOutlastsAHandOver(t *testing.T) {
	data := bytes.Repeat([]byte{0xff}, lockrec.MaxData)
	for _, slots := range []bool{false, true} {
		for _, first := range []bool{false, true} { // the data
			kept := 0
			for n := 0; n <= lockrec.MaxMembers; n += 10 {
				rec := full(slots)
				rec.Queue = rec.Holders[:n]
				for i := range rec.Queue {
					rec.Queue[i].Token, rec.Queue[i].Slot = 0, 0
				}
				if rec.State, rec.Grant, rec.Holders, rec.Slots = lockrec.Held, strings.Repeat("G", 26), nil, 0; slots {
					rec.State, rec.Slots = lockrec.Shared, 1
					rec.Holders = []lockrec.Member{member("S.1", lockrec.ModeSlot, 1, 7)}
				}
				err := lockrec.SetData(rec, data)
				if first {
					err = lockrec.HasRoom(rec)
				}
				if err != nil {
					continue
				}
				next := lockrec.Freed(rec, time.Unix(1e9, 0))
				if slots {
					next = *rec
					if err := lockrec.Resize(&next, lockrec.MaxMembers); err != nil {
						t.Fatal(err)
					}
				}
				next.Nonce = "N"
				if _, err := lockrec.Encode(&next); err != nil || len(next.Data) != len(data) {
					t.Fatalf("after a hand-over to %d waiters: %d bytes of data, %v", n, len(next.Data), err)
				}
				kept++
			}
			if kept < 20 || kept == lockrec.MaxMembers/10 {
				t.Errorf("there was room for %d waiters", 10*kept)
			}
		}
	}
}

// What is no record has no token.
func TestTokenOf(t *testing.T) {
	for value, want := range map[string]uint64{
		`{"token":7}`: 7, `{"token":18446744073709551615}`: 1<<64 - 1, `{"token":"7"}`: 0, `{"token":-1}`: 0,
		`[7]`: 0, ``: 0, `{`: 0, `{"other":7}`: 0, "not JSON": 0,
	} {
		if got := lockrec.TokenOf([]byte(value)); got != want {
			t.Errorf("the token in %s is %d, want %d", value, got, want)
		}
	}
}

// BenchmarkRecord writes and reads the record of a lock with 100 waiters.
func BenchmarkRecord(b *testing.B) {
	rec := &lockrec.Record{Name: "job", State: lockrec.Held, Token: 1793534400000000, Nonce: strings.Repeat("N", 26), Session: strings.Repeat("S", 26), Grant: strings.Repeat("S", 26) + ".1", TTL: 30 * time.Second}
	for i := range 100 {
		rec.Queue = append(rec.Queue, member(fmt.Sprintf("ABCDEFGHIJKLMNOPQRSTUV%04d.%d", i, 1000+i), lockrec.ModeExclusive, 0, 0))
	}
	value, err := lockrec.Encode(rec)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			if _, err := lockrec.Encode(rec); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := lockrec.Decode("", "job", value); err != nil {
				b.Fatal(err)
			}
		}
	})
}
