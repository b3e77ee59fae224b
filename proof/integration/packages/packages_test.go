// Package packages tests what internal/release.sh makes: each package is installed from its file, with the program
// that its users have, and the installed command takes a lock.
package packages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

const (
	root    = "../../.."
	version = "0.0.1"
)

// All systems of a release, by the names that Go, npm and Homebrew have for them.
var (
	systems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}
	ofNode  = strings.NewReplacer("/amd64", "-x64", "/arm64", "-arm64", "windows", "win32")
	ofBrew  = strings.NewReplacer("darwin", "macos", "amd64", "intel", "arm64", "arm")
)

// host is this system, for which each test builds. A long campaign builds for all systems.
const host = runtime.GOOS + "/" + runtime.GOARCH

func whole() bool { return os.Getenv("HOLDFAST_TORTURE") != "" }

func built() []string {
	if whole() {
		return systems
	}
	return []string{host}
}

// TestPackages builds a release once, and tests its files.
func TestPackages(t *testing.T) {
	for _, program := range []string{"python3", "npm", "node", "dpkg", "apt-ftparchive", "rpm", "ruby", "gpg", "curl"} {
		suitetest.NeedProgram(t, program)
	}
	suitetest.NeedRoot(t, "the installation of a package")
	dist := release(t)
	for name, test := range map[string]func(*testing.T, string){
		"checksums": testChecksums, "archives": testArchives, "Python": testPython, "Node": testNode, "deb": testDeb, "rpm": testRPM,
		"apt": testApt, "Homebrew": testHomebrew, "Scoop": testScoop, "action": testAction,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, dist)
		})
	}
	if whole() {
		t.Run("the same bytes", func(t *testing.T) {
			if again := release(t); read(t, filepath.Join(again, "SHA256SUMS")) != read(t, filepath.Join(dist, "SHA256SUMS")) {
				t.Errorf("two releases of one commit differ:\n%s", out(t, nil, "diff", filepath.Join(dist, "SHA256SUMS"), filepath.Join(again, "SHA256SUMS")))
			}
		})
	}
}

// release makes the packages, and returns the directory with them.
func release(t *testing.T) string {
	t.Helper()
	dist := filepath.Join(t.TempDir(), "dist")
	args := []string{filepath.Join(root, "internal/release.sh"), "v" + version}
	if !whole() {
		args = append(args, built()...)
	}
	out(t, []string{"RELEASE_DIST=" + dist}, "bash", args...)
	return dist
}

// try runs a program with variables added to its environment, and returns all that it prints.
func try(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// out runs a program that must succeed.
func out(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	text, err := try(t, env, name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, text)
	}
	return text
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// files returns the names of the files in a directory, and in those below it.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	for line := range strings.Lines(out(t, nil, "find", dir, "-type", "f", "-printf", "%P\n")) {
		names = append(names, strings.TrimSpace(line))
	}
	return names
}

// wants reports which names are missing.
func wants(t *testing.T, names []string, want ...string) {
	t.Helper()
	for _, name := range want {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing; there are %d other files", name, len(names))
		}
	}
}

var tokenLine = regexp.MustCompile(`(?m)^token [1-9]\d*$`)

// works checks that an installed command has the version of the release, takes a lock, and finds the program with the
// other stores in its directory.
func works(t *testing.T, command string) {
	t.Helper()
	store := filepath.Join(t.TempDir(), "locks")
	env := []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
	if got := out(t, env, command, "version"); strings.Count(got, "v"+version) < 1 {
		t.Errorf("%s has the version %s", command, got)
	}
	for _, scheme := range []string{"file:", "sqlite:"} {
		if scheme == "sqlite:" {
			out(t, env, command, "init", "--store", scheme+store)
		}
		got := out(t, env, command, "run", "--store", scheme+store, "job", "--", "sh", "-c", "echo token $HOLDFAST_TOKEN")
		if !tokenLine.MatchString(got) {
			t.Errorf("%s run on %s printed %q", command, scheme, got)
		}
		store += ".db"
	}
}

func unpack(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	out(t, nil, "tar", "-xzf", archive, "-C", dir)
	return dir
}

// folder is the name of the archive of a system, and of the folder in it.
func folder(system string) string {
	return "holdfast_" + version + "_" + strings.ReplaceAll(system, "/", "_")
}

func testChecksums(t *testing.T, dist string) {
	for _, name := range files(t, dist) {
		sum := sha256.Sum256([]byte(read(t, filepath.Join(dist, name))))
		if name != "SHA256SUMS" && !strings.Contains(read(t, filepath.Join(dist, "SHA256SUMS")), hex.EncodeToString(sum[:])+"  "+name+"\n") {
			t.Errorf("SHA256SUMS lacks %s, or its checksum", name)
		}
	}
	wants(t, files(t, dist), "holdfast_"+version+".spdx.json")
}

