package avisofile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

const (
	keyA = "e9ae33ec10bacefb2cfb8eb4f343af61be1ec5c6a67622b09ab5be69bb7caae2"
	keyB = "46fe3e30937478ae30527c74cb2f03a5e5419228a11051cdaccefe7d044b21c3"
)

// file returns a state file with these parts.
func file(version, keyVersion, checkpoints, more string) string {
	return `{"version":` + version + `,"key_format_version":` + keyVersion + `,"checkpoints":` + checkpoints + more + `}`
}

// one returns a state file with one checkpoint.
func one(checkpoint string) string { return file("1", "1", `{"`+keyA+`":`+checkpoint+`}`, "") }

// written returns the file that is written for one checkpoint.
func written(sequence, event string) string {
	return "{\n  \"version\": 1,\n  \"key_format_version\": 1,\n  \"checkpoints\": {\n    \"" + keyA +
		"\": {\n      \"last_committed_sequence\": " + sequence + ",\n      \"last_event_id\": " + event + "\n    }\n  }\n}"
}

const none = "{\n  \"version\": 1,\n  \"key_format_version\": 1,\n  \"checkpoints\": {}\n}"

// TestDecode holds what the format's own program (aviso 2.0.0-rc.3) answered to each
// of these files.
func TestDecode(t *testing.T) {
	some := `{"last_committed_sequence":17,"last_event_id":null}`
	upper := strings.ToUpper(keyA)
	tests := []struct {
		name, in string
		err      error
		out      string
	}{
		{"empty", "", avisofile.ErrMalformed, ""},
		{"white space", "  ", avisofile.ErrMalformed, ""},
		{"null", "null", avisofile.ErrMalformed, ""},
		{"no checkpoints", file("1", "1", "{}", ""), nil, none},
		{"byte order mark", "\ufeff" + file("1", "1", "{}", ""), avisofile.ErrMalformed, ""},
		{"something behind", file("1", "1", "{}", "") + "x", avisofile.ErrMalformed, ""},
		{"white space behind", file("1", "1", "{}", "") + " \n\t\r", nil, none},
		{"zero byte behind", file("1", "1", "{}", "") + "\x00", avisofile.ErrMalformed, ""},
		{"form feed behind", file("1", "1", "{}", "") + "\f", avisofile.ErrMalformed, ""},

		{"version 2", file("2", "1", "{}", ""), avisofile.ErrFileVersion, ""},
		{"version 0", file("0", "1", "{}", ""), avisofile.ErrFileVersion, ""},
		{"version 1.0", file("1.0", "1", "{}", ""), avisofile.ErrMalformed, ""},
		{"version -1", file("-1", "1", "{}", ""), avisofile.ErrMalformed, ""},
		{"version -0", file("-0", "1", "{}", ""), avisofile.ErrMalformed, ""},
		{"version 1e0", file("1e0", "1", "{}", ""), avisofile.ErrMalformed, ""},
		{"version 01", file("01", "1", "{}", ""), avisofile.ErrMalformed, ""},
		{"version above 32 bits", file("4294967297", "1", "{}", ""), avisofile.ErrMalformed, ""},
		{"version of 32 bits", file("4294967295", "1", "{}", ""), avisofile.ErrFileVersion, ""},
		{"version text", file(`"1"`, "1", "{}", ""), avisofile.ErrMalformed, ""},
		{"version null", file("null", "1", "{}", ""), avisofile.ErrMalformed, ""},
		{"both versions", file("2", "2", "{}", ""), avisofile.ErrFileVersion, ""},
		{"key version", file("1", "2", "{}", ""), avisofile.ErrKeyVersion, ""},
		{"key version before keys", file("1", "2", `{"zz":`+some+`}`, ""), avisofile.ErrKeyVersion, ""},
		{"malformed before version", file("2", "1", "[]", ""), avisofile.ErrMalformed, ""},
		{"version 2 without checkpoints", `{"version":2,"key_format_version":1}`, avisofile.ErrMalformed, ""},
		{"no version", `{"key_format_version":1,"checkpoints":{}}`, avisofile.ErrMalformed, ""},
		{"names by case", `{"Version":2,"version":1,"key_format_version":1,"checkpoints":{}}`, nil, none},

		{"key zz", file("1", "1", `{"zz":`+some+`}`, ""), avisofile.ErrFileKey, ""},
		{"key empty", file("1", "1", `{"":`+some+`}`, ""), avisofile.ErrFileKey, ""},
		{"key short", file("1", "1", `{"`+keyA[1:]+`":`+some+`}`, ""), avisofile.ErrFileKey, ""},
		{"key long", file("1", "1", `{"`+keyA+`0":`+some+`}`, ""), avisofile.ErrFileKey, ""},
		{"key not hex", file("1", "1", `{"`+keyA[1:]+`g":`+some+`}`, ""), avisofile.ErrFileKey, ""},
		{"key of 64 bytes", file("1", "1", `{"`+strings.Repeat("é", 32)+`":`+some+`}`, ""), avisofile.ErrFileKey, ""},
		{"key upper case", file("1", "1", `{"`+upper+`":`+some+`}`, ""), nil, written("17", "null")},
		{"key escaped", file("1", "1", `{"\u0065`+keyA[1:]+`":`+some+`}`, ""), nil, written("17", "null")},
		{"key twice", file("1", "1", `{"`+keyA+`":{"last_committed_sequence":9},"`+keyA+`":{"last_committed_sequence":3}}`, ""), nil, written("3", "null")},
		// There it is left to chance which of these counts.
		{"key in both cases", file("1", "1", `{"`+upper+`":{"last_committed_sequence":9},"`+keyA+`":{"last_committed_sequence":3}}`, ""), nil, written("9", "null")},

		{"field twice", `{"version":1,"version":1,"key_format_version":1,"checkpoints":{}}`, avisofile.ErrMalformed, ""},
		{"checkpoints twice", file("1", "1", "{}", `,"checkpoints":{}`), avisofile.ErrMalformed, ""},
		{"sequence twice", one(`{"last_committed_sequence":1,"last_committed_sequence":2}`), avisofile.ErrMalformed, ""},
		{"unknown field twice", file("1", "1", "{}", `,"x":1,"x":2`), nil, none},
		{"checkpoints null", file("1", "1", "null", ""), avisofile.ErrMalformed, ""},
		{"checkpoint null", one("null"), avisofile.ErrMalformed, ""},
		{"cut off", one(some)[:150], avisofile.ErrMalformed, ""},
		{"trailing comma", file("1", "1", "{}", ","), avisofile.ErrMalformed, ""},

		{"no event", one(`{"last_committed_sequence":1}`), nil, written("1", "null")},
		{"no sequence", one(`{"last_event_id":null}`), avisofile.ErrMalformed, ""},
		{"sequence -1", one(`{"last_committed_sequence":-1}`), avisofile.ErrMalformed, ""},
		{"sequence -0", one(`{"last_committed_sequence":-0}`), avisofile.ErrMalformed, ""},
		{"sequence 1.0", one(`{"last_committed_sequence":1.0}`), avisofile.ErrMalformed, ""},
		{"sequence 1e2", one(`{"last_committed_sequence":1e2}`), avisofile.ErrMalformed, ""},
		{"sequence text", one(`{"last_committed_sequence":"1"}`), avisofile.ErrMalformed, ""},
		{"sequence 2^53+1", one(`{"last_committed_sequence":9007199254740993}`), nil, written("9007199254740993", "null")},
		{"sequence 2^64-1", one(`{"last_committed_sequence":18446744073709551615}`), nil, written("18446744073709551615", "null")},
		{"sequence 2^64", one(`{"last_committed_sequence":18446744073709551616}`), avisofile.ErrMalformed, ""},

		{"event number", one(`{"last_committed_sequence":1,"last_event_id":1}`), avisofile.ErrMalformed, ""},
		{"event empty", one(`{"last_committed_sequence":1,"last_event_id":""}`), nil, written("1", `""`)},
		{"event escapes", one(`{"last_committed_sequence":1,"last_event_id":"\ud83d\ude00\/\u00e9"}`), nil, written("1", `"😀/é"`)},
		{"event NUL", one(`{"last_committed_sequence":1,"last_event_id":"\u0000\u001f\u007f"}`), nil, written("1", "\"\\u0000\\u001f\x7f\"")},
		{"event control character", one("{\"last_committed_sequence\":1,\"last_event_id\":\"\x01\"}"), avisofile.ErrMalformed, ""},
		{"event half a pair", one(`{"last_committed_sequence":1,"last_event_id":"\ud800"}`), avisofile.ErrMalformed, ""},
		{"event other half", one(`{"last_committed_sequence":1,"last_event_id":"\udc00"}`), avisofile.ErrMalformed, ""},
		{"event broken pair", one(`{"last_committed_sequence":1,"last_event_id":"\ud800\u0041"}`), avisofile.ErrMalformed, ""},
		{"event no UTF-8", one("{\"last_committed_sequence\":1,\"last_event_id\":\"\xff\"}"), avisofile.ErrMalformed, ""},
		{"event surrogate in UTF-8", one("{\"last_committed_sequence\":1,\"last_event_id\":\"\xed\xa0\x80\"}"), avisofile.ErrMalformed, ""},
		{"event bad escape", one(`{"last_committed_sequence":1,"last_event_id":"\q"}`), avisofile.ErrMalformed, ""},

		{"unknown no UTF-8", file("1", "1", "{}", ",\"x\":\"\xff\""), nil, none},
		{"unknown name no UTF-8", file("1", "1", "{}", ",\"\xff\":1"), avisofile.ErrMalformed, ""},
		{"unknown half a pair", file("1", "1", "{}", `,"x":"\ud800"`), nil, none},
		{"unknown name half a pair", file("1", "1", "{}", `,"\ud800":1`), avisofile.ErrMalformed, ""},
		{"unknown control character", file("1", "1", "{}", ",\"x\":\"\x01\""), avisofile.ErrMalformed, ""},
		{"unknown 1e999", file("1", "1", "{}", `,"x":1e999`), nil, none},
		{"unknown -0.0E+1", file("1", "1", "{}", `,"x":-0.0E+1`), nil, none},
		{"unknown 01", file("1", "1", "{}", `,"x":01`), avisofile.ErrMalformed, ""},
		{"unknown -", file("1", "1", "{}", `,"x":-`), avisofile.ErrMalformed, ""},
		{"unknown 1.", file("1", "1", "{}", `,"x":1.`), avisofile.ErrMalformed, ""},
		{"unknown .5", file("1", "1", "{}", `,"x":.5`), avisofile.ErrMalformed, ""},
		{"unknown 1e", file("1", "1", "{}", `,"x":1e`), avisofile.ErrMalformed, ""},
		{"unknown truE", file("1", "1", "{}", `,"x":truE`), avisofile.ErrMalformed, ""},
		{"unknown bad escape", file("1", "1", "{}", `,"x":"\q"`), avisofile.ErrMalformed, ""},
		{"unknown bad digit", file("1", "1", "{}", `,"x":"\u12g4"`), avisofile.ErrMalformed, ""},
		{"unknown [1,]", file("1", "1", "{}", `,"x":[1,]`), avisofile.ErrMalformed, ""},
		{"unknown [}", file("1", "1", "{}", `,"x":[}`), avisofile.ErrMalformed, ""},
		{"unknown name only", file("1", "1", "{}", `,"x":{"a"}`), avisofile.ErrMalformed, ""},
		{"unknown name number", file("1", "1", "{}", `,"x":{1:2}`), avisofile.ErrMalformed, ""},
		{"unknown comma", file("1", "1", "{}", `,"x":{"a":1,}`), avisofile.ErrMalformed, ""},
		{"unknown in a checkpoint", one(`{"last_committed_sequence":1,"x":{"y":[1,2,{"z":null}]},"last_event_id":"q"}`), nil, written("1", `"q"`)},
		{"arrays a million deep", file("1", "1", "{}", `,"x":`+strings.Repeat("[", 1e6)+strings.Repeat("]", 1e6)), nil, none},
		{"objects deep", file("1", "1", "{}", `,"x":`+strings.Repeat(`{"a":`, 1e5)+"1"+strings.Repeat("}", 1e5)), nil, none},
		{"deep and not closed", file("1", "1", "{}", `,"x":`+strings.Repeat("[", 200)+strings.Repeat("]", 199)), avisofile.ErrMalformed, ""},

		{"file as an array", "[1,1,{}]", nil, none},
		{"array too long", "[1,1,{},4]", avisofile.ErrMalformed, ""},
		{"array too short", "[1,1]", avisofile.ErrMalformed, ""},
		{"array of version 2", "[2,1,{}]", avisofile.ErrFileVersion, ""},
		{"checkpoint as an array", one(` [ 5 , "x" ] `), nil, written("5", `"x"`)},
		{"checkpoint array too short", one(`[5]`), avisofile.ErrMalformed, ""},
		{"checkpoint array empty", one(`[]`), avisofile.ErrMalformed, ""},
		{"checkpoint array too long", one(`[5,null,1]`), avisofile.ErrMalformed, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := avisofile.Rewrite([]byte(tt.in))
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("got error %v, want %v", err, tt.err)
			}
			if err != nil && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("the error %v does not match store.ErrCorrupt", err)
			}
			if got, want := errors.Is(err, checkpoint.ErrFormat), tt.err == avisofile.ErrFileVersion || tt.err == avisofile.ErrKeyVersion; got != want {
				t.Errorf("the error matches checkpoint.ErrNewerFormat: %v, want %v", got, want)
			}
			if string(out) != tt.out {
				t.Errorf("got\n%s\nwant\n%s", out, tt.out)
			}
		})
	}
}

