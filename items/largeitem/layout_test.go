package largeitem

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/object"
)

const testID = "0123456789abcdef0123456789abcdef"

func testSchema(partition, sort string) Schema {
	s := Schema{Name: "memory", Table: "books", ID: "memory:1", Partition: KeyAttribute{"pk", partition == "number"}}
	if sort != "" {
		s.Sort = KeyAttribute{"sk", sort == "number"}
	}
	return s
}

// schemaOf is that of a table whose items have such keys.
func schemaOf(k Key) Schema {
	s := Schema{Name: "memory", Table: "books", ID: "memory:1", Partition: KeyAttribute{"pk", k.Partition.Number}}
	if k.HasSort() {
		s.Sort = KeyAttribute{"sk", k.Sort.Number}
	}
	return s
}

func mustKey(partition any, sort ...any) Key {
	k, err := NewKey(partition, sort...)
	if err != nil {
		panic(err)
	}
	return k
}

func testContent(k Key, attr, body string) Content {
	md, sha := md5.Sum([]byte(body)), sha256.Sum256([]byte(body))
	return Content{Table: "books", Key: k, Attr: attr, ID: testID, Size: int64(len(body)), MD5: md[:], SHA256: sha[:]}
}

// badKeys are keys that are hard to write into names.
func badKeys() []Key {
	long := strings.Repeat("x", 1024)
	return []Key{
		mustKey("a"), mustKey("a", "b"), mustKey(7), mustKey("7"), mustKey(7, "7"), mustKey("7", 7), mustKey(Number("-1.5e-50"), Number("1e100")),
		mustKey("a/b"), mustKey("a", "b/c"), mustKey("a/sk=b"), mustKey("a/sk=b", "c"), mustKey("a", "b/sk=c"), mustKey("a/attr=x"), mustKey("a", "b/attr=x/md5=y"),
		mustKey("pk=a"), mustKey("="), mustKey("!"), mustKey("!41"), mustKey("%41"), mustKey("A"), mustKey("#sha256="), mustKey("?x&y"), mustKey(" "), mustKey("a "),
		mustKey("."), mustKey(".."), mustKey("../.."), mustKey("/"), mustKey("//"), mustKey("\x00"), mustKey("\n"), mustKey("\x7f"), mustKey("\u0085"), mustKey("\ufffe"), mustKey("\ufffd"),
		mustKey("äöü"), mustKey("日本語", "🙂"), mustKey("e\u0301"), mustKey("é"), mustKey("*"), mustKey("a:b,c@d"),
		mustKey(long), mustKey(long, long), mustKey(strings.Repeat("/", 1024)), mustKey(strings.Repeat("é", 512)), mustKey("x", long),
		mustKey(strings.Repeat("x", 197)), mustKey(strings.Repeat("x", 198)), mustKey(strings.Repeat("x", 197), strings.Repeat("y", 197)), mustKey("key=x"),
	}
}

// TestOwnNames: of every key the name of an object is unique, fit for every server, and
// turned back.
func TestOwnNames(t *testing.T) {
	l := DefaultLayout()
	seen := map[string]string{}
	for _, k := range badKeys() {
		for _, attr := range []string{"body", "a/b", "attr=x", "é", "!"} {
			s := schemaOf(k)
			name, err := l.name(s, testContent(k, attr, "x"))
			if err != nil {
				t.Errorf("%.50v %s: %v", k, attr, err)
				continue
			}
			what := fmt.Sprint(k, attr)
			if other, ok := seen[name]; ok {
				t.Errorf("%s and %s are both called %s", what, other, name)
			}
			seen[name] = what
			checkOwnName(t, name)
			o, ok := l.owner(s, name)
			if o.Key == (Key{}) && strings.Contains(name, hashedPrefix) {
				o.Key, _ = keyIn(l.metadata(testContent(k, attr, "x"), time.Now()))
			}
			if want := (Owner{"books", k, attr, testID}); !ok || o != want {
				t.Errorf("%s is turned back to %+v, %v", name, o, ok)
			}
			if !l.owns(s, k, attr, name) || l.owns(s, k, attr+"x", name) || l.owns(s, mustKey("other"), attr, name) {
				t.Errorf("%s: its owner is not known", name)
			}
			other := s
			other.Table = "book"
			if o, ok := l.owner(other, name); ok {
				t.Errorf("%s is of the table book, too: %+v", name, o)
			}
		}
	}
}

