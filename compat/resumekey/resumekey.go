// Package resumekey computes keys of checkpoints, for the consumers of aviso-server. Each
// subscription has one key. All programs that follow the rules compute the same key. So a consumer
// can continue a stream where another program, or an earlier run, has stopped.
//
// # The key
//
// A key is the SHA-256, in lower-case hexadecimal, of
//
//	LE32(1) | F(base URL) | F(event type) | F(filter) | fingerprint
//
// F(x) is the length of x in bytes as a little-endian number of 64 bits, followed by x. The
// fingerprint is the byte 1 followed by F(fingerprint of the schema), or the byte 0 if there is
// none. The base URL is the result of [BaseURL] with a slash at its end, unless [Options].Bare is
// set. The filter is the result of [Filter].
//
// # Where it is stricter
//
// A wrong key causes no error: the consumer starts at the beginning, or at the position of another
// consumer. So the package refuses input that two implementations could read differently:
//
//   - names that occur twice in a filter
//   - integers that a 64-bit float cannot represent
//   - host names that are not in ASCII, and unusual notations of IPv4 addresses
//   - white space and the characters ^ and \ in a URL
//   - a Windows drive letter before a dot segment
//
// The errors do not suggest another spelling, because another spelling would give another key.
package resumekey

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// formatVersion is hashed into every key.
const formatVersion = 1

// ErrInput: the URL, the event type or the filter is not valid, or programs could read it
// differently. All errors of this package match ErrInput.
var ErrInput = errors.New("cannot compute a resume key")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInput, fmt.Errorf(format, args...))
}

// Options are the optional parts of a key.
type Options struct {
	// Fingerprint, if not nil, is the fingerprint of the schema that the consumer expects. An empty
	// fingerprint and no fingerprint give different keys. Default: no fingerprint.
	Fingerprint *string

	// With Bare, Key uses the path of the URL unchanged. Default: if the path has no final slash,
	// Key adds one, because the consumer program does the same with its base URL.
	Bare bool
}

// Key returns the key of a subscription: 64 lower-case hexadecimal digits. An error
// matches [ErrInput].
func Key(baseURL, eventType string, filter []byte, opts *Options) (string, error) {
	opts = cmp.Or(opts, &Options{})
	base, err := BaseURL(baseURL)
	if err != nil {
		return "", err
	}
	if !opts.Bare && !strings.HasSuffix(base, "/") {
		base += "/"
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
	if opts.Fingerprint == nil {
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