// TestGolden reads a file that aviso 2.0.0-rc.3 has written, and writes the same
// bytes, except that its keys stand in an order of their own.
func TestGolden(t *testing.T) {
	in, err := os.ReadFile("testdata/aviso-2.0.0-rc.3.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := avisofile.Rewrite(in)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/sorted.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(got) != len(in) {
		t.Errorf("got %d bytes for %d", len(got), len(in))
	}
}

func TestLoadErrorNamesThePlace(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "it is empty"},
		{"{\n \"version\": 1", "the file ends too early, after 15 bytes"},
		{"{\n \"version\": x", "line 2, column 13"},
		{file("1", "1", `{"zz":{"last_committed_sequence":1}}`, ""), `"zz" is not 64`},
		{file("7", "1", `{}`, ""), "version 7"},
		{file("1", "8", `{}`, ""), "key format version 8"},
	} {
		_, err := avisofile.Rewrite([]byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want a text with %q", tt.in, err, tt.want)
		}
	}
}

// FuzzDecode checks that the decoder accepts nothing but JSON, and that what it
// wrote reads as the same.
func FuzzDecode(f *testing.F) {
	golden, err := os.ReadFile("testdata/aviso-2.0.0-rc.3.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add([]byte(none))
	f.Add([]byte(one(`{"last_committed_sequence":1,"x":{"y":[1,2.5e-3,{"z":null}],"t":true},"last_event_id":"\ud83d\ude00\n"}`)))
	f.Add([]byte(`[1,1,{"` + keyA + `":[18446744073709551615,"x"]}]`))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := avisofile.Rewrite(in)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if !json.Valid(in) && bytes.Count(in, []byte("["))+bytes.Count(in, []byte("{")) < 1000 {
			t.Fatalf("accepted what is no JSON: %q", in)
		}
		again, err := avisofile.Rewrite(out)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("what was written reads as\n%s\n%v, want\n%s", again, err, out)
		}
		var doc struct {
			Checkpoints map[string]struct {
				Sequence uint64  `json:"last_committed_sequence"`
				Event    *string `json:"last_event_id"`
			}
		}
		if err := json.Unmarshal(out, &doc); err != nil {
			t.Fatalf("what was written is not for encoding/json: %v", err)
		}
	})
}

