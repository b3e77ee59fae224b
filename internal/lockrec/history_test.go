package lockrec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// historian writes records one over the other, as clients do.
type historian struct {
	t        *testing.T
	now      time.Time
	off      bool // the writer does not keep histories
	base     *lockrec.Record
	register []byte
	moved    lockrec.HistoryMark
	asked    bool // the last write asked for a move
}

// write writes next, and reads it again.
func (h *historian) write(next lockrec.Record, by string, cause lockrec.Cause) {
	h.t.Helper()
	h.now = h.now.Add(time.Second)
	next.Nonce = fmt.Sprint("nonce", h.now.Unix())
	h.asked = lockrec.Chronicle(&next, h.base, lockrec.HistoryNote{Time: h.now, By: by, Keep: !h.off, Moved: h.moved, Cause: cause})
	value, err := lockrec.Encode(&next)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.base, err = lockrec.Decode("", next.Name, value); err != nil {
		h.t.Fatal(err)
	}
}

func (h *historian) grant(holder string, cause lockrec.Cause) {
	h.t.Helper()
	next := lockrec.Record{Name: "job", State: lockrec.Held, Token: 100, Grant: holder + h.now.String(), Holder: holder, TTL: time.Minute}
	if h.base != nil {
		if err := lockrec.Succeed(&next, h.base); err != nil {
			h.t.Fatal(err)
		}
	}
	h.write(next, holder, cause)
}

func (h *historian) release() {
	h.t.Helper()
	h.write(lockrec.Freed(h.base, h.now), h.base.Holder, lockrec.Cause{})
}

func (h *historian) move() {
	h.t.Helper()
	value, mark, err := lockrec.MoveHistory(h.base, h.register)
	if err != nil {
		h.t.Fatal(err)
	}
	if value != nil {
		h.register = value
	}
	h.moved = mark
}

