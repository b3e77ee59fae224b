package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNamesWhatIsInIt: the list names the binary by its hash, the version of Go, and
// each module in it with version and hash, and is the same each time.
func TestNamesWhatIsInIt(t *testing.T) {
	// A binary with dependencies.
	path := filepath.Join(t.TempDir(), "holdfast")
	build := exec.Command("go", "build", "-o", path, "../../cmd/holdfast-stores")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := run([]string{"v0.0.1", path}, out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two lists of one binary differ")
	}
	var doc document
	if err := json.Unmarshal(first.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	find := func(name string) part {
		i := slices.IndexFunc(doc.Packages, func(p part) bool { return p.Name == name })
		if i < 0 {
			t.Fatalf("there is no %s in the list", name)
		}
		return doc.Packages[i]
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	binary := find(filepath.ToSlash(path))
	if len(binary.Checksums) != 1 || binary.Checksums[0].Value != hex.EncodeToString(sum[:]) {
		t.Errorf("the hash of the binary is %v, want %x", binary.Checksums, sum)
	}
	if got, want := "go"+find("stdlib").VersionInfo, info.GoVersion; got != want {
		t.Errorf("built by %s, want %s", got, want)
	}
	count := 0
	for _, dep := range info.Deps {
		if strings.HasPrefix(dep.Path, "github.com/holdfast-go/") {
			continue
		}
		count++
		m := find(dep.Path)
		if m.VersionInfo != dep.Version || !strings.Contains(m.Comment, dep.Sum) {
			t.Errorf("%s: version %s, %q; want %s, %s", dep.Path, m.VersionInfo, m.Comment, dep.Version, dep.Sum)
		}
		if !slices.Contains(doc.Relationships, relationship{binary.SPDXID, "DEPENDS_ON", m.SPDXID}) {
			t.Errorf("the binary does not depend on %s", dep.Path)
		}
	}
	if count < 10 {
		t.Errorf("%d modules, want more", count)
	}
	// The licences of all of them, and of Go, each with a text.
	var licenses bytes.Buffer
	if err := run([]string{"licenses", path}, &licenses); err != nil {
		t.Fatal(err)
	}
	for _, dep := range linked(info) {
		if !strings.Contains(licenses.String(), "\n==== "+dep.Path+" "+dep.Version+": ") {
			t.Errorf("the licence of %s is missing", dep.Path)
		}
	}
	for _, text := range []string{"==== Go: LICENSE\n\nCopyright 2009 The Go Authors.", "Apache License", "SQLite"} {
		if !strings.Contains(licenses.String(), text) {
			t.Errorf("the licences lack %q", text)
		}
	}
	if err := run([]string{"v0.0.1", "main.go"}, &first); err == nil {
		t.Error("a file that is no binary got a list")
	}
}

// TestReleaseNamesItsGo: the Go that builds a release is part of its commit.
func TestReleaseNamesItsGo(t *testing.T) {
	script, err := os.ReadFile("../release.sh")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^export GOTOOLCHAIN=go1\.\d+\.\d+$`).Match(script) {
		t.Error("internal/release.sh names no exact version of Go")
	}
}