func checkOwnName(t *testing.T, name string) {
	t.Helper()
	if len(name) > maxObjectName || !utf8.ValidString(name) {
		t.Errorf("%q is no name: %d bytes", name, len(name))
	}
	for _, segment := range strings.Split(name, "/") {
		if segment == "" || strings.HasPrefix(segment, ".") || len(segment) > 255 || strings.ContainsAny(segment, "\x00\n\x7f\\*?#%& \"<>|") {
			t.Errorf("%q has the segment %q", name, segment)
		}
	}
}

// TestOwnNamesOfOthers: what the layout would not have written belongs to no item.
func TestOwnNamesOfOthers(t *testing.T) {
	l := DefaultLayout()
	hash := strings.Repeat("0", 64)
	for _, name := range []string{
		"", "books", "books/.table", "books/pk=a", "books/pk=a/attr=b", "books/pk=a/attr=b/x", "books/pk=a/attr=b/" + testID + "0", "books/pk=a/attr=b/" + strings.ToUpper(testID),
		"Books/pk=a/attr=b/" + testID, "book/pk=a/attr=b/" + testID, "books2/pk=a/attr=b/" + testID, "books/pk=a/sk=b/attr=b/" + testID, "books/pk=a/b/attr=b/" + testID,
		"books/pk=!61/attr=b/" + testID, "books/pk=a!/attr=b/" + testID, "books/pk=!e9/attr=b/" + testID, "books/pk=!FF/attr=b/" + testID, "books/pk=a/attr=!FF/" + testID,
		"books/pk=/attr=b/" + testID, "books/pk.n=7/attr=b/" + testID, "books/pk.x=7/attr=b/" + testID, "books/qk=a/attr=b/" + testID, "books/pk=a/b/" + testID, "books//pk=a/attr=b/" + testID,
		"/books/pk=a/attr=b/" + testID, "books/pk=a/attr=b/" + testID + "/", "books/key=" + hash[1:] + "/attr=b/" + testID, "books/key=" + hash + "/sk=b/attr=b/" + testID,
		"books/pk=" + strings.Repeat("x", 1000) + "/attr=b/" + testID, "books/pk=\xff/attr=b/" + testID,
	} {
		if o, ok := l.owner(testSchema("text", ""), name); ok {
			t.Errorf("%.100q is of %+v", name, o)
		}
	}
	if _, ok := l.owner(testSchema("number", ""), "books/pk.n=07/attr=b/"+testID); ok {
		t.Error("07 is a number of a key")
	}
	if o, ok := l.owner(testSchema("text", ""), "books/key="+hash+"/attr=b/"+testID); !ok || o.Key != (Key{}) {
		t.Errorf("a hash of a key: %+v, %v", o, ok)
	}
}

func TestOwnNamesRefused(t *testing.T) {
	l := DefaultLayout()
	s := testSchema("text", "")
	if _, err := l.name(s, testContent(mustKey("a"), strings.Repeat("é/", 50), "x")); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "at most 200") {
		t.Errorf("a long attribute: %v", err)
	}
	for _, table := range []string{"", strings.Repeat("x", 256)} {
		s.Table = table
		if _, err := l.name(s, testContent(mustKey("a"), "body", "x")); !errors.Is(err, ErrInvalid) {
			t.Errorf("a table with a name of %d bytes: %v", len(table), err)
		}
	}
	wide := mustKey(strings.Repeat("x", 197), strings.Repeat("y", 197))
	for _, table := range []string{".", "..", ".table", "a/b", strings.Repeat("x", 255)} {
		s, attr := testSchema("text", "text"), strings.Repeat("z", maxAttr)
		s.Table = table
		name, err := l.name(s, testContent(wide, attr, "x"))
		if _, ok := l.owner(s, name); err != nil || !ok || name == l.marker(s) || !l.owns(s, wide, attr, name) {
			t.Errorf("the table %q: %s, %v", table, name, err)
		}
		checkOwnName(t, name)
	}
}