// The files that an administrator reads and pastes are in each archive, and in each package of a system, at the
// place to which the documents link.
var documents = []string{"README.md", "CHANGELOG.md", "SECURITY.md", "THIRD-PARTY-LICENSES", "docs/security.md", "policies/README.md"}

func testArchives(t *testing.T, dist string) {
	for _, system := range built() {
		dir := filepath.Join(unpack(t, filepath.Join(dist, folder(system)+".tar.gz")), folder(system))
		names := files(t, dir)
		wants(t, names, append([]string{"LICENSE", "man/holdfast-run.1", "completions/holdfast.bash", "completions/holdfast.zsh", "completions/holdfast.fish"}, documents...)...)
		if system == host {
			works(t, filepath.Join(dir, "holdfast"))
		}
	}
}

// testPython installs the wheel for this system without a network, checks the types as a user's program has them, and
// runs such a program.
func testPython(t *testing.T, dist string) {
	wheels, _ := filepath.Glob(filepath.Join(dist, "*.whl"))
	if len(wheels) != len(built()) {
		t.Errorf("wheels: %q", wheels)
	}
	venv := filepath.Join(t.TempDir(), "venv")
	out(t, nil, "python3", "-m", "venv", "--without-pip", venv)
	python := filepath.Join(venv, "bin/python")
	install := []string{"-m", "pip", "--python", python, "--isolated", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links", dist}
	out(t, nil, "python3", append(install, "holdfast-locks=="+version)...)
	command := filepath.Join(venv, "bin/holdfast")
	works(t, command)

	env := []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "PYTHONPATH="}
	got := out(t, env, python, "testdata/usage.py", "file:"+filepath.Join(t.TempDir(), "locks"))
	if !strings.HasPrefix(got, command+" "+venv) || !strings.HasSuffix(got, "\nTrue\n") {
		t.Errorf("the program printed %q, want the command %s", got, command)
	}
	// A package in a directory of its own finds its own command, too.
	target := t.TempDir()
	out(t, nil, "python3", append(install, "--target", target, "holdfast-locks=="+version)...)
	got = out(t, append(env, "PYTHONPATH="+target), "python3", "testdata/usage.py", "file:"+filepath.Join(t.TempDir(), "locks"))
	if !strings.HasPrefix(got, filepath.Join(target, "bin/holdfast")+" "+target) {
		t.Errorf("the program printed %q, want the command in %s", got, target)
	}

	mypy := func(file string) (string, error) {
		env := []string{"PYTHONPATH=" + filepath.Join(tools(t), "python")}
		return try(t, env, "python3", "-m", "mypy", "--strict", "--cache-dir", os.DevNull, "--python-executable", python, file)
	}
	for _, file := range []string{"testdata/usage.py", filepath.Join(root, "clients/python/src/holdfast")} {
		if got, err := mypy(file); err != nil {
			t.Errorf("mypy of %s: %v\n%s", file, err, got)
		}
	}
	if got, _ := mypy("testdata/wrong.py"); !strings.Contains(got, `"timeout"`) || !strings.Contains(got, `has type "int"`) {
		t.Errorf("mypy says this about a wrong program: %s", got)
	}
	if got, _ := try(t, nil, "python3", append(install, "--force-reinstall", "--platform", "plan9", "--only-binary", ":all:", "--target", t.TempDir(), "holdfast-locks")...); !strings.Contains(got, "No matching distribution") {
		t.Errorf("a system without a release got a package: %s", got)
	}
}

