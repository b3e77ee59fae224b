package lockrec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// jsonFields is the JSON form of a Record.
type jsonFields struct {
	Holdfast       int             `json:"holdfast"`
	Kind           string          `json:"kind"`
	Name           string          `json:"name"`
	State          State           `json:"state"`
	Token          uint64          `json:"token"`
	Holder         string          `json:"holder,omitempty"`
	Grant          string          `json:"grant,omitempty"`
	TTL            int64           `json:"ttl_ms"`
	Nonce          string          `json:"nonce"`
	Granted        time.Time       `json:"granted,omitzero"`
	Renewed        time.Time       `json:"renewed,omitzero"`
	Process        string          `json:"process,omitempty"`
	Presence       string          `json:"presence,omitempty"`
	Immediate      bool            `json:"now,omitempty"`
	BrokenNonce    string          `json:"broke,omitempty"`
	HolderWriteAge int64           `json:"stood_ms,omitempty"`
	NotBefore      time.Time       `json:"not_before,omitzero"`
	Run            json.RawMessage `json:"run,omitempty"`
	Session        string          `json:"session,omitempty"`
	HolderNonce    string          `json:"mark,omitempty"`
	OtherWrites    int             `json:"beside,omitempty"`
	Slots          int             `json:"slots,omitempty"`
	Holders        json.RawMessage `json:"holders,omitempty"`
	Queue          json.RawMessage `json:"queue,omitempty"`
	YieldRequest   json.RawMessage `json:"ask,omitempty"`
	Linger         int64           `json:"linger_ms,omitempty"`
	LocksToCheck   []string        `json:"attend,omitempty"`
	Data           *string         `json:"data,omitempty"`
	DataBase64     []byte          `json:"data_base64,omitempty"`
}