func (h *historian) read() []lockrec.HistoryEntry {
	h.t.Helper()
	all, err := lockrec.HistoryOf("job", h.base, h.register)
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// lines returns the entries in short.
func told(all []lockrec.HistoryEntry) (lines []string) {
	for _, e := range all {
		line := fmt.Sprintf("%s %d %s", e.Kind, e.Token, e.Holder)
		for _, more := range []string{e.By, e.Reason} {
			if more != "" {
				line += " / " + more
			}
		}
		if e.Slot != 0 {
			line += fmt.Sprintf(" slot %d", e.Slot)
		}
		if e.Missing != 0 {
			line += fmt.Sprintf(" (%d missing)", e.Missing)
		}
		lines = append(lines, line)
	}
	return lines
}

func newHistorian(t *testing.T) *historian {
	return &historian{t: t, now: time.Date(2026, 11, 24, 2, 0, 0, 0, time.UTC)}
}

func sameLines(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the history is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHistoryTellsChanges: each change of the holders has one entry, with the holder and the token that it
// is about.
func TestHistoryTellsChanges(t *testing.T) {
	h := newHistorian(t)
	h.grant("ada", lockrec.Cause{})
	asked, err := lockrec.RequestYield(h.base, lockrec.YieldRequest{By: "eve", Reason: "upgrade", At: h.now}, -1)
	if err != nil {
		t.Fatal(err)
	}
	h.write(*asked, "eve", lockrec.Cause{})
	h.write(lockrec.Renewed(h.base, h.now), "ada", lockrec.Cause{}) // a renewal is no entry
	refused := lockrec.Renewed(h.base, h.now)
	answer := *refused.YieldRequest
	refused.YieldRequest = &answer
	refused.YieldRequest.RefusalReason = "in the middle of it"
	h.write(refused, "ada", lockrec.Cause{})
	h.write(lockrec.Renewed(h.base, h.now), "ada", lockrec.Cause{})
	h.release()
	h.grant("bob", lockrec.Cause{})
	h.grant("cleo", lockrec.Cause{Reason: "its process is dead"})
	broken, err := lockrec.Break(h.base, h.base.Token, false, -1)
	if err != nil {
		t.Fatal(err)
	}
	h.write(*broken, "eve", lockrec.Cause{Kind: lockrec.HistoryBroken})
	h.release()
	sameLines(t, told(h.read()), []string{
		"begun 0 ",
		"granted 100 ada",
		"yield requested 100 ada / eve / upgrade",
		"yield refused 100 ada / eve / in the middle of it",
		"released 100 ada",
		"granted 101 bob",
		"taken over 101 bob / cleo / its process is dead",
		"granted 102 cleo",
		"broken 102 cleo / eve",
		"released 102 cleo",
	})
}

// TestHistoryTellsMembers: readers and holders of slots enter and leave one by one.
func TestHistoryTellsMembers(t *testing.T) {
	const session, other = "SESSIONSESSIONSESSIONSESSIO", "OTHEROTHEROTHEROTHEROTHEROT"
	h := newHistorian(t)
	h.write(lockrec.Record{Name: "job", State: lockrec.Free, Token: 100, TTL: time.Minute, Slots: 2}, "ada", lockrec.Cause{})
	enter := func(grant, by string, place lockrec.Standing) {
		t.Helper()
		next := *h.base
		next.Renewed = h.now
		at, err := lockrec.Enter(&next, lockrec.Member{Grant: grant, Session: lockrec.SessionOf(grant), TTL: time.Minute, Mode: lockrec.ModeSlot}, true, lockrec.MaxMembers)
		if err != nil || at != place {
			t.Fatalf("entered at %v, %v; want %v", at, err, place)
		}
		h.write(next, by, lockrec.Cause{})
	}
	enter(session+".1", "ada", lockrec.Holding)
	enter(other+".1", "bob", lockrec.Holding)
	enter(session+".2", "ada", lockrec.Waiting) // no entry
	next := *h.base
	next.Renewed = h.now
	lockrec.Leave(&next, other+".1")
	h.write(next, "bob", lockrec.Cause{})
	next = *h.base
	if err := lockrec.Resize(&next, 3); err != nil {
		t.Fatal(err)
	}
	h.write(next, "eve", lockrec.Cause{})
	next = *h.base
	lockrec.Drop(&next, func(id string) bool { return id == session })
	h.write(next, "cleo", lockrec.Cause{Reason: "its session is over"})
	sameLines(t, told(h.read()), []string{
		"begun 0 ",
		"entered 101 ada slot 1",
		"entered 102 bob slot 2",
		"left 102 bob slot 2",
		"entered 103 session " + session + " slot 2",
		"resized 103  / eve slot 3",
		"lost 101 session " + session + " / cleo / its session is over slot 1",
		"lost 103 session " + session + " / cleo / its session is over slot 2",
	})
}

// TestHistoryIsMoved: what the client moves leaves the record, and the reader returns every entry once.
func TestHistoryIsMoved(t *testing.T) {
	h := newHistorian(t)
	moves, grants := 0, 0
	for range 200 {
		h.grant("ada@db1 pid 4711", lockrec.Cause{})
		grants++
		if h.asked {
			moves++
			h.move()
		}
		if 2*moves > grants {
			t.Fatalf("%d moves after %d grants", moves, grants)
		}
		h.release()
	}
	if moves < 30 {
		t.Errorf("%d moves", moves)
	}
	all := h.read()
	if got, want := len(all), 2*grants+1; got != want {
		t.Fatalf("%d entries, want %d", got, want)
	}
	for i, e := range all {
		if e.Missing != 0 || i > 0 && (e.Seq != all[i-1].Seq+1 || e.Token != 100+uint64(i-1)/2 || e.Holder != "ada@db1 pid 4711") {
			t.Fatalf("entry %d is %+v", i, e)
		}
	}
	// A client that does not know of the move moves the same entries again.
	before := h.register
	h.moved = lockrec.HistoryMark{}
	for range 3 {
		h.move()
	}
	if got := h.read(); len(got) != len(all) {
		t.Errorf("%d entries after further moves, want %d; the register had %d bytes", len(got), len(all), len(before))
	}
	if value, _, err := lockrec.MoveHistory(h.base, h.register); value != nil || err != nil {
		t.Errorf("a move without entries writes %q, %v", value, err)
	}
}

// TestHistoryGaps: entries that no client moved are missing, and their number is exact.
func TestHistoryGaps(t *testing.T) {
	h := newHistorian(t)
	for range 4 {
		h.grant("ada", lockrec.Cause{})
		h.release()
	}
	h.move()
	seen := h.read()
	for range 100 {
		h.off = true // this client keeps no history, and writes entries where there is one
		h.grant("bob", lockrec.Cause{})
		h.release()
	}
	all := h.read()
	rest := all[len(seen):]
	if n := uint64(len(rest)); rest[0].Missing != 200-n || n < 5 || rest[0].Seq != seen[len(seen)-1].Seq+rest[0].Missing+1 {
		t.Errorf("%d entries follow %+v", n, rest[0])
	}
	for _, e := range rest[1:] {
		if e.Missing != 0 {
			t.Errorf("%+v", e)
		}
	}
	h.off = false
	h.move()
	sameLines(t, told(h.read()), told(all))

	// The register keeps the newest entries.
	for range 1000 {
		h.grant("a long name of a holder, as long as it may be in the history", lockrec.Cause{})
		h.move()
		h.release()
	}
	if len(h.register) > 60<<10 || len(h.register) < 50<<10 {
		t.Errorf("the register has %d bytes", len(h.register))
	}
	all = h.read()
	if all[0].Missing == 0 || all[0].Seq != seen[0].Seq+all[0].Missing || all[len(all)-1].Seq != seen[0].Seq+4*2+200+2000 || len(all) < 500 {
		t.Errorf("%d entries from %+v to %+v; the history began at %d", len(all), all[0], all[len(all)-1], seen[0].Seq)
	}
}

// TestHistoryOfARestoredStore: after a restore the same numbers stand for other entries. The reader returns both.
func TestHistoryOfARestoredStore(t *testing.T) {
	h := newHistorian(t)
	h.grant("ada", lockrec.Cause{})
	backup := *h.base
	h.release()
	h.grant("bob", lockrec.Cause{})
	h.move()
	h.base, h.moved = &backup, lockrec.HistoryMark{} // another client
	h.grant("cleo", lockrec.Cause{Reason: "expired"})
	h.move()
	h.release()
	h.move()
	lines := strings.Join(told(h.read()), "\n")
	for _, want := range []string{"granted 101 bob", "taken over 100 ada / cleo / expired\ngranted 101 cleo\nreleased 101 cleo"} {
		if strings.Count(lines, want) != 1 {
			t.Errorf("%q is not told once:\n%s", want, lines)
		}
	}
}

// TestHistoryBesideOldPrograms: a program that knows no history keeps the field, and the next write adds
// an entry about its change.
func TestHistoryBesideOldPrograms(t *testing.T) {
	h := newHistorian(t)
	h.grant("ada", lockrec.Cause{})
	old := func(change func(r *lockrec.Record)) { // its writes have the field as it was
		next := *h.base
		change(&next)
		value, err := lockrec.Encode(&next)
		if err != nil {
			t.Fatal(err)
		}
		if h.base, err = lockrec.Decode("", "job", value); err != nil {
			t.Fatal(err)
		}
	}
	old(func(r *lockrec.Record) { *r = lockrec.Freed(r, h.now); r.Nonce = "n1" })
	old(func(r *lockrec.Record) { r.State, r.Grant, r.Token, r.Nonce = lockrec.Held, "old", r.Token+1, "n2" })
	old(func(r *lockrec.Record) { *r = lockrec.Renewed(r, h.now); r.Nonce = "n3" })
	h.write(lockrec.Renewed(h.base, h.now), "ada", lockrec.Cause{})
	h.release()
	sameLines(t, told(h.read())[2:], []string{
		"unrecorded 101  / a program that knows no history has changed the lock",
		"released 101 ada",
	})
}

// TestHistoryIsNotBegun: a client without a history changes no byte of a record that has none.
func TestHistoryIsNotBegun(t *testing.T) {
	h := newHistorian(t)
	h.off = true
	h.grant("ada", lockrec.Cause{})
	h.release()
	h.grant("bob", lockrec.Cause{Reason: "expired"})
	value, err := lockrec.Encode(h.base)
	if err != nil || strings.Contains(string(value), "history") {
		t.Errorf("%s, %v", value, err)
	}
	if lockrec.HasHistory(h.base) || len(h.read()) > 0 {
		t.Errorf("a history of %d entries", len(h.read()))
	}
}

// TestHistorySize: the entries in a record are bounded, whatever the texts are.
func TestHistorySize(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 1024), strings.Repeat("\x01", 1024), strings.Repeat("\xff", 300), strings.Repeat("語", 300), strings.Repeat("\"", 500)} {
		h := newHistorian(t)
		for range 20 {
			h.grant(text, lockrec.Cause{Reason: text})
			with, err := lockrec.Encode(h.base)
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(with, &fields); err != nil {
				t.Fatal(err)
			}
			if n := len(fields["history"]); n > 700 {
				t.Fatalf("the history has %d bytes: %s", n, fields["history"])
			}
		}
		if last := h.read(); last[len(last)-1].Kind != lockrec.HistoryGranted || last[len(last)-1].Holder == "" {
			t.Errorf("the last entry is %+v", last[len(last)-1])
		}
	}
}

