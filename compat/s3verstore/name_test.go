package s3verstore_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/store"
)

func FuzzName(f *testing.F) {
	for _, key := range []string{"job", "a/b", "ü !%/x", strings.Repeat("long", 100), "lock/a b", "!long/x"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if store.CheckKey(key) != nil {
			return
		}
		name := s3verstore.ObjectName(key)
		back, ok := s3verstore.KeyOf(name)
		if !ok || back != key && !(back == "" && strings.HasPrefix(name, "!long/")) {
			t.Fatalf("%q is the object %q, which is the key %q, %v", key, name, back, ok)
		}
		if len(name) > 700 || strings.ContainsAny(name, "%+ \\\x00\x7f") {
			t.Fatalf("%q is the object %q", key, name)
		}
		for segment := range strings.SplitSeq(name, "/") {
			if len(segment) > 200 {
				t.Fatalf("%q is the object %q, with a segment that is too long for some servers", key, name)
			}
		}
	})
}

// Names of objects are apart, and none is below another or is its beginning.
func TestNamesApart(t *testing.T) {
	keys := []string{"a", "a!", "a!/b", "a/b", "a/b!", "A", "a-2", "a.b", "a!21", "a!2", "long", "!long/x", "!long", "é", "e\u0301"}
	for _, a := range keys {
		for _, b := range keys {
			x, y := s3verstore.ObjectName(a), s3verstore.ObjectName(b)
			if a != b && strings.HasPrefix(y, x) {
				t.Errorf("the object %q of %q begins like %q of %q", y, b, x, a)
			}
		}
	}
}
