package storetest

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// keyCases are the rules of keys: every valid key is accepted, and is a register of its
// own.
func keyCases() []testCase {
	distinct := func(keys ...string) func(e *env) {
		return func(e *env) { e.distinct(keys) }
	}
	return []testCase{
		{"KeyCase", "Keys that differ only in upper and lower case are two registers, also on a system that ignores case.",
			distinct("job", "Job", "JOB", "jOb", "dir/x", "DIR/x", "dir/X", "ä", "Ä", "straße", "STRASSE", "i", "I", "ı", "İ", "k", "\u212a")},
		{"KeyUnicode", "A key can be any valid UTF-8. Keys are compared byte by byte: the composed and the decomposed form of a letter are two registers.",
			distinct("é", "e\u0301", "e", "日本/語", "日本", "🔒", "🔒/🔑", "\u202egnp", "a\u200bb", "ab", "\ufeffbom", "\ufffd", "\U0010ffff", "ﬁ", "fi", "Å", "Å", "עברית", "a\u00a0b", "a b")},
		{"KeyControl", "Keys may contain control characters.",
			distinct("a\nb", "a\rb", "a\r\nb", "a\tb", "a\x00b", "\x00", "\x00\x00", "\n", "\x1b[31m", "\x7f", "a\x01", "a\x1f", "\u0085", "\u2028")},
		{"KeyPunctuation", "Keys may contain every printable character.",
			distinct(`a\b`, `a\..\b`, "a:b", "a*b", "a?b", `a"b`, "a'b", "a<b", "a>b", "a|b", "a&b", "a=b", "a+b", "a;b", "a,b", "a#b", "a@b", "a!b", "a$b", "$(x)", "`x`", "a^b", "a~b",
				"a[b]", "a{b}", "a(b)", "~", "-", "--", "-rf", "_", "__", "*", "?", "s3:x", "c:", "c:x", "%", "a%b", "a%%b", "'; DROP TABLE x; --", "a_b", "axb")},
		{"KeySpaces", "Spaces and dots are a part of the key, also at its end. (Some systems remove them there.)",
			distinct("job", "job ", " job", "job.", "job..", ".job", "..job", "job. ", "job .", " ", "  ", "...", "....", "a /b", "a/b", "a/ b", "a./b", "a/.b", "jo b", "jo  b", ". ", " .", "job.txt", "job.txt.")},
		{"KeyReserved", "Names that an operating system reserves are ordinary keys.",
			distinct("CON", "con", "NUL", "nul.txt", "AUX", "aux.json", "PRN", "COM1", "LPT9", "CON/x", "x/NUL", "CONIN$", "CLOCK$", "lost+found", ".git", ".git/config", ".DS_Store", "Thumbs.db", "desktop.ini", "$Recycle.Bin",
				".nfs000000001", ".fuse_hidden01", ".snapshot", "__proto__", "constructor", "null", "true", "0", "-1", "NaN", "undefined", "None")},
		{"KeyPrefixOfKey", "A key may be the beginning of another, with and without a slash: `a` and `a/b`, `job` and `job-2`. (A listing by string prefix finds `job-2` below `job`.)",
			distinct("a", "a/b", "a/b/c", "a/b/c/d", "a/bc", "ab", "a-b", "a.b", "a b", "a\x00", "a!", "a0", "job", "job-2", "job2", "job/2", "job-", "job-2/x", "jo", "j", "a/b-", "a/b.")},
		{"KeyLikeEncoding", "A key that looks like the escaped form of another key is a separate register.",
			distinct("a/b", "a%2Fb", "a%2fb", "a%252Fb", "a%5Cb", `a\b`, "a+b", "a%20b", "a b", "a_b", "a=2Fb", "a_2Fb", "a__b", "a~2Fb", "a!2Fb", "a$2Fb", "a,2Fb", "a@b", "%41", "A", "%61", "a", "&#97;", "\\x61", "\\u0061", "b64:YQ", "YQ", "YQ==", "%", "%2", "%25", "=", "=3D", "_5F", "_", "~7E", "xn--bcher-kva", "bücher", "\u00ff", "%FF", "%C3%BF", "..%2f", "%2e%2e", "%2e", "%00", "%")},
		{"KeyLikeInternals", "A key that looks like an internal name of a store is an ordinary register.",
			distinct("k", "k/a", "alive", "alive/x", "tmp", ".tmp", "tmp-1", ".tmp-123", "x.tmp", "x.tmp/y", "x~", "#x#", "x.lock", ".lock", "lock", "x/lock", "000000000001", "000000000001/x", "x/000000000001", "1", "x/1", "log", "x/log", "head", "base", "B", "V", "S",
				".holdfast", ".holdfast/x", "state.json", "index", "meta", "tombstone", "x/.tombstone", "deleted", "version", "LATEST", "x/LATEST", "_", "_x", "x/_", "value", "null")},
		{"KeyLongest", "A key has up to 512 bytes, and every byte distinguishes it from other keys.", caseKeyLongest},
		{"KeyDeep", "A key may have any number of segments of any length, up to the longest key.", func(e *env) {
			n := e.MaxKey
			deep := strings.Repeat("a/", (n-1)/2) + "a"
			e.distinct([]string{
				deep, deep[:len(deep)-2], "a", "a/a", strings.Repeat("d", n/2) + "/" + strings.Repeat("e", n-n/2-1), strings.Repeat("d", n/2),
				strings.Repeat("x", min(n, 255)), strings.Repeat("x", min(n, 256)), strings.Repeat("x", min(n, 257)), strings.Repeat("ab/", n/3-1) + "ab", strings.Repeat("%/", n/2-1) + "%",
			})
		}},
		{"KeyInvalid", "Every operation refuses an invalid key with ErrKey, and changes nothing.", caseKeyInvalid},
	}
}

