package bucketstore

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// TombstoneSize is the size of the object of a deleted register, in bytes. No
	// other register has it.
	TombstoneSize = 256

	format    = 1
	maxAfter  = 7
	nonceSize = 12

	// maxBody is more than any record needs.
	maxBody = store.MaxValue*4/3 + 1024
)

// record is the body of an object.
type record struct {
	nonce   string
	after   []string // the nonces of the states before it, newest first
	deleted bool
	value   []byte
}

// fields is a record as it is written.
type fields struct {
	Holdfast int             `json:"holdfast"`
	Nonce    string          `json:"nonce"`
	After    []string        `json:"after,omitempty"`
	Deleted  bool            `json:"deleted,omitempty"`
	Base64   *string         `json:"base64,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
}

// newNonce returns nonceSize characters of 72 random bits: enough, since it needs to
// differ from the other nonces of one key only.
func newNonce() string {
	b := make([]byte, nonceSize*6/8)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func (r record) encode() []byte {
	f := fields{Holdfast: format, Nonce: r.nonce, After: r.after, Deleted: r.deleted}
	if !r.deleted {
		if body, ok := withJSON(f, r.value); ok {
			return notTombstone(body)
		}
		text := base64.StdEncoding.EncodeToString(r.value)
		f.Base64 = &text
	}
	body := marshal(f)
	if !r.deleted {
		return notTombstone(append(body, '\n'))
	}
	return append(append(body, bytes.Repeat([]byte{' '}, TombstoneSize-1-len(body))...), '\n')
}

// withJSON writes the value as the JSON that it is, byte for byte: a register gives
// back what was put.
func withJSON(f fields, value []byte) ([]byte, bool) {
	if !utf8.Valid(value) || !json.Valid(value) || len(bytes.TrimSpace(value)) != len(value) {
		return nil, false
	}
	body := marshal(f)
	body = append(body[:len(body)-1], `,"value":`...)
	body = append(append(body, value...), '}', '\n')
	// The value may just be too deeply nested to stand in another one.
	return body, json.Valid(body)
}

func marshal(f fields) []byte {
	body, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings and a number: it cannot fail
	}
	return body
}

func notTombstone(body []byte) []byte {
	if len(body) == TombstoneSize {
		return append(body, '\n')
	}
	return body
}

func decodeRecord(body []byte) (record, error) {
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return record{}, errors.New("it is not a register of Holdfast")
	}
	switch {
	case f.Holdfast == 0:
		return record{}, errors.New("it is not a register of Holdfast")
	case f.Holdfast != format:
		return record{}, fmt.Errorf("its format is %d, this program knows %d", f.Holdfast, format)
	case !isNonce(f.Nonce) || len(f.After) > maxAfter || slices.ContainsFunc(f.After, func(n string) bool { return !isNonce(n) }):
		return record{}, errors.New("its nonces are damaged")
	case f.Deleted && len(body) != TombstoneSize || !f.Deleted && len(body) == TombstoneSize:
		return record{}, fmt.Errorf("its size, %d, was changed", len(body))
	}
	r := record{nonce: f.Nonce, after: f.After, deleted: f.Deleted}
	switch values := [...]bool{f.Deleted, f.Value != nil, f.Base64 != nil}; values {
	case [...]bool{true, false, false}:
	case [...]bool{false, true, false}:
		r.value = f.Value
	case [...]bool{false, false, true}:
		value, err := base64.StdEncoding.DecodeString(*f.Base64)
		if err != nil {
			return record{}, errors.New("its base64 is damaged")
		}
		r.value = value
	default:
		return record{}, errors.New("it has no value, or several")
	}
	if len(r.value) > store.MaxValue {
		return record{}, fmt.Errorf("its value has %d bytes, at most %d are allowed", len(r.value), store.MaxValue)
	}
	return r, nil
}

func isNonce(s string) bool { return len(s) == nonceSize && !strings.ContainsAny(s, ".@") }

// state is a record as it lies in the bucket.
type state struct {
	record record
	object object.Version
}

// version is a [store.Version] taken apart: the nonces of a state and of those
// before it, newest first, and the version of the object. The nonces make it unique
// whatever the store does; those of the past let a write say what it followed.
type version struct {
	nonces []string
	object object.Version
}

func (s state) version() store.Version {
	return store.Version(strings.Join(s.record.lineage(), ".") + "@" + string(s.object))
}

// lineage is the nonce of the record and those before it.
func (r record) lineage() []string { return append([]string{r.nonce}, r.after...) }

func parseVersion(v store.Version) (version, error) {
	if v == "" {
		return version{}, nil
	}
	nonces, object_, ok := strings.Cut(string(v), "@")
	parsed := version{strings.Split(nonces, "."), object.Version(object_)}
	if !ok || object_ == "" || len(parsed.nonces) > maxAfter+1 || slices.ContainsFunc(parsed.nonces, func(n string) bool { return !isNonce(n) }) {
		return version{}, fmt.Errorf("%w: %q is none of a bucket", store.ErrVersion, v)
	}
	return parsed, nil
}

func (v version) absent() bool { return len(v.nonces) == 0 }

// is reports whether v names the state s.
func (v version) is(s state) bool {
	return !v.absent() && v.nonces[0] == s.record.nonce && v.object == s.object
}

// follow makes r the successor of v.
func (r *record) follow(v version) {
	r.after = v.nonces[:min(len(v.nonces), maxAfter)]
}