func TestPrefix(t *testing.T) {
	for _, c := range []struct {
		l           Layout
		given, want string
	}{
		{DefaultLayout(), "", ""}, {DefaultLayout(), "a", "a/"}, {DefaultLayout(), "a/", "a/"}, {DefaultLayout(), "/a", "/a/"}, {DefaultLayout(), "/", "/"},
		{PynamoDBMateLayout(), "", ""}, {PynamoDBMateLayout(), "a", "a/"}, {PynamoDBMateLayout(), "a/", "a/"}, {PynamoDBMateLayout(), "/a", "a/"}, {PynamoDBMateLayout(), "/both/", "both//"}, {PynamoDBMateLayout(), "/", "/"}, {PynamoDBMateLayout(), "a//", "a//"},
	} {
		if got, err := c.l.prefix(c.given); got != c.want || err != nil {
			t.Errorf("%T: %q becomes %q, %v, want %q", c.l, c.given, got, err, c.want)
		}
	}
	for _, l := range []Layout{DefaultLayout(), PynamoDBMateLayout()} {
		for _, given := range []string{strings.Repeat("x", maxPrefix), "\xff"} {
			if _, err := l.prefix(given); !errors.Is(err, ErrInvalid) {
				t.Errorf("%T: %.20q: %v", l, given, err)
			}
		}
	}
}

// TestReferences: a reference is taken for one in its only form, and a reference to
// another bucket is distinguished from a text of the user.
func TestReferences(t *testing.T) {
	l := DefaultLayout()
	sum := sha256.Sum256([]byte("x"))
	const key = "p/books/pk=a/attr=b/" + testID
	text := l.reference("s3://bucket", Reference{Object: key, Size: 1, SHA256: sum[:]})
	if want := fmt.Sprintf("s3://bucket/%s#sha256=%x&size=1", key, sum); text != want {
		t.Fatalf("got %s, want %s", text, want)
	}
	r, err := l.parse("s3://bucket", text)
	if err != nil || r.URI != text || r.Object != key || r.Size != 1 || !bytes.Equal(r.SHA256, sum[:]) || r.MD5 != nil {
		t.Errorf("turned back to %+v, %v", r, err)
	}
	for _, bad := range []string{
		"", "hello", "#", key, "s3://bucket/" + key, text + " ", text + "0x", strings.ToUpper(text), strings.Replace(text, "size=1", "size=01", 1), strings.Replace(text, "size=1", "size=+1", 1),
		strings.Replace(text, "size=1", "size=-1", 1), strings.Replace(text, "size=1", "size=9223372036854775808", 1), strings.Replace(text, "size=1", "size=", 1), strings.Replace(text, "sha256=", "sha256=0", 1),
		strings.Replace(text, "#sha256=", "?sha256=", 1), "s3://bucket/" + text[strings.IndexByte(text, '#'):], text + "&x=y", text + "#",
	} {
		if r, err := l.parse("s3://bucket", bad); !errors.Is(err, errNotReference) {
			t.Errorf("%q is taken for %+v, %v", bad, r, err)
		}
	}
	for _, elsewhere := range []string{"s3://bucket2", "s3://bucke", "s3://", "dir:/x", ""} {
		if r, err := l.parse(elsewhere, text); !errors.Is(err, errElsewhere) {
			t.Errorf("in %q it is %+v, %v", elsewhere, r, err)
		}
	}
}