// tools returns the directory of what checks types.
func tools(t *testing.T) string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "bash", "-c", "cd "+root+" && . internal/modules.sh && fetched packages").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// testDeb installs the package for Debian into a directory, and removes it again.
func testDeb(t *testing.T, dist string) {
	dir := t.TempDir()
	for _, name := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "var/lib/dpkg/status"), "")
	file := filepath.Join(dist, fmt.Sprintf("holdfast_%s_%s.deb", version, runtime.GOARCH))
	out(t, nil, "dpkg", "--root="+dir, "--install", file)
	names := files(t, dir)
	wants(t, names, "usr/bin/holdfast-stores", "usr/share/man/man1/holdfast-run.1.gz", "usr/share/man/man5/holdfast.conf.5.gz", "usr/share/doc/holdfast/copyright",
		"usr/share/bash-completion/completions/holdfast", "usr/share/zsh/vendor-completions/_holdfast", "usr/share/fish/vendor_completions.d/holdfast.fish")
	for _, name := range documents {
		wants(t, names, "usr/share/doc/holdfast/"+name)
	}
	works(t, filepath.Join(dir, "usr/bin/holdfast"))
	fields := out(t, nil, "dpkg-deb", "--field", file)
	for _, want := range []string{"Package: holdfast\n", "Version: " + version + "\n", "Recommends: ca-certificates\n"} {
		if !strings.Contains(fields, want) {
			t.Errorf("the package lacks %q:\n%s", want, fields)
		}
	}
	out(t, nil, "dpkg", "--root="+dir, "--purge", "holdfast")
	if names := slices.DeleteFunc(files(t, dir), func(name string) bool { return strings.HasPrefix(name, "var/") }); len(names) > 0 {
		t.Errorf("after the removal there are still %q", names)
	}
}

func testRPM(t *testing.T, dist string) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	file := filepath.Join(dist, fmt.Sprintf("holdfast-%s-1.%s.rpm", version, arch))
	if got := out(t, nil, "rpm", "--checksig", "--nosignature", file); !strings.Contains(got, "digests OK") {
		t.Errorf("rpm --checksig: %s", got)
	}
	if got, want := out(t, nil, "rpm", "-qp", "--queryformat", "%{NAME} %{VERSION} %{ARCH} %{LICENSE}", file), "holdfast "+version+" "+arch+" Apache-2.0"; got != want {
		t.Errorf("rpm -qp says %q, want %q", got, want)
	}
	dir := t.TempDir()
	out(t, nil, "rpm", "--root", dir, "--initdb")
	out(t, nil, "rpm", "--root", dir, "--install", "--nosignature", file)
	names := files(t, dir)
	wants(t, names, "usr/bin/holdfast-stores", "usr/share/man/man1/holdfast-run.1.gz", "usr/share/licenses/holdfast/LICENSE",
		"usr/share/bash-completion/completions/holdfast", "usr/share/zsh/site-functions/_holdfast", "usr/share/fish/vendor_completions.d/holdfast.fish")
	for _, name := range documents {
		wants(t, names, "usr/share/doc/holdfast/"+name)
	}
	works(t, filepath.Join(dir, "usr/bin/holdfast"))
	if got, err := try(t, nil, "rpm", "--root", dir, "--verify", "--nouser", "--nogroup", "holdfast"); err != nil {
		t.Errorf("rpm --verify: %s", got)
	}
	// The control: rpm notices an altered package.
	damaged := filepath.Join(t.TempDir(), "damaged.rpm")
	text := read(t, file)
	write(t, damaged, text[:len(text)-1]+string(text[len(text)-1]^1))
	if got, err := try(t, nil, "rpm", "--checksig", "--nosignature", damaged); err == nil {
		t.Errorf("rpm accepts an altered package: %s", got)
	}
}

