package largeitem

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/objectname"
)

// DefaultLayout returns the default layout of a [Store]. After the prefix, objects have these
// names:
//
//	TABLE/pk=P/attr=A/ID
//	TABLE/pk=P/sk=S/attr=A/ID
//	TABLE/key=SHA256/attr=A/ID
//
// ID is new in every write. If a value of the key is a number, the name has "pk.n=" or "sk.n="
// instead of "pk=" or "sk=". Slashes, equals signs, exclamation marks, spaces, control characters
// and other special bytes become "!" and two hexadecimal digits.
//
// The name has the third form in two cases: a value of the key would take more than 200 bytes in
// the name, or the whole name would be longer than 768 bytes. SHA256 is the hexadecimal hash of the
// text between TABLE and attr in the other forms. The metadata of such an object contains the key
// as "pk" and "sk". The key must fit into the metadata.
//
// A reference is a URI:
//
//	BASE/PREFIX/NAME#sha256=HEX&size=N
//
// BASE is the URI of the bucket, [Options].BaseURI. No part of the reference is percent-encoded.
func DefaultLayout() Layout { return defaultLayout{} }

type defaultLayout struct{ fragments }

func (defaultLayout) hashed() bool { return false }

// tableSegment is the first part of the names of a table. It never begins with a dot.
func tableSegment(table string) string {
	if rest, ok := strings.CutPrefix(table, "."); ok {
		return "!2E" + escape(rest)
	}
	return escape(table)
}

// keySegments returns the part of a name that has the key, and whether all of it is short
// enough for a name.
func keySegments(k Key) (segments string, short bool) {
	p := keySegment("pk", k.Partition)
	if !k.HasSort() {
		return p, len(p) <= maxSegment
	}
	s := keySegment("sk", k.Sort)
	return p + "/" + s, len(p) <= maxSegment && len(s) <= maxSegment
}

func keySegment(name string, v KeyValue) string {
	if v.Number {
		return name + ".n=" + escape(v.Text)
	}
	return name + "=" + escape(v.Text)
}

const hashedPrefix = "key="

func (defaultLayout) name(s Schema, c Content) (string, error) {
	table, attr := tableSegment(s.Table), escape(c.Attr)
	switch {
	case table == "" || len(table) > maxTable:
		return "", fmt.Errorf("%w: the table name %.300q takes %d bytes in the name of an object; 1 to %d are allowed", ErrInvalid, s.Table, len(table), maxTable)
	case len(attr) > maxAttr:
		return "", fmt.Errorf("%w: the name of the large attribute %.300q takes %d bytes in the name of an object; at most %d are allowed", ErrInvalid, c.Attr, len(attr), maxAttr)
	}
	key, short := keySegments(c.Key)
	rest := "/attr=" + attr + "/" + c.ID
	if !short || len(table+"/"+key+rest) > maxObjectName {
		sum := sha256.Sum256([]byte(key))
		key = hashedPrefix + hex.EncodeToString(sum[:])
	}
	return table + "/" + key + rest, nil
}

func (l defaultLayout) owns(s Schema, key Key, attr, name string) bool {
	id := name[strings.LastIndexByte(name, '/')+1:]
	want, err := l.name(s, Content{Key: key, Attr: attr, ID: id})
	return err == nil && isID(id) && want == name
}

func (l defaultLayout) owner(s Schema, name string) (Owner, bool) {
	segments := strings.Split(name, "/")
	n := len(segments)
	if n < 4 || n > 5 {
		return Owner{}, false
	}
	attr, ok1 := strings.CutPrefix(segments[n-2], "attr=")
	attr, ok2 := objectname.Unescape(attr)
	o := Owner{Table: s.Table, Attr: attr, ID: segments[n-1]}
	if !ok1 || !ok2 || !isID(o.ID) || tableSegment(s.Table) != segments[0] || escape(attr) != segments[n-2][len("attr="):] {
		return Owner{}, false
	}
	if hash, ok := strings.CutPrefix(segments[1], hashedPrefix); ok {
		_, ok := lowerHex(hash, sha256.Size)
		return o, ok && n == 4
	}
	key, ok := segmentsKey(segments[1 : n-2])
	if !ok || s.CheckKey(key) != nil || !l.owns(s, key, attr, name) {
		return Owner{}, false
	}
	o.Key = key
	return o, true
}

// segmentsKey is the inverse of keySegments, also for what that would not have written.
func segmentsKey(segments []string) (Key, bool) {
	var values []any
	for i, what := range []string{"pk", "sk"}[:len(segments)] {
		rest, ok := strings.CutPrefix(segments[i], what)
		if !ok {
			return Key{}, false
		}
		name, escaped, _ := strings.Cut(rest, "=")
		text, ok := objectname.Unescape(escaped)
		if !ok || name != "" && name != ".n" {
			return Key{}, false
		}
		values = append(values, KeyValue{Text: text, Number: name != ""})
	}
	k, err := NewKey(values[0], values[1:]...)
	return k, err == nil
}

func (defaultLayout) marker(s Schema) string { return tableSegment(s.Table) + "/" + markerName }

func isID(id string) bool {
	_, ok := lowerHex(id, 16)
	return ok
}

// escape writes a text so that every server takes it as a part of a name between slashes.
func escape(text string) string { return objectname.Escape(text, objectname.Plain("-_.@:,")) }
