package lockrec

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"
)

// byReflection is the value of a record as package json writes its fields.
func byReflection(r *Record) ([]byte, error) {
	f := fields{
		Holdfast: r.format(), Kind: r.kind(), Name: r.Name, State: r.stateName(), Token: r.Token,
		Holder: r.Holder, Grant: r.Grant, TTL: r.TTL.Milliseconds(), Nonce: r.Nonce,
		Granted: r.Granted.UTC(), Renewed: r.Renewed.UTC(), Process: r.Process,
		Presence: r.Presence, Immediate: r.Immediate, BrokenNonce: r.BrokenNonce, HolderWriteAge: r.HolderWriteAge.Milliseconds(),
		NotBefore: r.NotBefore.UTC(), Session: r.Session, HolderNonce: r.HolderNonce, Slots: r.Slots,
		Holders: r.Holders, Queue: r.Queue, Linger: r.Linger.Milliseconds(), LocksToCheck: r.LocksToCheck,
	}
	if r.HolderNonce != "" {
		f.OtherWrites = r.OtherWrites
	}
	if text := string(r.Data); r.Data != nil && readable(text) {
		f.Data = &text
	} else {
		f.DataBase64 = r.Data
	}
	var err error
	if r.Run != nil {
		if f.Run, err = r.Run.encode(); err != nil {
			return nil, err
		}
	}
	if r.YieldRequest != nil {
		if f.YieldRequest, err = r.YieldRequest.encode(); err != nil {
			return nil, err
		}
	}
	object, err := marshal(f)
	if err != nil {
		return nil, err
	}
	return withUnknown(object, r.unknown)
}

// checkEncode compares the two ways to write a record, and reports whether the record has a value.
func checkEncode(t *testing.T, r *Record) bool {
	t.Helper()
	got, err := r.whole()
	want, wantErr := byReflection(r)
	if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) {
		t.Fatalf("wrote\n%s (%v)\nwant\n%s (%v)", got, err, want, wantErr)
	}
	return err == nil
}

// TestEncodeLikeJSON: the value of a record has the bytes that package json writes, so that all versions of
// Holdfast write the same.
func TestEncodeLikeJSON(t *testing.T) {
	const rounds = 30_000
	failed, good := 0, 0
	for seed := range uint64(rounds) {
		if checkEncode(t, randomRecord(rand.New(rand.NewPCG(seed, 1)))) {
			good++
		} else {
			failed++
		}
	}
	if failed == 0 || good < rounds/2 {
		t.Errorf("%d records have a value, %d have none", good, failed)
	}
}

func FuzzEncode(f *testing.F) {
	f.Add(uint64(1), "job", "root@db1 pid 4711", []byte("step 3"), int64(1_793_534_400), int64(123_456_789), int64(30_000))
	f.Add(uint64(2), "Größe", "<&>\"\\\u2028\x7f\x00\xff", []byte{0xff, 0}, int64(-62_135_596_800), int64(0), int64(-1))
	f.Add(uint64(3), "", "\t\r\n\b\f", []byte{}, int64(253_402_300_800), int64(1), int64(0))
	f.Fuzz(func(t *testing.T, seed uint64, name, text string, data []byte, seconds, nanos, number int64) {
		r := randomRecord(rand.New(rand.NewPCG(seed, 1)))
		r.Name, r.Holder, r.Data = name, text, data
		r.Granted = time.Unix(seconds, nanos)
		r.TTL, r.OtherWrites = time.Duration(number), int(number)
		r.unknown = map[string]json.RawMessage{name: json.RawMessage("1")}
		checkEncode(t, r)
	})
}

// randomRecord returns a record in which any field may be set. It may be one that no client writes.
func randomRecord(rnd *rand.Rand) *Record {
	some := func() bool { return rnd.IntN(3) == 0 }
	letters := []string{"a", "Z", "7", " ", "/", "<", "&", "~", "\"", "\\", "\n", "\x00", "\x1f", "\x7f", "\xff", "\u2028", "ß", "世", "😀"}
	text := func() (s string) {
		if some() {
			return ""
		}
		few := letters
		if !some() {
			few = letters[:8] // those that are written as they are
		}
		for range rnd.IntN(40) {
			s += few[rnd.IntN(len(few))]
		}
		return s
	}
	number := func() int64 {
		switch rnd.IntN(4) {
		case 0:
			return 0
		case 1:
			return rnd.Int64N(100) - 50
		case 2:
			return -rnd.Int64()
		}
		return rnd.Int64()
	}
	at := func() time.Time {
		switch rnd.IntN(40) {
		case 0:
			return time.Unix(300_000_000_000, 0) // the year 11476, which has no text
		case 1:
			return time.Unix(-62_135_596_800, 1)
		}
		if some() {
			return time.Time{}
		}
		t := time.Unix(rnd.Int64N(4_000_000_000), rnd.Int64N(1_000_000_000))
		switch rnd.IntN(4) {
		case 0:
			t = t.Truncate(time.Second)
		case 1:
			t = t.Truncate(time.Millisecond)
		case 2:
			t = t.In(time.FixedZone("", 3600*rnd.IntN(12)+17))
		}
		return t
	}
	unknown := func() map[string]json.RawMessage {
		if !some() {
			return nil
		}
		return map[string]json.RawMessage{"x" + text(): json.RawMessage(`{ "a": [1, "<"] }`), text(): json.RawMessage("null")}
	}
	members := func() (all []Member) {
		if !some() {
			return nil
		}
		modes := []Mode{ModeShared, ModeSlot, ModeExclusive, ModeCandidate}
		for range rnd.IntN(3) {
			all = append(all, Member{Grant: text(), TTL: time.Duration(number()), Mode: modes[rnd.IntN(4)], Slot: rnd.IntN(3), Token: rnd.Uint64N(3), Since: at()})
		}
		return all
	}
	r := &Record{
		Name: text(), State: []State{Held, Free, Broken, Shared, Revoked, ""}[rnd.IntN(6)], Token: rnd.Uint64(), Holder: text(), Grant: text(),
		TTL: time.Duration(number()), Nonce: text(), Granted: at(), Renewed: at(), Process: text(), Presence: text(), Immediate: some(),
		BrokenNonce: text(), HolderWriteAge: time.Duration(number()), NotBefore: at(), Session: text(), Holders: members(), Queue: members(),
		Slots: int(number()), HolderNonce: text(), OtherWrites: int(number()), Linger: time.Duration(number()), unknown: unknown(),
	}
	if some() {
		r.Kind = KindSession
	}
	if some() {
		r.Data = bytes.Repeat([]byte(text()), 1+rnd.IntN(100))
	}
	if some() {
		r.LocksToCheck = []string{text(), text()}
	}
	if some() {
		r.Run = &Run{Period: text(), Began: at(), PeriodEnd: at(), Ended: at(), Outcome: RunDone, Error: text(), Holder: text(), Attempts: int(number()), Grant: text(), RerunAllowed: some(), unknown: unknown()}
	}
	if some() {
		r.YieldRequest = &YieldRequest{Grant: text(), Grants: []string{text()}, By: text(), Reason: text(), At: at(), OnlyIfIdle: some(), Acknowledged: some(), RefusalReason: text(), unknown: unknown()}
	}
	return r
}