// TestFullRecordDropsItsHistoryFirst: a record without room loses entries of the history before anything
// else, and the reader counts them.
func TestFullRecordDropsItsHistoryFirst(t *testing.T) {
	h := newHistorian(t)
	h.grant("ada", lockrec.Cause{})
	h.move()
	h.release()
	h.grant("ada", lockrec.Cause{})
	value, err := lockrec.Encode(h.base)
	if err != nil {
		t.Fatal(err)
	}
	full := strings.TrimSuffix(string(value), "}") + `,"other":"` + strings.Repeat("x", store.MaxValue-len(value)-12) + `"}`
	if h.base, err = lockrec.Decode("", "job", []byte(full)); err != nil {
		t.Fatal(err)
	}
	h.release()
	sameLines(t, told(h.read()), []string{"begun 0 ", "granted 100 ada", "unrecorded 0  / the record had no room for entries (3 missing)"})
	h.grant("bob", lockrec.Cause{})
	sameLines(t, told(h.read()), []string{"begun 0 ", "granted 100 ada", "granted 102 bob (3 missing)"})
	if h.base.Holder != "bob" {
		t.Errorf("the record lost its holder: %+v", h.base)
	}
	value, err = lockrec.Encode(h.base)
	if err != nil || !strings.Contains(string(value), `"other"`) {
		t.Errorf("the record has lost the field of another program, %v", err)
	}
}

