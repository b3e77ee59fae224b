package largeitem

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/object"
)

// Content contains the values that a layout can use in the name of an object.
type Content struct {
	Table string // [Schema].Table
	Key   Key
	Attr  string // name of the attribute

	// ID is new in every write: 32 hexadecimal digits in lower case.
	ID string

	// Size, MD5 and SHA256 describe the body. The store sets them only if the layout needs the hash
	// before the upload.
	Size   int64
	MD5    []byte
	SHA256 []byte
}

// Owner is the attribute to which an object belongs. It contains only the values that the name of
// the object shows.
type Owner struct {
	// Table is the [Schema].Table. It is empty if names do not contain the table.
	Table string

	// Key is zero if the name of the object has only a hash of the key. The metadata of such an
	// object has the key.
	Key  Key
	Attr string

	// ID is the [Content].ID. It is empty if the name of the object depends only on the content,
	// like the names that the Python package pynamodb_mate makes. Several writes can share such an
	// object.
	ID string
}

// Reference describes the text that an item has in place of a large attribute.
type Reference struct {
	// URI is the text of the reference in the item.
	URI string

	// Object is the key of the object in the bucket.
	Object string

	Size   int64  // size of the object in bytes; -1 if the reference has no size
	SHA256 []byte // nil if the reference has no SHA-256
	MD5    []byte // nil if the reference has no MD5
}

// A Layout decides the names of objects, and how an item refers to objects. The functions
// [DefaultLayout], [PynamoDBMateLayout], [CustomLayout] and [PynamoDBMateCustomLayout] return
// layouts.
type Layout interface {
	// hashed reports whether name needs the size and the hashes of the body.
	hashed() bool

	// prefix returns what the keys of all objects begin with, for the prefix that the
	// user gave.
	prefix(given string) (string, error)

	// base checks the URI of the bucket.
	base(uri string) error

	// name returns the key of an object after the prefix. It may be too long for a bucket.
	name(s Schema, c Content) (string, error)

	// owns reports whether the object of this name was written for this attribute of this
	// item.
	owns(s Schema, key Key, attr, name string) bool

	// owner is the inverse of name. It returns false for what name would not have written
	// for this table, and for names that more than one item could have.
	owner(s Schema, name string) (Owner, bool)

	// marker returns the key, after the prefix, of the object that says which table the
	// names belong to.
	marker(s Schema) string

	// metadata returns the metadata of an object, for people and for the sweep.
	metadata(c Content, updated time.Time) map[string]string

	// reference returns what the item keeps: of r it reads Object, Size and SHA256.
	reference(base string, r Reference) string

	// parse is the inverse of reference. The error matches errElsewhere for a reference of
	// this layout to another bucket, and errNotReference for every other text.
	parse(base, text string) (Reference, error)
}

var (
	errElsewhere    = errors.New("a reference to another bucket")
	errNotReference = errors.New("not a reference")
)

const (
	// maxPrefix is the longest [Options].Prefix, in bytes.
	maxPrefix = 256

	// maxObjectName is the longest key of an object after the prefix, in bytes.
	maxObjectName = object.MaxKey - maxPrefix

	// maxAttr is the longest name of a large attribute, in bytes, with three bytes for
	// each that the name of an object cannot have.
	maxAttr = 200

	// maxSegment is the longest part of a name between slashes. Servers that keep objects
	// as files take no more than 255 bytes, and some add to them.
	maxSegment = 200
	maxTable   = 255 // that is how long DynamoDB's names are
)

// CustomNames contains functions that name objects. Any number of goroutines may call them.
type CustomNames struct {
	// Name returns the key of an object without the prefix. The result must contain the ID, and
	// must have at most 768 bytes.
	Name func(c Content) (string, error)

	// Owner is the inverse of Name, for the sweep. The sweep may remove an object only if Owner
	// returns true for the name of the object. The result may have an empty Table. Each write
	// checks Owner: for the name that Name has made, Owner must return the values that were passed
	// to Name.
	Owner func(name string) (Owner, bool)

	// Hashed says that Name needs Size, MD5 and SHA256. If Hashed is true, the store reads each
	// body twice, or writes the body to a temporary file.
	Hashed bool
}

// CustomLayout returns a layout with custom names of objects. Its references have the form of
// [DefaultLayout]. Only one table can use the prefix.
func CustomLayout(n CustomNames) (Layout, error) {
	return withNames(customLayout{fragments{}, n}, n)
}

// withNames returns a layout with the names n, if they are complete.
func withNames(l Layout, n CustomNames) (Layout, error) {
	if n.Name == nil || n.Owner == nil {
		return nil, fmt.Errorf("%w: CustomNames needs both Name and its inverse, Owner", ErrInvalid)
	}
	return l, nil
}

type customLayout struct {
	fragments
	n CustomNames
}

func (l customLayout) hashed() bool { return l.n.Hashed }

func (l customLayout) name(_ Schema, c Content) (string, error) {
	name, err := l.n.Name(c)
	if err != nil {
		return "", fmt.Errorf("CustomNames.Name: %w", err)
	}
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("%w: CustomNames.Name returned the name %.300q for attribute %q of item %v, which %s", ErrInvalid, name, c.Attr, c.Key, why)
	}
	back, ok := l.n.Owner(name)
	switch {
	case !strings.Contains(name, c.ID):
		return bad("does not contain Content.ID, so two writes could use the same name")
	case len(name) > maxObjectName:
		return bad(fmt.Sprintf("has %d bytes; at most %d are allowed", len(name), maxObjectName))
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) || object.CheckKey(name) != nil:
		return bad("is not valid UTF-8 or has control characters")
	case name == l.marker(Schema{}):
		return bad("is reserved for the marker of the table")
	case !ok || back.Table != "" && back.Table != c.Table || back.Key != c.Key || back.Attr != c.Attr || back.ID != c.ID:
		return bad("CustomNames.Owner does not map back to the attribute; Owner must be the inverse of Name")
	}
	return name, nil
}

