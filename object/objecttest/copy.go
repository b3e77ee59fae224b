package objecttest

import (
	"fmt"
	"maps"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

func (e *env) copy(source, destination string, opts *object.CopyOptions) object.Version {
	info, err := object.Copy(e.ctx, e.b, source, destination, opts)
	e.Must(fmt.Sprintf("copy %q to %q", source, destination), err)
	if info.Key != destination || info.Version == "" {
		e.Errorf("copy returns key %q, version %q", info.Key, info.Version)
	}
	return info.Version
}

func copyCases() []testCase {
	return []testCase{
		{"Copy", "Copy writes the body and the metadata of the source, and leaves the source as it is.", func(e *env) {
			e.needs(object.PlainCopy)
			meta := map[string]string{"k": "v"}
			v := e.put("dir/a b", "one", &object.PutOptions{ContentType: "text/plain", Headers: allHeaders, Metadata: meta})
			e.put("b", "old", nil)
			vb := e.copy("dir/a b", "b", nil)
			e.expect("dir/a b", v, "one")
			e.expect("b", vb, "one")
			if _, info := e.read("b", nil); info.ContentType != "text/plain" || info.Headers != allHeaders || !maps.Equal(info.Metadata, meta) {
				e.Errorf("got type %q, headers %+v and metadata %q", info.ContentType, info.Headers, info.Metadata)
			}
		}},
		{"CopyMetadata", "Copy can replace metadata, content type and headers.", func(e *env) {
			e.needs(object.PlainCopy)
			e.put("a", "one", &object.PutOptions{ContentType: "text/plain", Headers: object.Headers{CacheControl: "no-store"}, Metadata: map[string]string{"k": "v"}})
			meta := map[string]string{"copied-from": "a"}
			e.copy("a", "b", &object.CopyOptions{Metadata: meta, ContentType: "text/html", Headers: allHeaders})
			if got, info := e.read("b", nil); got != "one" || info.ContentType != "text/html" || info.Headers != allHeaders || !maps.Equal(info.Metadata, meta) {
				e.Errorf("got %q, type %q, headers %+v, metadata %q", got, info.ContentType, info.Headers, info.Metadata)
			}
		}},
		{"CopyAbsent", "Copying what does not exist is ErrNotFound, and writes nothing.", func(e *env) {
			e.needs(object.PlainCopy)
			_, err := object.Copy(e.ctx, e.b, "a", "b", nil)
			e.WantErr("the call", err, store.ErrNotFound)
			e.expectAbsent("b")
		}},
		{"CopySourceIfMatch", "Copy with a condition on the source copies that state and no other.", func(e *env) {
			e.needs(object.CopySource)
			old := e.put("a", "one", nil)
			v := e.put("a", "two", nil)
			e.conflict("a copy of an old state", e.tryCopy(&object.CopyOptions{SourceIfMatch: old})(e.ctx))
			e.expectAbsent("b")
			vb := e.copy("a", "b", &object.CopyOptions{SourceIfMatch: v})
			e.expect("b", vb, "two")
		}},
		{"CopyIfAbsent", "Copy with IfAbsent never overwrites (servers ignore the condition on copies).", func(e *env) {
			e.needs(object.CopyIfAbsent)
			e.put("a", "one", nil)
			vb := e.copy("a", "b", &object.CopyOptions{IfAbsent: true})
			e.put("a", "two", nil)
			e.conflict("a second copy", e.tryCopy(&object.CopyOptions{IfAbsent: true})(e.ctx))
			e.expect("b", vb, "one")
		}},
		{"CopyIfMatch", "Copy with IfMatch replaces the state it names and no other.", func(e *env) {
			e.needs(object.CopyIfMatch)
			e.put("a", "one", nil)
			old := e.put("b", "two", nil)
			v := e.put("b", "three", nil)
			e.conflict("a copy over an old state", e.tryCopy(&object.CopyOptions{IfMatch: old})(e.ctx))
			e.expect("b", v, "three")
			vb := e.copy("a", "b", &object.CopyOptions{IfMatch: v})
			e.expect("b", vb, "one")
			e.delete("b")
			e.conflict("a copy over what was deleted", e.tryCopy(&object.CopyOptions{IfMatch: vb})(e.ctx))
			e.expectAbsent("b")
		}},
	}
}
