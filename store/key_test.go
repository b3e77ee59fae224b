package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
)

func TestCheckKey(t *testing.T) {
	long := strings.Repeat("x", store.MaxKey)
	for _, key := range []string{
		"a", "a/b", "a/b/c", "job-2", "...", ".a", "a.", "a/...", " ", "\x00", "a\nb", "日本/語", "CON", `a\b`, "a:b", "%2F", "\ufffd", long, strings.Repeat("ü", store.MaxKey/2),
	} {
		if err := store.CheckKey(key); err != nil {
			t.Errorf("CheckKey(%.40q): %v", key, err)
		}
	}
	for key, why := range map[string]string{
		"": "empty", "/": `segment ""`, "a/": `segment ""`, "/a": `segment ""`, "a//b": `segment ""`, ".": `segment "."`, "..": `segment ".."`,
		"a/./b": `segment "."`, "a/../b": `segment ".."`, "a/..": `segment ".."`, "\xff": "UTF-8", "a/\xc3(": "UTF-8",
		long + "x": "513 bytes", strings.Repeat("ü", store.MaxKey): "1024 bytes",
	} {
		err := store.CheckKey(key)
		if !errors.Is(err, store.ErrKey) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), why) {
			t.Errorf("CheckKey(%.40q): got %v, want ErrKey, not applied, with the text %q", key, err, why)
		}
	}
}

func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{"", "a", "a/b", "../a", "a//b", "\xff", "日本/語", "a/.", strings.Repeat("a/", 255) + "ab"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		// The rule of the documentation, word by word.
		valid := utf8.ValidString(key) && key != "" && len(key) <= 512 &&
			!slices.ContainsFunc(strings.Split(key, "/"), func(s string) bool { return s == "" || s == "." || s == ".." })
		err := store.CheckKey(key)
		if (err == nil) != valid {
			t.Fatalf("CheckKey(%q): %v, valid %v", key, err, valid)
		}
		if err != nil && (!errors.Is(err, store.ErrKey) || !utf8.ValidString(err.Error())) {
			t.Fatalf("CheckKey(%q): %q", key, err)
		}
	})
}

func TestCheckPut(t *testing.T) {
	for _, n := range []int{0, 1, store.MaxValue} {
		if err := store.CheckPut("job", make([]byte, n)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	err := store.CheckPut("job", make([]byte, store.MaxValue+1))
	if !errors.Is(err, store.ErrTooLarge) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("one byte too many: %v", err)
	}
	if err := store.CheckPut("job/", nil); !errors.Is(err, store.ErrKey) {
		t.Errorf("an invalid key: %v", err)
	}
}

func TestCheckDelete(t *testing.T) {
	if err := store.CheckDelete("job", "1"); err != nil {
		t.Error(err)
	}
	if err := store.CheckDelete("job", ""); !errors.Is(err, store.ErrVersion) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("a zero version: %v", err)
	}
	if err := store.CheckDelete("job/", "1"); !errors.Is(err, store.ErrKey) {
		t.Errorf("an invalid key: %v", err)
	}
}