// TestMateNames: the names and references of pynamodb_mate, byte for byte.
func TestMateNames(t *testing.T) {
	l := PynamoDBMateLayout()
	// md5("x"), by the other program's own key function
	const md = "9dd4e461268c8034f5c8564e155c67a6"
	for _, c := range []struct {
		k          Key
		attr, want string
		swept      bool
		two        bool // two items could have it
	}{
		{mustKey("a"), "html", "pk=a/attr=html/md5=" + md, true, false},
		{mustKey("a", "b"), "html", "pk=a/sk=b/attr=html/md5=" + md, true, false},
		{mustKey(7, 8), "html", "pk=7/sk=8/attr=html/md5=" + md, true, false},
		{mustKey("a/b", "c/d"), "html", "pk=a/b/sk=c/d/attr=html/md5=" + md, true, false},
		{mustKey("a b=!é"), "x/y", "pk=a b=!é/attr=x/y/md5=" + md, true, false},
		{mustKey("a/sk=b", "c"), "html", "pk=a/sk=b/sk=c/attr=html/md5=" + md, false, true},
		{mustKey("a", "b/sk=c"), "html", "pk=a/sk=b/sk=c/attr=html/md5=" + md, false, true},
		{mustKey("a/sk=b"), "html", "pk=a/sk=b/attr=html/md5=" + md, false, false},
		{mustKey("a/attr=b"), "html", "pk=a/attr=b/attr=html/md5=" + md, false, true},
		{mustKey("a/md5="), "html", "pk=a/md5=/attr=html/md5=" + md, false, false},
	} {
		s := schemaOf(c.k)
		name, err := l.name(s, testContent(c.k, c.attr, "x"))
		if c.two {
			if !errors.Is(err, ErrKey) {
				t.Errorf("%v: got %s, %v", c.k, name, err)
			}
			name = c.want + ".id=" + testID
		} else if err != nil || name != c.want+".id="+testID {
			t.Errorf("%v: got %s, %v", c.k, name, err)
		}
		for _, written := range []struct{ name, id string }{{c.want, ""}, {name, testID}} {
			if l.owns(s, c.k, c.attr, written.name) == c.two || l.owns(s, mustKey("other"), c.attr, written.name) {
				t.Errorf("%s does not belong to %v", written.name, c.k)
			}
			if o, ok := l.owner(s, written.name); ok != c.swept || ok && o != (Owner{"", c.k, c.attr, written.id}) {
				t.Errorf("%s is turned back to %+v, %v", written.name, o, ok)
			}
			uri := l.reference("s3://bucket", Reference{Object: "both//" + written.name})
			r, err := l.parse("s3://bucket", uri)
			if err != nil || uri != "s3://bucket/both//"+written.name || r.Object != "both//"+written.name || r.URI != uri || r.Size != -1 || fmt.Sprintf("%x", r.MD5) != md || r.SHA256 != nil {
				t.Errorf("%s: %+v, %v", uri, r, err)
			}
			if _, err := l.parse("s3://other", uri); !errors.Is(err, errElsewhere) {
				t.Errorf("%s in another bucket: %v", uri, err)
			}
		}
	}
	for _, bad := range []string{
		"", "s3://bucket", "s3://bucket/", "s3://bucket/x", "S3://bucket/pk=a/attr=b/md5=" + md, "s3:///pk=a/attr=b/md5=" + md, "s3://bucket/pk=a/attr=b/md5=" + strings.ToUpper(md),
		"s3://bucket/pk=a/attr=b/md5=" + md[1:], "s3://bucket/pk=a/md5=" + md, "s3://bucket/attr=b/md5=" + md, "s3://bucket/pk=a/attr=b/md5=" + md + ".id=" + testID[1:], "s3://bucket/pk=a/attr=b/md6=" + md,
		"s3://bucket/pk=" + strings.Repeat("x", 1024) + "/attr=b/md5=" + md,
	} {
		if r, err := l.parse("s3://bucket", bad); !errors.Is(err, errNotReference) {
			t.Errorf("%q is taken for %+v, %v", bad, r, err)
		}
	}
	for _, bad := range []string{"pk=a/sk=/attr=b/md5=" + md, "pk=/attr=b/md5=" + md, "pk=a/sk=b/attr=/md5=" + md, "x/pk=a/sk=b/attr=c/md5=" + md, "pk=a/sk=b/attr=c", "md5=" + md, md} {
		for _, s := range []Schema{testSchema("text", ""), testSchema("text", "text"), testSchema("number", "number")} {
			if o, ok := l.owner(s, bad); ok {
				t.Errorf("%s is of %+v", bad, o)
			}
		}
	}
	if _, ok := l.owner(testSchema("number", ""), "pk=07/attr=b/md5="+md); ok {
		t.Error("07 is a number of a key")
	}
	for _, base := range []string{"", "memory", "dir:/x", "s3://", "s3://bucket/prefix"} {
		if err := l.base(base); !errors.Is(err, ErrInvalid) {
			t.Errorf("the base %q: %v", base, err)
		}
	}
}

