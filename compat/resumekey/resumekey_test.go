package resumekey_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/compat/resumekey"
)

// vectors were made by the rules of aviso with the crates that it uses (url 2.5 and
// serde_jcs 0.2). Strict marks inputs that those accept and this package refuses.
type vectors struct {
	Values []struct {
		Kind, In string
		Out      *string // nil: the crates refuse it
		Strict   bool
	}
	Keys []struct {
		URL, Event, Filter, Key string
		Fingerprint             *string
	}
}

func load(t testing.TB) vectors {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Values) < 200 || len(v.Keys) < 5 {
		t.Fatalf("%d values and %d keys", len(v.Values), len(v.Keys))
	}
	return v
}

func TestCanonicalForms(t *testing.T) {
	for _, v := range load(t).Values {
		canonical := resumekey.BaseURL
		if v.Kind == "filter" {
			canonical = func(s string) (string, error) {
				b, err := resumekey.Filter([]byte(s))
				return string(b), err
			}
		}
		got, err := canonical(v.In)
		switch {
		case err != nil && !errors.Is(err, resumekey.ErrInput):
			t.Errorf("%q: %v", v.In, err)
		case err != nil && v.Out != nil && !v.Strict:
			t.Errorf("%q: got the error %v; want %q", v.In, err, *v.Out)
		case err == nil && (v.Out == nil || v.Strict):
			t.Errorf("%q: got %q, want an error", v.In, got)
		case err == nil && got != *v.Out:
			t.Errorf("%q:\ngot  %q\nwant %q", v.In, got, *v.Out)
		}
		if err != nil {
			continue
		}
		if again, err := canonical(got); err != nil || again != got {
			t.Errorf("%q is not stable: %q, %v", got, again, err)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, v := range load(t).Keys {
		got, err := resumekey.Key(v.URL, v.Event, []byte(v.Filter), &resumekey.Options{Fingerprint: v.Fingerprint})
		if err != nil || got != v.Key {
			t.Errorf("%+v: got %s, %v", v, got, err)
		}
	}
	// The two examples of the format's documentation.
	for _, v := range [][3]string{
		{"https://aviso-server.ecmwf.int/", `{"class":"od"}`, "46fe3e30937478ae30527c74cb2f03a5e5419228a11051cdaccefe7d044b21c3"},
		{"https://a/", `{}`, "e9ae33ec10bacefb2cfb8eb4f343af61be1ec5c6a67622b09ab5be69bb7caae2"},
	} {
		got, err := resumekey.Key(v[0], "mars", []byte(v[1]), nil)
		if err != nil || got != v[2] {
			t.Errorf("%s: got %s, %v", v[0], got, err)
		}
	}
}

// Inputs with the same meaning have the same key, and all others have different keys.
func TestSameAndDifferent(t *testing.T) {
	key := func(url, event, filter string) string {
		t.Helper()
		k, err := resumekey.Key(url, event, []byte(filter), nil)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	base := key("https://a/x", "mars", `{"b":[1,2],"a":"é"}`)
	for _, same := range []string{
		key("HTTPS://user:secret@A:443/x?q#f", "mars", `{"b":[1,2],"a":"é"}`),
		key("https://a/x/", "mars", `{"b":[1,2],"a":"é"}`),
		key("https://a/y/../x", "mars", " {\"a\":\"\\u00e9\" ,\n\"b\": [1.0, 2e0] } "),
	} {
		if same != base {
			t.Errorf("%s is not %s", same, base)
		}
	}
	seen := map[string]bool{base: true}
	for _, other := range []string{
		key("http://a/x", "mars", `{"b":[1,2],"a":"é"}`),
		key("https://a/X", "mars", `{"b":[1,2],"a":"é"}`),
		key("https://a:8443/x", "mars", `{"b":[1,2],"a":"é"}`),
		key("https://a/x", "Mars", `{"b":[1,2],"a":"é"}`),
		key("https://a/x", "mars", `{"b":[2,1],"a":"é"}`),
		key("https://a/x", "mars", `{"b":[1,2],"a":"e\u0301"}`),
		key("https://a/x", "mars", `null`),
	} {
		if seen[other] {
			t.Errorf("%s twice", other)
		}
		seen[other] = true
	}
}

// TestFinalSlash: the consumer program uses the key of the path with a final slash,
// whatever its configuration says.
func TestFinalSlash(t *testing.T) {
	key := func(url string, bare bool) string {
		t.Helper()
		k, err := resumekey.Key(url, "mars", []byte(`{}`), &resumekey.Options{Bare: bare})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	for url, full := range map[string]string{
		"https://a": "https://a/", "https://a/api": "https://a/api/", "https://a/api/": "https://a/api/",
		"https://a/api?q=1#f": "https://a/api/", "https://a/x/..": "https://a/", "https://a//": "https://a//",
	} {
		if got, want := key(url, false), key(full, true); got != want {
			t.Errorf("%s: got %s, want %s, that of %s", url, got, want, full)
		}
	}
	if key("https://a/api", true) == key("https://a/api", false) {
		t.Error("Bare changes nothing")
	}
}

// TestNoProposals: an error proposes no other spelling of the input, since that would be
// the key of another subscription.
func TestNoProposals(t *testing.T) {
	for _, in := range [][2]string{
		{"https://a/x^y", `{}`}, {`https://a/x\y`, `{}`}, {"https://a/x\ty", `{}`}, {"https://a/x y", `{}`},
		{"https://a/C:/../x", `{}`}, {"https://a/c%7C/%2e%2E", `{}`},
		{"https://a/", `{"n":9007199254740993}`}, {"https://a/", `12345678901234567890123`},
		{"https://a/", `"\ud83d"`}, {"https://a/", `"\udead\ud83d"`}, {"https://a/", `{"a":1,"b":2,"\u0061":3}`},
	} {
		k, err := resumekey.Key(in[0], "mars", []byte(in[1]), nil)
		if !errors.Is(err, resumekey.ErrInput) {
			t.Errorf("%s %s: got %q, %v", in[0], in[1], k, err)
		} else if text := err.Error(); strings.Contains(text, "write ") || strings.Contains(text, "%5E") {
			t.Errorf("%s %s: a proposal: %s", in[0], in[1], text)
		}
	}
	for _, url := range []string{"https://a/C:/x", "https://a/x/../C:/", "https://a/CC:/../x"} {
		if _, err := resumekey.Key(url, "mars", []byte(`{}`), nil); err != nil {
			t.Error(err)
		}
	}
}

// TestNumbers has the numbers of RFC 8785, appendix B, and its neighbours.
func TestNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "-0.0e0": "0", "5e-324": "5e-324", "-5e-324": "-5e-324",
		"1.7976931348623157e308": "1.7976931348623157e+308", "9007199254740992": "9007199254740992",
		"295147905179352830000": "295147905179352830000", "9.999999999999997e22": "9.999999999999997e+22",
		"1e23": "1e+23", "1.0000000000000001e23": "1.0000000000000001e+23",
		"999999999999999700000": "999999999999999700000", "999999999999999900000": "999999999999999900000",
		"1e21": "1e+21", "0.000001": "0.000001", "0.0000009999999999999997": "9.999999999999997e-7",
		"333333333.3333332": "333333333.3333332", "1424953923781206.2": "1424953923781206.2", "1e-10": "1e-10", "1e2": "100",
	} {
		if got, err := resumekey.Filter([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"1e309", "-1e400", "NaN"} {
		if got, err := resumekey.Filter([]byte(in)); err == nil {
			t.Errorf("%s: got %s", in, got)
		}
	}
}

// TestStrings: escapes are as few and as short as RFC 8785 requires, and members are sorted
// by UTF-16.
func TestStrings(t *testing.T) {
	for in, want := range map[string]string{
		`"\u0007\b\t\n\f\r\"\\\/<>&\u2028\u20ac"`:                    `"\u0007\b\t\n\f\r\"\\/<>&` + "\u2028€" + `"`,
		`"\ud83d\ude02\\ud83d"`:                                      `"😂\\ud83d"`,
		`{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3,"1":4,"\r":5,"":6}`: `{"":6,"\r":5,"1":4,"€":3,"😀":2,"` + "\ufb33" + `":1}`,
	} {
		if got, err := resumekey.Filter([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", in, got, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	text := "\xff"
	for name, err := range map[string]error{
		"url":         keyErr("\xff", "mars", "{}", nil),
		"event":       keyErr("https://a/", text, "{}", nil),
		"filter":      keyErr("https://a/", "mars", "\"\xff\"", nil),
		"fingerprint": keyErr("https://a/", "mars", "{}", &resumekey.Options{Fingerprint: &text}),
		"deep":        keyErr("https://a/", "mars", strings.Repeat("[", 1e6), nil),
		"deep closed": keyErr("https://a/", "mars", strings.Repeat("[", 2e4)+strings.Repeat("]", 2e4), nil),
	} {
		if !errors.Is(err, resumekey.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func keyErr(url, event, filter string, opts *resumekey.Options) error {
	_, err := resumekey.Key(url, event, []byte(filter), opts)
	return err
}

// A canonical filter has the meaning of its input, and is its own canonical form.
func FuzzFilter(f *testing.F) {
	for _, v := range load(f).Values {
		if v.Kind == "filter" {
			f.Add([]byte(v.In))
		}
	}
	f.Fuzz(func(t *testing.T, filter []byte) {
		canonical, err := resumekey.Filter(filter)
		if err != nil {
			if !errors.Is(err, resumekey.ErrInput) {
				t.Fatal(err)
			}
			return
		}
		again, err := resumekey.Filter(canonical)
		if err != nil || string(again) != string(canonical) {
			t.Fatalf("%q is not stable: %q, %v", canonical, again, err)
		}
		var was, is any
		if err := json.Unmarshal(filter, &was); err != nil {
			t.Fatalf("%q is no JSON: %v", filter, err)
		}
		if err := json.Unmarshal(canonical, &is); err != nil {
			t.Fatalf("%q is no JSON: %v", canonical, err)
		}
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("%q became %q", filter, canonical)
		}
	})
}

// A canonical URL is its own canonical form.
func FuzzBaseURL(f *testing.F) {
	for _, v := range load(f).Values {
		if v.Kind == "url" {
			f.Add(v.In)
		}
	}
	f.Fuzz(func(t *testing.T, url string) {
		canonical, err := resumekey.BaseURL(url)
		if err != nil {
			if !errors.Is(err, resumekey.ErrInput) {
				t.Fatal(err)
			}
			return
		}
		again, err := resumekey.BaseURL(canonical)
		if err != nil || again != canonical {
			t.Fatalf("%q is not stable: %q, %v", canonical, again, err)
		}
		if strings.ContainsAny(canonical, "?#@") && !strings.Contains(canonical[8:], "/") {
			t.Fatalf("%q", canonical)
		}
	})
}