func TestFenceFile(t *testing.T) {
	const fence = "{\n  \"holdfast\": 1,\n  \"keys\": {\n    \"" + keyA + "\": {\n      \"epoch\": 2,\n      \"later\": [\n        1\n      ],\n      \"pending\": true,\n      \"token\": 18446744073709551615\n    }\n  },\n  \"kind\": \"checkpoint-fence\",\n  \"more\": 1e3\n}"
	out, err := avisofile.RewriteFences([]byte(fence))
	if err != nil || string(out) != fence {
		t.Errorf("got\n%s\n%v\nwant\n%s", out, err, fence)
	}
	head := `{"holdfast":1,"kind":"checkpoint-fence","keys":`
	for _, tt := range []struct {
		name, in string
		newer    bool
	}{
		{"empty", "", false},
		{"cut off", fence[:100], false},
		{"newer", `{"holdfast":2}`, true},
		{"no version", `{"kind":"checkpoint-fence","keys":{}}`, false},
		{"another kind", `{"holdfast":1,"kind":"lock","keys":{}}`, false},
		{"no keys", `{"holdfast":1,"kind":"checkpoint-fence"}`, false},
		{"short key", head + `{"00":{"epoch":1}}}`, false},
		{"no epoch", head + `{"` + keyA + `":{"token":1}}}`, false},
		{"epoch 0", head + `{"` + keyA + `":{"epoch":0}}}`, false},
		{"epoch too high", head + `{"` + keyA + `":{"epoch":18446744073709551615}}}`, false},
		{"token -1", head + `{"` + keyA + `":{"epoch":1,"token":-1}}}`, false},
		{"token text", head + `{"` + keyA + `":{"epoch":1,"token":"1"}}}`, false},
		{"pending 1", head + `{"` + keyA + `":{"epoch":1,"pending":1}}}`, false},
		{"key twice", head + `{"` + keyA + `":{"epoch":1},"` + keyA + `":{"epoch":2}}}`, false},
		{"key in both cases", head + `{"` + keyA + `":{"epoch":1},"` + strings.ToUpper(keyA) + `":{"epoch":2}}}`, false},
		{"epoch twice", head + `{"` + keyA + `":{"epoch":1,"epoch":2}}}`, false},
	} {
		_, err := avisofile.RewriteFences([]byte(tt.in))
		if !errors.Is(err, store.ErrCorrupt) || errors.Is(err, checkpoint.ErrFormat) != tt.newer {
			t.Errorf("%s: got %v, newer %v", tt.name, err, tt.newer)
		}
	}
}