// TestMateMetadata: what HTTP cannot transport is left out; the rest is the other program's.
func TestMateMetadata(t *testing.T) {
	at := time.Date(2024, 2, 3, 4, 5, 6, 7000, time.FixedZone("", 3600))
	m := PynamoDBMateLayout().metadata(testContent(mustKey("ä", "b"), "html", "x"), at)
	if m["pk"] != "" || m["sk"] != "b" || m["attr"] != "html" || m["update_at"] != "2024-02-03T03:05:06.000007+00:00" || len(m["sha256"]) != 64 {
		t.Errorf("got %q", m)
	}
	if err := object.CheckMetadata(m); err != nil {
		t.Error(err)
	}
}

// TestOwnMetadata: the metadata has the key, whatever it is.
func TestOwnMetadata(t *testing.T) {
	for _, k := range badKeys() {
		m := DefaultLayout().metadata(testContent(k, "body", "x"), time.Now())
		if got, ok := keyIn(m); !ok || got != k {
			t.Errorf("%.50v: got %.50v, %v from %.100q", k, got, ok, m)
		}
		if err := object.CheckMetadata(m); err != nil && len(k.Partition.Text)+len(k.Sort.Text) <= 1024 {
			t.Errorf("%.50v: %v", k, err)
		}
	}
	for _, m := range []map[string]string{nil, {"pk": ""}, {"pk": `"`}, {"pk": `""`}, {"pk": "x"}, {"pk": `"a"`, "sk": `"`}, {"pk": `"a"`, "sk": ""}, {"pk": `"\xff"`}, {"pk": "base64:"}, {"pk": "base64:x"}, {"pk": "base64:_w"}} {
		if k, ok := keyIn(m); ok {
			t.Errorf("%q tells %v", m, k)
		}
	}
}

