package bucketstore

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/objectname"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const (
	suffix = ".json"

	// maxSegment is the longest segment of an object's key. Servers that keep
	// objects as files take no more than 255 bytes, and some add to them.
	maxSegment = 200

	// longDir is the directory of registers whose names would otherwise be too long. No
	// encoded segment is a single exclamation mark.
	longDir = "!/"
)

// objectKey returns the key of the object that holds the register key.
func (d driver) objectKey(key string) string {
	encoded := d.encodeKey(key)
	// The bound does not depend on the prefix, so that registers can be copied from
	// one prefix to another.
	if len(encoded) > object.MaxKey-MaxPrefix-1 {
		encoded = longDir + cut(base64.RawURLEncoding.EncodeToString([]byte(key))) + suffix
	}
	return d.prefix + encoded
}

// encodeKey writes a key so that every server takes it: segments of at most
// maxSegment bytes, of letters, digits, some signs, and characters beyond ASCII.
func (d driver) encodeKey(key string) string {
	dir, name := "", key
	if i := strings.LastIndexByte(key, '/'); i >= 0 {
		dir, name = d.encodeDirs(key[:i])+"/", key[i+1:]
	}
	return dir + cut(escape(name)) + suffix
}

// encodeDirs encodes all segments but the last. Their ending differs from that of an
// object, so that no name is both.
func (d driver) encodeDirs(key string) string {
	segments := strings.Split(key, "/")
	for i, segment := range segments {
		segment = escape(segment)
		if rest, ok := strings.CutSuffix(segment, suffix); ok {
			segment = rest + "!2E" + suffix[1:]
		}
		if rest, ok := strings.CutSuffix(segment, "."); ok && d.escapeFinalDots {
			segment = rest + "!2E"
		}
		segments[i] = cut(segment)
	}
	return strings.Join(segments, "/")
}

// cut divides an encoded segment that is too long. The parts but the last end with
// an exclamation mark.
func cut(segment string) string {
	var b strings.Builder
	for len(segment) > maxSegment {
		n := maxSegment - 1
		for !utf8.RuneStart(segment[n]) {
			n--
		}
		// An escape is not divided, so that an exclamation mark at the end has only one
		// meaning.
		if i := strings.LastIndexByte(segment[n-2:n], '!'); i >= 0 {
			n = n - 2 + i
		}
		b.WriteString(segment[:n])
		b.WriteString("!/")
		segment = segment[n:]
	}
	b.WriteString(segment)
	return b.String()
}

func escape(segment string) string { return objectname.Escape(segment, objectname.Plain("-_.@:=,")) }

// decodeKey is the inverse of objectKey without a prefix. It refuses names that objectKey
// never returns.
func (d driver) decodeKey(name string) (string, bool) {
	encoded, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return "", false
	}
	var key string
	if long, ok := strings.CutPrefix(encoded, longDir); ok {
		raw, err := base64.RawURLEncoding.DecodeString(strings.ReplaceAll(long, "!/", ""))
		if err != nil {
			return "", false
		}
		key = string(raw)
	} else if key, ok = objectname.Unescape(strings.ReplaceAll(encoded, "!/", "")); !ok {
		return "", false
	}
	if store.CheckKey(key) != nil || (driver{escapeFinalDots: d.escapeFinalDots}).objectKey(key) != name {
		return "", false
	}
	return key, true
}
