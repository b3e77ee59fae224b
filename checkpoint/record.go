package checkpoint

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// formatVersion is the version of the record that this package writes. A record of a
	// newer version is refused.
	formatVersion = 1

	// MaxPayload is the largest size of the event id and the data of a position together,
	// in bytes of JSON. The rest of a register's 64 KiB is for the other fields. So a
	// saved checkpoint always has room for a fencing token.
	MaxPayload = 60 << 10

	recordKind = "checkpoint"

	// maxCount bounds epochs and write counts, so that adding one never wraps.
	maxCount = math.MaxUint64 >> 1
)

// record is the value of a register; the package comment documents its JSON. The
// record of a key that was never written is firstRecord.
type record struct {
	exists  bool
	pos     Position
	epoch   uint64
	token   uint64
	n       uint64 // counts the writes of this register
	nonce   string // new in every write
	written time.Time

	// unknown keeps the fields of later versions unchanged.
	unknown map[string]json.RawMessage
}

// firstRecord is the record of a register that is absent.
func firstRecord() record { return record{epoch: 1} }

// fields is the JSON form of a record.
type fields struct {
	Holdfast   int     `json:"holdfast"`
	Kind       string  `json:"kind"`
	Key        string  `json:"key"`
	Epoch      uint64  `json:"epoch"`
	Sequence   *uint64 `json:"sequence,omitempty"`
	EventID    string  `json:"event_id,omitempty"`
	Data       *string `json:"data,omitempty"`
	DataBase64 []byte  `json:"data_base64,omitempty"`
	Token      uint64  `json:"token,omitempty"`
	N          uint64  `json:"n"`
	Nonce      string  `json:"nonce"`
	Written    string  `json:"written,omitempty"`
}

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// checkpoint returns the state in the record, as a copy.
func (r *record) checkpoint(key string) Checkpoint {
	c := Checkpoint{Key: key, Exists: r.exists, Position: r.pos, Epoch: r.epoch, Token: r.token, Written: r.written}
	c.Data = bytes.Clone(r.pos.Data)
	return c
}

// follow returns a record that succeeds r: the same state, with a new nonce.
func (r *record) follow() record {
	next := *r
	next.n++
	next.nonce = rand.Text()[:16]
	next.written = time.Now().UTC().Truncate(time.Millisecond)
	return next
}