func FuzzFences(f *testing.F) {
	f.Add([]byte(`{"holdfast":1,"kind":"checkpoint-fence","keys":{"` + keyA + `":{"epoch":7,"token":9,"pending":true,"x":[{}]}},"y":"\ud800"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := avisofile.RewriteFences(in)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again, err := avisofile.RewriteFences(out)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("what was written reads as\n%s\n%v, want\n%s", again, err, out)
		}
	})
}

// FuzzKey checks that keys are refused or normalised, and nothing else.
func FuzzKey(f *testing.F) {
	f.Add(keyA)
	f.Add(strings.ToUpper(keyB))
	f.Add("job")
	path := f.TempDir() + "/state.json"
	if err := os.WriteFile(path, []byte(one(`{"last_committed_sequence":1}`)), 0o600); err != nil {
		f.Fatal(err)
	}
	s, err := avisofile.Open(path, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key string) {
		c, err := s.Get(t.Context(), key, nil)
		_, scan := fmt.Sscanf(key, "%64x", new([]byte))
		hex := scan == nil && len(key) == 64 && strings.Trim(key, "0123456789abcdefABCDEF") == ""
		if hex == errors.Is(err, store.ErrKey) {
			t.Fatalf("%q: got %v", key, err)
		}
		if hex && c.Key != strings.ToLower(key) {
			t.Fatalf("%q: got the key %q", key, c.Key)
		}
	})
}