func (l customLayout) owns(s Schema, key Key, attr, name string) bool {
	o, ok := l.owner(s, name)
	return ok && o.Key == key && o.Attr == attr
}

func (l customLayout) owner(s Schema, name string) (Owner, bool) {
	if name == l.marker(s) {
		return Owner{}, false
	}
	o, ok := l.n.Owner(name)
	if !ok || o.Table != "" && o.Table != s.Table || o.ID == "" || s.CheckKey(o.Key) != nil {
		return Owner{}, false
	}
	return o, true
}

func (l customLayout) marker(Schema) string { return markerName }

// markerName is the last part of the key of the object that says which table the names
// belong to.
const markerName = ".table"

// fragments is what layouts have in common whose references have size and SHA-256:
//
//	BASE/KEY#sha256=HEX&size=N
type fragments struct{}

func (fragments) prefix(given string) (string, error) {
	if given == "" || strings.HasSuffix(given, "/") {
		return checkedPrefix(given)
	}
	return checkedPrefix(given + "/")
}

func checkedPrefix(prefix string) (string, error) {
	if len(prefix) > maxPrefix {
		return "", fmt.Errorf("%w: Options.Prefix has %d bytes; at most %d are allowed", ErrInvalid, len(prefix), maxPrefix)
	}
	if prefix == "" {
		return "", nil
	}
	if err := object.CheckKey(prefix); err != nil {
		return "", fmt.Errorf("%w: Options.Prefix: %w", ErrInvalid, err)
	}
	return prefix, nil
}

func (fragments) base(string) error { return nil }

// metadata has the key and the attribute as Key.String writes them, in ASCII.
func (fragments) metadata(c Content, updated time.Time) map[string]string {
	m := map[string]string{
		metaPartition: asciiValue(c.Key.Partition),
		metaAttr:      strconv.QuoteToASCII(c.Attr),
		"update-at":   updated.UTC().Format(time.RFC3339Nano),
	}
	if c.Key.HasSort() {
		m[metaSort] = asciiValue(c.Key.Sort)
	}
	return m
}

// The metadata of every object.
const (
	metaPartition = "pk"
	metaSort      = "sk"
	metaAttr      = "attr"
)

func asciiValue(v KeyValue) string {
	if v.Number {
		return v.Text
	}
	quoted := strconv.QuoteToASCII(v.Text)
	if encoded := encodedValue + base64.RawURLEncoding.EncodeToString([]byte(v.Text)); len(quoted) > maxQuoted && len(encoded) < len(quoted) {
		return encoded
	}
	return quoted
}

const (
	// maxQuoted is how long a text may become in metadata before it is written so that
	// each of its bytes takes as little as possible, instead of so that people can read it.
	maxQuoted    = 300
	encodedValue = "base64:"
)

// keyIn returns the key in the metadata of an object, as fragments writes it.
func keyIn(metadata map[string]string) (Key, bool) {
	value := func(text string) (any, bool) {
		if encoded, ok := strings.CutPrefix(text, encodedValue); ok {
			decoded, err := base64.RawURLEncoding.DecodeString(encoded)
			return string(decoded), err == nil
		}
		if !strings.HasPrefix(text, `"`) {
			return Number(text), true
		}
		unquoted, err := strconv.Unquote(text)
		return unquoted, err == nil
	}
	p, ok := value(metadata[metaPartition])
	if !ok {
		return Key{}, false
	}
	var sort []any
	if text, has := metadata[metaSort]; has {
		v, ok := value(text)
		if !ok {
			return Key{}, false
		}
		sort = []any{v}
	}
	k, err := NewKey(p, sort...)
	return k, err == nil
}

func (f fragments) reference(base string, r Reference) string {
	return base + "/" + r.Object + f.fragment(r)
}

func (fragments) fragment(r Reference) string {
	return "#sha256=" + hex.EncodeToString(r.SHA256) + "&size=" + strconv.FormatInt(r.Size, 10)
}

func (f fragments) parse(base, text string) (Reference, error) {
	at := strings.LastIndexByte(text, '#')
	if at < 0 {
		return Reference{}, errNotReference
	}
	hash, rest, ok1 := strings.Cut(text[at+1:], "&")
	hash, ok2 := strings.CutPrefix(hash, "sha256=")
	size, ok3 := strings.CutPrefix(rest, "size=")
	sum, ok4 := lowerHex(hash, sha256.Size)
	n, err := strconv.ParseInt(size, 10, 64)
	r := Reference{URI: text, Size: n, SHA256: sum}
	if !ok1 || !ok2 || !ok3 || !ok4 || err != nil || n < 0 || f.fragment(r) != text[at:] {
		return Reference{}, errNotReference
	}
	var ok bool
	if r.Object, ok = strings.CutPrefix(text[:at], base+"/"); !ok {
		return Reference{}, fmt.Errorf("%w: the reference %q does not begin with %q", errElsewhere, text, base)
	}
	if object.CheckKey(r.Object) != nil {
		return Reference{}, errNotReference
	}
	return r, nil
}

// lowerHex decodes a hash of so many bytes.
func lowerHex(text string, size int) ([]byte, bool) {
	if len(text) != 2*size || strings.Trim(text, "0123456789abcdef") != "" {
		return nil, false
	}
	sum, err := hex.DecodeString(text)
	return sum, err == nil
}