// byReflection is the value of a record as package json writes its fields.
func byReflection(r *Record) ([]byte, error) {
	f := jsonFields{
		Holdfast: r.format(), Kind: r.kind(), Name: r.Name, State: r.stateName(), Token: r.Token,
		Holder: r.Holder, Grant: r.Grant, TTL: r.TTL.Milliseconds(), Nonce: r.Nonce,
		Granted: r.Granted.UTC(), Renewed: r.Renewed.UTC(), Process: r.Process,
		Presence: r.Presence, Immediate: r.Immediate, BrokenNonce: r.BrokenNonce, HolderWriteAge: r.HolderWriteAge.Milliseconds(),
		NotBefore: r.NotBefore.UTC(), Session: r.Session, HolderNonce: r.HolderNonce, Slots: r.Slots,
		Linger: r.Linger.Milliseconds(), LocksToCheck: r.LocksToCheck,
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
	for list, all := range map[*json.RawMessage][]Member{&f.Holders: r.Holders, &f.Queue: r.Queue} {
		if len(all) > 0 {
			if *list, err = membersByReflection(all); err != nil {
				return nil, err
			}
		}
	}
	object, err := marshal(f)
	if err != nil {
		return nil, err
	}
	return withUnknown(object, r.unknown)
}

// membersByReflection is the JSON form of members as package json writes it.
func membersByReflection(all []Member) (json.RawMessage, error) {
	var list [][]any
	for _, m := range all {
		code := ""
		for _, known := range modeCodes {
			if known.mode == m.Mode {
				code = known.code
			}
		}
		if code == "" {
			return nil, fmt.Errorf("no code for the mode %q", m.Mode)
		}
		member := []any{m.Grant, code, m.TTL.Milliseconds(), max(0, m.Since.Unix()), m.Token, m.Slot}
		if m.Slot == 0 {
			member = member[:5]
			if m.Token == 0 {
				member = member[:4]
			}
		}
		list = append(list, member)
	}
	return marshal(list)
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

// readByReflection reads members as package json does.
func readByReflection(list []byte) (all []Member, _ error) {
	var members []json.RawMessage
	if err := json.Unmarshal(list, &members); err != nil {
		return nil, err
	}
	for _, value := range members {
		var (
			m          Member
			code       string
			ttl, since int64
		)
		fields := [6]any{&m.Grant, &code, &ttl, &since, &m.Token, &m.Slot}
		var given []any
		if err := errors.Join(json.Unmarshal(value, &fields), json.Unmarshal(value, &given)); err != nil {
			return nil, err
		}
		if len(given) < 4 || len(given) > 6 || slices.Contains(given, nil) {
			return nil, errors.New("not 4 to 6 fields")
		}
		for _, known := range modeCodes {
			if known.code == code {
				m.Mode = known.mode
			}
		}
		m.Session, m.TTL, m.Since = SessionOf(m.Grant), time.Duration(ttl)*time.Millisecond, time.Unix(since, 0).UTC()
		if m.Mode == "" || m.Session == "" || ttl <= 0 || ttl > MaxTTL.Milliseconds() || since < 0 || since > maxSince {
			return nil, errors.New("out of range")
		}
		all = append(all, m)
	}
	return all, nil
}

// checkMembers compares the two ways to read members from valid JSON, and reports whether they can be read. A
// negative slot is refused later.
func checkMembers(t *testing.T, list []byte) bool {
	t.Helper()
	if !json.Valid(list) {
		return false
	}
	got, err := decodeMembers(strings.TrimSpace(string(list)))
	want, wantErr := readByReflection(list)
	if negative := func(m Member) bool { return m.Slot < 0 }; slices.ContainsFunc(want, negative) {
		return false
	}
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: read\n%+v (%v)\nwant\n%+v (%v)", list, got, err, want, wantErr)
	}
	return err == nil
}

// TestMembersLikeJSON: members are read as package json reads them, whatever their JSON has.
func TestMembersLikeJSON(t *testing.T) {
	good := 0
	for seed := range uint64(20_000) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var all []Member
		for i := range rnd.IntN(4) {
			all = append(all, Member{Grant: fmt.Sprintf("S%d.%x", i, rnd.IntN(100)), TTL: time.Duration(rnd.IntN(90_000)) * time.Second, Mode: []Mode{ModeShared, ModeSlot, ModeExclusive, ModeCandidate}[rnd.IntN(4)], Slot: rnd.IntN(3), Token: rnd.Uint64N(3), Since: time.Unix(rnd.Int64N(maxSince+10), 0)})
		}
		list, err := membersByReflection(all)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeMembers(string(list)); err == nil && !bytes.Equal(append([]byte(nil), list...), func() []byte { b, _ := membersByReflection(back); return b }()) {
			t.Fatalf("%s became %+v", list, back)
		}
		if rnd.IntN(2) == 0 {
			var b bytes.Buffer
			_ = json.Indent(&b, list, " ", "\t")
			list = b.Bytes()
		}
		for range rnd.IntN(3) { // damage
			const parts = `[]{},:"\ .5-+eSrws0nu`
			i := rnd.IntN(len(list))
			list = slices.Replace(slices.Clone(list), i, i+rnd.IntN(2), parts[rnd.IntN(len(parts))])
		}
		if checkMembers(t, list) {
			good++
		}
	}
	for _, list := range []string{`null`, `[]`, `[ ]`, `7`, `{}`, `"]"`, `["]"]`, `[[]]`, `[["S.1","r",5,6]]`, `[[["S.1","r",5,6]]]`, `[["S.1","r",5,6],7]`, `[7,["S.1","r",5,6]]`, `[{"a":["S.1","r",5,6]}]`,
		`[["S.1","r",5,6],[]]`, `[["S.1,"r",5,6]]`, `[["S,1","r",5,6]]`, `[["S.1","r","5",6]]`, `[["S.1","r",5e0,6]]`, `[["S.1","r",5.0,6]]`, `[["S.1",7,5,6]]`, `[["S.1","r",5,6,18446744073709551615]]`,
		`[["S.1","r",5,6,18446744073709551616]]`, `[["S.1","r",5,6,0,9223372036854775807]]`, `[["S\u002e1","\u0072",5,6]]`, `[["S.1","r",true,6]]`, `[["S.1",null,5,6]]`, `[null]`} {
		checkMembers(t, []byte(list))
	}
	if good < 2_000 {
		t.Errorf("%d lists could be read", good)
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
