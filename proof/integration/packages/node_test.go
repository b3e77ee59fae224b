package packages

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// registry serves the packages of a release as the registry of npm does, and counts which of them are fetched.
// A package that was not built has its entry, and no file.
type registry struct {
	*httptest.Server
	mu      sync.Mutex
	fetched []string
}

func newRegistry(t *testing.T, dist string) *registry {
	r := &registry{}
	mux := http.NewServeMux()
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	mux.HandleFunc("GET /files/{name}", func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.fetched = append(r.fetched, req.PathValue("name"))
		r.mu.Unlock()
		http.ServeFile(w, req, filepath.Join(dist, req.PathValue("name")))
	})
	packages := map[string]any{} // by name: a slash in a name is escaped in its address
	mux.HandleFunc("GET /{name}", func(w http.ResponseWriter, req *http.Request) {
		if entry, ok := packages[req.PathValue("name")]; ok {
			_ = json.NewEncoder(w).Encode(entry)
		} else {
			http.NotFound(w, req)
		}
	})
	add := func(file, text string, entry map[string]any) {
		hash := sha512.Sum512([]byte(text))
		entry["dist"] = map[string]string{"tarball": r.URL + "/files/" + file, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(hash[:])}
		name := entry["name"].(string)
		packages[name] = map[string]any{
			"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: entry},
		}
	}
	names := map[string]string{"holdfast-" + version + ".tgz": ""}
	for _, system := range systems {
		names["holdfast-go-"+ofNode.Replace(system)+"-"+version+".tgz"] = ofNode.Replace(system)
	}
	for file, system := range names {
		if matches, _ := filepath.Glob(filepath.Join(dist, file)); len(matches) == 0 {
			os, cpu, _ := strings.Cut(system, "-")
			add(file, "", map[string]any{"name": "@holdfast-go/" + system, "version": version, "os": []string{os}, "cpu": []string{cpu}})
			continue
		}
		text := read(t, filepath.Join(dist, file))
		var entry map[string]any
		if err := json.Unmarshal([]byte(entries(t, text)["package.json"]), &entry); err != nil {
			t.Fatal(err)
		}
		add(file, text, entry)
	}
	return r
}

// testNode installs the package for npm from a registry. npm fetches the programs of this system alone, and runs no
// script. It checks the types as a user's program has them, and runs such a program.
func testNode(t *testing.T, dist string) {
	registry := newRegistry(t, dist)
	project := t.TempDir()
	write(t, filepath.Join(project, "package.json"), "{\"private\": true, \"type\": \"module\"}")
	out(t, nil, "npm", "install", "--prefix", project, "--cache", t.TempDir(), "--registry", registry.URL, "--ignore-scripts", "--no-audit", "--no-fund", "holdfast")
	want := []string{"holdfast-" + version + ".tgz", "holdfast-go-" + ofNode.Replace(host) + "-" + version + ".tgz"}
	registry.mu.Lock()
	if slices.Sort(registry.fetched); !slices.Equal(registry.fetched, want) {
		t.Errorf("npm fetched %q, want %q", registry.fetched, want)
	}
	registry.mu.Unlock()
	for _, file := range want {
		content := entries(t, read(t, filepath.Join(dist, file)))
		if content["LICENSE"] == "" || strings.Contains(content["package.json"], "\"scripts\"") {
			t.Errorf("%s has no licence, or a script that runs at the installation", file)
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(project, "node_modules/.bin/holdfast")
	path := []string{"PATH=" + filepath.Dir(node) + ":/usr/bin:/bin"}
	testShim(t, path, command)

	tsc := func(file string) (string, error) {
		write(t, filepath.Join(project, file), read(t, "testdata/"+file))
		return try(t, nil, filepath.Join(tools(t), "node_modules/.bin/tsc"), "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "esnext,dom", filepath.Join(project, file))
	}
	if got, err := tsc("usage.mts"); err != nil {
		t.Fatalf("tsc: %v\n%s", err, got)
	}
	got := out(t, path, "node", filepath.Join(project, "usage.mjs"), "file:"+filepath.Join(t.TempDir(), "locks"))
	if want := filepath.Join(project, "node_modules/@holdfast-go", ofNode.Replace(host), "bin/holdfast") + "\ntrue false\nused\n"; got != want {
		t.Errorf("the program printed %q, want %q", got, want)
	}
	if got, err := tsc("wrong.mts"); err == nil || !strings.Contains(got, "'timeout'") || !strings.Contains(got, "'number'") {
		t.Errorf("tsc says this about a wrong program: %s", got)
	}
}

// testShim runs the command as npm installs it: it has the output, the exit status and the signals of the program.
func testShim(t *testing.T, path []string, command string) {
	store := "--store=file:" + filepath.Join(t.TempDir(), "locks")
	if got := out(t, path, command, "version"); !strings.Contains(got, "v"+version) {
		t.Errorf("holdfast version printed %q", got)
	}
	if _, err := try(t, path, command, "run", store, "job", "--", "sh", "-c", "exit 7"); err == nil || err.Error() != "exit status 7" {
		t.Errorf("the command ended with %v, want exit status 7", err)
	}
	// A supervisor stops the command, and the job ends in its own way.
	cmd := exec.CommandContext(t.Context(), command, "run", store, "job", "--", "sh", "-c", "trap 'echo told; exit 9' TERM; echo up; while :; do sleep 0.1; done")
	cmd.Env = append(os.Environ(), path...)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if last = lines.Text(); last == "up" {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	if err := cmd.Wait(); last != "told" || err == nil || err.Error() != "exit status 9" {
		t.Errorf("after TERM the command printed %q last, and ended with %v; want told, and exit status 9", last, err)
	}
}

// entries returns the files of a package for npm, by their names in it.
func entries(t *testing.T, text string) map[string]string {
	t.Helper()
	zipped, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(header.Name, "package/")] = string(text)
	}
}
