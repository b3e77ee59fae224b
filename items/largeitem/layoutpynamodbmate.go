package largeitem

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/object"
)

// PynamoDBMateLayout returns the layout of the Python package pynamodb_mate (tested with version
// 6.0.1.1). Use it for tables that the Python package has written or still writes. The Python
// package gives objects these names:
//
//	PREFIX/pk=P/attr=A/md5=HEX
//	PREFIX/pk=P/sk=S/attr=A/md5=HEX
//
// HEX is the MD5 of the body. Names have no escapes. A reference is s3://BUCKET/KEY. A [Store]
// reads these objects. To the names of its own objects, the Store appends ".id=ID". The Python
// package can read such an object. No other write can use the same name. The Store computes the
// hash before the upload, because the name contains the hash. [Options].BaseURI must be
// s3://BUCKET.
//
// The names do not contain the name of the table, so only one table can use the prefix. Like the
// Python package, the layout removes one slash at the beginning of the prefix. If there is no slash
// at the beginning, the layout removes one slash at the end. If a key contains "/attr=", or "/sk="
// in a table with a sort key, objects of two items could have the same name. The store neither
// writes nor sweeps such names, and treats a reference to such an object as foreign.
func PynamoDBMateLayout() Layout { return pynamoDBMateLayout{} }

// PynamoDBMateCustomLayout is [PynamoDBMateLayout] for a table whose Python program names its
// objects by a custom function (s3_key_getter). The function Name of the argument must return the
// same names as that function, without the prefix. It must not use [Content].ID: the [Store]
// appends ".id=ID" to the names of its own objects. Owner is the inverse of Name. Hashed is not
// used.
//
// The Store cannot recognise references with such names, so [Options].Attributes must name the
// large attributes. If the names have no hash, a read verifies only the objects that a Store has
// written: it compares the SHA-256 of the object with the SHA-256 in the metadata.
func PynamoDBMateCustomLayout(n CustomNames) (Layout, error) {
	return withNames(pynamoDBMateLayout{&n}, n)
}

type pynamoDBMateLayout struct {
	names *CustomNames // nil for the other program's own names
}

func (pynamoDBMateLayout) hashed() bool { return true }

func (pynamoDBMateLayout) prefix(given string) (string, error) {
	if given == "" {
		return "", nil
	}
	if rest, ok := strings.CutPrefix(given, "/"); ok {
		return checkedPrefix(rest + "/")
	}
	return checkedPrefix(strings.TrimSuffix(given, "/") + "/")
}

func (pynamoDBMateLayout) base(uri string) error {
	if bucket, ok := strings.CutPrefix(uri, "s3://"); !ok || bucket == "" || strings.Contains(bucket, "/") {
		return fmt.Errorf("%w: the layout of pynamodb_mate needs references that begin with s3://BUCKET, but the references of this store begin with %q. Use a bucket of S3, or set Options.BaseURI to s3://BUCKET", ErrInvalid, uri)
	}
	return nil
}

func (pynamoDBMateLayout) item(key Key, attr string) string {
	name := "pk=" + key.Partition.Text
	if key.HasSort() {
		name += "/sk=" + key.Sort.Text
	}
	return name + "/attr=" + attr + "/md5="
}

func (l pynamoDBMateLayout) name(s Schema, c Content) (string, error) {
	if l.names != nil {
		return l.customName(s, c)
	}
	item := l.item(c.Key, c.Attr)
	if ambiguous(s, item) {
		return "", fmt.Errorf("%w: the key %v or the attribute %q contains \"/sk=\" or \"/attr=\", so in the layout of pynamodb_mate another item could have the same object name; use another layout", ErrKey, c.Key, c.Attr)
	}
	return item + hex.EncodeToString(c.MD5) + mateID + c.ID, nil
}

func (l pynamoDBMateLayout) customName(s Schema, c Content) (string, error) {
	id := c.ID
	c.ID = ""
	name, err := l.names.Name(c)
	if err != nil {
		return "", fmt.Errorf("CustomNames.Name: %w", err)
	}
	if object.CheckKey(name) != nil || !l.owns(s, c.Key, c.Attr, name) {
		return "", fmt.Errorf("%w: CustomNames.Name: the name %.300q for attribute %q of item %v cannot be the name of an object, or CustomNames.Owner is not the inverse of Name", ErrInvalid, name, c.Attr, c.Key)
	}
	return name + mateID + id, nil
}

