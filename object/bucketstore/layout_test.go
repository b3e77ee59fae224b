package bucketstore_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// TestObjectKeys: these names must never change, since stored registers have them.
func TestObjectKeys(t *testing.T) {
	s := newStore(t, membucket.New(), "pre/fix", nil)
	long := strings.Repeat("x", 450)
	for key, want := range map[string]string{
		"lock/deploy":         "pre/fix/lock/deploy.json",
		"a":                   "pre/fix/a.json",
		"a/b":                 "pre/fix/a/b.json",
		"a.json":              "pre/fix/a.json.json",
		"a.json/b":            "pre/fix/a!2Ejson/b.json",
		"with space":          "pre/fix/with!20space.json",
		"a!b":                 "pre/fix/a!21b.json",
		"100%":                "pre/fix/100!25.json",
		"a+b?c#d\\e":          "pre/fix/a!2Bb!3Fc!23d!5Ce.json",
		"u@h:80/dt=1,2":       "pre/fix/u@h:80/dt=1,2.json",
		"ключ/日本":             "pre/fix/ключ/日本.json",
		"\x00\x1f\x7f\u0085":  "pre/fix/!00!1F!7F!C2!85.json",
		"\ufffe":              "pre/fix/!EF!BF!BE.json",
		long:                  "pre/fix/" + long[:199] + "!/" + long[:199] + "!/" + long[:52] + ".json",
		long + "/" + long[:9]: "pre/fix/" + long[:199] + "!/" + long[:199] + "!/" + long[:52] + "/" + long[:9] + ".json",
	} {
		if got := s.ObjectKey(key); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
	// What would be too long for a bucket is written otherwise.
	worst := strings.Repeat("\x01/", 255) + "\x01\x01"
	for _, key := range []string{worst, strings.Repeat("\x00", 512), strings.Repeat("!/", 255) + "!!"} {
		s := newStore(t, membucket.New(), strings.Repeat("p", bucketstore.MaxPrefix), nil)
		got := s.ObjectKey(key)
		if len(got) > object.MaxKey || !strings.Contains(got, "/!/") {
			t.Errorf("%.20q: %d bytes, %q", key, len(got), got)
		}
		mustPut(t, s, key, "", "1")
		var keys []string
		for k, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, k)
		}
		if len(keys) != 1 || keys[0] != key {
			t.Errorf("%.20q: listed as %.20q", key, keys)
		}
	}
	for k, err := range newStore(t, membucket.New(), "", nil).List(t.Context(), "a/b") {
		t.Error(k, err)
	}
}

// FuzzObjectKey: two keys never have one object, and no object's name is a directory
// of another.
func FuzzObjectKey(f *testing.F) {
	f.Add("a", "a/b")
	f.Add("a.json", "a.json/b")
	f.Add("a!2Ejson", "a.json/b")
	f.Add(strings.Repeat("x", 199)+"!", strings.Repeat("x", 199)+"/x")
	f.Add(strings.Repeat("\x00", 300), "!")
	f.Add(strings.Repeat("é", 110), strings.Repeat("é", 110)+"!")
	f.Fuzz(func(t *testing.T, a, b string) {
		if store.CheckKey(a) != nil || store.CheckKey(b) != nil {
			return
		}
		m := membucket.New()
		s, err := bucketstore.New(m, "p", nil)
		if err != nil {
			t.Fatal(err)
		}
		x, y := s.ObjectKey(a), s.ObjectKey(b)
		if (x == y) != (a == b) {
			t.Fatalf("%q and %q have the objects %q and %q", a, b, x, y)
		}
		if strings.HasPrefix(y, x+"/") || strings.HasPrefix(x, y+"/") {
			t.Fatalf("%q is below %q", y, x)
		}
		for segment := range strings.SplitSeq(x, "/") {
			if segment == "" || segment == "." || segment == ".." || len(segment) > 255 || strings.ContainsAny(segment, " +%\\?#") {
				t.Fatalf("%q: segment %q", a, segment)
			}
		}
		if len(x) > object.MaxKey {
			t.Fatalf("%q: %d bytes", a, len(x))
		}
		if _, err := m.Put(t.Context(), x, strings.NewReader("{}"), nil); err != nil {
			t.Fatal(err)
		}
		for got, err := range s.List(t.Context(), "") {
			if err != nil || got != a {
				t.Fatalf("%q is listed as %q, %v", a, got, err)
			}
		}
	})
}