// TestDamagedHistory: whatever is in the field or in the register, the lock works, and the reader reports
// what it cannot read.
func TestDamagedHistory(t *testing.T) {
	record := func(history string) []byte {
		return []byte(`{"holdfast":1,"kind":"lease","name":"job","state":"free","token":7,"ttl_ms":1000,"nonce":"n","history":` + history + `}`)
	}
	for _, field := range []string{
		`null`, `7`, `[]`, `{}`, `"x"`, `{"from":0,"last":1}`, `{"from":5,"last":0,"e":[["g",1]]}`, `{"from":1e30,"last":1}`, `{"from":-1,"last":1}`,
		`{"from":18446744073709551615,"last":18446744073709551615,"e":[["g",1]]}`, `{"from":5,"last":1,"e":[[]]}`, `{"from":5,"last":1,"e":[["g",-1]]}`,
		`{"from":5,"last":1,"e":[["g",1,2,"h","b","r",3,4]]}`, `{"from":5,"last":1,"e":[["g",99999999999999999]]}`, `{"from":5,"last":1,"e":["g"]}`,
	} {
		r, err := lockrec.Decode("", "job", record(field))
		if err != nil {
			t.Fatalf("%.60s: %v", field, err)
		}
		if _, err := lockrec.HistoryOf("job", r, nil); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%.60s: read with %v", field, err)
		}
		if value, _, err := lockrec.MoveHistory(r, nil); value != nil || err == nil {
			t.Errorf("%.60s: moved to %s, %v", field, value, err)
		}
		h := newHistorian(t)
		h.base, h.off = r, true
		h.grant("ada", lockrec.Cause{}) // keeps the field: another program may be able to read it
		h.off = false
		h.release()
		if got := told(h.read()); got[0] != "begun 0  / the earlier history cannot be read" || got[1] != "released 8 ada" {
			t.Errorf("%.60s: the new history is %q", field, got)
		}
	}
	// A field that is only too large is bounded by the next write.
	r, err := lockrec.Decode("", "job", record(`{"from":5,"last":1,"e":[["g",1,2,"`+strings.Repeat("x", 60000)+`"]]}`))
	if err != nil {
		t.Fatal(err)
	}
	h := newHistorian(t)
	h.base = r
	h.grant("ada", lockrec.Cause{})
	if value, err := lockrec.Encode(h.base); len(value) > 1024 || err != nil {
		t.Errorf("the record has %d bytes, %v", len(value), err)
	}
	h = newHistorian(t)
	h.grant("ada", lockrec.Cause{})
	h.release()
	for _, register := range []string{
		``, `null`, `7`, `{}`, `{"holdfast":1,"kind":"history","name":"other","parts":[]}`, `{"holdfast":1,"kind":"history","name":"job","parts":[null]}`,
		`{"holdfast":1,"kind":"history","name":"job","parts":[{"from":5,"last":1,"e":[["g",1],["g",1]]}]}`, `{"holdfast":0,"kind":"history","name":"job"}`,
		`{"holdfast":1,"kind":"history","name":"job","parts":[{"from":5,"last":1,"e":[["g"]]}]}`,
	} {
		all, err := lockrec.HistoryOf("job", h.base, []byte(register))
		if !errors.Is(err, store.ErrCorrupt) || len(all) != 3 {
			t.Errorf("%s: %d entries, %v", register, len(all), err)
		}
		if value, _, err := lockrec.MoveHistory(h.base, []byte(register)); err != nil || value == nil {
			t.Errorf("%s: replaced by %s, %v", register, value, err)
		}
	}
	newer := []byte(`{"holdfast":2,"kind":"history","name":"job","parts":[]}`)
	if value, _, err := lockrec.MoveHistory(h.base, newer); value != nil || !errors.Is(err, lockrec.ErrNewerFormat) {
		t.Errorf("a register of a newer format is replaced by %s, %v", value, err)
	}
	if all, err := lockrec.HistoryOf("job", h.base, newer); len(all) != 3 || !errors.Is(err, lockrec.ErrNewerFormat) {
		t.Errorf("beside a register of a newer format: %d entries, %v", len(all), err)
	}
}

