package object_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/object"
)

// TestHeaders: everything that leaves an object in the place of another one keeps its
// headers, but for those that the caller gives.
func TestHeaders(t *testing.T) {
	all := object.Headers{CacheControl: "max-age=60", ContentDisposition: "inline", ContentEncoding: "gzip", ContentLanguage: "en"}
	other := all
	other.CacheControl = "no-cache"
	given := object.Headers{CacheControl: "no-cache"}
	for kind, open := range buckets() {
		for way, b := range map[string]object.Bucket{"copies": open(), "streams": struct{ object.Bucket }{open()}} {
			c := newClient(t, b, nil)
			made := func(what string, info object.Info, err error, key string, want object.Headers) {
				t.Helper()
				now, statErr := c.Stat(t.Context(), key)
				if err != nil || statErr != nil || info.Headers != want || now.Headers != want || now.ContentType != "text/plain" || now.Metadata["k"] != "v" {
					t.Errorf("%s, %s: %s: got %+v, %v and then %+v, %v; want %+v", kind, way, what, info, err, now, statErr, want)
				}
			}
			info, err := c.Put(t.Context(), "a", body("1"), &object.WriteOptions{ContentType: "text/plain", Headers: all, Metadata: map[string]string{"k": "v"}})
			made("put", info, err, "a", all)
			info, err = c.Copy(t.Context(), "a", "b", nil)
			made("copy", info, err, "b", all)
			info, err = c.Copy(t.Context(), "a", "b", &object.WriteOptions{Headers: given})
			made("copy with another header", info, err, "b", other)
			renamed, err := c.Rename(t.Context(), "b", "c", nil)
			made("rename", renamed.Info, err, "c", other)
			info, err = c.Update(t.Context(), "c", increment, nil)
			made("update", info, err, "c", other)
			info, err = c.Update(t.Context(), "a", increment, &object.WriteOptions{Headers: given})
			made("update with another header", info, err, "a", other)
			info, err = c.Copy(t.Context(), "c", "d", &object.WriteOptions{ContentType: "text/html"})
			if err != nil || info.ContentType != "text/html" || info.Headers != other || info.Metadata["k"] != "v" {
				t.Errorf("%s, %s: a copy with another type: %+v, %v", kind, way, info, err)
			}
			if object.TraitsOf(b).UniqueVersions {
				info, err = c.RaiseFence(t.Context(), "a", object.Fence{Lock: "l", Token: 1})
				made("raise", info, err, "a", other)
			}
		}
	}
}