// TestBodies: the objects in the bucket are JSON for people, and a Get returns the bytes
// that were put.
func TestBodies(t *testing.T) {
	b := membucket.New()
	s := newStore(t, b, "", nil)
	deep := strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999)
	for i, value := range []string{
		`{"a": 1,  "b":[true,null]}`, `"text"`, `null`, `17`, "", " ", `{"a":1} `, "\n{}", "not JSON", "\xff\xfe", "\"\xff\"",
		`{"a":1},"value":{"b":2}`, `1}`, `{"<&>":"\u2028"}`, deep, "[" + deep + "]", strings.Repeat("x", store.MaxValue), `"` + strings.Repeat("x", store.MaxValue-2) + `"`,
	} {
		key := fmt.Sprintf("k%d", i)
		v := mustPut(t, s, key, "", value)
		got, now, err := s.Get(t.Context(), key)
		if err != nil || string(got) != value || now != v {
			t.Errorf("%.40q: got %.40q, %q, %v; put gave %q", value, got, now, err, v)
		}
		body, _, err := object.ReadAll(t.Context(), b, s.ObjectKey(key), 1<<20, nil)
		if err != nil || !json.Valid(body) || !bytes.HasSuffix(body, []byte("\n")) {
			t.Errorf("%.40q: the body is no JSON: %.80q, %v", value, body, err)
		}
		if i < 4 && !bytes.Contains(body, []byte(`"value":`+value+"}")) {
			t.Errorf("%.40q: the body hides its value: %s", value, body)
		}
	}
	// No body of a value has the size of a tombstone.
	for n := range 400 {
		v := mustPut(t, s, "size", "", `"`+strings.Repeat("x", n)+`"`)
		info, err := b.Stat(t.Context(), s.ObjectKey("size"))
		if err != nil || info.Size == engine.TombstoneSize {
			t.Fatalf("value of %d bytes: size %d, %v", n, info.Size, err)
		}
		if err := s.Delete(t.Context(), "size", v); err != nil {
			t.Fatal(err)
		}
		if info, err = b.Stat(t.Context(), s.ObjectKey("size")); err != nil || info.Size != engine.TombstoneSize {
			t.Fatalf("tombstone: size %d, %v", info.Size, err)
		}
	}
}

// TestGolden: later versions can still read bodies of this format.
func TestGolden(t *testing.T) {
	tombstone := `{"holdfast":1,"nonce":"AAAAAAAAAAAA","deleted":true}`
	tombstone += strings.Repeat(" ", engine.TombstoneSize-1-len(tombstone)) + "\n"
	for body, want := range map[string]string{
		`{"holdfast":1,"nonce":"Zx1-_aaaaaaa","after":["BBBBBBBBBBBB","CCCCCCCCCCCC"],"value":{"your":"JSON"}}` + "\n": `{"your":"JSON"}`,
		`{"holdfast":1,"nonce":"AAAAAAAAAAAA","base64":"/w=="}`:                                                        "\xff",
		`{"holdfast":1,"nonce":"AAAAAAAAAAAA","base64":""}`:                                                            "",
		`{"holdfast":1,"nonce":"AAAAAAAAAAAA","value":null,"unknown":"field"}`:                                         "null",
		tombstone: "absent",
	} {
		b := membucket.New()
		s := newStore(t, b, "", nil)
		if _, err := b.Put(t.Context(), "k.json", strings.NewReader(body), nil); err != nil {
			t.Fatal(err)
		}
		value, v, err := s.Get(t.Context(), "k")
		if want == "absent" {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%.60s: got %q, %v", body, value, err)
			}
			if v = mustPut(t, s, "k", "", "1"); !strings.Contains(string(v), ".AAAAAAAAAAAA@") {
				t.Errorf("the version after a tombstone, %q, does not follow it", v)
			}
			continue
		}
		if err != nil || string(value) != want {
			t.Errorf("%.60s: got %q, %v", body, value, err)
		}
		mustPut(t, s, "k", v, "1")
	}
}