// TestGoldenHistory: a record and a register that this version has written can always be read.
func TestGoldenHistory(t *testing.T) {
	const (
		field    = `{"from":1795485601000000,"last":5,"tried":3,"at":7,"e":[["r",1795485603000,101,"ada"],["Q",1795485604000,102,"bob","eve","later kind",2]]}`
		register = `{"holdfast":1,"kind":"history","name":"job","parts":[{"from":1795485601000000,"last":2,"e":[["b",1795485601000],["g",1795485601000,100,"ada"]]}]}`
	)
	r, err := lockrec.Decode("", "job", []byte(`{"holdfast":1,"kind":"lease","name":"job","state":"free","token":102,"ttl_ms":1000,"nonce":"n","history":`+field+`}`))
	if err != nil {
		t.Fatal(err)
	}
	all, err := lockrec.HistoryOf("job", r, []byte(register))
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, told(all), []string{"begun 0 ", "granted 100 ada", "released 101 ada (1 missing)", "Q 102 bob / eve / later kind slot 2"})
	if got, want := all[1].Time, time.UnixMilli(1795485601000).UTC(); got != want || all[2].Seq != 1795485601000004 {
		t.Errorf("the second entry is of %v, want %v; the third has the number %d", got, want, all[2].Seq)
	}
	value, _, err := lockrec.MoveHistory(r, []byte(register))
	if err != nil || !strings.Contains(string(value), `["Q",1795485604000,102,"bob","eve","later kind",2]`) {
		t.Errorf("moved: %s, %v", value, err)
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte(`{"from":5,"last":2,"e":[["g",1,2,"h"],["r",2,2,"h"]]}`), []byte(`{"holdfast":1,"kind":"history","name":"job","parts":[{"from":5,"last":1,"e":[["b",1]]}]}`))
	f.Fuzz(func(t *testing.T, field, register []byte) {
		r, err := lockrec.Decode("", "job", []byte(fmt.Sprintf(`{"holdfast":1,"kind":"lease","name":"job","state":"free","token":7,"ttl_ms":1000,"nonce":"n","history":%s}`, field)))
		if err != nil {
			return
		}
		before, _ := lockrec.HistoryOf("job", r, register)
		if value, _, err := lockrec.MoveHistory(r, register); err == nil && value != nil && len(value) < 50000 {
			if after, err := lockrec.HistoryOf("job", r, value); err != nil || len(after) < len(before) {
				t.Errorf("a move made %d entries of %d, %v: %s", len(after), len(before), err, value)
			}
		}
		h := newHistorian(t)
		h.base, h.register = r, register
		h.grant("ada", lockrec.Cause{})
		h.release()
		all, _ := lockrec.HistoryOf("job", h.base, register)
		if n := len(all); n < 2 || all[n-1].Kind != lockrec.HistoryReleased || all[n-2].Kind != lockrec.HistoryGranted {
			t.Errorf("the last grant is not told: %+v", all)
		}
	})
}

