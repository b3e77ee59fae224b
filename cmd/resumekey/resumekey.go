// Package resumekey computes the keys under which consumers of aviso-server keep
// their checkpoints: one for each subscription, the same in every program that
// follows the rules, so that a stream can be taken up where another program, or
// another run, left it.
//
// # The key
//
// A key is the SHA-256, in lower-case hexadecimal, of
//
//	LE32(1) | F(base URL) | F(event type) | F(filter) | fingerprint
//
// where F(x) is the length of x in bytes as a little-endian number of 64 bits,
// followed by x. The fingerprint of the schema is the byte 0 if there is none, and
// otherwise the byte 1 followed by F(fingerprint). The base URL is in the form of
// [BaseURL], the filter in that of [Filter].
//
// # Where it is stricter
//
// A wrong key does harm in silence: a consumer starts from nothing, or where
// another one stands. So whatever two implementations could read differently is an
// error here and not a guess: names that occur twice in a filter, integers that a
// 64-bit float does not hold, host names that are not in ASCII, numbers of IPv4 in
// unusual notations.
package resumekey

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// formatVersion is hashed into every key.
const formatVersion = 1

// ErrInput: the URL, the event type or the filter cannot be part of a key. The
// errors of this package match it.
var ErrInput = errors.New("no resume key")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInput, fmt.Errorf(format, args...))
}

// Options are what a key need not have.
type Options struct {
	// Fingerprint, if not nil, is the fingerprint of the schema that the consumer
	// was written for. An empty one is not the same as none. Default: none.
	Fingerprint *string
}

// Key returns the key of a subscription: 64 lower-case hexadecimal digits.
func Key(baseURL, eventType string, filter []byte, opts *Options) (string, error) {
	base, err := BaseURL(baseURL)
	if err != nil {
		return "", err
	}
	canonical, err := Filter(filter)
	if err != nil {
		return "", err
	}
	if !utf8.ValidString(eventType) {
		return "", bad("the event type %q is not valid UTF-8", eventType)
	}
	input := binary.LittleEndian.AppendUint32(nil, formatVersion)
	field := func(x string) {
		input = binary.LittleEndian.AppendUint64(input, uint64(len(x)))
		input = append(input, x...)
	}
	field(base)
	field(eventType)
	field(string(canonical))
	if opts == nil || opts.Fingerprint == nil {
		input = append(input, 0)
	} else {
		if !utf8.ValidString(*opts.Fingerprint) {
			return "", bad("the fingerprint %q is not valid UTF-8", *opts.Fingerprint)
		}
		input = append(input, 1)
		field(*opts.Fingerprint)
	}
	sum := sha256.Sum256(input)
	return hex.EncodeToString(sum[:]), nil
}

// Filter returns the canonical form of a JSON value by RFC 8785: no white space,
// members sorted by UTF-16, numbers and strings as ECMAScript writes them.
func Filter(filter []byte) ([]byte, error) {
	if !utf8.Valid(filter) {
		return nil, bad("the filter is not valid UTF-8")
	}
	if err := check(filter); err != nil {
		return nil, bad("the filter: %w", err)
	}
	canonical, err := jcs.Transform(filter)
	if err != nil {
		return nil, bad("the filter: %w", err)
	}
	return canonical, nil
}

// check demands one JSON value without what implementations disagree on.
func check(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("it is empty")
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return checkNumbers(v)
}

// checkNumbers refuses integers that a 64-bit float does not hold: two of them could
// come to one key, and some programs do not round them at all.
func checkNumbers(v any) error {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if err := checkNumbers(member); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range v {
			if err := checkNumbers(element); err != nil {
				return err
			}
		}
	case json.Number:
		n, ok := new(big.Int).SetString(v.String(), 10)
		if !ok || n.BitLen() <= 53 {
			return nil
		}
		f, err := v.Float64()
		if err != nil {
			return err
		}
		if rounded, err := jcs.NumberToJSON(f); err != nil || rounded != v.String() {
			return fmt.Errorf("the integer %.40s would be rounded: write it as a string", v)
		}
	}
	return nil
}