// TestForeign: an object of another program is reported, does not count as absent, and is
// never overwritten.
func TestForeign(t *testing.T) {
	for name, body := range map[string]string{
		"empty":             "",
		"torn":              `{"holdfast":1,"nonce":"AAAAAAAAAAAA","val`,
		"other JSON":        `{"lock":"mine"}`,
		"no JSON":           "hello",
		"newer":             `{"holdfast":2,"nonce":"AAAAAAAAAAAA","value":1}`,
		"no value":          `{"holdfast":1,"nonce":"AAAAAAAAAAAA"}`,
		"two values":        `{"holdfast":1,"nonce":"AAAAAAAAAAAA","value":1,"base64":""}`,
		"bad nonce":         `{"holdfast":1,"nonce":"A.AAAAAAAAAA","value":1}`,
		"no nonce":          `{"holdfast":1,"value":1}`,
		"bad base64":        `{"holdfast":1,"nonce":"AAAAAAAAAAAA","base64":"!"}`,
		"long past":         `{"holdfast":1,"nonce":"AAAAAAAAAAAA","after":[` + strings.Repeat(`"AAAAAAAAAAAA",`, 7) + `"AAAAAAAAAAAA"],"value":1}`,
		"trimmed tombstone": `{"holdfast":1,"nonce":"AAAAAAAAAAAA","deleted":true}`,
		"large":             strings.Repeat("x", 10<<20),
	} {
		t.Run(name, func(t *testing.T) {
			b := membucket.New()
			s := newStore(t, b, "", nil)
			put, err := b.Put(t.Context(), "k.json", strings.NewReader(body), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = s.Get(t.Context(), "k")
			if !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
				t.Errorf("get: %v", err)
			}
			_, err = s.Put(t.Context(), "k", "", []byte("1"))
			if !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("put: %v (%v)", err, store.OutcomeOf(err))
			}
			if info, err := b.Stat(t.Context(), "k.json"); err != nil || info.Version != put.Version {
				t.Errorf("it was overwritten: %v", err)
			}
		})
	}
}

