package filestore_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

func TestEncodeKey(t *testing.T) {
	tests := []struct{ key, want string }{
		{"lock/nightly-etl", "lock+nightly-etl"},
		{"checkpoint/a_b=c@d,e.json", "checkpoint+a_b=c@d,e.json"},
		{"MyLock", "^my^lock"},
		{"a", "a"},
		{"a/b", "a+b"},
		{"a+b", "a%2bb"},
		{".hidden", "%2ehidden"},
		{"end.", "end%2e"},
		{"a/.b", "a+.b"},
		{"...", "%2e.%2e"},
		{"con", "%63on"},
		{"nul.txt", "%6eul.txt"},
		{"com1", "%63om1"},
		{"lpt9.x", "%6cpt9.x"},
		{"CON", "^c^o^n"},
		{"console", "console"},
		{"con/x", "con+x"},
		{"a b", "a%20b"},
		{"50%", "50%25"},
		{"~", "%7e"},
		{"x^y", "x%5ey"},
		{"ä", "%c3%a4"},
		{"a\x00b", "a%00b"},
		{`\:*?"<>|`, "%5c%3a%2a%3f%22%3c%3e%7c"},
	}
	for _, test := range tests {
		got := filestore.EncodeKey(test.key)
		if got != test.want {
			t.Errorf("%q: got %q, want %q", test.key, got, test.want)
		}
		if key, ok := filestore.DecodeKey(got); key != test.key || !ok {
			t.Errorf("%q: decodes to %q, %v", got, key, ok)
		}
	}
	for _, name := range []string{"", "A", "%41", "a%2", "a%zz", "^", "a~b", "+", "a+", "%2e", "%c3", "..", "a.", "%6zon", "con"} {
		if key, ok := filestore.DecodeKey(name); ok {
			t.Errorf("%q is no name of ours, and decodes to %q", name, key)
		}
	}
}

func TestEncodeLongKeys(t *testing.T) {
	names := make(map[string]string)
	for _, key := range []string{
		strings.Repeat("x", store.MaxKey),
		strings.Repeat("x", store.MaxKey-1),
		strings.Repeat("x", store.MaxKey-1) + "y",
		strings.Repeat("€", store.MaxKey/3),
		strings.Repeat("A", 71),
		strings.Repeat("a/", 100) + "b",
	} {
		name := filestore.EncodeKey(key)
		if len(name) > 140 {
			t.Errorf("%q has a name of %d bytes", key, len(name))
		}
		if other, ok := names[name]; ok {
			t.Errorf("%q and %q have one name", key, other)
		}
		names[name] = key
		if _, ok := filestore.DecodeKey(name); ok {
			t.Errorf("%q can be decoded", name)
		}
	}
	if name := filestore.EncodeKey(strings.Repeat("a", 140)); strings.Contains(name, "~") {
		t.Errorf("a name that fits was cut: %q", name)
	}
}

// FuzzEncodeKey: no two keys share a name, even where case is folded, and no name is
// dangerous.
func FuzzEncodeKey(f *testing.F) {
	f.Add("a/b", "a+b")
	f.Add("A", "a")
	f.Add("con", "CON")
	f.Add("ß", "ss")
	f.Add(".", "..")
	f.Fuzz(func(t *testing.T, a, b string) {
		if store.CheckKey(a) != nil {
			t.Skip()
		}
		name := filestore.EncodeKey(a)
		if name == "" || len(name) > 140 || strings.ContainsAny(name, "/\\:*?\"<>| ") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			t.Fatalf("%q: bad name %q", a, name)
		}
		for _, r := range name {
			if r > 126 || r < 33 || unicode.IsUpper(r) {
				t.Fatalf("%q: bad character in %q", a, name)
			}
		}
		key, ok := filestore.DecodeKey(name)
		if ok != !strings.Contains(name, "~") || (ok && key != a) {
			t.Fatalf("%q: %q decodes to %q, %v", a, name, key, ok)
		}
		if store.CheckKey(b) == nil && a != b && strings.EqualFold(name, filestore.EncodeKey(b)) {
			t.Fatalf("%q and %q share the name %q", a, b, name)
		}
		if key, ok := filestore.DecodeKey(b); ok && filestore.EncodeKey(key) != b {
			t.Fatalf("%q decodes to %q, which encodes to %q", b, key, filestore.EncodeKey(key))
		}
	})
}
