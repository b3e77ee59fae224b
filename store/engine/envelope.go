package engine

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// maxPredecessors is the largest number of earlier states that an envelope names.
	maxPredecessors = 7

	// TombstoneSize is the size of the text of a tombstone, in bytes. No other envelope
	// has this size. So if a listing shows sizes, it shows which keys are deleted.
	TombstoneSize = 256

	// MaxText is larger than the text of any envelope, in bytes.
	MaxText = store.MaxValue*4/3 + 1024

	format    = 1
	nonceSize = 12
)

// Envelope is one state of a register.
type Envelope struct {
	// Number is the number of this state, from 1. Tombstones also have numbers. It is 0 if the
	// backend does not number its states ([Options].Numbered).
	Number uint64

	// Nonce is different in every write. If the engine sends the same write again, the
	// Nonce is the same.
	Nonce string

	// Predecessors are the nonces of the earlier states, newest first: at most seven.
	Predecessors []string

	// Deleted says that the envelope is a tombstone.
	Deleted bool

	Value []byte
}

// fields is the JSON form of an envelope.
type fields struct {
	Holdfast int             `json:"holdfast"`
	Nonce    string          `json:"nonce"`
	After    []string        `json:"after,omitempty"`
	Deleted  bool            `json:"deleted,omitempty"`
	Base64   *string         `json:"base64,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
}

// newNonce returns nonceSize characters of 72 random bits. That is enough, since a nonce
// must differ only from the other nonces of its key.
func newNonce() string {
	b := make([]byte, nonceSize*6/8)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Encode returns the envelope as JSON for people and programs, for a backend that keeps
// one text for each register. The text does not contain the number.
func (e *Envelope) Encode() []byte {
	f := fields{Holdfast: format, Nonce: e.Nonce, After: e.Predecessors, Deleted: e.Deleted}
	if !e.Deleted {
		if body, ok := withJSON(f, e.Value); ok {
			return notTombstone(body)
		}
		text := base64.StdEncoding.EncodeToString(e.Value)
		f.Base64 = &text
	}
	body := marshal(f)
	if !e.Deleted {
		return notTombstone(append(body, '\n'))
	}
	return append(append(body, bytes.Repeat([]byte{' '}, TombstoneSize-1-len(body))...), '\n')
}

// withJSON embeds a value that is JSON as it is, byte for byte: a Get returns exactly
// what was put.
func withJSON(f fields, value []byte) ([]byte, bool) {
	if !utf8.Valid(value) || !json.Valid(value) || len(bytes.TrimSpace(value)) != len(value) {
		return nil, false
	}
	body := marshal(f)
	body = append(body[:len(body)-1], `,"value":`...)
	body = append(append(body, value...), '}', '\n')
	// A value of almost the deepest nesting is too deep inside another object.
	return body, len(body) < maxDepth || json.Valid(body)
}

// maxDepth is how deep package json lets values nest.
const maxDepth = 10_000

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

// Decode is the inverse of [Envelope.Encode]. Its errors match [store.ErrCorrupt].
func Decode(body []byte) (Envelope, error) {
	e, err := decode(body)
	if err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return e, nil
}

func decode(body []byte) (Envelope, error) {
	if len(body) > MaxText {
		return Envelope{}, fmt.Errorf("the record has %d bytes, more than a register can have", len(body))
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil || f.Holdfast == 0 {
		return Envelope{}, errors.New("the stored text is not a register of Holdfast")
	}
	e := Envelope{Nonce: f.Nonce, Predecessors: f.After, Deleted: f.Deleted}
	if f.Holdfast != format {
		return Envelope{}, fmt.Errorf("the register has format %d, this program reads format %d; use a newer program", f.Holdfast, format)
	}
	if err := e.check(); err != nil {
		return Envelope{}, err
	}
	if f.Deleted != (len(body) == TombstoneSize) {
		return Envelope{}, fmt.Errorf("the size of the register, %d bytes, does not fit its content; another program changed the register", len(body))
	}
	switch values := [...]bool{f.Deleted, f.Value != nil, f.Base64 != nil}; values {
	case [...]bool{true, false, false}:
	case [...]bool{false, true, false}:
		e.Value = f.Value
	case [...]bool{false, false, true}:
		value, err := base64.StdEncoding.DecodeString(*f.Base64)
		if err != nil {
			return Envelope{}, errors.New("the base64 text of the value is damaged")
		}
		e.Value = value
	default:
		return Envelope{}, errors.New("the register has no value, or more than one")
	}
	if len(e.Value) > store.MaxValue {
		return Envelope{}, fmt.Errorf("the value of the register has %d bytes, at most %d are allowed", len(e.Value), store.MaxValue)
	}
	return e, nil
}

func isNonce(s string) bool { return len(s) == nonceSize && !strings.ContainsAny(s, ".@") }