// TestListForeign: a listing skips objects whose names are not those of registers. It skips
// tombstones without reading them.
func TestListForeign(t *testing.T) {
	f := &flaky{Bucket: membucket.New()}
	s := newStore(t, f, "p", nil)
	v := mustPut(t, s, "gone", "", "1")
	if err := s.Delete(t.Context(), "gone", v); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "there/a", "", "1")
	for _, name := range []string{"p/readme.txt", "p/bad!zz.json", "p/bad!2.json", "p/lower!2f.json", "p/plain!61.json", "p/!/@@.json", "p/x!/y.json", "p/.json", "other/k.json", "pp.json"} {
		if _, err := f.Put(t.Context(), name, strings.NewReader("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	f.requests()
	var keys []string
	for key, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if want := []string{"there/a"}; !slices.Equal(keys, want) {
		t.Errorf("got %q, want %q", keys, want)
	}
	if got := f.requests(); got != "" {
		t.Errorf("the listing read bodies: %s", got)
	}
}

// TestUnchanged: a read of an unchanged register transfers no body.
func TestUnchanged(t *testing.T) {
	s := newStore(t, membucket.New(), "", nil)
	v := mustPut(t, s, "k", "", "1")
	if value, now, changed, err := s.GetIfChanged(t.Context(), "k", v); err != nil || changed || value != nil || now != v {
		t.Errorf("got %q %q %v %v", value, now, changed, err)
	}
	w := mustPut(t, s, "k", v, "2")
	if value, now, changed, err := s.GetIfChanged(t.Context(), "k", v); err != nil || !changed || string(value) != "2" || now != w {
		t.Errorf("got %q %q %v %v", value, now, changed, err)
	}
	if _, _, changed, err := s.GetIfChanged(t.Context(), "k", "no version of ours"); err != nil || !changed {
		t.Errorf("got %v %v", changed, err)
	}
	if err := s.Delete(t.Context(), "k", w); err != nil {
		t.Fatal(err)
	}
	if _, _, changed, err := s.GetIfChanged(t.Context(), "k", w); !errors.Is(err, store.ErrNotFound) || !changed {
		t.Errorf("got %v %v", changed, err)
	}
}

func TestNew(t *testing.T) {
	for name, try := range map[string]func() error{
		"prefix":      func() error { _, err := bucketstore.New(membucket.New(), "a//b", nil); return err },
		"long prefix": func() error { _, err := bucketstore.New(membucket.New(), strings.Repeat("p", 257), nil); return err },
		"unsafe": func() error {
			_, err := bucketstore.New(membucket.New(), "", &bucketstore.Options{Unsafe: []object.Ability{object.PlainCopy}})
			return err
		},
	} {
		if try() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	traits := store.TraitsOf(newStore(t, membucket.New(), "pre/fix/", nil))
	if traits.Name != "memory/pre/fix" || !traits.Local || !traits.Trusted || traits.ConflictCarriesState {
		t.Errorf("got %+v", traits)
	}
}

// FuzzBody: whatever the object of a register contains, it reads as a value, as deleted, or
// as damaged. A write can name the version that was read.
func FuzzBody(f *testing.F) {
	f.Add(`{"holdfast":1,"nonce":"AAAAAAAAAAAA","value":{"a":1}}`)
	f.Add(`{"holdfast":1,"nonce":"AAAAAAAAAAAA","after":["BBBBBBBBBBBB"],"base64":"/w=="}`)
	f.Add(`{"holdfast":1,"nonce":"AAAAAAAAAAAA","deleted":true}`)
	f.Add(`[{}]`)
	f.Fuzz(func(t *testing.T, body string) {
		b := membucket.New()
		s := newStore(t, b, "", nil)
		if _, err := b.Put(t.Context(), "k.json", strings.NewReader(body), nil); err != nil {
			t.Fatal(err)
		}
		_, v, err := s.Get(t.Context(), "k")
		switch {
		case errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound):
		case err != nil:
			t.Fatal(err)
		default:
			mustPut(t, s, "k", v, "next")
		}
	})
}

// TestEscapeFinalDots: with the option, no segment of a name ends with a dot, and the listing finds all registers. Without a
// final dot, the names are the same as without the option.
func TestEscapeFinalDots(t *testing.T) {
	b := membucket.New()
	plain, s := newStore(t, b, "pre", nil), newStore(t, b, "pre", &bucketstore.Options{EscapeFinalDots: true})
	long := strings.Repeat(".", 450)
	keys := []string{"a./b", ".../b", "a.json./b", "x/..a./.b", "a.b/c", "a.", long + "/b", "a!2E/b"}
	names := map[string]bool{}
	for _, key := range keys {
		name := s.ObjectKey(key)
		names[name] = true
		for segment := range strings.SplitSeq(name, "/") {
			if strings.HasSuffix(segment, ".") {
				t.Errorf("%q: the name %q has a segment that ends with a dot", key, name)
			}
		}
		if _, err := s.Put(t.Context(), key, "", []byte("x")); err != nil {
			t.Error(err)
		}
	}
	if len(names) != len(keys) {
		t.Errorf("%d keys have %d names", len(keys), len(names))
	}
	var listed []string
	for key, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, key)
	}
	slices.Sort(listed)
	slices.Sort(keys)
	if !slices.Equal(listed, keys) {
		t.Errorf("listed %q, want %q", listed, keys)
	}
	for key, err := range s.List(t.Context(), "a.") {
		if err != nil || key != "a./b" {
			t.Errorf("below a.: %q, %v", key, err)
		}
	}
	if got, want := s.ObjectKey("a.b/.c"), plain.ObjectKey("a.b/.c"); got != want {
		t.Errorf("the name of a.b/.c is %q, want %q", got, want)
	}
}
