// Package site tests the site that internal/site.sh builds, and the pictures in the documents.
package site

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

const (
	root = "../../.."
	md   = ".md" // apart from the names here, which TestReferences would look up
)

// siteScript runs internal/site.sh of a tree, and returns what it prints.
func siteScript(t *testing.T, tree, argument string) (string, error) {
	t.Helper()
	suitetest.NeedProgram(t, "npm")
	suitetest.NeedProgram(t, "node")
	if out, err := exec.CommandContext(t.Context(), "python3", "-m", "pip", "--version").CombinedOutput(); err != nil {
		suitetest.Missing(t, "this test needs python3 with pip: "+err.Error()+": "+string(out))
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(tree, "internal/site.sh"), argument)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	return out.String() + problems.String(), err // --tools prints one line first
}

// documents returns the names of the Markdown files of the repository.
func documents(t *testing.T) (names []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

var foreign = regexp.MustCompile(`<(?:script|img|iframe)[^>]*\ssrc="?(?:https?:)?//|<link[^>]*\shref="?(?:https?:)?//`)

// TestSite builds the site. The generator refuses links and anchors that lead nowhere. Each
// document has a page that the search knows, and no page loads anything from another host.
func TestSite(t *testing.T) {
	built := filepath.Join(t.TempDir(), "site")
	if out, err := siteScript(t, root, built); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	index, err := os.ReadFile(filepath.Join(built, "search/search_index.js"))
	if err != nil {
		t.Fatal(err)
	}
	names := documents(t)
	if len(names) < 15 {
		t.Errorf("git knows %d documents only", len(names))
	}
	for _, name := range names {
		page := strings.TrimSuffix(name, md) + ".html"
		if dir, isReadme := strings.CutSuffix(name, "README.md"); isReadme { // the index of its directory
			page = dir + "index.html"
		}
		text, err := os.ReadFile(filepath.Join(built, page))
		if err != nil {
			t.Error(err)
		}
		if found := foreign.Find(text); found != nil {
			t.Errorf("%s loads from another host: %s", page, found)
		}
		if !bytes.Contains(index, []byte(`"location":"`+page+`"`)) {
			t.Errorf("the search does not know %s", page)
		}
	}
	for _, name := range []string{"assets/npm/mermaid.js", "assets/npm/iframe-worker.js", "THIRD-PARTY-LICENSES"} {
		if info, err := os.Stat(filepath.Join(built, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, or it is empty", name, err)
		}
	}
}

// TestSiteNotices is the control: the generator refuses a copy of the repository with faults.
func TestSiteNotices(t *testing.T) {
	tree := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "docs" && name != "internal" {
			if err := os.Symlink(filepath.Join(absolute, name), filepath.Join(tree, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"docs", "internal/site"} {
		if err := os.CopyFS(filepath.Join(tree, name), os.DirFS(filepath.Join(root, name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"internal/site.sh", "internal/modules.sh"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		addTo(t, filepath.Join(tree, name), string(text))
	}
	addTo(t, filepath.Join(tree, "docs/stores.md"), "\n[a](missing"+md+") [b](../missing.go) [c](safety"+md+"#missing) [d](../missing/)\n")
	addTo(t, filepath.Join(tree, "docs/forgotten"+md), "# A page that is not in the list of contents\n")
	out, err := siteScript(t, tree, filepath.Join(t.TempDir(), "site"))
	if err == nil {
		t.Error("a site with faults was built")
	}
	for _, fault := range []string{"'missing" + md + "'", "'../missing.go'", "'safety" + md + "#missing'", "'../missing/'", "forgotten" + md} {
		if !strings.Contains(out, fault) {
			t.Errorf("%s was not noticed", fault)
		}
	}
	if n := strings.Count(out, "WARNING"); n != 5 || t.Failed() {
		t.Errorf("%d warnings, want 5. The generator said:\n%s", n, out)
	}
}

// parsePictures runs the parser of Mermaid over the pictures in some files, and returns what
// it prints.
func parsePictures(t *testing.T, files ...string) (string, error) {
	t.Helper()
	tools, err := siteScript(t, root, "--tools")
	if err != nil {
		t.Fatalf("%v\n%s", err, tools)
	}
	lines := strings.Split(strings.TrimSpace(tools), "\n")
	modules := filepath.Join(lines[0], "node_modules")
	out, err := exec.CommandContext(t.Context(), "node", append([]string{root + "/internal/site/mermaid.mjs", modules}, files...)...).CombinedOutput()
	return string(out), err
}

// TestPictures runs the parser over each picture in the documents.
func TestPictures(t *testing.T) {
	names := documents(t)
	pictures := 0
	for i, name := range names {
		names[i] = filepath.Join(root, name)
		text, err := os.ReadFile(names[i])
		if err != nil {
			t.Fatal(err)
		}
		pictures += bytes.Count(text, []byte("```mermaid"))
	}
	out, err := parsePictures(t, names...)
	if want := fmt.Sprintln(pictures); err != nil || out != want || pictures == 0 {
		t.Errorf("%v: the parser said %q, want %q", err, out, want)
	}
}

// TestPicturesNotices is the control.
func TestPicturesNotices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad"+md)
	addTo(t, file, "# A\n\n```mermaid\nflowchart TD\n  a[x --> b\n```\n\n```mermaid\nflowchart TD\n  a --> b\n```\n\n"+
		"```mermaid\nsequenceDiagram\n  A->>: x\n```\n\n```mermaid\ngantt\n  dateFormat ss.S\n  a :00.0, 30.0\n```\n")
	out, err := parsePictures(t, file)
	if err == nil {
		t.Error("broken pictures were accepted")
	}
	for line, broken := range map[int]bool{3: true, 8: false, 13: true, 18: true} {
		if got := strings.Contains(out, fmt.Sprintf("bad"+md+":%d: ", line)); got != broken {
			t.Errorf("line %d: noticed %t, want %t; the parser said:\n%s", line, got, broken, out)
		}
	}
}

func addTo(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
