package objecttest

import (
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

func basicCases() []testCase {
	return []testCase{
		{"GetAbsent", "Get and Stat of what does not exist return an error that matches ErrNotFound.", func(e *env) {
			e.expectAbsent("a")
			e.WantErr("stat", suitetest.ErrOf(e.other.Stat(e.ctx, "a")), store.ErrNotFound)
		}},
		{"PutGet", "Get returns what Put wrote, with the version that Put returned.", func(e *env) {
			v := e.put("a", "one", nil)
			e.expect("a", v, "one")
		}},
		{"Overwrite", "Put without a condition replaces what is there, with a new version.", func(e *env) {
			v1 := e.put("a", "one", nil)
			v2 := e.put("a", "two", nil)
			if v1 == v2 {
				e.Errorf("two bodies have the same version %q", v1)
			}
			e.expect("a", v2, "two")
		}},
		{"EmptyBody", "A body may be empty.", func(e *env) {
			v := e.put("a", "", nil)
			e.expect("a", v, "")
		}},
		{"LargeBody", "A body may be large, and comes back byte for byte.", func(e *env) {
			body := e.large()
			v := e.put("a", body, nil)
			e.expect("a", v, body)
		}},
		{"Stat", "Stat returns the same description as Get.", caseStat},
		{"Metadata", "Content type and metadata are kept, and replaced with the body.", func(e *env) {
			meta := map[string]string{"origin": "here and there", "write-id": "x1", "update_at": "2026-11-22T01:40:00", "path": "a/b=c;d,e"}
			e.put("a", "one", &object.PutOptions{ContentType: "text/plain", Metadata: meta})
			_, info := e.read("a", nil)
			if info.ContentType != "text/plain" || !maps.Equal(info.Metadata, meta) {
				e.Errorf("got type %q and metadata %q, want text/plain and %q", info.ContentType, info.Metadata, meta)
			}
			e.put("a", "two", nil)
			if _, info := e.read("a", nil); len(info.Metadata) != 0 || info.ContentType == "text/plain" {
				e.Errorf("a put without content type and metadata replaced the object, but it still has type %q, metadata %q", info.ContentType, info.Metadata)
			}
		}},
		{"Headers", "The headers are kept, with a large body too, and replaced with it; a body is not decoded.", func(e *env) {
			for _, body := range []string{"not in fact gzip", e.large()} {
				e.put("a", body, &object.PutOptions{Headers: allHeaders})
				got, info := e.read("a", nil)
				if stat, err := e.other.Stat(e.ctx, "a"); got != body || info.Headers != allHeaders || err != nil || stat.Headers != allHeaders {
					e.Errorf("got %d of %d bytes with %+v, and from stat %+v, %v; want %+v", len(got), len(body), info.Headers, stat.Headers, err, allHeaders)
				}
			}
			e.put("a", "two", nil)
			if _, info := e.read("a", nil); info.Headers != (object.Headers{}) {
				e.Errorf("a put without headers replaced the object, but it still has %+v", info.Headers)
			}
		}},
		{"LargeMetadata", "A large body keeps its metadata too.", func(e *env) {
			meta := map[string]string{"origin": "here", "update_at": "now"}
			e.put("a", e.large(), &object.PutOptions{ContentType: "text/plain", Metadata: meta})
			if _, info := e.read("a", nil); info.ContentType != "text/plain" || !maps.Equal(info.Metadata, meta) {
				e.Errorf("got type %q and metadata %q", info.ContentType, info.Metadata)
			}
		}},
		{"Delete", "Delete removes an object.", func(e *env) {
			e.put("a", "one", nil)
			e.put("ab", "two", nil)
			e.OK("delete", e.b.Delete(e.ctx, "a", nil))
			e.expectAbsent("a")
			if got := e.list("", nil); len(got) != 1 || got[0] != "ab" {
				e.Errorf("the listing shows %q", got)
			}
		}},
		{"DeleteAbsent", "Deleting without a condition what does not exist succeeds.", func(e *env) {
			e.OK("delete", e.b.Delete(e.ctx, "a", nil))
		}},
		{"Keys", "A key is any text that the rules allow, and nothing is taken for a pattern or a path.", func(e *env) {
			keys := []string{
				"a", "a.txt", "with space", "per%cent", "per%25cent", "plus+plus", "q?x=1&y=2", "#hash", "a=b", "~tilde", "*star*",
				"[range]", "\u00e9", "e\u0301", "日本語/キー", "quote\"'", "dir/sub/leaf", "dir/sub-2/leaf", "DIR/SUB/LEAF", "<xml>&amp;", "semi;colon:colon@at,comma",
				strings.Repeat("x", 200) + "/" + strings.Repeat("y", 200),
			}
			versions := make(map[string]object.Version)
			for _, key := range keys {
				versions[key] = e.put(key, "body of "+key, nil)
			}
			for _, key := range keys {
				e.expect(key, versions[key], "body of "+key)
			}
			if got := e.list("", nil); len(got) != len(keys) {
				e.Errorf("the listing has %d keys, want %d: %q", len(got), len(keys), got)
			}
			for _, key := range e.list("", nil) {
				if _, ok := versions[key]; !ok {
					e.Errorf("the listing shows %q, which was never written", key)
				}
			}
		}},
	}
}

// allHeaders has a value for each header.
var allHeaders = object.Headers{
	CacheControl: "max-age=60, public", ContentDisposition: `attachment; filename="a b.txt"`, ContentEncoding: "gzip", ContentLanguage: "en, de",
}

// large returns a body that cannot be compressed into a small one.
func (e *env) large() string {
	r := rand.NewChaCha8([32]byte{1})
	body := make([]byte, e.Large)
	_, _ = r.Read(body)
	return string(body)
}

func caseStat(e *env) {
	put := e.putInfo("a", "twelve bytes", &object.PutOptions{ContentType: "text/plain", Metadata: map[string]string{"k": "v"}})
	info, err := e.other.Stat(e.ctx, "a")
	e.Must("stat", err)
	_, got := e.read("a", nil)
	if info.Version != put.Version || info.Size != 12 || info.Key != "a" {
		e.Errorf("stat: key %q, version %q, size %d; put returned version %q", info.Key, info.Version, info.Size, put.Version)
	}
	if info.ContentType != got.ContentType || !maps.Equal(info.Metadata, got.Metadata) || !info.Modified.Equal(got.Modified) {
		e.Errorf("stat and get differ: %+v, %+v", info, got)
	}
	if info.Modified.IsZero() {
		e.Errorf("stat: no time of the change")
	}
	// The clocks of the store may be wrong, but not against each other. An upload
	// may carry the time of its start.
	if !info.Now.IsZero() && info.Modified.After(info.Now.Add(2*time.Second)) {
		e.Errorf("stat: changed at %v, which is after the store's now, %v", info.Modified, info.Now)
	}
}