// testApt installs the package from the repository that the release is, with its list signed as by who publishes it.
func testApt(t *testing.T, dist string) {
	repository := filepath.Join(t.TempDir(), "repository")
	for _, name := range []string{"Packages", "Release", fmt.Sprintf("holdfast_%s_%s.deb", version, runtime.GOARCH)} {
		if err := os.MkdirAll(repository, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(repository, name), read(t, filepath.Join(dist, name)))
	}
	home := []string{"GNUPGHOME=" + t.TempDir()}
	key := filepath.Join(t.TempDir(), "holdfast.asc")
	out(t, home, "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "test", "rsa2048", "sign", "never")
	defer func() {
		_ = exec.Command("gpgconf", "--homedir", strings.TrimPrefix(home[0], "GNUPGHOME="), "--kill", "all").Run()
	}()
	out(t, home, "gpg", "--batch", "--armor", "--output", key, "--export")
	out(t, home, "gpg", "--batch", "--clearsign", "--output", filepath.Join(repository, "InRelease"), filepath.Join(repository, "Release"))

	// update asks apt for the packages in the repository, in a directory of its own.
	update := func() (env []string, text string, err error) {
		dir := t.TempDir()
		for _, name := range []string{"etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg", "var/log/apt"} {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(dir, "var/lib/dpkg/status"), "")
		write(t, filepath.Join(dir, "etc/apt/sources.list"), fmt.Sprintf("deb [signed-by=%s] file:%s ./\n", key, repository))
		write(t, filepath.Join(dir, "apt.conf"), fmt.Sprintf("Dir %q;\nDir::State::status %q;\nAPT::Sandbox::User \"root\";\nAPT::Get::List-Cleanup \"false\";\nDPkg::Options { \"--root=%[1]s\"; };\n", dir, filepath.Join(dir, "var/lib/dpkg/status")))
		env = []string{"APT_CONFIG=" + filepath.Join(dir, "apt.conf")}
		text, err = try(t, env, "apt-get", "-o", "APT::Update::Error-Mode=any", "update")
		return env, text, err
	}
	env, text, err := update()
	if err != nil {
		t.Fatalf("apt-get update: %v\n%s", err, text)
	}
	if got := out(t, env, "apt-cache", "policy", "holdfast"); !strings.Contains(got, "Candidate: "+version) {
		t.Errorf("apt-cache policy: %s", got)
	}
	out(t, env, "apt-get", "install", "--yes", "holdfast")
	works(t, filepath.Join(filepath.Dir(strings.TrimPrefix(env[0], "APT_CONFIG=")), "usr/bin/holdfast"))

	// The controls: apt refuses an altered list, and one without a signature.
	write(t, filepath.Join(repository, "Packages"), strings.Replace(read(t, filepath.Join(dist, "Packages")), "SHA256: ", "SHA256: 0", 1))
	if _, text, err := update(); err == nil {
		t.Errorf("apt accepts an altered list: %s", text)
	}
	write(t, filepath.Join(repository, "Packages"), read(t, filepath.Join(dist, "Packages")))
	if err := os.Remove(filepath.Join(repository, "InRelease")); err != nil {
		t.Fatal(err)
	}
	if _, text, err := update(); err == nil {
		t.Errorf("apt accepts a list without a signature: %s", text)
	}
}

// testHomebrew reads the formula as Homebrew does on each system.
func testHomebrew(t *testing.T, dist string) {
	formula := filepath.Join(dist, "holdfast.rb")
	out(t, nil, "ruby", "-wc", formula)
	for _, system := range systems[:4] {
		archive := folder(system) + ".tar.gz"
		args := append([]string{"testdata/formula.rb", formula}, strings.Split(ofBrew.Replace(system), "/")...)
		want := "https://github.com/holdfast-go/holdfast/releases/download/v" + version + "/" + archive + "\n"
		if slices.Contains(built(), system) {
			args = append(args, filepath.Join(unpack(t, filepath.Join(dist, archive)), folder(system)))
			want += sum(t, filepath.Join(dist, archive)) + "\n"
		}
		if got := out(t, nil, "ruby", args...); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 2 {
			t.Errorf("on %s the formula names\n%s, want\n%s", system, got, want)
		}
	}
}

func sum(t *testing.T, file string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(read(t, file)))
	return hex.EncodeToString(sum[:])
}

// testScoop reads the manifest by the fields that Scoop knows.
func testScoop(t *testing.T, dist string) {
	type archive struct {
		URL        string `json:"url"`
		Hash       string `json:"hash,omitempty"`
		ExtractDir string `json:"extract_dir"`
	}
	var manifest struct {
		Version, Description, Homepage, License string
		Architecture                            map[string]archive
		Bin                                     []string
		Checkver                                string
		Autoupdate                              struct {
			Architecture map[string]archive
			Hash         struct{ URL string }
		}
	}
	decoder := json.NewDecoder(strings.NewReader(read(t, filepath.Join(dist, "holdfast.json"))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Version != version || len(manifest.Architecture) != 2 {
		t.Errorf("the manifest is for %d processors of version %s", len(manifest.Architecture), manifest.Version)
	}
	for name, system := range map[string]string{"64bit": "windows/amd64", "arm64": "windows/arm64"} {
		entry, next := manifest.Architecture[name], manifest.Autoupdate.Architecture[name]
		if want := "https://github.com/holdfast-go/holdfast/releases/download/v" + version + "/" + folder(system) + ".tar.gz"; entry.URL != want {
			t.Errorf("%s: the address is %s, want %s", name, entry.URL, want)
		}
		if next.URL = strings.ReplaceAll(next.URL, "$version", version); next.URL != entry.URL || strings.ReplaceAll(next.ExtractDir, "$version", version) != entry.ExtractDir {
			t.Errorf("%s: an update leads to %+v, not to %+v", name, next, entry)
		}
		if file := filepath.Join(dist, folder(system)+".tar.gz"); slices.Contains(built(), system) {
			if entry.Hash != sum(t, file) {
				t.Errorf("%s: the checksum is %s", name, entry.Hash)
			}
			names := files(t, filepath.Join(unpack(t, file), entry.ExtractDir))
			wants(t, names, manifest.Bin...)
		}
	}
}