// TestLongHistoryInARecord: another program has put many entries into a record, and many parts into the register. A
// write and a move take no longer than usual.
func TestLongHistoryInARecord(t *testing.T) {
	entry := `["g",0],`
	entries := strings.TrimSuffix(strings.Repeat(entry, 60<<10/len(entry)), ",")
	count := strings.Count(entries, "g")
	value := fmt.Sprintf(`{"holdfast":1,"kind":"lease","name":"job","state":"free","token":7,"nonce":"n","history":{"from":5,"last":%d,"e":[%s]}}`, count, entries)
	base, err := lockrec.Decode("", "job", []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	h := newHistorian(t)
	h.base = base
	began := time.Now()
	h.grant("ada", lockrec.Cause{})
	h.register = []byte(`{"holdfast":1,"kind":"history","name":"job","parts":[` + strings.TrimSuffix(strings.Repeat("0,", 31<<10), ",") + "]}")
	h.move()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a write and a move took %v", took)
	}
	if len(h.register) > 60<<10 {
		t.Errorf("the register has %d bytes", len(h.register))
	}
	all, _ := lockrec.HistoryOf("job", h.base, h.register) // the error is that of the other parts
	if last := all[len(all)-1]; last.Kind != lockrec.HistoryGranted || last.Seq != 5+uint64(count)+2 {
		t.Errorf("the last entry is %+v, of %d", last, count)
	}
}

// TestHistoryWithAWrongClock: the clock of a writer is far off. The entries of others stay readable.
func TestHistoryWithAWrongClock(t *testing.T) {
	for _, now := range []time.Time{{}, time.Unix(-10, 0), time.Date(9999, 12, 31, 23, 59, 50, 0, time.UTC)} {
		h := newHistorian(t)
		h.grant("ada", lockrec.Cause{})
		right := h.now
		h.now = now
		h.release()
		h.now = right
		h.grant("bob", lockrec.Cause{})
		if all := h.read(); len(all) != 4 || all[3].Seq != all[0].Seq+3 {
			t.Errorf("%v: %q", now, told(all))
		}
		h = newHistorian(t)
		h.now = now
		h.grant("ada", lockrec.Cause{})
		h.now = right
		h.release()
		if all := h.read(); len(all) != 3 || all[2].Kind != lockrec.HistoryReleased {
			t.Errorf("begun at %v: %q", now, told(all))
		}
	}
}
