//go:build linux

package items

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestProgressFile: what else is under the name is refused, at once and without reading
// much of it; a link is replaced, and not what it leads to.
func TestProgressFile(t *testing.T) {
	dir := t.TempDir()
	of := "a sweep of s3://b/p for x"
	valid := func(of string) []byte { text, _ := json.Marshal(progress{of, "k"}); return text }
	target := filepath.Join(dir, "target")
	for name, c := range map[string]struct {
		make func(path string) error
		want string // in the error; empty: it is read
	}{
		"nothing":     {func(string) error { return nil }, ""},
		"a file":      {func(p string) error { return os.WriteFile(p, valid(of), 0o600) }, ""},
		"another's":   {func(p string) error { return os.WriteFile(p, valid("a\x1b[2Jb"), 0o600) }, `a\x1b[2Jb`},
		"empty":       {func(p string) error { return os.WriteFile(p, nil, 0o600) }, "is not a progress file"},
		"huge":        {func(p string) error { return os.WriteFile(p, append(valid(of), make([]byte, 1<<20)...), 0o600) }, "is not a progress file"},
		"a pipe":      {func(p string) error { return syscall.Mkfifo(p, 0o600) }, "is not a progress file"},
		"a directory": {func(p string) error { return os.Mkdir(p, 0o700) }, "is not a progress file"},
		"a device":    {func(p string) error { return os.Symlink("/dev/zero", p) }, "is not a progress file"},
		"a link":      {func(p string) error { return os.Symlink(target, p) }, ""},
	} {
		if err := os.WriteFile(target, valid(of), 0o600); err != nil {
			t.Fatal(err)
		}
		p := progressFile{filepath.Join(dir, name), of}
		if err := c.make(p.name); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { _, err := p.read(); done <- err }()
		select {
		case err := <-done:
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				if err := p.write("next"); err != nil {
					t.Errorf("%s: writing: %v", name, err)
				}
				if at, err := p.read(); at != "next" || err != nil {
					t.Errorf("%s: reading back: %q, %v", name, at, err)
				}
				if err := p.done(); err != nil {
					t.Errorf("%s: removing: %v", name, err)
				}
				if text, _ := os.ReadFile(target); string(text) != string(valid(of)) {
					t.Errorf("%s: the target is now %q", name, text)
				}
			}
		case <-time.After(3 * time.Second):
			t.Errorf("%s: the reading does not return", name)
		}
	}
}