func TestNames(t *testing.T) {
	for _, n := range []CustomNames{{}, {Name: func(Content) (string, error) { return "", nil }}, {Owner: func(string) (Owner, bool) { return Owner{}, false }}} {
		if _, err := CustomLayout(n); !errors.Is(err, ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
	name := func(c Content) (string, error) { return c.Key.Partition.Text + ":" + c.Attr + ":" + c.ID, nil }
	owner := func(name string) (Owner, bool) {
		p := strings.Split(name, ":")
		if len(p) != 3 {
			return Owner{}, false
		}
		return Owner{Key: Key{Partition: KeyValue{Text: p[0]}}, Attr: p[1], ID: p[2]}, true
	}
	s := testSchema("text", "")
	l, err := CustomLayout(CustomNames{Name: name, Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	c := testContent(mustKey("a"), "body", "x")
	got, err := l.name(s, c)
	if o, ok := l.owner(s, got); err != nil || !ok || o.Key != c.Key || !l.owns(s, c.Key, "body", got) || l.owns(s, c.Key, "bod", got) {
		t.Errorf("%s: %v", got, err)
	}
	broken := errors.New("no name for it")
	for why, n := range map[string]CustomNames{
		"does not contain Content.ID": {Name: func(c Content) (string, error) { return "a:b:c", nil }, Owner: owner},
		"does not map back":           {Name: func(c Content) (string, error) { return name(Content{Key: c.Key, Attr: "x", ID: c.ID}) }, Owner: owner},
		"has 7":                       {Name: func(c Content) (string, error) { return strings.Repeat("x", 750) + c.ID, nil }, Owner: owner},
		"control characters":          {Name: func(c Content) (string, error) { return "\n" + c.ID, nil }, Owner: owner},
	} {
		l, err := CustomLayout(n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := l.name(s, c); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), `"body"`) {
			t.Errorf("%s: got %q, %v", why, got, err)
		}
	}
	l, _ = CustomLayout(CustomNames{Name: func(Content) (string, error) { return "", broken }, Owner: owner})
	if _, err := l.name(s, c); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	l, _ = CustomLayout(CustomNames{Name: name, Owner: func(string) (Owner, bool) { return Owner{Key: c.Key, Attr: "a", ID: testID}, true }})
	if o, ok := l.owner(s, ".table"); ok {
		t.Errorf("the object with the table's name is of %+v", o)
	}
}

func FuzzOwnNames(f *testing.F) {
	for _, k := range badKeys() {
		f.Add(k.Partition.Text, k.Partition.Number, k.Sort.Text, k.Sort.Number, "body")
	}
	f.Fuzz(func(t *testing.T, p string, pn bool, s string, sn bool, attr string) {
		k, err := NewKey(KeyValue{p, pn}, KeyValue{s, sn})
		if s == "" {
			k, err = NewKey(KeyValue{p, pn})
		}
		if err != nil || !utf8.ValidString(attr) || attr == "" {
			return
		}
		l, schema := DefaultLayout(), schemaOf(k)
		name, err := l.name(schema, testContent(k, attr, "x"))
		if err != nil {
			if len(attr) <= maxAttr/3 {
				t.Error(err)
			}
			return
		}
		checkOwnName(t, name)
		o, ok := l.owner(schema, name)
		if o.Key == (Key{}) {
			o.Key = k
		}
		if want := (Owner{"books", k, attr, testID}); !ok || o != want || !l.owns(schema, k, attr, name) {
			t.Errorf("%v %q: %s is turned back to %+v, %v", k, attr, name, o, ok)
		}
	})
}

func FuzzOwner(f *testing.F) {
	f.Add("books/pk=a/attr=b/" + testID)
	f.Add("pk=a/sk=b/attr=b/md5=" + testID)
	f.Add("pk=a/sk=b/attr=b/md5=" + testID + ".id=" + testID)
	f.Add("books/key=" + testID + testID + "/attr=b/" + testID)
	f.Fuzz(func(t *testing.T, name string) {
		for _, s := range []Schema{testSchema("text", ""), testSchema("number", ""), testSchema("text", "text"), testSchema("text", "number")} {
			for _, l := range []Layout{DefaultLayout(), PynamoDBMateLayout()} {
				o, ok := l.owner(s, name)
				if !ok || o.Key == (Key{}) {
					continue
				}
				c := Content{Table: "books", Key: o.Key, Attr: o.Attr, ID: o.ID}
				if m, mate := l.(pynamoDBMateLayout); mate {
					_, c.MD5, _, _ = m.cutHash(name)
				}
				again, err := l.name(s, c)
				again = strings.TrimSuffix(again, ".id=")
				if len(name) <= maxObjectName && (err != nil || again != name) || !l.owns(s, o.Key, o.Attr, name) {
					t.Errorf("%q is of %+v, whose name is %q, %v", name, o, again, err)
				}
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	sum := sha256.Sum256(nil)
	f.Add(DefaultLayout().reference("s3://b", Reference{Object: "a", SHA256: sum[:]}))
	f.Add("s3://b/pk=a/attr=b/md5=" + testID)
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range []Layout{DefaultLayout(), PynamoDBMateLayout()} {
			if r, err := l.parse("s3://b", text); err == nil && l.reference("s3://b", r) != text {
				t.Errorf("%q is taken for %+v", text, r)
			}
		}
	})
}
