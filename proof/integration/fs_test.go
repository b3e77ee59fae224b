package integration_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/holdfast-go/holdfast/object"
)

// TestFS: objects on real servers are files, and a directory is listed without what is
// below it.
func TestFS(t *testing.T) {
	names := []string{"top", "a/one", "a/two", "a/b/three", "a b/\u00fcn\u00ef+%", "a-b/four", "z/empty"}
	for name, server := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			b, err := target{Kind: "s3", S3: s, Space: s.NewBucket(t, false)}.bucket(nil)
			if err != nil {
				t.Fatal(err)
			}
			c, err := object.New(b, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				text := name // short: fstest reads from each offset on
				if name == "z/empty" {
					text = ""
				}
				if _, err := c.Put(t.Context(), name, strings.NewReader(text), nil); err != nil {
					t.Fatal(err)
				}
			}
			files := object.FS(t.Context(), c)
			if err := fstest.TestFS(files, names...); err != nil {
				t.Error(err)
			}
			if entries, err := fs.ReadDir(files, "."); err != nil || len(entries) != 5 {
				t.Errorf("got %v, %v", entries, err)
			}
			level := 0
			for _, err := range b.ListDir(t.Context(), "") {
				if level++; err != nil {
					t.Fatal(err)
				}
			}
			if level != 5 {
				t.Errorf("the server lists %d names", level)
			}
		})
	}
}
