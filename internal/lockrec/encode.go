package lockrec

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// whole returns the value of the register, however large.
func (r *Record) whole() ([]byte, error) {
	var o object
	o.number("holdfast", int64(r.format()))
	o.text("kind", r.kind())
	o.text("name", r.Name)
	o.text("state", string(r.stateName()))
	o.field("token")
	o.b = strconv.AppendUint(o.b, r.Token, 10)
	o.textIfAny("holder", r.Holder)
	o.textIfAny("grant", r.Grant)
	o.number("ttl_ms", r.TTL.Milliseconds())
	o.text("nonce", r.Nonce)
	o.timeIfAny("granted", r.Granted)
	o.timeIfAny("renewed", r.Renewed)
	o.textIfAny("process", r.Process)
	o.textIfAny("presence", r.Presence)
	if r.Immediate {
		o.json("now", true)
	}
	o.textIfAny("broke", r.BrokenNonce)
	o.numberIfAny("stood_ms", r.HolderWriteAge.Milliseconds())
	o.timeIfAny("not_before", r.NotBefore)
	if r.Run != nil {
		run, err := r.Run.encode()
		o.fails(err)
		o.json("run", run)
	}
	o.textIfAny("session", r.Session)
	if o.textIfAny("mark", r.HolderNonce); r.HolderNonce != "" {
		o.numberIfAny("beside", int64(r.OtherWrites))
	}
	o.numberIfAny("slots", int64(r.Slots))
	o.members("holders", r.Holders)
	o.members("queue", r.Queue)
	if r.YieldRequest != nil {
		request, err := r.YieldRequest.encode()
		o.fails(err)
		o.json("ask", request)
	}
	o.numberIfAny("linger_ms", r.Linger.Milliseconds())
	if len(r.LocksToCheck) > 0 {
		o.json("attend", r.LocksToCheck)
	}
	if text := string(r.Data); r.Data != nil && readable(text) {
		o.text("data", text)
	} else if len(r.Data) > 0 {
		o.json("data_base64", r.Data)
	}
	if r.history != nil {
		o.field("history")
		o.b = append(o.b, r.history...)
	}
	if o.err != nil {
		return nil, o.err
	}
	return withUnknown(append(o.b, '}'), r.unknown)
}

// maxSize returns the size of the record without the history, for which a record needs no room, and with room for
// each waiter to become a holder: its entry then gets a token and a slot, and the hand-over must not leave anything out.
func (r *Record) maxSize() (int, error) {
	bare := *r
	bare.history = nil
	value, err := bare.whole()
	return len(value) + len(r.Queue)*len(`,18446744073709551615,500`), err
}

// object is a JSON object that is written field by field, without reflection. It has the bytes that package json
// writes.
type object struct {
	b   []byte
	err error // the first
}

func (o *object) fails(err error) { o.err = cmp.Or(o.err, err) }

// field begins a field.
func (o *object) field(name string) {
	if o.b == nil {
		o.b = append(make([]byte, 0, 512), '{')
	} else {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

// json writes a field of any type.
func (o *object) json(name string, v any) {
	value, err := marshal(v)
	o.fails(err)
	o.field(name)
	o.b = append(o.b, value...)
}

func (o *object) text(name, s string) {
	o.field(name)
	o.quote(s)
}

// quote writes a text.
func (o *object) quote(s string) {
	if !isPlain([]byte(s)) {
		value, err := marshal(s)
		o.fails(err)
		o.b = append(o.b, value...)
		return
	}
	o.b = append(append(append(o.b, '"'), s...), '"')
}

// isPlain reports whether a text is the same within the quotes of JSON, in each way to write it.
func isPlain(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' })
}

// members writes a field of members, if there are any. Each is an array: the grant, the mode, the TTL in
// milliseconds, since in Unix seconds, the token and the slot. Zeros at the end are left out.
func (o *object) members(name string, all []Member) {
	for i, m := range all {
		code := ""
		for _, known := range modeCodes {
			if known.mode == m.Mode {
				code = known.code
			}
		}
		if code == "" {
			o.fails(fmt.Errorf("the member has the unknown mode %q", m.Mode))
		}
		if i == 0 {
			o.field(name)
		}
		o.b = append(o.b, "[,"[min(i, 1)], '[')
		o.quote(m.Grant)
		o.b = append(append(append(o.b, `,"`...), code...), `",`...)
		o.b = append(strconv.AppendInt(o.b, m.TTL.Milliseconds(), 10), ',')
		o.b = strconv.AppendInt(o.b, max(0, m.Since.Unix()), 10)
		if m.Token != 0 || m.Slot != 0 {
			o.b = strconv.AppendUint(append(o.b, ','), m.Token, 10)
		}
		if m.Slot != 0 {
			o.b = strconv.AppendInt(append(o.b, ','), int64(m.Slot), 10)
		}
		if o.b = append(o.b, ']'); i == len(all)-1 {
			o.b = append(o.b, ']')
		}
	}
}

func (o *object) textIfAny(name, s string) {
	if s != "" {
		o.text(name, s)
	}
}

func (o *object) number(name string, n int64) {
	o.field(name)
	o.b = strconv.AppendInt(o.b, n, 10)
}

func (o *object) numberIfAny(name string, n int64) {
	if n != 0 {
		o.number(name, n)
	}
}

func (o *object) timeIfAny(name string, t time.Time) {
	if !t.IsZero() {
		o.field(name)
		var err error
		o.b, err = t.UTC().AppendText(append(o.b, '"'))
		o.fails(err)
		o.b = append(o.b, '"')
	}
}

// withUnknown returns a JSON object with further fields.
func withUnknown(b []byte, unknown map[string]json.RawMessage) ([]byte, error) {
	o := object{b: b[:len(b)-1]}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		if len(o.b) > 1 {
			o.b = append(o.b, ',')
		}
		o.quote(name)
		o.b = append(append(o.b, ':'), unknown[name]...)
	}
	return append(o.b, '}'), o.err
}

// readable reports whether data is written as text: it is UTF-8, and not much longer for
// its escapes.
func readable(data string) bool {
	if !utf8.ValidString(data) {
		return false
	}
	if len(data) <= readableData {
		return true
	}
	text, err := marshal(data)
	return err == nil && len(text) <= base64.StdEncoding.EncodedLen(len(data))
}

// marshal is json.Marshal without the escapes for HTML, which make text hard to read.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