// encode returns the value of the register.
func (r *record) encode(key string) ([]byte, error) {
	f := fields{
		Holdfast: formatVersion, Kind: recordKind, Key: key, Epoch: r.epoch, Token: r.token,
		N: r.n, Nonce: r.nonce,
	}
	if !r.written.IsZero() {
		f.Written = r.written.UTC().Format(timeFormat)
	}
	if r.exists {
		f.Sequence, f.EventID = &r.pos.Sequence, r.pos.EventID
		f.Data, f.DataBase64 = dataFields(r.pos.Data)
	}
	if err := f.check(key); err != nil { // a count is at its bound: no keeper could read the record
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	value, err := marshal(f)
	if err != nil {
		return nil, err
	}
	if len(r.unknown) > 0 {
		b := bytes.NewBuffer(value[:len(value)-1])
		for _, name := range slices.Sorted(maps.Keys(r.unknown)) {
			quoted, err := marshal(name)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(b, ",%s:", quoted)
			if err := json.Compact(b, r.unknown[name]); err != nil {
				return nil, err
			}
		}
		b.WriteByte('}')
		value = b.Bytes()
	}
	if len(value) > store.MaxValue {
		return nil, fmt.Errorf("%w: the record has %d bytes; at most %d are allowed", store.ErrTooLarge, len(value), store.MaxValue)
	}
	return value, nil
}

// dataFields returns data as text if it is text, so that people can read it.
func dataFields(data []byte) (*string, []byte) {
	if data == nil {
		return nil, nil
	}
	if utf8.Valid(data) {
		text := string(data)
		return &text, nil
	}
	return nil, data
}

// marshal is json.Marshal without the escapes that are meant for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// checkPosition reports why p cannot be saved in a register.
func checkPosition(p Position) error {
	if !utf8.ValidString(p.EventID) {
		return fmt.Errorf("%w: the event id %q is not valid UTF-8", store.ErrInvalid, p.EventID)
	}
	var f fields
	f.Data, f.DataBase64 = dataFields(p.Data)
	payload, err := marshal([]any{p.EventID, f.Data, f.DataBase64})
	if err != nil {
		return err
	}
	if len(payload) > MaxPayload {
		return fmt.Errorf("%w: the event id (%d bytes) and the data (%d bytes) take %d bytes as JSON; at most %d are allowed. Store large data in another place, and put only its name into the checkpoint",
			store.ErrTooLarge, len(p.EventID), len(p.Data), len(payload), MaxPayload)
	}
	return nil
}

// decode reads the value of a register as the checkpoint of key. Its errors match
// [store.ErrCorrupt]: such a register counts as neither absent nor writable.
func decode(key string, value []byte) (record, error) {
	r, err := decodeFields(key, value)
	if err != nil {
		return record{}, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return r, nil
}

func decodeFields(key string, value []byte) (record, error) {
	all, err := members(value)
	if err != nil {
		return record{}, fmt.Errorf("the value is not a checkpoint: %w: %.60q", err, value)
	}
	// The version comes first: the fields of a newer format may mean something else.
	version, err := take[int](all, "holdfast")
	if err != nil || version < 1 {
		return record{}, fmt.Errorf("the value is not a checkpoint: %.60q", value)
	}
	if version > formatVersion {
		return record{}, fmt.Errorf("%w: the checkpoint has format %d, but this program reads only format %d; use a newer program", ErrFormat, version, formatVersion)
	}
	var f fields
	var errs [12]error
	f.Kind, errs[0] = take[string](all, "kind")
	f.Key, errs[1] = take[string](all, "key")
	f.Epoch, errs[2] = take[uint64](all, "epoch")
	f.Sequence, errs[3] = take[*uint64](all, "sequence")
	f.EventID, errs[4] = take[string](all, "event_id")
	f.Data, errs[5] = take[*string](all, "data")
	f.DataBase64, errs[6] = take[[]byte](all, "data_base64")
	f.Token, errs[7] = take[uint64](all, "token")
	f.N, errs[8] = take[uint64](all, "n")
	f.Nonce, errs[9] = take[string](all, "nonce")
	_, errs[10] = take[[]string](all, "recent") // written by an earlier release; not kept
	f.Written, errs[11] = take[string](all, "written")
	if err := errors.Join(errs[:]...); err != nil {
		return record{}, err
	}
	if err := f.check(key); err != nil {
		return record{}, err
	}
	r := record{epoch: f.Epoch, token: f.Token, n: f.N, nonce: f.Nonce}
	// The time is for people only, so an invalid one is no error.
	r.written, _ = time.Parse(timeFormat, f.Written)
	if f.Sequence != nil {
		r.exists = true
		r.pos = Position{Sequence: *f.Sequence, EventID: f.EventID, Data: f.DataBase64}
		if f.Data != nil {
			r.pos.Data = []byte(*f.Data)
		}
	}
	if len(all) > 0 {
		r.unknown = all
	}
	return r, nil
}

// check reports values that no keeper writes.
func (f *fields) check(key string) error {
	switch {
	case f.Kind != recordKind:
		return fmt.Errorf("the register has a record of kind %q, not a checkpoint", f.Kind)
	case f.Key != key:
		return fmt.Errorf("the record belongs to another checkpoint, %q; find out which program copied the record", f.Key)
	case f.Epoch == 0 || f.Epoch > maxCount:
		return fmt.Errorf("the epoch of the record is %d, but must be from 1 to %d", f.Epoch, uint64(maxCount))
	case f.N == 0 || f.N > maxCount:
		return fmt.Errorf("the write count of the record (n) is %d, but must be from 1 to %d", f.N, uint64(maxCount))
	case f.Nonce == "":
		return errors.New("the record has no nonce")
	case f.Sequence == nil && (f.EventID != "" || f.Data != nil || f.DataBase64 != nil):
		return errors.New("the record has an event or data, but no sequence")
	case f.Data != nil && f.DataBase64 != nil:
		return errors.New("the record has both data and data_base64")
	}
	return nil
}

// members returns the members of a JSON object. It is stricter than encoding/json:
// invalid UTF-8 and names that occur twice are errors, and names are case-sensitive.
func members(value []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(value) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the text is not a JSON object")
	}
	all := make(map[string]json.RawMessage)
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok {
			return nil, errors.New("the text is not a JSON object")
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("the field %q occurs twice", name)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		all[name] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("the text continues after the JSON object")
	}
	return all, nil
}

// take removes a member and returns its value, or the zero value if it is missing.
func take[T any](all map[string]json.RawMessage, name string) (T, error) {
	var v T
	raw, ok := all[name]
	if !ok {
		return v, nil
	}
	delete(all, name)
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}