func caseKeyLongest(e *env) {
	n := e.MaxKey
	fill := func(unit string) string {
		return strings.Repeat(unit, n/len(unit)) + strings.Repeat("x", n%len(unit))
	}
	end := strings.Repeat("x", n-1)
	e.distinct([]string{
		fill("x"), end + "y", end + "X", end, "y" + end,
		fill("ü"), fill("日"), fill("🔒"), fill("%"), fill(" "), fill("\x01"), fill("\n"), fill("A"), fill("\\"), fill("ab/cd"), fill("Ü"),
	})
}

func caseKeyInvalid(e *env) {
	v := e.create("job", "one")
	invalid := []string{
		"", "/", "//", "/job", "job/", "job//x", "job/./x", "job/../job", ".", "..", "./job", "../job", "job/.", "job/..",
		"\xff", "job\xc3", "job/\xed\xa0\x80", "\xc0\xaf", strings.Repeat("x", store.MaxKey+1), strings.Repeat("ü", store.MaxKey/2) + "x",
	}
	for _, key := range invalid {
		_, _, err := e.s.Get(e.ctx, key)
		e.wantErrKey("get", key, err)
		_, err = e.s.Put(e.ctx, key, "", []byte("wrong"))
		e.wantErrKey("create", key, err)
		_, err = e.s.Put(e.ctx, key, v, []byte("wrong"))
		e.wantErrKey("put", key, err)
		e.wantErrKey("delete", key, e.s.Delete(e.ctx, key, v))
	}
	e.expect("job", v, "one")
}

func (e *env) wantErrKey(what, key string, err error) {
	e.WantRefused(fmt.Sprintf("%s with the invalid key %.40q", what, key), err, store.ErrKey)
}

// distinct checks that the store accepts each key as a register of its own, through
// creation, swap, deletion and another creation. Keys named twice count once.
func (e *env) distinct(keys []string) {
	type register struct {
		key, value string
		v          store.Version
	}
	var all []*register
	seen := make(map[string]bool)
	for _, key := range keys {
		if seen[key] {
			continue
		}
		seen[key] = true
		e.Must("the suite uses an invalid key", store.CheckKey(key))
		all = append(all, &register{key: key, value: fmt.Sprintf("of %q", key)})
	}
	check := func() {
		e.each(len(all), func(i int) { e.expect(all[i].key, all[i].v, all[i].value) })
	}
	e.each(len(all), func(i int) {
		r := all[i]
		if other := e.state(r.key); other.Version != "" {
			e.Fatalf("%q exists before the suite created it, with the value of %s", r.key, show(other.Value))
		}
		r.v = e.create(r.key, r.value)
	})
	check()
	e.each(len(all), func(i int) {
		r := all[i]
		switch i % 3 {
		case 0:
			r.value += ", again"
			r.v = e.put(r.key, r.v, r.value)
		case 1:
			e.delete(r.key, r.v)
			r.value, r.v = "", ""
		}
	})
	check()
	e.each(len(all), func(i int) {
		if r := all[i]; i%3 == 1 {
			r.value = "anew"
			r.v = e.create(r.key, r.value)
		}
	})
	check()
}