// cutID cuts the id off the end of a name, if there is one.
func (pynamoDBMateLayout) cutID(name string) (rest, id string) {
	if at := len(name) - len(mateID) - 32; at > 0 && strings.HasPrefix(name[at:], mateID) && isID(name[at+len(mateID):]) {
		return name[:at], name[at+len(mateID):]
	}
	return name, ""
}

// ambiguous reports whether the names of objects that begin so can be those of two items.
func ambiguous(s Schema, item string) bool {
	keys, _, _ := strings.Cut(item, "/attr=")
	return strings.Count(item, "/attr=") > 1 || s.Sort.Name != "" && strings.Count(keys, "/sk=") > 1
}

const mateID = ".id="

// cutHash cuts the hash, and the id if there is one, off the end of a name. item ends with
// "/md5=".
func (l pynamoDBMateLayout) cutHash(name string) (item string, sum []byte, id string, ok bool) {
	name, id = l.cutID(name)
	at := max(0, len(name)-32)
	sum, ok = lowerHex(name[at:], 16)
	return name[:at], sum, id, ok && strings.HasSuffix(name[:at], "/md5=")
}

func (l pynamoDBMateLayout) owns(s Schema, key Key, attr, name string) bool {
	if l.names != nil {
		o, ok := l.owner(s, name)
		return ok && o.Key == key && o.Attr == attr
	}
	item, _, _, ok := l.cutHash(name)
	return ok && item == l.item(key, attr) && !ambiguous(s, item)
}

func (l pynamoDBMateLayout) owner(s Schema, name string) (Owner, bool) {
	if l.names != nil {
		rest, id := l.cutID(name)
		o, ok := l.names.Owner(rest)
		if !ok || name == l.marker(s) || o.Table != "" && o.Table != s.Table || o.ID != "" || s.CheckKey(o.Key) != nil {
			return Owner{}, false
		}
		o.ID = id
		return o, true
	}
	item, _, id, ok := l.cutHash(name)
	if !ok || strings.Count(item, "/attr=") != 1 || strings.Count(item, "/md5=") != 1 {
		return Owner{}, false
	}
	keys, attr, _ := strings.Cut(strings.TrimSuffix(item, "/md5="), "/attr=")
	keys, ok = strings.CutPrefix(keys, "pk=")
	sorts := strings.Count(keys, "/sk=")
	if !ok || attr == "" || sorts > 1 || (sorts == 1) != (s.Sort.Name != "") {
		return Owner{}, false
	}
	p, sort, _ := strings.Cut(keys, "/sk=")
	key := Key{Partition: KeyValue{p, s.Partition.Number}, Sort: KeyValue{sort, s.Sort.Number}}
	if canonical, err := key.canonical(); err != nil || canonical != key || s.CheckKey(key) != nil {
		return Owner{}, false // a number has one text
	}
	return Owner{Key: key, Attr: attr, ID: id}, true
}

func (pynamoDBMateLayout) marker(Schema) string { return markerName }

// metadata is that of the other program, as far as HTTP can transport it, with the
// SHA-256 of the body.
func (pynamoDBMateLayout) metadata(c Content, updated time.Time) map[string]string {
	all := map[string]string{
		metaPartition: c.Key.Partition.Text,
		metaAttr:      c.Attr,
		"update_at":   updated.UTC().Format("2006-01-02T15:04:05.000000-07:00"),
		metaSHA256:    hex.EncodeToString(c.SHA256),
	}
	if c.Key.HasSort() {
		all[metaSort] = c.Key.Sort.Text
	}
	for name, value := range all {
		if object.CheckMetadata(map[string]string{name: value}) != nil {
			delete(all, name)
		}
	}
	return all
}

// metaSHA256 is the metadata with the hash of the body, where the reference lacks it.
const metaSHA256 = "sha256"

func (pynamoDBMateLayout) reference(base string, r Reference) string { return base + "/" + r.Object }

func (l pynamoDBMateLayout) parse(base, text string) (Reference, error) {
	uri, ok := strings.CutPrefix(text, "s3://")
	bucket, key, _ := strings.Cut(uri, "/")
	item, sum, _, hashed := l.cutHash(key)
	if l.names != nil {
		sum, hashed = nil, true
	} else {
		hashed = hashed && strings.Contains(item, "pk=") && strings.Contains(item, "/attr=")
	}
	if !ok || bucket == "" || !hashed || object.CheckKey(key) != nil {
		return Reference{}, errNotReference
	}
	if "s3://"+bucket != base {
		return Reference{}, fmt.Errorf("%w: the reference %q does not begin with %q", errElsewhere, text, base)
	}
	return Reference{URI: text, Object: key, Size: -1, MD5: sum}, nil
}
